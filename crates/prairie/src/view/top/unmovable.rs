//! Who holds unmovable memory, as far as flags and the kernel's own counts show.

use prairie_frames::Mobility;
use prairie_host::FrameClass;
use prairie_report::number;
use ratatui::text::Line;

use super::State;
use super::style::{bold, dim, percent, plain, share};

/// Sizes of `/proc/meminfo` that are unmovable.
const KERNEL: [(&str, &str); 5] = [
    ("slab_unreclaimable_bytes", "slab, unreclaimable"),
    ("page_table_bytes", "page tables"),
    ("kernel_stack_bytes", "kernel stacks"),
    ("vmalloc_bytes", "vmalloc"),
    ("per_cpu_bytes", "per-CPU data"),
];

/// Slab caches that are listed.
const CACHES: usize = 12;

/// Sources by flags, then the kernel's counts, then slab caches.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    let mut lines = by_flags(state);
    lines.push(Line::from(bold(format!("{:<24} {:>10}", "by the kernel's count", "memory"))));
    let counted = KERNEL.iter().filter(|(column, _)| state.now.integer(column).is_some());
    lines.extend(counted.map(|(column, name)| {
        Line::from(format!("{name:<24} {:>10}", size(state.now.count(column))))
    }));
    let Some(live) = &state.live else { return lines };
    if live.slabs.is_empty() {
        lines.push(Line::from(dim("slab caches: /proc/slabinfo needs root".to_owned())));
        return lines;
    }
    let heading = format!("{:<24} {:>10} {:>8}", "slab caches", "memory", "in use");
    lines.push(Line::from(bold(heading)));
    lines.extend(live.slabs.iter().take(CACHES).map(|cache| {
        let used = percent(share(cache.active_objects, cache.objects));
        let bytes = cache.slabs.saturating_mul(cache.pages_per_slab).saturating_mul(4096);
        Line::from(format!("{:<24} {:>10} {used:>8}", cache.name, size(bytes)))
    }));
    lines
}

fn by_flags(state: &State) -> Vec<Line<'static>> {
    let heading = format!(
        "{:<24} {:>10} {:>8} {:>11} {:>11}",
        "by page flags", "memory", "share", "pageblocks", "it alone"
    );
    let mut lines = vec![Line::from(bold(heading))];
    if state.now.integer("pageblocks").is_none() {
        lines.push(Line::from(dim("page flags were not read".to_owned())));
        return lines;
    }
    let all = state.now.count("unmovable_bytes");
    let bytes = |class: FrameClass| state.now.count(&format!("class_{}_bytes", class.name()));
    let unmovable = |class: &FrameClass| class.mobility() == Mobility::Unmovable;
    let mut classes: Vec<FrameClass> = FrameClass::ALL.into_iter().filter(unmovable).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(bytes(*class)));
    for class in classes.into_iter().filter(|class| bytes(*class) > 0) {
        let name = class.name();
        let column = |suffix: &str| state.now.count(&format!("polluted_by_{name}{suffix}"));
        lines.push(Line::from(format!(
            "{:<24} {:>10} {:>8} {:>11} {:>11}",
            class.label(),
            size(bytes(class)),
            percent(share(bytes(class), all)),
            column("_pageblocks"),
            column("_alone_pageblocks"),
        )));
    }
    lines
}

fn size(bytes: u64) -> String {
    plain(&number::bytes(bytes))
}
