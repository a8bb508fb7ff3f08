//! One tree: its free blocks, what it is for, and how well it suits a request.

use core::ops::Range;

use super::Class;
use crate::Order;
use crate::free_area::FreeArea;
use crate::layout::Frame;
use crate::table::{FrameTable, State};

/// Some pageblocks of a zone.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) range: Range<Frame>,
    pub(super) area: FreeArea<1>,
    /// The class it serves; `None` while it is completely free and unassigned.
    pub(super) class: Option<Class>,
    /// Whether a CPU has it reserved.
    pub(super) reserved: bool,
    /// Frames that are free when nothing of it is in use.
    pub(super) capacity: u64,
}

impl Tree {
    pub(super) fn new(range: Range<Frame>) -> Tree {
        let area = FreeArea::new(range.clone(), Order::LARGEST_FREE);
        Tree { range, area, class: None, reserved: false, capacity: 0 }
    }

    /// Takes its class from what was found in it. Memory that was never the allocator's makes it
    /// one of the kernel's.
    pub(super) fn start(&mut self, table: &FrameTable) {
        let (mut at, end) = (self.range.start, self.range.end);
        while at < end {
            let order = table.order(at);
            let (found, frames) = (table.state(at), order.frames());
            if !matches!(found, State::Absent | State::Reserved) {
                self.capacity += frames;
            }
            if matches!(found, State::Allocated | State::Reserved) {
                let class = match table.mobility(at) {
                    crate::Mobility::Movable if order >= Order::HUGE => Class::Huge,
                    crate::Mobility::Movable => Class::Movable,
                    _ => Class::Unmovable,
                };
                self.class = Some(self.class.map_or(class, |other| other.min(class)));
            }
            at = at.offset(frames);
        }
    }

    pub(super) fn is_wholly_free(&self) -> bool {
        self.area.free_frames() == self.capacity && self.capacity > 0
    }

    /// Whether it serves a class and has a block for a request.
    pub(super) fn serves(&self, order: Order, class: Class) -> bool {
        self.class == Some(class) && self.area.has_block(order)
    }

    /// How well it suits a CPU that looks for a tree to reserve, 0 best: up to half free and not
    /// nearly full (LLFree's "perfect"), freer ("good"), nearly full.
    pub(super) fn fit(&self) -> u8 {
        let free = self.area.free_frames();
        match free {
            _ if free < self.capacity / 64 => 2,
            _ if free < self.capacity / 2 => 0,
            _ => 1,
        }
    }

    /// Removes its class if it is wholly free and not reserved.
    pub(super) fn settle(&mut self) {
        if !self.reserved && self.is_wholly_free() {
            self.class = None;
        }
    }

    /// # Panics
    /// If what it knows contradicts the table.
    pub(super) fn validate(&self, table: &FrameTable) {
        self.area.validate(table);
        assert!(self.area.free_frames() <= self.capacity, "{:?}", self.range);
        let is_free = self.area.free_frames() == self.capacity;
        assert!(self.class.is_some() || is_free, "{:?} is in use and unassigned", self.range);
    }
}
