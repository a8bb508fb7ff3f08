//! Every kind of block on one page, from made-up data.
//!
//! `cargo run -p prairie-report --example gallery -- DIRECTORY` writes `gallery.html` and, for the
//! eye, the same maps and lines as SVG and PNG at 24 GiB and at 1 TiB.

use std::path::{Path, PathBuf};

use prairie_report::palette::{FREE, MOVABLE, UNKNOWN, UNMOVABLE};
use prairie_report::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory: PathBuf = std::env::args().nth(1).unwrap_or_else(|| ".".into()).into();
    let gallery = gallery();
    gallery.write_html(&directory.join("gallery.html"))?;
    anstream::print!("{}", gallery.terminal(Terminal::of_stdout())?);

    let large = MapSheet::from(map("made-up server, 1 TiB", 524_288, 0.55, 7));
    draw(&directory, "map-24g", &single())?;
    draw(&directory, "map-1t", &large)?;
    draw(&directory, "maps", &side_by_side())?;
    for (name, theme) in [("light", Theme::Light), ("dark", Theme::Dark)] {
        let chart = unusable_over_time();
        let path = directory.join(format!("lines-{name}.png"));
        write_atomically(&path, &chart.png(theme, 1.5)?)?;
    }
    Ok(())
}

fn draw(directory: &Path, name: &str, sheet: &MapSheet) -> Result<(), Box<dyn std::error::Error>> {
    write_atomically(&directory.join(format!("{name}.svg")), sheet.svg(Theme::Auto)?.as_bytes())?;
    for (ground, theme) in [("light", Theme::Light), ("dark", Theme::Dark)] {
        let path = directory.join(format!("{name}-{ground}.png"));
        write_atomically(&path, &sheet.png(theme, 1.5)?)?;
    }
    Ok(())
}

/// The page that the end-to-end test opens.
pub fn gallery() -> Report {
    Report {
        title: "A gallery of blocks".into(),
        subtitle: "Every figure on this page is made up: it shows how reports look, and nothing \
                   about any machine."
            .into(),
        generated_by: format!("prairie-report {}, example `gallery`", env!("CARGO_PKG_VERSION")),
        sections: vec![overview(), maps(), over_time(), distributions(), words()],
    }
}

fn overview() -> Section {
    Section {
        heading: "Overview".into(),
        intro: "How much of this made-up memory is free, and in what pieces. The classes come \
                from `/proc/kpageflags`."
            .into(),
        blocks: vec![
            Block::KeyFigures(vec![
                KeyFigure::new(number::bytes(7_301_444_403), "free", "in all zones together"),
                KeyFigure::new(
                    number::index(0.873),
                    "unusable for 2 MiB",
                    "`F_u(9)`: the share of free memory in blocks smaller than 2 MiB",
                ),
                KeyFigure::new(
                    number::percent(0.314),
                    "polluted blocks",
                    "2 MiB blocks with a page that cannot move",
                ),
                KeyFigure::new(
                    number::count(17),
                    "pages per polluted block",
                    "the median; 512 make a block",
                ),
            ]),
            Block::Table(zones()),
            Block::Note(
                "Without root the kernel hides frame numbers; this page would say so.".into(),
            ),
            Block::Warning(
                "12 of 4 096 events were lost. <b>This is text</b>, not markup & no entity.".into(),
            ),
        ],
    }
}

fn zones() -> Table {
    let row = |zone: &str, free: u64, index: f64, remark: &str, tone| {
        vec![
            zone.into(),
            number::bytes(free << 20).into(),
            number::count(free * 256).into(),
            Cell::toned(number::index(index), tone),
            remark.into(),
        ]
    };
    Table {
        title: "Zones".into(),
        columns: vec![
            Column::text("zone"),
            Column::number("free"),
            Column::number("free").with_unit("frames"),
            Column::number("F_u(9)"),
            Column::text("the process that holds most"),
        ],
        rows: vec![
            row("DMA", 11, 0.0, "–", Tone::Plain),
            row("DMA32", 1_402, 0.21, "java -Xmx8g", Tone::Good),
            row("Normal", 5_550, 0.97, "</script><script>alert('x')</script>", Tone::Bad),
        ],
        notes: vec!["A process may choose its name freely, as the last row shows.".into()],
    }
}

