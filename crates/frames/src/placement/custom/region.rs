//! A range of frames with free lists of its own: blocks never merge across its ends.

use alloc::vec::Vec;

use crate::Order;
use crate::free_area::FreeArea;
use crate::layout::Frame;

/// Free lists of each order in a region, by number from 0.
pub const LISTS: usize = 8;

/// The most regions, so that a place of a plan fits a byte.
pub(crate) const MAX_REGIONS: usize = 30;

/// A zone, or a part of one.
#[derive(Clone, Debug)]
pub struct Region {
    /// The zone, as an index into [`Layout::zones`](crate::Layout::zones).
    pub zone: usize,
    /// First frame.
    pub start: Frame,
    /// One past the last frame.
    pub end: Frame,
    pub(super) area: FreeArea<LISTS>,
}

impl Region {
    pub(super) fn new(zone: usize, start: Frame, end: Frame) -> Region {
        let area = FreeArea::new(start..end, Order::LARGEST_FREE);
        Region { zone, start, end, area }
    }

    /// Frames on its free lists.
    pub fn free_frames(&self) -> u64 {
        self.area.free_frames()
    }

    /// Blocks of `order` on `list`; none on a list that does not exist.
    pub fn blocks(&self, order: Order, list: usize) -> u64 {
        match list < LISTS && order <= Order::LARGEST_FREE {
            true => u64::from(self.area.list(order, list).len()),
            false => 0,
        }
    }

    /// Blocks by order over all lists.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.area.counts()[..=Order::LARGEST_FREE.index()].to_vec()
    }
}
