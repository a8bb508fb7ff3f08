//! The mobility that the kernel asks for when it allocates, and marks pageblocks with.

use core::fmt;

/// `enum migratetype` of `include/linux/mmzone.h`, by meaning and not by number: kernels number
/// the types above `Reclaimable` differently, depending on how they were configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory that stays where it is.
    Unmovable = 0,
    /// User memory and page cache, which migration can move.
    Movable = 1,
    /// Kernel caches that a shrinker can free.
    Reclaimable = 2,
    /// A reserve for atomic high-order requests (`MIGRATE_HIGHATOMIC`).
    HighAtomic = 3,
    /// The contiguous memory allocator's areas.
    Cma = 4,
    /// Blocks that nothing may be allocated from at present.
    Isolate = 5,
}

impl MigrateType {
    /// Every type, in the order of their numbers.
    pub const ALL: [MigrateType; 6] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Cma,
        MigrateType::Isolate,
    ];

    /// The type with this number in Prairie's own numbering.
    pub const fn from_index(index: u8) -> Option<MigrateType> {
        if index < 6 { Some(MigrateType::ALL[index as usize]) } else { None }
    }

    /// This type as an index into per-type arrays.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The type that `/proc/pagetypeinfo` calls by `name`.
    pub fn from_name(name: &str) -> Option<MigrateType> {
        MigrateType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The name in `/proc/pagetypeinfo` (`migratetype_names`, `mm/page_alloc.c`).
    pub const fn name(self) -> &'static str {
        match self {
            MigrateType::Unmovable => "Unmovable",
            MigrateType::Movable => "Movable",
            MigrateType::Reclaimable => "Reclaimable",
            MigrateType::HighAtomic => "HighAtomic",
            MigrateType::Cma => "CMA",
            MigrateType::Isolate => "Isolate",
        }
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
