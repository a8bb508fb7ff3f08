//! Zone by zone: the watermark, the free lists, and what they lack.

use prairie_frames::placement::linux::version::ZONE_WATERMARKS;
use prairie_host::ZoneId;
use prairie_host::kernel_log::ZoneState;
use prairie_host::kernel_log::diagnosis::{Outcome, WatermarkTest, ZoneDiagnosis};
use prairie_report::{Block, Cell, Column, Table, Tone, number};

use super::Explained;
use super::request::kib_text;

/// The table of zones with the arithmetic below, and the free lists of the largest zone.
pub fn blocks(explained: &Explained) -> Vec<Block> {
    let zones = &explained.incident.memory.zones;
    if zones.is_empty() {
        let text = "The report has no zones: the log was cut off, or printing was suppressed.";
        return vec![Block::Warning(text.to_owned())];
    }
    let several = zones.iter().any(|zone| zone.id.node != zones[0].id.node);
    let mut blocks = vec![Block::Table(table(explained, several))];
    let main = explained.diagnosis.main_zone;
    let lists =
        zones.iter().zip(&explained.diagnosis.zones).find(|(zone, _)| Some(zone.id) == main);
    if let Some((zone, diagnosis)) = lists
        && !zone.free_blocks.is_empty()
    {
        blocks.push(Block::Table(free_lists(explained, zone, diagnosis, several)));
    }
    blocks
}

fn name(id: ZoneId, several: bool) -> String {
    if several { format!("node {} {}", id.node, id.kind) } else { id.kind.to_string() }
}

fn table(explained: &Explained, several: bool) -> Table {
    let zones = &explained.diagnosis.zones;
    let row = |zone: &ZoneDiagnosis| {
        let number =
            |value: Option<String>| Cell::from(value.unwrap_or_else(|| number::NONE.to_owned()));
        let test = zone.watermark.as_ref();
        let blocks = test.map(|_| match zone.large_enough {
            0 => "0".to_owned(),
            blocks => format!("{} ({})", number::count(blocks), zone.large_enough_types),
        });
        vec![
            name(zone.id, several).into(),
            number(test.map(|test| kib_text(test.free_kib))),
            number(test.map(|test| signed(test.usable_kib()))),
            number(test.map(|test| kib_text(test.demanded_kib()))),
            number(blocks),
            number(
                zone.fragmentation_index_thousandths.filter(|_| test.is_some()).map(fragmentation),
            ),
            outcome(zone.outcome),
        ]
    };
    let order = explained.incident.request.order;
    Table {
        title: "Zones".to_owned(),
        columns: vec![
            Column::text("zone"),
            Column::number("free"),
            Column::number("usable"),
            Column::number("must stay free"),
            Column::number(format!("blocks of order {order} or more")),
            Column::number("fragmentation index"),
            Column::text("outcome"),
        ],
        rows: zones.iter().map(row).collect(),
        notes: zones
            .iter()
            .filter_map(|zone| Some(arithmetic(&name(zone.id, several), zone.watermark.as_ref()?)))
            .collect(),
    }
}

/// `Normal: usable 36.8 MiB free - 28 KiB (…) = 36.7 MiB; …`
fn arithmetic(zone: &str, test: &WatermarkTest) -> String {
    let mut usable = format!("{zone}: usable = {} kB free", test.free_kib);
    for (what, kib) in &test.withheld_kib {
        usable += &format!(" - {kib} kB ({what})");
    }
    let privileges = match test.privileges.is_empty() {
        true => String::new(),
        false => format!(
            ", of which the request needs {} kB ({})",
            test.mark_kib,
            test.privileges.join(", ")
        ),
    };
    let sign = if test.passes { ">" } else { "<=" };
    let verdict = if test.passes { "enough" } else { "too little" };
    let by_order = match test.passes && !test.passes_by_order {
        true => format!(
            " in sum, but too little in larger blocks (Linux before {} has a mark for each order)",
            ZONE_WATERMARKS.since
        ),
        false => String::new(),
    };
    format!(
        "{usable} = {} kB {sign} min {} kB{privileges} + lowmem_reserve {} kB: {verdict}{by_order}.",
        test.usable_kib(),
        test.min_kib,
        test.lowmem_reserve_kib,
    )
}

fn signed(kib: i64) -> String {
    let size = kib_text(kib.unsigned_abs());
    if kib < 0 { format!("-{size}") } else { size }
}

/// The index as debugfs shows it.
fn fragmentation(thousandths: i64) -> String {
    if thousandths < 0 {
        number::NONE.to_owned()
    } else {
        number::index(thousandths as f64 / 1000.0)
    }
}

fn outcome(outcome: Outcome) -> Cell {
    let (text, tone) = match outcome {
        Outcome::NotAllowed => ("not allowed for this request", Tone::Muted),
        Outcome::Empty => ("no memory", Tone::Muted),
        Outcome::BelowWatermark => ("too little free", Tone::Bad),
        Outcome::NoBlock => ("no block large enough", Tone::Bad),
        Outcome::ReservedBlocks => ("large blocks kept for others", Tone::Bad),
        Outcome::CouldServe => ("could serve it by then", Tone::Good),
        Outcome::Unknown => ("numbers missing", Tone::Muted),
        _ => ("another reason", Tone::Muted),
    };
    Cell::toned(text, tone)
}

fn free_lists(
    explained: &Explained,
    zone: &ZoneState,
    diagnosis: &ZoneDiagnosis,
    several: bool,
) -> Table {
    let order = explained.incident.request.order as usize;
    let row = |(at, free): (usize, &prairie_host::kernel_log::FreeBlocksOfOrder)| {
        let kib = zone.page_kib << at.min(20);
        let unusable = diagnosis.unusable_free_space_index.get(at);
        let mark = if at == order { "requested" } else { "" };
        vec![
            Cell::from(at.to_string()),
            kib_text(kib).into(),
            number::count(free.blocks).into(),
            free.types.as_str().into(),
            kib_text(free.blocks.saturating_mul(kib)).into(),
            unusable.map_or(number::NONE.to_owned(), |index| number::percent(*index)).into(),
            Cell::toned(mark, Tone::Strong),
        ]
    };
    Table {
        title: format!("Free blocks of zone {}", name(zone.id, several)),
        columns: vec![
            Column::number("order"),
            Column::number("size"),
            Column::number("blocks"),
            Column::text("types"),
            Column::number("memory"),
            Column::number("unusable"),
            Column::text(""),
        ],
        rows: zone.free_blocks.iter().enumerate().map(row).collect(),
        notes: vec![
            "Unusable: the share of the zone's free memory in blocks too small for the order (F_u). \
             Types: U unmovable, M movable, E reclaimable, H atomic reserve, R reserve to Linux 4.3, \
             C CMA, I isolated."
                .to_owned(),
        ],
    }
}
