//! Differences between kernels in handling a container's memory.

use serde::Serialize;

/// How reclaim divides its work between anonymous memory and page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// By what each has cost: refaults and pages written (Linux 5.9 and later, TMO §3.4).
    Refaults,
    /// By the share of scanned pages that were rotated (before 5.9). It ignores refaults, so page
    /// cache goes first as long as it looks untouched.
    Rotated,
    /// Multigenerational LRU: the kind whose oldest generation is older, then the one that
    /// refaults less.
    Generations,
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// How it balances.
    pub balance: Balance,
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// The weight of a refault or a written page in the balance.
    pub io_cost: u64,
    /// The weight of a page that is scanned and stays (6.2 and later).
    pub rotation_cost: u64,
    /// A page that is read back keeps its slot and compressed copy until it is written (before
    /// 6.9).
    pub keeps_copies: bool,
    /// `memory.reclaim` asks for a quarter of what is missing at a time (6.9 and later), else for
    /// all of it. Each time only refaults since the last one show that memory is in use.
    pub reclaims_quarters: bool,
    /// The time that reclaiming a page takes, compressing it included, in seconds.
    pub reclaim_page_s: f64,
}

impl Kernel {
    /// Linux 6.1.
    pub const LINUX_6_1: Kernel = Kernel {
        balance: Balance::Refaults,
        swappiness: 60,
        io_cost: 1,
        rotation_cost: 0,
        keeps_copies: true,
        reclaims_quarters: false,
        reclaim_page_s: 20e-6,
    };

    /// Linux 6.12 with the classic lists.
    pub const LINUX_6_12: Kernel = Kernel {
        io_cost: 32,
        rotation_cost: 1,
        keeps_copies: false,
        reclaims_quarters: true,
        ..Kernel::LINUX_6_1
    };

    /// Before TMO's changes: no refault enters the balance.
    pub const OLD: Kernel = Kernel { balance: Balance::Rotated, ..Kernel::LINUX_6_1 };

    /// With multigenerational LRU.
    pub const MGLRU: Kernel = Kernel { balance: Balance::Generations, ..Kernel::LINUX_6_12 };
}
