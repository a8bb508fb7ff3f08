//! Free lists before and after a build-like load, and the fragmentation index over ten builds with
//! and without compactd (FreeBSD, Table 1 and Figure 7), with reservations and without.
//!
//! ```text
//! cargo run --release -p experiments --bin freebsd_builds -- [SEEDS] [CURVES.csv]
//! ```
//!
//! A domain of 1 GiB under `freebsd`. A build is 100 jobs, eight at a time. A job takes 2 to 24 MiB
//! of anonymous memory page by page from the bottom up, its page tables, reads 1 to 8 MiB of files
//! into the page cache and frees its memory when it ends. The cache is limited: when less than an
//! eighth of memory is free, the pages read first are dropped. Each job leaves twenty pages of
//! kernel memory behind; beyond 8 MiB, random ones are freed. compactd checks the domain after each
//! job, as one that sleeps a second would, if its rest is over; a job counts as half a second.
//!
//! Each setting runs with the seeds 1 to SEEDS (5); tables show means and, in brackets, ranges. With a
//! second argument the index, means over ten jobs of the first seed, is written as rows of series, build
//! and value, for `cargo run -p experiments --bin curve`.

mod load;

use std::fmt::Write;

use load::{Kernel, Load, Look, Setting};
use prairie_frames::compaction::two_finger::compactd::{Compactd, Reading};
use prairie_frames::placement::Placement;

const BUILDS: usize = 10;
/// The daemons whose curves are written: five lines can be distinguished.
const DRAWN: [&str; 3] = ["none", "as intended", SPARING];
const SPARING: &str = "as intended, sparing reservations";

/// The results of one run.
struct Run {
    /// Blocks by order before, and after the first build.
    lists: [[u64; 13]; 2],
    /// After each build, when its jobs have ended.
    ends: Vec<Look>,
    /// After each job.
    curve: Vec<Look>,
    runs: u64,
    moved: u64,
}

impl Run {
    /// The mean of something after each job of the second build and those after it: the page cache
    /// has filled memory by then.
    fn mean(&self, get: impl Fn(&Look) -> f64) -> f64 {
        let filled = &self.curve[self.curve.len() / BUILDS..];
        filled.iter().map(get).sum::<f64>() / filled.len() as f64
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    let curves = arguments.next();
    let mut rows = String::from("series,build,index\n");
    let mut free_lists = Vec::new();
    println!(
        "| reservations | kernel's pages | compactd | FMFI of 300 and more, after % of jobs | free superpages, mean after jobs | could be free | polluted | jobs' memory on superpages, % | FMFI at the end of build 1 | 2 | 10 | free superpages at the end of build 1 | 2 | 10 | runs | pages moved |"
    );
    println!(
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for (reservations, kernel) in
        [(false, Kernel::DirectMap), (true, Kernel::DirectMap), (true, Kernel::Object)]
    {
        for (name, daemon) in daemons(reservations) {
            let setting = Setting { reservations, kernel, daemon };
            let runs: Vec<Run> = (1..=seeds).map(|seed| run(seed, setting)).collect();
            row(setting, name, &runs);
            let with = if reservations { "reservations" } else { "no reservations" };
            let label = format!("{with}, compactd {name}");
            if kernel == Kernel::DirectMap && DRAWN.contains(&name) {
                for (tenth, jobs) in runs[0].curve.chunks(10).enumerate() {
                    let mean = jobs.iter().map(|look| look.index).sum::<f64>() / jobs.len() as f64;
                    writeln!(rows, "\"{label}\",{},{mean}", (tenth + 1) as f64 / 10.0)
                        .expect("memory");
                }
            }
            if daemon.is_none() {
                free_lists.push(runs);
            }
        }
    }
    println!("\nFree blocks before a build and after it, without compactd:\n");
    println!(
        "| order | before | after, no reservations | after, reservations | after, and a kernel object |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for order in (0..=12).rev() {
        print!("| {order} | {} |", free_lists[0][0].lists[0][order]);
        for runs in &free_lists {
            print!(" {} |", spread(runs.iter().map(|run| run.lists[1][order] as f64)));
        }
        println!();
    }
    if let Some(path) = curves {
        std::fs::write(&path, rows).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// The daemons to try: none, the three readings, and one that spares reservations where there are any.
fn daemons(reservations: bool) -> Vec<(&'static str, Option<Compactd>)> {
    let reading = |reading| Some(Compactd { reading, ..Compactd::default() });
    let mut daemons = vec![
        ("none", None),
        ("as intended", reading(Reading::AsIntended)),
        ("as written", reading(Reading::AsWritten)),
        ("as presented", reading(Reading::AsPresented)),
    ];
    if reservations {
        let spare = Compactd { spare_reservations: true, ..Compactd::default() };
        daemons.push((SPARING, Some(spare)));
    }
    daemons
}

fn run(seed: u64, setting: Setting) -> Run {
    let mut load = Load::new(seed, setting);
    let before = load.freebsd.domain_counts(0);
    let (mut after, mut ends) = (before, Vec::new());
    for build in 0..BUILDS {
        load.build();
        ends.push(load.look());
        if build == 0 {
            after = load.freebsd.domain_counts(0);
        }
    }
    load.freebsd.validate(&load.table);
    let (runs, moved) = (load.runs, load.moved);
    Run { lists: [before, after], ends, curve: load.curve, runs, moved }
}

fn row(setting: Setting, daemon: &str, runs: &[Run]) {
    let mean = |get: fn(&Look) -> f64| spread(runs.iter().map(|run| run.mean(get)));
    let ends = |get: fn(&Look) -> f64| {
        [1, 2, 10].map(|build| spread(runs.iter().map(|run| get(&run.ends[build - 1])))).join(" | ")
    };
    println!(
        "| {} | {} | {daemon} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        if setting.reservations { "yes" } else { "no" },
        match setting.kernel {
            Kernel::DirectMap => "direct map",
            Kernel::Object => "kernel object",
        },
        mean(|look| if look.index >= 300.0 { 100.0 } else { 0.0 }),
        mean(|look| look.free),
        mean(|look| look.bound),
        mean(|look| look.polluted),
        mean(|look| 100.0 * look.promoted),
        ends(|look| look.index),
        ends(|look| look.free),
        spread(runs.iter().map(|run| run.runs as f64)),
        spread(runs.iter().map(|run| run.moved as f64)),
    );
}

/// Mean, lowest and highest.
fn spread(values: impl Iterator<Item = f64> + Clone) -> String {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    if low == high { format!("{mean:.0}") } else { format!("{mean:.0} ({low:.0}–{high:.0})") }
}
