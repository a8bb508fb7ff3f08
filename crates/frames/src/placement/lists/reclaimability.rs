//! How easily a page comes back when memory runs short: the three types of the 2006 paper's
//! section 4, and what each falls back on.

use crate::MigrateType;

/// A type of reclaimability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reclaimability {
    /// Kernel pages that cannot be reclaimed on demand (KernNoRclm).
    KernNoRclm = 0,
    /// Pages allocated for a user process, and disk buffers (EasyRclm, `GFP_EASYRCLM`).
    EasyRclm = 1,
    /// Kernel caches that often can (KernRclm): inodes, dentries, buffer heads.
    KernRclm = 2,
}

use Reclaimability::{EasyRclm, KernNoRclm, KernRclm};

impl Reclaimability {
    /// All three.
    pub const ALL: [Reclaimability; 3] = [KernNoRclm, EasyRclm, KernRclm];

    /// The type of today's requests: movable memory is what the paper calls easily reclaimed.
    pub const fn of(migrate_type: MigrateType) -> Reclaimability {
        match migrate_type {
            MigrateType::Movable | MigrateType::Cma => EasyRclm,
            MigrateType::Reclaimable => KernRclm,
            _ => KernNoRclm,
        }
    }

    /// The migrate type under which reports show what is on this type's lists.
    pub const fn migrate_type(self) -> MigrateType {
        match self {
            KernNoRclm => MigrateType::Unmovable,
            EasyRclm => MigrateType::Movable,
            KernRclm => MigrateType::Reclaimable,
        }
    }

    /// The index of this type's lists.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The number of types with their own lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Division {
    /// EasyRclm and the rest: what the paper measured, for it needs a single GFP flag.
    #[default]
    TwoWay,
    /// All three: the variation that the paper mentions and leaves for its complexity.
    ThreeWay,
}

impl Division {
    /// The type whose lists serve memory of `reclaimability`.
    pub(crate) const fn list_of(self, reclaimability: Reclaimability) -> Reclaimability {
        match (self, reclaimability) {
            (Division::TwoWay, KernRclm) => KernNoRclm,
            (_, reclaimability) => reclaimability,
        }
    }

    /// The types with their own lists.
    pub const fn types(self) -> &'static [Reclaimability] {
        match self {
            Division::TwoWay => &[KernNoRclm, EasyRclm],
            Division::ThreeWay => &[KernNoRclm, EasyRclm, KernRclm],
        }
    }

    /// The types to steal from when the lists of `wanting` are empty, in this order
    /// (`fallback_allocs` of the patches posted as version 19 in October 2005, without the reserve
    /// of blocks that they kept apart).
    pub const fn fallbacks(self, wanting: Reclaimability) -> &'static [Reclaimability] {
        match (self, wanting) {
            (Division::TwoWay, EasyRclm) => &[KernNoRclm],
            (Division::TwoWay, _) => &[EasyRclm],
            (Division::ThreeWay, KernNoRclm) => &[KernRclm, EasyRclm],
            (Division::ThreeWay, EasyRclm) => &[KernNoRclm, KernRclm],
            (Division::ThreeWay, KernRclm) => &[KernNoRclm, EasyRclm],
        }
    }
}
