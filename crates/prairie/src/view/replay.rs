//! A replay as a report: the same activity under each allocator.

use std::path::Path;

use prairie_frames::placement::linux::version::ADAPTIVE_LISTS;
use prairie_frames::{BlockCounts, Layout, Order};
use prairie_model::allocator::follows_recording;
use prairie_model::sample::Sample;
use prairie_replay::compare::ZoneDistance;
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::{Counts, Initial};
use prairie_replay::run::{Results, SystemResult};
use prairie_report::palette::{FREE, MOVABLE, UNKNOWN, UNMOVABLE};
use prairie_report::{
    Axis, Block, Cell, Column, Definition, KeyFigure, LineChart, MapClass, MapSegment, MapSheet,
    MapZone, MemoryMap, Report, Section, Series, Shape, Table, Tone, Unit, number,
};
use prairie_trace::Metadata;

/// The subject of a report.
pub struct Subject<'a> {
    /// The trace.
    pub file: &'a Path,
    /// The machine at the start.
    pub found: &'a InitialState,
    /// The trace's metadata.
    pub metadata: &'a Metadata,
    /// The results.
    pub results: &'a Results,
    /// The difference between `linux` and the kernel; empty if unknown.
    pub distance: &'a [ZoneDistance],
    /// The release whose rules `linux` follows, and whether they are validated.
    pub linux_rules: Option<(&'a str, bool)>,
    /// The command.
    pub generated_by: String,
}

/// The report on a replay.
pub fn report(subject: &Subject<'_>) -> Report {
    let systems = &subject.results.systems;
    let mut sections = vec![summary(subject), over_time(systems), maps(subject, systems)];
    if !subject.distance.is_empty() {
        sections.push(distance(subject));
    }
    sections.push(replayed_events(subject));
    sections.push(counters(systems));
    sections.push(definitions());
    Report {
        title: "The same activity under other allocators".to_owned(),
        subtitle: subtitle(subject),
        generated_by: subject.generated_by.clone(),
        sections,
    }
}

fn subtitle(subject: &Subject<'_>) -> String {
    let results = subject.results;
    let mut parts = vec![
        subject.file.display().to_string(),
        number::counted(results.events, "event"),
        number::duration(results.duration_ns),
    ];
    if !subject.metadata.kernel_release.is_empty() {
        parts.push(format!("recorded on Linux {}", subject.metadata.kernel_release));
    }
    if let Some((release, validated)) = subject.linux_rules {
        let doubt = if validated { "" } else { ", not validated" };
        parts.push(format!("`linux` by the rules of {release}{doubt}"));
    }
    if let Some(first) = results.systems.first() {
        let start = match (&subject.metadata.before, first.initial) {
            (None, _) => "no snapshot: memory is empty at the start",
            (_, Initial::AsFound) => "memory in use at the start: in place",
            (_, Initial::Replaced) => "memory in use at the start: re-placed",
        };
        parts.push(start.to_owned());
    }
    parts.join(" · ")
}

/// The allocators side by side, at the end.
fn summary(subject: &Subject<'_>) -> Section {
    let systems = &subject.results.systems;
    let mut blocks = Vec::new();
    let figure = |system: &SystemResult| KeyFigure {
        value: number::percent(system.end().potential_shares()[2]),
        label: format!("of memory can become 1 GiB pages under {}", system.system),
        definition: format!(
            "{} of pageblocks are polluted; F_u(9) is {}",
            number::percent(polluted_share(system.end())),
            number::index(system.end().unusable_2_mib)
        ),
    };
    blocks.push(Block::KeyFigures(systems.iter().map(figure).collect()));
    blocks.push(Block::Table(side_by_side(subject.results)));
    let lost = subject.metadata.lost_events();
    if lost > 0 {
        blocks.push(Block::Warning(format!(
            "{} lost while recording: some frames are wrongly counted as held or free.",
            number::counted(lost, "event")
        )));
    }
    if subject.metadata.before.is_none() {
        blocks.push(Block::Warning(
            "The trace has no snapshot of the machine: all memory counts as free at the start."
                .to_owned(),
        ));
    }
    if subject.results.events == 0 {
        blocks.push(Block::Warning(
            "The trace has no events: this is the machine's initial state.".to_owned(),
        ));
    }
    if subject.results.interrupted {
        blocks.push(Block::Warning("The replay was stopped before the trace ended.".to_owned()));
    }
    for system in systems {
        blocks.push(Block::Note(format!("`{}`: {}.", system.system, system.parts)));
    }
    Section {
        heading: "At the end of the trace".to_owned(),
        intro: format!(
            "Each allocator placed every recorded allocation by its own rules. Allocations, frees, \
             and their order are the same for all. {}",
            match (subject.results.reclaimed, subject.results.compacted) {
                (true, _) => {
                    "Memory was reclaimed when an allocator needed it, not when the recorded \
                     kernel did; some allocators were compacted, as noted below."
                }
                (false, true) => {
                    "Nothing was reclaimed but what the record shows; some allocators were \
                     compacted, as noted below."
                }
                (false, false) => "Nothing was reclaimed or compacted but what the record shows.",
            }
        ),
        blocks,
    }
}

