//! The placement of a machine, whichever it is.

use std::ops::{Deref, DerefMut};

use frames::placement::buddy::Buddy;
use frames::placement::linux::Linux;
use frames::placement::lists::Lists;
use frames::placement::regions::Regions;
use frames::placement::stepwise::Stepwise;

/// One of the placements that a machine can run. Only Linux's can be compacted by Linux's
/// compaction, which asks more of a placement than others have to give.
pub enum Placed {
    /// One free list per order; with a movable zone in the layout, `zones` as well.
    Buddy(Buddy),
    /// Two or three lists per order.
    Lists(Lists),
    /// Linux 6.1.
    Linux(Box<Linux>),
    /// Two regions.
    Regions(Box<Regions>),
}

impl Placed {
    /// Linux's, if it is that.
    pub fn linux_mut(&mut self) -> Option<&mut Linux> {
        match self {
            Placed::Linux(linux) => Some(linux),
            _ => None,
        }
    }
}

impl Deref for Placed {
    type Target = dyn Stepwise;

    #[inline]
    fn deref(&self) -> &(dyn Stepwise + 'static) {
        match self {
            Placed::Buddy(buddy) => buddy,
            Placed::Lists(lists) => lists,
            Placed::Linux(linux) => &**linux,
            Placed::Regions(regions) => &**regions,
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
            Placed::Regions(regions) => &mut **regions,
        }
    }
}
