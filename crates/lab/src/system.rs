//! The systems of the laboratory, by name.

use std::fmt;
use std::str::FromStr;

/// A named set of policies. Systems differ in nothing but those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemName {
    /// One free list per order (Linux 2.6.16).
    Buddy,
    /// Pageblocks by migrate type with fallback and stealing (Linux 6.1).
    Linux,
    /// Two regions with a moving border (Contiguitas).
    Contiguitas,
}

impl SystemName {
    /// All systems, baseline first.
    pub const ALL: [SystemName; 3] =
        [SystemName::Buddy, SystemName::Linux, SystemName::Contiguitas];

    /// The name by which commands and files know the system.
    pub const fn name(self) -> &'static str {
        match self {
            SystemName::Buddy => "buddy",
            SystemName::Linux => "linux",
            SystemName::Contiguitas => "contiguitas",
        }
    }

    /// What of the system this version has, in a sentence.
    pub const fn parts(self) -> &'static str {
        match self {
            SystemName::Buddy => {
                "placement of Linux 2.6.16: one free list per order, a per-CPU list of single frames"
            }
            SystemName::Linux => {
                "placement of Linux 6.1: pageblocks by migrate type, fallback and stealing, per-CPU \
                 lists, watermarks, high-atomic reserve; without reclaim and compaction"
            }
            SystemName::Contiguitas => {
                "two regions never mixed, a border that moves by whole pageblocks on demand, bias \
                 away from the border; without pressure-driven resizing and migration on pin"
            }
        }
    }
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no system has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no system `{0}`; the systems are buddy, linux and contiguitas")]
pub struct UnknownSystem(String);

impl FromStr for SystemName {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = SystemName::ALL.into_iter().find(|system| system.name() == name);
        found.ok_or_else(|| UnknownSystem(name.to_owned()))
    }
}
