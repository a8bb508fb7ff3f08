//! Huge pages: users, settings, and counters.

use prairie_host::Survey;
use prairie_host::survey::huge_pages::{HostHugePages, HugetlbPool, ProcessHugePages};
use prairie_host::survey::{Counter, HostSetting};
use prairie_report::{Block, Cell, Column, Section, Table, Tone, number};

/// Coverage of the host and of its largest processes, and the pools of hugetlb.
pub fn coverage(survey: &Survey, processes: usize) -> Option<Section> {
    let huge = &survey.huge_pages;
    let mut blocks: Vec<Block> = huge.host.iter().map(host).map(Block::Table).collect();
    let listed: Vec<_> = huge.processes.iter().take(processes).collect();
    if !listed.is_empty() {
        blocks.push(Block::Table(largest(&listed)));
    }
    if huge.hugetlb_pools.iter().any(|pool| pool.pages > 0) {
        blocks.push(Block::Table(pools(&huge.hugetlb_pools)));
    } else if !huge.hugetlb_pools.is_empty() {
        let sizes: Vec<_> =
            huge.hugetlb_pools.iter().map(|pool| number::bytes(pool.page_bytes)).collect();
        let none = format!("All hugetlb pools ({}) are empty.", sizes.join(", "));
        blocks.push(Block::Text(none));
    }
    let heading = "Huge pages in use".to_owned();
    (!blocks.is_empty()).then(|| Section { heading, blocks, ..Section::default() })
}

fn host(host: &HostHugePages) -> Table {
    let row = |what: &str, all: Option<u64>, huge: u64| {
        let share = all.filter(|&all| all > 0).map(|all| number::percent(super::ratio(huge, all)));
        vec![
            Cell::from(what),
            Cell::from(all.map_or(number::NONE.to_owned(), number::bytes)),
            Cell::from(number::bytes(huge)),
            Cell::toned(share.unwrap_or(number::NONE.to_owned()), Tone::Strong),
        ]
    };
    Table {
        title: "The whole host".to_owned(),
        columns: columns("memory"),
        rows: vec![
            row("anonymous", Some(host.anonymous_bytes), host.anonymous_huge_bytes),
            row("shared memory, tmpfs", Some(host.shmem_bytes), host.shmem_huge_bytes),
            row("files", None, host.file_huge_bytes),
        ],
        notes: vec!["Huge: in pages of 2 MiB. Smaller large folios are not counted.".to_owned()],
    }
}

fn columns(first: &str) -> Vec<Column> {
    vec![
        Column::text(first),
        Column::number("all"),
        Column::number("huge"),
        Column::number("coverage"),
    ]
}

fn largest(processes: &[&ProcessHugePages]) -> Table {
    let row = |process: &&ProcessHugePages| {
        let coverage = process.anonymous_coverage.map_or(number::NONE.to_owned(), number::percent);
        vec![
            process.name.as_str().into(),
            process.pid.to_string().into(),
            number::bytes(process.resident_bytes).into(),
            number::bytes(process.anonymous_bytes).into(),
            number::bytes(process.anonymous_huge_bytes).into(),
            Cell::toned(coverage, Tone::Strong),
        ]
    };
    Table {
        title: "Processes with the most anonymous memory".to_owned(),
        columns: vec![
            Column::text("process"),
            Column::number("pid"),
            Column::number("resident"),
            Column::number("anonymous"),
            Column::number("huge"),
            Column::number("coverage"),
        ],
        rows: processes.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn pools(pools: &[HugetlbPool]) -> Table {
    let row = |pool: &HugetlbPool| {
        let pages = |n: u64| Cell::from(number::count(n));
        vec![
            number::bytes(pool.page_bytes).into(),
            pages(pool.pages),
            pages(pool.free_pages),
            pages(pool.reserved_pages),
            pages(pool.surplus_pages),
        ]
    };
    Table {
        title: "Pools of hugetlb".to_owned(),
        columns: vec![
            Column::number("page"),
            Column::number("pages"),
            Column::number("free"),
            Column::number("reserved"),
            Column::number("surplus"),
        ],
        rows: pools.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// Settings and counters, each with its meaning.
pub fn settings_and_counters(survey: &Survey) -> Option<Section> {
    let mut blocks = Vec::new();
    if !survey.settings.is_empty() {
        blocks.push(Block::Table(settings(&survey.settings)));
    }
    if !survey.counters.is_empty() {
        blocks.push(Block::Table(counters(&survey.counters)));
    }
    let heading = "Settings and counters".to_owned();
    (!blocks.is_empty()).then(|| Section { heading, blocks, ..Section::default() })
}

fn settings(settings: &[HostSetting]) -> Table {
    let row = |setting: &HostSetting| {
        vec![
            Cell::from(short_path(&setting.path)),
            Cell::toned(setting.value.as_str(), Tone::Strong),
            Cell::from(setting.meaning),
        ]
    };
    Table {
        title: "Settings".to_owned(),
        columns: vec![Column::text("setting"), Column::text("value"), Column::text("meaning")],
        rows: settings.iter().map(row).collect(),
        notes: vec!["thp: /sys/kernel/mm/transparent_hugepage. vm: /proc/sys/vm.".to_owned()],
    }
}

/// A setting by the end of its path: `thp/enabled`, `vm.swappiness`.
fn short_path(path: &str) -> String {
    let thp = path.strip_prefix("/sys/kernel/mm/transparent_hugepage/");
    let vm = path.strip_prefix("/proc/sys/vm/");
    let border = path.strip_prefix("/sys/kernel/mm/contiguitas/");
    match (thp, vm, border) {
        (Some(name), ..) => format!("thp/{name}"),
        (_, Some(name), _) => format!("vm.{name}"),
        (.., Some(name)) => format!("contiguitas/{name}"),
        _ => path.to_owned(),
    }
}

/// Counters that are not 0; the others are counted below.
fn counters(counters: &[Counter]) -> Table {
    let row = |counter: &Counter| {
        vec![
            Cell::from(counter.name),
            Cell::toned(number::count(counter.value), Tone::Strong),
            Cell::from(counter.meaning),
        ]
    };
    let (zero, counted): (Vec<&Counter>, Vec<&Counter>) =
        counters.iter().partition(|counter| counter.value == 0);
    let note = format!("Not listed: {} at 0.", number::counted(zero.len() as u64, "counter"));
    Table {
        title: "Counters since boot".to_owned(),
        columns: vec![Column::text("counter"), Column::number("value"), Column::text("meaning")],
        rows: counted.into_iter().map(row).collect(),
        notes: if zero.is_empty() { Vec::new() } else { vec![note] },
    }
}
