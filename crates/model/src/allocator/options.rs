//! The options of allocators: each takes one mechanism away, adds one, or sets its size.

use prairie_frames::Order;
use prairie_frames::kstack::Indexing;
use prairie_frames::placement::lists::Division;
use prairie_frames::placement::regions;
use prairie_frames::placement::zones::Kernelcore;

use super::{Settings, Worlds};
use crate::random::{Quantity, Size};
use crate::regions_daemon::SMALLEST_BLOCK;

/// Frames of 2 GiB, the largest memory block.
const LARGEST_BLOCK: u64 = 1 << 19;

/// Frames of 4 MiB and 1 GiB, between which the trees of `classes` are.
const SMALLEST_TREE: u64 = 1 << 10;
const LARGEST_TREE: u64 = 1 << 18;

/// An option that an allocator's name may be followed by: `NAME+OPTION`, `NAME+OPTION=VALUE`.
pub struct Switch {
    /// The option's name.
    pub name: &'static str,
    /// What its value is, as in `SIZE`; empty for an option without one.
    pub value: &'static str,
    /// Its effect.
    pub effect: &'static str,
    /// Where it has an effect.
    pub worlds: Worlds,
    /// Applies it; false if the value cannot be understood.
    pub apply: fn(&mut Settings, &str) -> bool,
}

impl Switch {
    /// The option as it is written.
    pub fn usage(&self) -> String {
        match self.value {
            "" => self.name.to_owned(),
            value => format!("{}={value}", self.name),
        }
    }
}

/// An option without a value.
const fn switch(
    name: &'static str,
    effect: &'static str,
    worlds: Worlds,
    apply: fn(&mut Settings, &str) -> bool,
) -> Switch {
    Switch { name, value: "", effect, worlds, apply }
}

/// Shorthand for an option that only sets fields.
macro_rules! set {
    (|$settings:ident| $body:expr) => {
        |$settings, _| {
            $body;
            true
        }
    };
}

/// Of allocators that reclaim as Linux 2.6 does.
pub const LINUX_2_6: [Switch; 2] = [
    switch(
        "linear",
        "reclaim the neighbors of a free block, not the LRU tail, for orders 3 and above",
        Worlds::MACHINE,
        set!(|s| s.policies.linear_reclaim = true),
    ),
    switch(
        "drain",
        "drain per-CPU lists and try again before a request fails",
        Worlds::MACHINE,
        set!(|s| s.policies.drains = true),
    ),
];

/// Of `lists`.
pub const LISTS: [Switch; 1] = [switch(
    "three-way",
    "a third list per order, for reclaimable kernel caches",
    Worlds::ALL,
    set!(|s| s.division = Division::ThreeWay),
)];

/// Of `zones`.
pub const ZONES: [Switch; 1] = [Switch {
    name: "kernelcore",
    value: "SIZE",
    effect: "size of the memory that kernel pages may use, such as 2G or 25%",
    worlds: Worlds::ALL,
    apply: |s, size| {
        s.kernelcore = match size.strip_suffix('%').map(str::parse) {
            Some(Ok(percent @ 1..=100)) => Some(Kernelcore::Percent(percent)),
            Some(_) => None,
            None => frames(size).map(Kernelcore::Frames),
        };
        s.kernelcore.is_some()
    },
}];

/// Of `classes`.
pub const CLASSES: [Switch; 1] = [Switch {
    name: "tree",
    value: "SIZE",
    effect: "size of a tree: a power of two, 4M to 1G [default: 64M]",
    worlds: Worlds::PLACEMENT,
    apply: |s, size| match frames(size) {
        Some(frames @ SMALLEST_TREE..=LARGEST_TREE) if frames.is_power_of_two() => {
            s.classes.tree = Order::new(frames.trailing_zeros() as u8).expect("at most order 18");
            true
        }
        _ => false,
    },
}];

/// Of allocators with Linux's compaction.
const NO_COMPACTION: Switch = switch(
    "no-compaction",
    "turn off direct compaction, kcompactd, and proactive compaction",
    Worlds::RECLAIMING,
    set!(|s| {
        s.policies.compaction = false;
        s.policies.kcompactd = false;
        s.policies.proactive = false;
    }),
);