fn maps() -> Section {
    Section {
        heading: "Maps of memory".into(),
        intro: "One cell is a block of 2 MiB. What lies near in address lies near on the map."
            .into(),
        blocks: vec![Block::Maps(single()), Block::Maps(side_by_side())],
    }
}

/// The map of the first figure.
pub fn single() -> MapSheet {
    let mut map = map("made-up desktop, 24 GiB", 12_288, 0.3, 3);
    map.zones = zone_spans(12_288);
    MapSheet::from(map)
}

fn side_by_side() -> MapSheet {
    let system = |name: &str, scatter, seed| {
        let mut map = map(name, 8_192, scatter, seed);
        map.subtitle = "after 10 min of a made-up trace".into();
        map
    };
    let mut regions = system("contiguitas", 0.0, 5);
    regions.zones = vec![
        MapZone { label: "unmovable region".into(), start_pfn: 0, end_pfn: 1_500 * 512 },
        MapZone { label: "movable region".into(), start_pfn: 1_500 * 512, end_pfn: 8_192 * 512 },
    ];
    MapSheet {
        title: "Three systems at the same instant".into(),
        subtitle: "16 GiB each; made up".into(),
        maps: vec![system("buddy", 0.8, 11), system("linux", 0.25, 12), regions],
    }
}

fn zone_spans(cells: u64) -> Vec<MapZone> {
    let span = |label: &str, from: u64, to: u64| MapZone {
        label: label.into(),
        start_pfn: from * 512,
        end_pfn: to * 512,
    };
    vec![span("DMA", 0, 8), span("DMA32", 8, 2_048), span("Normal", 2_048, cells)]
}

fn classes() -> Vec<MapClass> {
    let class = |name: &str, definition: &str, paint, letter| MapClass {
        name: name.into(),
        definition: definition.into(),
        paint,
        letter,
    };
    vec![
        class("free", "in the free lists", Some(FREE), '.'),
        class("anonymous", "heap and stacks of processes", Some(MOVABLE[0]), 'a'),
        class("huge pages", "anonymous memory on 2 MiB pages", Some(MOVABLE[1]), 'H'),
        class("file cache", "pages of files", Some(MOVABLE[2]), 'f'),
        class("slab", "the kernel's small objects (`PG_slab`)", Some(UNMOVABLE[0]), 'S'),
        class("page tables", "`PG_table`", Some(UNMOVABLE[1]), 'T'),
        class("kernel, other", "everything else the kernel keeps", Some(UNMOVABLE[2]), 'K'),
        class("unknown", "no flag tells", Some(UNKNOWN), '?'),
        class("absent", "no memory there", None, ' '),
    ]
}

/// Memory in stretches of one class; `scatter` is how far unmovable blocks are strewn about
/// instead of standing together at the bottom.
fn map(title: &str, cells: usize, scatter: f64, seed: u64) -> MemoryMap {
    let mut random = Random(seed);
    let mut classes_of_cells: Vec<u8> = Vec::with_capacity(cells);
    while classes_of_cells.len() < cells {
        let at = classes_of_cells.len() as f64 / cells as f64;
        let unmovable = random.share() < if at < 0.12 { 0.75 } else { scatter * 0.45 };
        let class = match unmovable {
            true => [4, 4, 4, 5, 6, 6][random.below(6)],
            false => [0, 0, 0, 1, 1, 2, 2, 3, 3, 7][random.below(if at > 0.75 { 3 } else { 10 })],
        };
        let longest = match class {
            0 => 160,
            1..4 => 90,
            _ => 14,
        };
        let length = 1 + random.below(longest);
        classes_of_cells.extend(std::iter::repeat_n(class, length));
    }
    classes_of_cells.truncate(cells);
    MemoryMap {
        title: title.into(),
        subtitle: "Made-up data".into(),
        frame_bytes: 4096,
        frames_per_cell: 512,
        segments: vec![MapSegment { start_pfn: 0, cells: classes_of_cells }],
        classes: classes(),
        zones: zone_spans(cells as u64),
    }
}

