//! The placement of a simulated machine.

use std::ops::{Deref, DerefMut};

use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::superpageblocks::Superpageblocks;

use super::AnyStepwise;

/// A placement, by the work that a machine does in the background for it.
pub enum MachinePlacement {
    /// Linux, which the machine compacts.
    Linux(Box<Linux>),
    /// FreeBSD's `vm_phys`, with its compaction daemon.
    FreeBsd(Box<FreeBsd>),
    /// Two regions, which the machine compacts, and whose resizer it wakes.
    Regions(Box<Regions>),
    /// Gigabytes clean or tainted, with upkeep at intervals.
    Superpageblocks(Box<Superpageblocks>),
    /// Any other policy, without work in the background.
    Other(AnyStepwise),
}

impl MachinePlacement {
    /// A policy without work in the background.
    pub fn other(placement: impl Stepwise + Send + 'static) -> MachinePlacement {
        MachinePlacement::Other(Box::new(placement))
    }

    /// The placement alone.
    pub fn into_stepwise(self) -> AnyStepwise {
        match self {
            MachinePlacement::Linux(linux) => linux,
            MachinePlacement::FreeBsd(freebsd) => freebsd,
            MachinePlacement::Regions(regions) => regions,
            MachinePlacement::Superpageblocks(blocks) => blocks,
            MachinePlacement::Other(placement) => placement,
        }
    }
}

impl Deref for MachinePlacement {
    type Target = dyn Stepwise;

    #[inline]
    fn deref(&self) -> &(dyn Stepwise + 'static) {
        match self {
            MachinePlacement::Linux(linux) => &**linux,
            MachinePlacement::FreeBsd(freebsd) => &**freebsd,
            MachinePlacement::Regions(regions) => &**regions,
            MachinePlacement::Superpageblocks(blocks) => &**blocks,
            MachinePlacement::Other(placement) => &**placement,
        }
    }
}

impl DerefMut for MachinePlacement {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn Stepwise + 'static) {
        match self {
            MachinePlacement::Linux(linux) => &mut **linux,
            MachinePlacement::FreeBsd(freebsd) => &mut **freebsd,
            MachinePlacement::Regions(regions) => &mut **regions,
            MachinePlacement::Superpageblocks(blocks) => &mut **blocks,
            MachinePlacement::Other(placement) => &mut **placement,
        }
    }
}
