//! Free lists before and after a build-like load, and the fragmentation index over ten builds with
//! and without compactd (FreeBSD, Table 1 and Figure 7), with reservations and without.
//!
//! ```text
//! cargo run --release -p prairie-frames --example freebsd_builds [SEEDS] [CURVES.csv]
//! ```
//!
//! A domain of 1 GiB under `freebsd`. A build is 100 jobs, eight at a time. A job takes 2 to 24 MiB
//! of anonymous memory page by page from the bottom up, its page tables, reads 1 to 8 MiB of files into
//! the page cache and frees its memory when it ends. The cache keeps what it can: when less than an
//! eighth of memory is free, the pages read first are dropped. Each job leaves twenty pages of kernel
//! memory behind, of which there are 8 MiB at most; which go is chance. compactd looks at the domain
//! after each job, as one that sleeps a second would, if its rest is over; a job counts as half a second.
//!
//! Each setting runs with the seeds 1 to SEEDS (5); tables show means and, in brackets, ranges. With a
//! second argument the index after each job is written as rows of series, job and value, for
//! `cargo run -p prairie-report --example curve`.

mod load;

use std::fmt::Write;

use frames::compaction::two_finger::compactd::{Compactd, Reading};
use frames::placement::Placement;
use load::{Kernel, Load, Look, Setting};

const BUILDS: usize = 10;

/// What came of one run.
struct Run {
    /// Blocks by order before, and after the first build.
    lists: [[u64; 13]; 2],
    looks: Vec<Look>,
    curve: Vec<f64>,
    runs: u64,
    moved: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    let curves = arguments.next();
    let mut rows = String::from("series,job,index\n");
    let mut free_lists = Vec::new();
    println!(
        "| reservations | kernel's pages | compactd | FMFI after build 1 | 2 | 10 | free superpages after build 1 | 2 | 10 | could be, after 10 | spoiled, after 10 | jobs' memory on superpages | runs | pages moved |"
    );
    println!(
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for (reservations, kernel) in
        [(false, Kernel::DirectMap), (true, Kernel::DirectMap), (true, Kernel::Object)]
    {
        for (name, daemon) in daemons(reservations) {
            let setting = Setting { reservations, kernel, daemon };
            let runs: Vec<Run> = (1..=seeds).map(|seed| run(seed, setting)).collect();
            row(setting, name, &runs);
            let label = format!("{}, {name}", if reservations { "reservations" } else { "none" });
            if kernel == Kernel::DirectMap {
                for (job, index) in runs[0].curve.iter().enumerate() {
                    writeln!(rows, "\"{label}\",{},{index}", job + 1).expect("memory");
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
        daemons.push(("as intended, sparing reservations", Some(spare)));
    }
    daemons
}

fn run(seed: u64, setting: Setting) -> Run {
    let mut load = Load::new(seed, setting);
    let before = load.freebsd.domain_counts(0);
    let (mut after, mut looks) = (before, Vec::new());
    for build in 0..BUILDS {
        load.build();
        looks.push(load.look());
        if build == 0 {
            after = load.freebsd.domain_counts(0);
        }
    }
    load.freebsd.validate(&load.table);
    let (runs, moved) = (load.runs, load.moved);
    Run { lists: [before, after], looks, curve: load.curve, runs, moved }
}

fn row(setting: Setting, daemon: &str, runs: &[Run]) {
    let of = |build: usize, get: fn(&Look) -> f64| {
        spread(runs.iter().map(|run| get(&run.looks[build - 1])))
    };
    let index = [1, 2, 10].map(|build| of(build, |look| look.index)).join(" | ");
    let free = [1, 2, 10].map(|build| of(build, |look| look.free)).join(" | ");
    println!(
        "| {} | {} | {daemon} | {index} | {free} | {} | {} | {} % | {} | {} |",
        if setting.reservations { "yes" } else { "no" },
        match setting.kernel {
            Kernel::DirectMap => "direct map",
            Kernel::Object => "kernel object",
        },
        of(10, |look| look.bound),
        of(10, |look| look.spoiled),
        of(10, |look| 100.0 * look.promoted),
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
