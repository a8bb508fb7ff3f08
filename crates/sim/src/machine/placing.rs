//! The placement of a machine, whichever it is.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_model::allocator::AnyStepwise;

/// One of the placements that a machine can run. Linux's compaction asks more of a placement than
/// most have to give ([`Compactable`](prairie_frames::compaction::Compactable)).
pub enum Placed {
    /// Linux 6.1.
    Linux(Box<Linux>),
    /// FreeBSD's `vm_phys`.
    FreeBsd(Box<FreeBsd>),
    /// Two regions.
    Regions(Box<Regions>),
    /// Gigabytes clean or tainted.
    Superpageblocks(Box<Superpageblocks>),
    /// Any other policy, without upkeep by the machine.
    Other(AnyStepwise),
}

impl From<AnyStepwise> for Placed {
    fn from(placement: AnyStepwise) -> Placed {
        let any: &dyn Any = &*placement;
        if any.is::<Linux>() {
            Placed::Linux(own(placement))
        } else if any.is::<FreeBsd>() {
            Placed::FreeBsd(own(placement))
        } else if any.is::<Regions>() {
            Placed::Regions(own(placement))
        } else if any.is::<Superpageblocks>() {
            Placed::Superpageblocks(own(placement))
        } else {
            Placed::Other(placement)
        }
    }
}

/// A placement as the type that it is.
fn own<P: Stepwise>(placement: AnyStepwise) -> Box<P> {
    let any: Box<dyn Any> = placement;
    any.downcast().expect("the type was just looked up")
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
            Placed::Linux(linux) => &**linux,
            Placed::FreeBsd(freebsd) => &**freebsd,
            Placed::Regions(regions) => &**regions,
            Placed::Superpageblocks(blocks) => &**blocks,
            Placed::Other(placement) => &**placement,
        }
    }
}

impl DerefMut for Placed {
    #[inline]
    fn deref_mut(&mut self) -> &mut (dyn Stepwise + 'static) {
        match self {
            Placed::Linux(linux) => &mut **linux,
            Placed::FreeBsd(freebsd) => &mut **freebsd,
            Placed::Regions(regions) => &mut **regions,
            Placed::Superpageblocks(blocks) => &mut **blocks,
            Placed::Other(placement) => &mut **placement,
        }
    }
}