fn over_time() -> Section {
    let mut free = unusable_over_time();
    free.title = "Free memory".into();
    free.caption = "Sampled 20,000 times, so the page thins it.".into();
    free.y = Axis::new("free memory", Unit::Bytes);
    free.series = ["buddy", "linux", "contiguitas"]
        .iter()
        .enumerate()
        .map(|(i, name)| Series {
            name: (*name).into(),
            points: (0..20_000)
                .map(|t| {
                    let t = f64::from(t) / 33.0;
                    let wave = (t / 40.0).sin() * 2.0 + (t * 1.7).sin() * 0.3;
                    (t, (9.0 + wave + i as f64 - t / 300.0) * f64::from(1 << 30))
                })
                .collect(),
        })
        .collect();
    Section {
        heading: "Over time".into(),
        intro: "Three systems replay one made-up trace.".into(),
        blocks: vec![Block::LineChart(unusable_over_time()), Block::LineChart(free)],
    }
}

fn unusable_over_time() -> LineChart {
    let series = |name: &str, level: f64, seed| {
        let mut random = Random(seed);
        let mut value = 0.1;
        let mut point = |t: i32| {
            value += (level - value) * 0.02 + (random.share() - 0.5) * 0.03;
            value = value.clamp(0.0, 1.0);
            (f64::from(t) * 2.0, value)
        };
        Series { name: name.into(), points: (0..=300).map(&mut point).collect() }
    };
    LineChart {
        title: "Unusable free space for 2 MiB".into(),
        caption: "`F_u(9)` by system; 0 is best. Made-up data.".into(),
        x: Axis::new("time since the trace began", Unit::Seconds),
        y: Axis::new("F_u(9)", Unit::Number).within(0.0, 1.0),
        series: vec![
            series("buddy", 0.92, 1),
            series("linux", 0.55, 2),
            series("contiguitas", 0.12, 3),
        ],
        shape: Shape::Straight,
    }
}

fn distributions() -> Section {
    let mut random = Random(9);
    let mut samples = |scale: f64| (0..400).map(|_| -scale * (1.0 - random.share()).ln()).collect();
    let samples = vec![("buddy".to_owned(), samples(0.004)), ("linux".to_owned(), samples(0.0015))];
    let mut waits =
        LineChart::distribution("Time to find a block", Axis::new("time", Unit::Seconds), samples);
    waits.caption = "Each curve says which share of searches took no longer. Made-up data.".into();
    let bars =
        |name: &str, values: [f64; 6]| BarSeries { name: name.into(), values: values.into() };
    Section {
        heading: "Distributions".into(),
        intro: String::new(),
        blocks: vec![
            Block::BarChart(BarChart {
                title: "Unmovable pages per polluted block".into(),
                caption: "How few pages pollute how much. Made-up data.".into(),
                x: Axis::new("unmovable pages in the block", Unit::Count),
                y: Axis::new("blocks", Unit::Count),
                categories: ["1", "2–7", "8–31", "32–127", "128–511", "512"]
                    .map(String::from)
                    .into(),
                series: vec![
                    bars("buddy", [2_610.0, 2_104.0, 1_388.0, 930.0, 402.0, 120.0]),
                    bars("linux", [911.0, 864.0, 702.0, 655.0, 380.0, 388.0]),
                    bars("contiguitas", [12.0, 40.0, 96.0, 188.0, 310.0, 854.0]),
                ],
            }),
            Block::LineChart(waits),
        ],
    }
}

fn words() -> Section {
    let define =
        |term: &str, meaning: &str| Definition { term: term.into(), meaning: meaning.into() };
    Section {
        heading: "Words".into(),
        intro: String::new(),
        blocks: vec![
            Block::Definitions(vec![
                define(
                    "polluted block",
                    "An aligned block of 2 MiB with at least one frame that cannot move.",
                ),
                define(
                    "`F_u(j)`",
                    "The share of free memory that a request of order `j` cannot use.",
                ),
            ]),
            Block::Text("A paragraph.\n\nAnother one, after a blank line.".into()),
        ],
    }
}

/// SplitMix64: plausible data need no more.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
