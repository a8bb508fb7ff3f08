//! What a report says about the request, and about where memory went.

use prairie_host::kernel_log::{Gfp, Incident, IncidentKind, Task};
use prairie_report::{Block, Cell, Column, Table, number};

/// Functions of the call trace that are the page allocator's own.
const ALLOCATOR: [&str; 16] = [
    "dump_stack",
    "dump_stack_lvl",
    "warn_alloc",
    "warn_alloc_failed",
    "__alloc_pages",
    "__alloc_pages_slowpath",
    "__alloc_pages_nodemask",
    "__alloc_pages_noprof",
    "alloc_pages",
    "alloc_pages_current",
    "__alloc_pages_slowpath.constprop",
    "dump_header",
    "oom_kill_process",
    "out_of_memory",
    "show_stack",
    "__get_free_pages",
];

/// The request, a line for each property.
pub fn table(incident: &Incident) -> Table {
    let request = &incident.request;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.into(), value.into()]);
    row(
        "size",
        match request.order {
            0 => "one page".to_owned(),
            order => {
                let pages = 1u64.checked_shl(order).map(|pages| number::count(pages) + " ");
                format!(
                    "order {order}: {}contiguous pages, {} with pages of 4 KiB",
                    pages.unwrap_or_default(),
                    super::block_size(order)
                )
            }
        },
    );
    row("flags", format!("{} ({:#x})", request.gfp.text, request.gfp.mask));
    row("may wait", may_wait(&request.gfp).to_owned());
    row("mobility", request.gfp.migrate_type().name().to_owned());
    row("highest zone", request.gfp.highest_zone().to_string());
    if let Some(nodes) = &request.nodemask {
        row("nodes", nodes.clone());
    }
    if let Some(mems) = &request.mems_allowed {
        row("nodes of the cpuset", mems.clone());
    }
    let pid = incident.pid.map_or(String::new(), |pid| format!(", PID {pid}"));
    row("process", format!("{}{pid}", incident.process));
    if let Some(cache) = &incident.slab_cache {
        let orders = match (cache.default_order, cache.min_order) {
            (Some(wanted), Some(least)) => format!(", order {wanted}, at least {least}"),
            _ => String::new(),
        };
        row("slab cache", format!("{}{orders}", cache.name));
    }
    let callers = callers(&incident.call_trace);
    if !callers.is_empty() {
        row("asked by", callers.join(" < "));
    }
    Table {
        title: "Request".to_owned(),
        columns: vec![Column::text(""), Column::text("")],
        rows,
        notes: Vec::new(),
    }
}

/// The first functions that are not the allocator's own.
fn callers(trace: &[String]) -> Vec<&str> {
    const SHOWN: usize = 6;
    let own = |function: &str| {
        let name = function.split(['.', ' ']).next().unwrap_or(function);
        ALLOCATOR.contains(&name)
    };
    trace.iter().map(String::as_str).filter(|function| !own(function)).take(SHOWN).collect()
}

fn may_wait(gfp: &Gfp) -> &'static str {
    match (gfp.can_wait(), gfp.has("__GFP_HIGH"), gfp.has("__GFP_NORETRY")) {
        (true, _, true) => "briefly: one round of reclaim and compaction (__GFP_NORETRY)",
        (true, ..) => "yes: it reclaims and compacts memory itself",
        (false, true, _) => "no: it lives on reserves, of which it may use a part",
        (false, false, _) => "no: it takes what is free at once",
    }
}

/// For an OOM report: where memory is, the limit, the largest tasks, and who was killed.
pub fn out_of_memory(incident: &Incident) -> Vec<Block> {
    let mut blocks = Vec::new();
    if incident.kind != IncidentKind::OutOfMemory {
        return blocks;
    }
    if let Some(limit) = &incident.cgroup {
        let size = |kib: Option<u64>| kib.map_or("an unknown size".to_owned(), kib_text);
        blocks.push(Block::Text(format!(
            "The cgroup `{}` holds {} of its limit of {}.",
            limit.path.as_deref().unwrap_or("?"),
            size(limit.usage_kib),
            size(limit.limit_kib),
        )));
    }
    blocks.extend(uses(incident));
    if !incident.tasks.is_empty() {
        blocks.push(Block::Table(tasks(&incident.tasks)));
    }
    if let Some(victim) = &incident.victim {
        let held = victim.anon_rss_kib;
        let held = held.map_or(String::new(), |kib| {
            format!(", which held {} of anonymous memory", kib_text(kib))
        });
        blocks.push(Block::Text(format!(
            "The kernel killed `{}` (PID {}){held}.",
            victim.name, victim.pid
        )));
    }
    blocks
}

pub fn kib_text(kib: u64) -> String {
    number::bytes(kib.saturating_mul(1024))
}

/// Where memory is, by the kernel's counters, the largest first; what they do not cover is memory
/// that drivers and the kernel took straight from the page allocator.
fn uses(incident: &Incident) -> Option<Block> {
    const COUNTED: [(&str, &str); 10] = [
        ("active_anon", "anonymous, active"),
        ("inactive_anon", "anonymous, inactive"),
        ("active_file", "page cache, active"),
        ("inactive_file", "page cache, inactive"),
        ("unevictable", "unevictable (mlock)"),
        ("slab_reclaimable", "slab, reclaimable"),
        ("slab_unreclaimable", "slab, unreclaimable"),
        ("pagetables", "page tables"),
        ("free", "free"),
        ("free_pcp", "free, per-CPU lists"),
    ];
    let memory = &incident.memory;
    let page_kib = memory.zones.first().map_or(4, |zone| zone.page_kib);
    let mut found: Vec<(&str, u64)> = COUNTED
        .iter()
        .filter_map(|(name, label)| Some((*label, *memory.pages.get(*name)?)))
        .filter(|(_, pages)| *pages > 0)
        .collect();
    let counted = found.iter().fold(0u64, |sum, (_, pages)| sum.saturating_add(*pages));
    let all = memory.ram_pages?.saturating_sub(memory.reserved_pages.unwrap_or(0));
    if found.is_empty() || all == 0 {
        return None;
    }
    found.push((
        "not counted: drivers, network, vmalloc, kernel stacks",
        all.saturating_sub(counted),
    ));
    found.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
    let row = |(label, pages): &(&str, u64)| {
        vec![
            Cell::from(*label),
            kib_text(pages.saturating_mul(page_kib)).into(),
            number::percent(*pages as f64 / all as f64).into(),
        ]
    };
    Some(Block::Table(Table {
        title: "Where memory is".to_owned(),
        columns: vec![Column::text("use"), Column::number("size"), Column::number("of memory")],
        rows: found.iter().map(row).collect(),
        notes: Vec::new(),
    }))
}

fn tasks(tasks: &[Task]) -> Table {
    const SHOWN: usize = 5;
    let row = |task: &Task| {
        vec![
            Cell::from(task.name.as_str()),
            task.pid.to_string().into(),
            number::bytes(task.rss_pages.saturating_mul(4096)).into(),
            number::bytes(task.swap_pages.saturating_mul(4096)).into(),
            task.oom_score_adj.to_string().into(),
        ]
    };
    Table {
        title: "Largest tasks".to_owned(),
        columns: vec![
            Column::text("task"),
            Column::number("PID"),
            Column::number("resident"),
            Column::number("swapped"),
            Column::number("oom_score_adj"),
        ],
        rows: tasks.iter().take(SHOWN).map(row).collect(),
        notes: Vec::new(),
    }
}
