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
    /// Linux: kswapd, kcompactd, and khugepaged.
    Linux(Box<Linux>),
    /// FreeBSD's `vm_phys`: a daemon that gathers free superpages.
    FreeBsd(Box<FreeBsd>),
    /// Two regions: Linux's work in each, and the resizer.
    Regions(Box<Regions>),
    /// Gigabytes clean or tainted: evacuation.
    Superpageblocks(Box<Superpageblocks>),
    /// Any other policy: reclaim only.
    Other(AnyStepwise),
}

impl MachinePlacement {
    /// A policy for which a machine only reclaims.
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