/// Of `linux` and `linux-defrag`.
pub const LINUX: [Switch; 14] = [
    Switch {
        name: "regions",
        value: "SIZE",
        effect: "run `prairie regions` with memory blocks of SIZE, 128M to 2G [default: 128M]",
        worlds: Worlds::ALL,
        apply: |s, size| match size {
            "" => {
                s.memory_blocks = Some(SMALLEST_BLOCK);
                true
            }
            size => match frames(size) {
                Some(frames @ SMALLEST_BLOCK..=LARGEST_BLOCK) if frames.is_power_of_two() => {
                    s.memory_blocks = Some(frames);
                    true
                }
                _ => false,
            },
        },
    },
    switch(
        "no-boost",
        "do not raise watermarks after a fallback (vm.watermark_boost_factor=0)",
        Worlds::ALL,
        set!(|s| {
            s.policies.boost = false;
            s.linux.watermark_boost_factor = 0;
        }),
    ),
    switch(
        "no-pcp",
        "allocate and free on the zone's free lists only",
        Worlds::ALL,
        set!(|s| s.linux.per_cpu_lists = false),
    ),
    switch(
        "no-grouping",
        "treat all requests and pageblocks as one migrate type",
        Worlds::ALL,
        set!(|s| s.linux.grouping = false),
    ),
    switch(
        "no-claiming",
        "let a fallback take a single block, never the pageblock",
        Worlds::ALL,
        set!(|s| s.linux.claiming = false),
    ),
    switch(
        "no-nofragment",
        "break up other types' pageblocks before trying a lower zone (no ALLOC_NOFRAGMENT)",
        Worlds::ALL,
        set!(|s| s.linux.nofragment = false),
    ),
    switch(
        "no-highatomic",
        "keep no pageblocks for high-order atomic requests",
        Worlds::ALL,
        set!(|s| s.linux.highatomic = false),
    ),
    NO_COMPACTION,
    switch(
        "no-deferral",
        "compact on every request, without backoff after failures",
        Worlds::MACHINE,
        set!(|s| s.policies.deferral = false),
    ),
    switch(
        "no-kcompactd",
        "turn off kcompactd, and with it proactive compaction",
        Worlds::MACHINE,
        set!(|s| {
            s.policies.kcompactd = false;
            s.policies.proactive = false;
        }),
    ),
    switch(
        "no-proactive",
        "turn off proactive compaction (vm.compaction_proactiveness=0)",
        Worlds::MACHINE,
        set!(|s| s.policies.proactive = false),
    ),
    switch(
        "no-workingset",
        "do not activate refaulting pages by their refault distance",
        Worlds::MACHINE,
        set!(|s| s.policies.workingset = false),
    ),
    switch(
        "no-thp",
        "turn off transparent huge pages, their per-CPU lists, and khugepaged",
        Worlds::ALL,
        set!(|s| {
            s.policies.huge_pages = false;
            s.policies.khugepaged = false;
            s.linux.huge_pages = false;
        }),
    ),
    switch(
        "no-khugepaged",
        "do not collapse small pages into huge pages",
        Worlds::MACHINE,
        set!(|s| s.policies.khugepaged = false),
    ),
];

/// Of `linux-defrag`.
pub const DEFRAG: [Switch; 1] = [switch(
    "no-defrag-mode",
    "set vm.defrag_mode=0, keeping the fallback of 6.15",
    Worlds::ALL,
    set!(|s| {
        s.policies.defrag_mode = false;
        s.linux.defrag_mode = false;
    }),
)];

/// Of `freebsd`.
pub const FREEBSD: [Switch; 4] = [
    switch(
        "no-reservations",
        "do not reserve superpages for objects",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.reservations = false),
    ),
    switch(
        "no-nofree",
        "do not keep memory that is never freed in superpages of its own",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.nofree = false),
    ),
    switch(
        "no-batch",
        "allocate batches of single pages one page at a time",
        Worlds::RECLAIMING,
        set!(|s| {
            s.freebsd.batch = false;
            s.policies.batched_reads = false;
        }),
    ),
    switch(
        "linear-stacks",
        "leave a hole for the guard page of each kernel stack (before D38852)",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.stacks = Indexing::Linear),
    ),
];

/// Of `contiguitas` and `contiguitas-hw`.
pub const CONTIGUITAS: [Switch; 6] = [
    Switch {
        name: "fixed",
        value: "PERCENT%",
        effect: "fix the border at its initial place, or at PERCENT of memory",
        worlds: Worlds::ALL,
        apply: fix,
    },
    switch(
        "no-bias",
        "do not prefer free blocks that lie far from the border",
        Worlds::ALL,
        set!(|s| s.regions.bias = false),
    ),
    switch(
        "no-far-end",
        "do not place memory that is never freed at the far end of its region",
        Worlds::RECLAIMING,
        set!(|s| s.regions.far_end = false),
    ),
    NO_COMPACTION,
    switch(
        "no-pressure",
        "size the regions by free memory alone, not by pressure",
        Worlds::ALL,
        set!(|s| s.regions.tuning.weight = [0, 0]),
    ),
    switch(
        "no-pin-migration",
        "pin pages in place, without migrating them to the unmovable region",
        Worlds::ALL,
        set!(|s| s.regions.pin_migration = false),
    ),
];

/// The frames in a size such as `2G`.
fn frames(size: &str) -> Option<u64> {
    Some(Size::parse(size).ok()? as u64 / 4096)
}

/// Keeps the border in place: `fixed`, or `fixed=20%`.
fn fix(settings: &mut Settings, value: &str) -> bool {
    let initial_per_1024 = match value {
        "" => settings.regions.initial_per_1024,
        share => match share.strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok()) {
            Some(percent @ 1..=99) => percent * 1024 / 100,
            _ => return false,
        },
    };
    settings.regions = regions::Config {
        initial_per_1024,
        step_pageblocks: 0,
        failure_pageblocks: 0,
        ..settings.regions.clone()
    };
    true
}