fn polluted_share(sample: &Sample) -> f64 {
    share(sample.polluted_blocks * Order::HUGE.frames(), sample.frames)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One row for each measure, one column for each allocator; the best of a row is marked.
fn side_by_side(results: &Results) -> Table {
    let systems = &results.systems;
    let mut columns = vec![Column::text("")];
    columns.extend(systems.iter().map(|system| Column::number(&system.system)));
    let mut rows = Vec::new();
    let mut row = |name: &str, best: Best, value: &dyn Fn(&SystemResult) -> (f64, String)| {
        let values: Vec<(f64, String)> = systems.iter().map(value).collect();
        let mut cells = vec![Cell::from(name)];
        cells.extend(
            values.iter().map(|(v, text)| Cell::toned(text.clone(), best.tone(*v, &values))),
        );
        rows.push(cells);
    };
    let counted = |value: u64| (value as f64, number::count(value));
    let shared = |value: f64| (value, number::percent(value));
    row("F_u(9), unusable for 2 MiB", Best::Least, &|s| {
        (s.end().unusable_2_mib, number::index(s.end().unusable_2_mib))
    });
    for (i, size) in ["2 MiB", "32 MiB", "1 GiB"].into_iter().enumerate() {
        let name = format!("potential contiguity, {size}");
        row(&name, Best::Most, &|s| shared(s.end().potential_shares()[i]));
    }
    row("polluted pageblocks", Best::Least, &|s| counted(s.end().polluted_blocks));
    row("2 MiB pages available now", Best::Most, &|s| counted(s.satisfiable.mib_2_now));
    row("… after full compaction", Best::Most, &|s| {
        counted(s.satisfiable.mib_2_after_compaction)
    });
    row("1 GiB pages available now", Best::Most, &|s| counted(s.satisfiable.gib_1_now));
    row("… after full compaction", Best::Most, &|s| {
        counted(s.satisfiable.gib_1_after_compaction)
    });
    row("allocations that failed", Best::Least, &|s| counted(s.counts.failed_allocations));
    if results.reclaimed {
        let frames =
            |counts: &Counts| counts.reclaimed_in_background + counts.reclaimed_by_requests;
        row("frames reclaimed", Best::Least, &|s| counted(frames(&s.counts)));
        row("… by requests that found nothing", Best::Least, &|s| {
            counted(s.counts.reclaimed_by_requests)
        });
    }
    row("free memory", Best::None, &|s| {
        let bytes = s.end().free_frames * Order::BASE.bytes();
        (bytes as f64, number::bytes(bytes))
    });
    row("unmovable memory", Best::None, &|s| {
        let bytes = s.end().unmovable_frames * Order::BASE.bytes();
        (bytes as f64, number::bytes(bytes))
    });
    Table { title: "Comparison".to_owned(), columns, rows, notes: Vec::new() }
}

/// Which value of a row is the best.
#[derive(Clone, Copy)]
enum Best {
    Least,
    Most,
    None,
}

impl Best {
    fn tone(self, value: f64, all: &[(f64, String)]) -> Tone {
        let least = all.iter().map(|v| v.0).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(|v| v.0).fold(f64::NEG_INFINITY, f64::max);
        let best = match self {
            Best::Least => least,
            Best::Most => most,
            Best::None => return Tone::Plain,
        };
        if least < most && value == best { Tone::Good } else { Tone::Plain }
    }
}

fn over_time(systems: &[SystemResult]) -> Section {
    let chart = |title: &str, caption: &str, y: Axis, of: &dyn Fn(&Sample) -> f64| {
        let line = |system: &SystemResult| Series {
            name: system.system.to_owned(),
            points: system.samples.iter().map(|s| (s.time_ns as f64 / 1e9, of(s))).collect(),
        };
        Block::LineChart(LineChart {
            title: title.to_owned(),
            caption: caption.to_owned(),
            x: Axis::new("time since the first event", Unit::Seconds),
            y,
            series: systems.iter().map(line).collect(),
            shape: Shape::Steps,
        })
    };
    let whole = |label: &str| Axis::new(label, Unit::Share).within(0.0, 1.0);
    let blocks = vec![
        chart(
            "Unusable free space index F_u(9)",
            "The share of free memory on the free lists that lies in blocks smaller than 2 MiB.",
            whole("F_u(9)"),
            &|s| s.unusable_2_mib,
        ),
        chart(
            "Potential contiguity at 2 MiB",
            "The share of memory in 2 MiB blocks without an unmovable frame.",
            whole("of memory"),
            &|s| s.potential_shares()[0],
        ),
        chart(
            "Potential contiguity at 32 MiB",
            "The share of memory in 32 MiB blocks without an unmovable frame.",
            whole("of memory"),
            &|s| s.potential_shares()[1],
        ),
        chart(
            "Potential contiguity at 1 GiB",
            "The share of memory in 1 GiB blocks without an unmovable frame.",
            whole("of memory"),
            &|s| s.potential_shares()[2],
        ),
        chart(
            "Polluted pageblocks",
            "Blocks of 2 MiB with at least one unmovable frame.",
            Axis::new("blocks", Unit::Count),
            &|s| s.polluted_blocks as f64,
        ),
        chart(
            "Allocations that failed",
            "Recorded allocations for which the allocator had no block, so far.",
            Axis::new("allocations", Unit::Count),
            &|s| s.failed_allocations as f64,
        ),
    ];
    Section { heading: "Over time".to_owned(), intro: String::new(), blocks }
}

/// Classes of the allocators' maps. A replay knows only whether a frame can move.
fn map_classes() -> Vec<MapClass> {
    let class = |name: &str, definition: &str, paint, letter| MapClass {
        name: name.to_owned(),
        definition: definition.to_owned(),
        paint,
        letter,
    };
    vec![
        class("free", "mostly free, without unmovable frames", Some(FREE), '.'),
        class("movable", "mostly in use, without unmovable frames", Some(MOVABLE[0]), 'm'),
        class("polluted", "at least one unmovable frame, at most half", Some(UNMOVABLE[6]), '!'),
        class("unmovable", "more than half unmovable", Some(UNMOVABLE[0]), 'U'),
        class("unknown", "mostly unknown, without unmovable frames", Some(UNKNOWN), '?'),
        class("absent", "no memory, or not initialized yet", None, ' '),
    ]
}

fn map_class(block: &BlockCounts) -> u8 {
    let present = block.present();
    match block {
        _ if present == 0 => 5,
        b if b.unmovable * 2 > present => 3,
        b if b.unmovable > 0 => 2,
        b if b.unknown * 2 > present => 4,
        b if b.free * 2 >= present => 0,
        _ => 1,
    }
}

fn maps(subject: &Subject<'_>, systems: &[SystemResult]) -> Section {
    let layout = &subject.found.layout;
    let mut blocks = Vec::new();
    let starts = systems.first().map(|system| ("at the start", &system.blocks_at_start));
    let ends = systems.iter().map(|system| (system.system.as_str(), &system.blocks_at_end));
    let as_found = systems.first().is_some_and(|s| s.initial == Initial::AsFound);
    let drawn = starts.filter(|_| as_found).into_iter().chain(ends);
    let maps = drawn.map(|(title, counts)| map(layout, title, counts)).collect();
    let sheet = MapSheet { title: String::new(), subtitle: String::new(), maps };
    match sheet.validate() {
        Ok(()) => blocks.push(Block::Maps(sheet)),
        Err(error) => blocks.push(Block::Note(format!("No map: {error}."))),
    }
    Section {
        heading: "Maps of memory at the end".to_owned(),
        intro: "One cell is a block of 2 MiB, arranged along a curve that keeps neighbors \
                together. A yellow or warm cell can never become a huge page. Memory that nobody \
                has touched yet is left out."
            .to_owned(),
        blocks,
    }
}

fn map(layout: &Layout, title: &str, counts: &[BlockCounts]) -> MemoryMap {
    let mut segments: Vec<MapSegment> = Vec::new();
    for zone in layout.zones() {
        let blocks = zone.start.pageblock()..=prairie_frames::Frame(zone.end.0 - 1).pageblock();
        for pageblock in blocks.filter(|&block| counts[block].present() > 0) {
            let frame = prairie_frames::Frame((pageblock as u32) << Order::HUGE.get());
            let (pfn, class) = (layout.pfn(frame).0, map_class(&counts[pageblock]));
            let end = |s: &MapSegment| s.start_pfn + s.cells.len() as u64 * Order::HUGE.frames();
            match segments.last_mut() {
                // Two zones can share a block.
                Some(last) if end(last) > pfn => {}
                Some(last) if end(last) == pfn => last.cells.push(class),
                _ => segments.push(MapSegment { start_pfn: pfn, cells: vec![class] }),
            }
        }
    }
    let zones = layout.zones().iter().map(|zone| MapZone {
        label: zone.span.kind.name().to_owned(),
        start_pfn: zone.span.start.0,
        end_pfn: zone.span.start.0 + zone.span.spanned,
    });
    MemoryMap {
        title: title.to_owned(),
        subtitle: String::new(),
        frame_bytes: Order::BASE.bytes(),
        frames_per_cell: Order::HUGE.frames(),
        segments,
        classes: map_classes(),
        zones: zones.collect(),
    }
}

/// The difference between the replay of `linux` and the kernel.
fn distance(subject: &Subject<'_>) -> Section {
    let mut rows = Vec::new();
    for zone in subject.distance.iter().filter(|zone| zone.kernel_free_frames > 0) {
        let blocks = |counts: &[u64]| -> u64 { counts.iter().sum() };
        rows.push(vec![
            Cell::from(format!("node {} {}", zone.node, zone.zone)),
            number::count(zone.kernel_free_frames).into(),
            number::count(zone.replay_free_frames).into(),
            number::index(zone.kernel_unusable_2_mib).into(),
            number::index(zone.replay_unusable_2_mib).into(),
            number::index((zone.kernel_unusable_2_mib - zone.replay_unusable_2_mib).abs()).into(),
            number::count(blocks(&zone.kernel_free_blocks)).into(),
            number::count(blocks(&zone.replay_free_blocks)).into(),
            number::count(zone.block_distance()).into(),
        ]);
    }
    let columns = vec![
        Column::text("zone"),
        Column::number("free frames").with_unit("kernel"),
        Column::number("free frames").with_unit("replay"),
        Column::number("F_u(9)").with_unit("kernel"),
        Column::number("F_u(9)").with_unit("replay"),
        Column::number("distance"),
        Column::number("free blocks").with_unit("kernel"),
        Column::number("free blocks").with_unit("replay"),
        Column::number("distance").with_unit("over orders"),
    ];
    let linux = subject.results.systems.iter().find(|s| follows_recording(&s.system));
    let same = linux.map_or(String::new(), |linux| {
        let Counts { same_frame, allocations, .. } = linux.counts;
        format!(
            "`linux` placed {} of {} allocations ({}) on the frame that the kernel chose.",
            number::count(same_frame),
            number::count(allocations),
            number::percent(share(same_frame, allocations))
        )
    });
    Section {
        heading: "Validation of `linux`".to_owned(),
        intro: format!(
            "The kernel's free lists at the end of the recording, compared with the replay's. The \
             order of the lists at the start is not known, memory that joined late is a guess, and \
             pages that the kernel moved without an event are not followed. Kernels since {} let \
             their per-CPU lists grow and shrink; the replay keeps them at the size they had at \
             the start, which shows in the free frames.",
            ADAPTIVE_LISTS.since
        ),
        blocks: vec![Block::Table(Table::new(columns, rows)), Block::Text(same)],
    }
}

/// Counts of the trace's events, and of those that are not a matched pair of allocation and free.
fn replayed_events(subject: &Subject<'_>) -> Section {
    let systems = &subject.results.systems;
    type Count = (&'static str, fn(&Counts) -> u64);
    let rows: [Count; 16] = [
        ("allocations", |c| c.allocations),
        ("frames allocated", |c| c.allocated_frames),
        ("frees", |c| c.frees),
        ("allocations on the kernel's frame", |c| c.same_frame),
        ("allocations that failed", |c| c.failed_allocations),
        ("… of 2 MiB or more", |c| c.failed_huge_allocations),
        ("allocations that failed in the kernel", |c| c.failed_in_kernel),
        ("frames freed without a recorded allocation", |c| c.frees_of_unknown),
        ("frames freed whose allocation failed here", |c| c.frees_of_failed),
        ("frames allocated again without a recorded free", |c| c.frees_implied),
        ("frees known only from a batch", |c| c.frees_by_batch_only),
        ("events outside every zone", |c| c.outside_zones),
        ("misaligned blocks", |c| c.misaligned),
        ("frames in use at the start", |c| c.initial_frames),
        ("… without a place", |c| c.initial_without_place),
        ("frames added at their first event", |c| c.joined_frames),
    ];
    let pins: [Count; 6] = [
        ("pins", |c| c.pins),
        ("… of frames not in use", |c| c.pins_of_unknown),
        ("… of unmovable blocks", |c| c.pins_of_unmovable),
        ("… refused for lack of room", |c| c.pins_refused),
        ("ends of pins", |c| c.unpins),
        ("blocks freed while pinned", |c| c.pins_ended_by_free),
    ];
    let reclaim: [Count; 4] = [
        ("frames that the record reclaims, left in memory", |c| c.reclaims_left_out),
        ("frames reclaimed in the background", |c| c.reclaimed_in_background),
        ("… by requests", |c| c.reclaimed_by_requests),
        ("frames freed that were already reclaimed here", |c| c.frees_of_reclaimed),
    ];
    let has_reclaim = subject.results.reclaimed;
    let has_pins = systems.iter().any(|system| system.counts.pins > 0);
    let rows = rows.into_iter().chain(pins.into_iter().filter(|_| has_pins));
    let rows = rows.chain(reclaim.into_iter().filter(|_| has_reclaim));
    let mut columns = vec![Column::text("")];
    columns.extend(systems.iter().map(|system| Column::number(&system.system)));
    let row = |(name, count): Count| {
        let counts = systems.iter().map(|system| number::count(count(&system.counts)).into());
        std::iter::once(Cell::from(name)).chain(counts).collect()
    };
    let rows = rows.map(row).collect();
    Section::of_table("Replayed events", Table::new(columns, rows))
}

fn counters(systems: &[SystemResult]) -> Section {
    let table = |system: &SystemResult| {
        let row = |count: &prairie_replay::run::NamedCount| {
            vec![count.name.into(), number::count(count.value).into(), count.meaning.into()]
        };
        Block::Table(Table {
            title: system.system.to_owned(),
            columns: vec![Column::text("counter"), Column::number(""), Column::text("meaning")],
            rows: system.counters.iter().map(row).collect(),
            notes: Vec::new(),
        })
    };
    Section {
        heading: "Counters of the allocators".to_owned(),
        intro: String::new(),
        blocks: systems.iter().map(table).collect(),
    }
}

fn definitions() -> Section {
    let entries = [
        (
            "F_u(9)",
            "Unusable free space index (anti-fragmentation paper of 2006, section 3): the share of \
             free memory on the free lists that lies in blocks smaller than 2 MiB. 0 is best; 1 \
             when nothing is free.",
        ),
        (
            "potential contiguity",
            "The share of memory in aligned blocks of the size without an unmovable frame, the \
             most that compaction could empty (Contiguitas, Figure 5). Frames of unknown use count as \
             movable; the JSON has both bounds.",
        ),
        ("polluted pageblock", "An aligned 2 MiB block with at least one unmovable frame."),
        (
            "pages available now",
            "2 MiB: in blocks on the free lists. 1 GiB: aligned ranges that are wholly free. Each \
             is counted as if nothing else were allocated.",
        ),
        (
            "… after full compaction",
            "Blocks without an unmovable frame, but no more than the free memory could fill: \
             compaction moves pages and frees none. Potential contiguity has no such limit.",
        ),
    ];
    let define =
        |(term, meaning): (&str, &str)| Definition { term: term.into(), meaning: meaning.into() };
    Section {
        heading: "Definitions".to_owned(),
        intro: String::new(),
        blocks: vec![Block::Definitions(entries.map(define).into())],
    }
}
