//! Why a block changes sides, and why nothing more is done: for logs, reports, and people.

use serde::Serialize;

/// Why a block changes sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The regions are being set up.
    Setup,
    /// The kernel region has less than its reserve.
    Reserve,
    /// Kernel requests stall.
    Stalls,
    /// The kernel region has had too much for a while.
    Excess,
    /// User memory is short.
    UserShort,
    /// A request for huge pages.
    HugePages,
    /// Everything is returned.
    Undo,
    /// It was found offline.
    Offline,
}

impl Reason {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Reason::Setup => "setup",
            Reason::Reserve => "kernel memory below its reserve",
            Reason::Stalls => "kernel requests stalled",
            Reason::Excess => "kernel memory idle",
            Reason::UserShort => "user memory short",
            Reason::HugePages => "huge pages requested",
            Reason::Undo => "undo",
            Reason::Offline => "found offline",
        }
    }
}

/// Why nothing more is done, where something would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Nothing stands against anything.
    #[default]
    None,
    /// As many conversions this hour as are allowed.
    Budget,
    /// Memory pressure is high.
    Pressure,
    /// The kernel region ran short lately.
    Frozen,
    /// The regions are at their bounds.
    Bound,
    /// It has not lasted long enough.
    Waiting,
    /// No block holds only what fits elsewhere.
    NothingFits,
    /// Every block that could change sides refused lately, or holds what cannot move.
    AllRefused,
}

impl Guard {
    /// In words; empty for none.
    pub const fn words(self) -> &'static str {
        match self {
            Guard::None => "",
            Guard::Budget => "operations of this hour are used up",
            Guard::Pressure => "memory pressure is high",
            Guard::Frozen => "no shrinking, the kernel region ran short lately",
            Guard::Bound => "the region is at its bound",
            Guard::Waiting => "the excess has not lasted long enough",
            Guard::NothingFits => "no block's contents fit elsewhere: user memory is full",
            Guard::AllRefused => "no block can be converted: pinned, unmovable, or refused lately",
        }
    }
}
