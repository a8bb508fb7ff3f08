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
        "linear reclaim for requests of order 3 and above",
        Worlds::MACHINE,
        set!(|s| s.policies.linear_reclaim = true),
    ),
    switch(
        "drain",
        "drain per-CPU lists before a request fails",
        Worlds::MACHINE,
        set!(|s| s.policies.drains = true),
    ),
];

/// Of `lists`.
pub const LISTS: [Switch; 1] = [switch(
    "three-way",
    "a third list for kernel caches",
    Worlds::ALL,
    set!(|s| s.division = Division::ThreeWay),
)];

/// Of `zones`.
pub const ZONES: [Switch; 1] = [Switch {
    name: "kernelcore",
    value: "SIZE",
    effect: "memory outside the zone for easily reclaimed pages, as in 2G or 25%",
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
    effect: "trees of SIZE (4M to 1G; 64M), a power of two",
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
    "no compaction of any kind",
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
        effect: "memory blocks of SIZE (128M to 2G; 128M) change zones as `prairie regions` decides",
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
        "fallbacks do not raise watermarks",
        Worlds::ALL,
        set!(|s| {
            s.policies.boost = false;
            s.linux.watermark_boost_factor = 0;
        }),
    ),
    switch("no-pcp", "no per-CPU lists", Worlds::ALL, set!(|s| s.linux.per_cpu_lists = false)),
    switch("no-grouping", "no migrate types", Worlds::ALL, set!(|s| s.linux.grouping = false)),
    switch(
        "no-claiming",
        "fallbacks take single blocks only",
        Worlds::ALL,
        set!(|s| s.linux.claiming = false),
    ),
    switch(
        "no-nofragment",
        "foreign pageblocks before lower zones",
        Worlds::ALL,
        set!(|s| s.linux.nofragment = false),
    ),
    switch(
        "no-highatomic",
        "no reserve for atomic requests",
        Worlds::ALL,
        set!(|s| s.linux.highatomic = false),
    ),
    NO_COMPACTION,
    switch(
        "no-deferral",
        "compaction is never deferred",
        Worlds::MACHINE,
        set!(|s| s.policies.deferral = false),
    ),
    switch(
        "no-kcompactd",
        "no background compaction",
        Worlds::MACHINE,
        set!(|s| {
            s.policies.kcompactd = false;
            s.policies.proactive = false;
        }),
    ),
    switch(
        "no-proactive",
        "no proactive compaction",
        Worlds::MACHINE,
        set!(|s| s.policies.proactive = false),
    ),
    switch(
        "no-workingset",
        "refault distances activate nothing",
        Worlds::MACHINE,
        set!(|s| s.policies.workingset = false),
    ),
    switch(
        "no-thp",
        "no transparent huge pages",
        Worlds::ALL,
        set!(|s| {
            s.policies.huge_pages = false;
            s.policies.khugepaged = false;
            s.linux.huge_pages = false;
        }),
    ),
    switch(
        "no-khugepaged",
        "no collapse of small pages",
        Worlds::MACHINE,
        set!(|s| s.policies.khugepaged = false),
    ),
];

/// Of `linux-defrag`.
pub const DEFRAG: [Switch; 1] = [switch(
    "no-defrag-mode",
    "vm.defrag_mode=0",
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
        "no superpages set aside for objects",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.reservations = false),
    ),
    switch(
        "no-nofree",
        "memory that is never freed comes from anywhere",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.nofree = false),
    ),
    switch(
        "no-batch",
        "many single pages come one by one",
        Worlds::RECLAIMING,
        set!(|s| {
            s.freebsd.batch = false;
            s.policies.batched_reads = false;
        }),
    ),
    switch(
        "linear-stacks",
        "a page of the object behind each guard page of kernel stacks",
        Worlds::RECLAIMING,
        set!(|s| s.freebsd.stacks = Indexing::Linear),
    ),
];

/// Of `contiguitas` and `contiguitas-hw`.
pub const CONTIGUITAS: [Switch; 6] = [
    Switch {
        name: "fixed",
        value: "PERCENT%",
        effect: "the border stays where it starts, or at a share of memory",
        worlds: Worlds::ALL,
        apply: fix,
    },
    switch(
        "no-bias",
        "no placement away from the border",
        Worlds::ALL,
        set!(|s| s.regions.bias = false),
    ),
    switch(
        "no-far-end",
        "memory that is never freed is placed as any other",
        Worlds::RECLAIMING,
        set!(|s| s.regions.far_end = false),
    ),
    NO_COMPACTION,
    switch(
        "no-pressure",
        "free memory alone decides about the border",
        Worlds::ALL,
        set!(|s| s.regions.tuning.weight = [0, 0]),
    ),
    switch(
        "no-pin-migration",
        "pages are pinned where they are",
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
