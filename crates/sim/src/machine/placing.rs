//! The placement of a machine, whichever it is.

use std::ops::{Deref, DerefMut};

use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::lists::Lists;
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::superpageblocks::Superpageblocks;

/// One of the placements that a machine can run. Linux's compaction asks more of a placement than
/// most have to give ([`Compactable`](prairie_frames::compaction::Compactable)).
pub enum Placed {
    /// One free list per order; with a movable zone in the layout, `zones` as well.
    Buddy(Buddy),
    /// Two or three lists per order.
    Lists(Lists),
    /// Linux 6.1.
    Linux(Box<Linux>),
    /// FreeBSD's `vm_phys`.
    FreeBsd(Box<FreeBsd>),
    /// Two regions.
    Regions(Box<Regions>),
    /// Gigabytes clean or tainted.
    Superpageblocks(Box<Superpageblocks>),
}

/// Does something with the placement inside a [`Placed`] that Linux's compaction can work on;
/// `None` for any other.
macro_rules! compactable {
    ($placed:expr, $placement:ident => $run:expr) => {
        match $placed {
            $crate::machine::placing::Placed::Linux($placement) => {
                let $placement = &mut **$placement;
                Some($run)
            }
            $crate::machine::placing::Placed::Regions($placement) => {
                let $placement = &mut **$placement;
                Some($run)
            }
            _ => None,
        }
    };
}
pub(super) use compactable;

impl Deref for Placed {
    type Target = dyn Stepwise;

    #[inline]
    fn deref(&self) -> &(dyn Stepwise + 'static) {
        match self {
            Placed::Buddy(buddy) => buddy,
            Placed::Lists(lists) => lists,
            Placed::Linux(linux) => &**linux,
            Placed::FreeBsd(freebsd) => &**freebsd,
            Placed::Regions(regions) => &**regions,
            Placed::Superpageblocks(blocks) => &**blocks,
        }
    }
}

impl DerefMut for Placed {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn Stepwise + 'static) {
        match self {
            Placed::Buddy(buddy) => buddy,
            Placed::Lists(lists) => lists,
            Placed::Linux(linux) => &mut **linux,
            Placed::FreeBsd(freebsd) => &mut **freebsd,
            Placed::Regions(regions) => &mut **regions,
            Placed::Superpageblocks(blocks) => &mut **blocks,
        }
    }
}
