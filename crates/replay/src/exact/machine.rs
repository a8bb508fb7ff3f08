//! A frame table and the `linux` placement on it, and how to put a recorded kernel's differences
//! right on them.

use prairie_frames::free_area::End;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::Placement;
use prairie_frames::placement::linux::{Config, Linux, Pageset};
use prairie_frames::table::State;
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order};

use super::onlined::ZoneSize;
use super::opening::Opening;
use super::recording::Recording;

/// The machine that the recorded events are played on.
#[derive(Clone)]
pub struct Machine {
    /// The state of every frame. Owners are recorded frames.
    pub table: FrameTable,
    /// The placement under test.
    pub linux: Linux,
    /// CPUs that have lists.
    pub cpus: u16,
}

impl Machine {
    /// A machine as it was when the trace began, with per-CPU lists that hold nothing yet. Where the
    /// record says when watermarks were set, there are none until then: most of a large memory is
    /// not initialized yet, and would be below them.
    pub fn open(recording: &Recording, config: Config, opening: &Opening) -> Machine {
        let layout = &recording.layout;
        let mut machine = Machine::with_owners(layout, config, opening, layout.frames());
        if recording.names_limits {
            for zone in 0..layout.zones().len() {
                machine.linux.set_watermarks(zone, Watermarks::default());
            }
        }
        machine
    }

    /// The same with room for `owners` owners in the frame table.
    pub fn with_owners(layout: &Layout, config: Config, opening: &Opening, owners: u64) -> Machine {
        let mut table = FrameTable::with_owners(layout.frames(), owners);
        let mut linux = Linux::new(layout, config);
        for zone in 0..layout.zones().len() {
            linux.set_pageset(zone, Pageset::BOOT);
        }
        for zone in layout.zones() {
            let blocks = zone.start.pageblock()..=Frame(zone.end.0 - 1).pageblock();
            for block in blocks.filter(|block| !opening.holes.contains(block)) {
                linux.mark_pageblock(block, opening.pageblocks[block]);
            }
        }
        for &(frame, order, migrate_type) in &opening.free {
            table.add_memory(frame, order);
            linux.put(&mut table, frame, order, migrate_type);
        }
        linux.start(&mut table);
        Machine { table, linux, cpus: config.cpus_per_node }
    }

    /// Hands memory over as late initialization does, or memory that comes online: to the tail, and
    /// movable from the pageblock's first frame on.
    pub fn hand_over(&mut self, frame: Frame, order: Order) {
        if frame.align_down(Order::HUGE) == frame {
            for block in (0..order.frames()).step_by(Order::HUGE.frames() as usize) {
                let pageblock = frame.offset(block).pageblock();
                self.linux.mark_pageblock(pageblock, MigrateType::Movable);
            }
        }
        self.claim(frame, order);
        self.hold(frame, order, MigrateType::Movable, frame);
        self.linux.free_to_buddy(&mut self.table, frame, Some(End::Tail));
    }

    /// Isolates a pageblock with what is free in it.
    pub fn isolate(&mut self, frame: Frame) {
        self.linux.move_pageblock(&mut self.table, frame, MigrateType::Isolate);
    }

    /// Takes a pageblock out of the machine. Returns whether all of it was free.
    pub fn remove(&mut self, frame: Frame) -> bool {
        let frames = (0..Order::HUGE.frames()).map(|inside| frame.offset(inside));
        let is_free = |frame| self.head_of(frame).is_some_and(|(_, state)| state == State::Free);
        let all_free = frames.clone().all(is_free);
        if !self.linux.carve(&mut self.table, frame, Order::HUGE) {
            for frame in frames {
                self.claim(frame, Order::BASE);
            }
        }
        self.linux.forget_pageblock(frame);
        all_free
    }

    /// Sets what depends on the sizes of the zones.
    pub fn set_sizes(&mut self, sizes: &[ZoneSize]) {
        for (zone, size) in sizes.iter().enumerate() {
            self.linux.set_size(zone, size.managed, size.lowmem_reserve);
        }
    }

    /// Gives a block that is on no list and not in use to `owner`.
    pub fn hold(&mut self, frame: Frame, order: Order, migrate_type: MigrateType, owner: Frame) {
        if (0..order.frames()).any(|inside| self.head_of(frame.offset(inside)).is_some()) {
            self.force(frame, order);
        }
        let mobility = prairie_frames::table::mobility_of(migrate_type);
        self.table.allocate(frame, order, mobility, owner.0);
    }

    /// Makes the block at `frame` one that is on no list, whatever it was: in use as such, in
    /// parts or as part of a larger block; not there yet; or free, against expectation. Returns
    /// whether any of it was free.
    pub fn claim(&mut self, frame: Frame, order: Order) -> bool {
        if self.table.state(frame) == State::Allocated && self.table.order(frame) == order {
            self.table.release(frame);
            return false;
        }
        let mut was_free = false;
        for inside in 0..order.frames() {
            was_free |= self.claim_one(frame.offset(inside));
        }
        was_free
    }

    fn claim_one(&mut self, frame: Frame) -> bool {
        let Some((head, state)) = self.head_of(frame) else {
            return false;
        };
        match state {
            State::Absent => {
                self.table.add_memory(frame, Order::BASE);
                false
            }
            State::Allocated => {
                let mut head = head;
                while self.table.order(head) > Order::BASE {
                    self.table.split_allocated(head);
                    let half = head.offset(self.table.order(head).frames());
                    if frame >= half {
                        head = half;
                    }
                }
                self.table.release(frame);
                false
            }
            State::Free => self.linux.carve(&mut self.table, frame, Order::BASE),
            State::Cached => {
                let order = self.table.order(head);
                for cpu in 0..self.cpus {
                    if self.linux.uncache(&mut self.table, cpu, head) {
                        break;
                    }
                }
                // The rest of the block is on no list and not in use.
                for inside in 0..order.frames() {
                    let other = head.offset(inside);
                    if other != frame {
                        self.hold(other, Order::BASE, MigrateType::Unmovable, other);
                    }
                }
                true
            }
            State::Reserved | State::Inside => false,
        }
    }

    /// The first frame of the block that contains `frame`, and what that is; `None` for a frame
    /// that is on no list and not in use.
    pub fn head_of(&self, frame: Frame) -> Option<(Frame, State)> {
        if self.table.state(frame) != State::Inside {
            return Some((frame, self.table.state(frame)));
        }
        for order in 1..=Order::GIGANTIC.get().min(10) {
            let order = Order::new(order)?;
            let head = frame.align_down(order);
            let state = self.table.state(head);
            if matches!(state, State::Free | State::Allocated | State::Cached)
                && head.offset(self.table.order(head).frames()) > frame
            {
                return Some((head, state));
            }
        }
        None
    }

    /// Takes exactly this block from wherever it is: from the free lists if it is on them.
    /// Returns whether it was.
    pub fn force(&mut self, frame: Frame, order: Order) -> bool {
        if self.linux.carve(&mut self.table, frame, order) {
            return true;
        }
        self.claim(frame, order);
        false
    }

    /// Puts a block that was just taken from the free lists by mistake back where it was: since 6.10
    /// on a list of its pageblock's type, whatever was asked for. A pageblock that was claimed for it
    /// stays claimed.
    pub fn undo_take(&mut self, frame: Frame, order: Order, migrate_type: MigrateType) {
        let list = match self.linux.lists_by_type() {
            true => self.linux.pageblock_type(frame),
            false => migrate_type,
        };
        self.linux.give_to_lists(&mut self.table, frame, order, list, Some(End::Head));
    }
}

#[cfg(test)]
mod tests {
    use prairie_frames::KernelVersion;
    use prairie_frames::layout::ZoneSpan;
    use prairie_frames::{Pfn, ZoneKind};

    use super::*;

    /// A machine of four pageblocks, of which the first two are there and free.
    fn machine() -> Machine {
        machine_of(KernelVersion::V6_1)
    }

    fn machine_of(version: KernelVersion) -> Machine {
        let span = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: 2048,
            managed: 1024,
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        };
        let layout = Layout::new(vec![span]).unwrap();
        let opening = Opening {
            free: vec![(Frame(0), Order::LARGEST_FREE, MigrateType::Movable)],
            unshown: Vec::new(),
            pageblocks: vec![MigrateType::Movable; 4],
            holes: vec![2, 3],
            silent_pageblocks: Vec::new(),
            settled: 0,
        };
        let recording = Recording::empty(layout, version);
        Machine::open(&recording, Config::of(version), &opening)
    }

    /// Pageblocks of the types Movable and Isolate, and free blocks of the largest order on their lists.
    fn counts(machine: &Machine) -> [u64; 4] {
        let types = [MigrateType::Movable, MigrateType::Isolate];
        let pageblocks = machine.linux.pageblocks(0).unwrap();
        let free = machine.linux.free_blocks(0);
        let largest = |t| free.iter().find(|list| list.0 == t).unwrap().1[10];
        let [one, other] = types;
        [pageblocks[one.index()], pageblocks[other.index()], largest(one), largest(other)]
    }

    #[test]
    fn memory_that_comes_online_counts_from_then_on_and_is_used_last() {
        let mut machine = machine();
        assert_eq!(counts(&machine), [2, 0, 1, 0]);
        machine.hand_over(Frame(1024), Order::LARGEST_FREE);
        assert_eq!(counts(&machine), [4, 0, 2, 0]);
        let Machine { table, linux, .. } = &mut machine;
        let first = linux.take_from_lists(table, 0, Order::BASE, MigrateType::Movable);
        assert_eq!(first, Some(Frame(0)));
    }

    #[test]
    fn memory_goes_offline_and_comes_back() {
        let mut machine = machine();
        machine.hand_over(Frame(1024), Order::LARGEST_FREE);
        for block in [0, 512] {
            machine.isolate(Frame(block));
        }
        assert_eq!(counts(&machine)[..3], [2, 2, 1]);
        assert!([0, 512].into_iter().all(|block| machine.remove(Frame(block))));
        assert_eq!(counts(&machine), [2, 0, 1, 0]);
        machine.hand_over(Frame(0), Order::LARGEST_FREE);
        assert_eq!(counts(&machine), [4, 0, 2, 0]);
        let Machine { table, linux, .. } = &mut machine;
        let first = linux.take_from_lists(table, 0, Order::BASE, MigrateType::Movable);
        assert_eq!(first, Some(Frame(1024)));
    }

    /// Neither pageblock can be claimed for the frame, which is taken from a movable one, and goes back
    /// there.
    #[test]
    fn a_steal_that_is_undone_leaves_the_lists_as_they_were() {
        let mut machine = machine_of(KernelVersion::new(6, 12));
        for frame in (0..1024).filter(|frame| frame % 3 > 0) {
            machine.force(Frame(frame), Order::BASE);
            machine.hold(Frame(frame), Order::BASE, MigrateType::Movable, Frame(frame));
        }
        let before = machine.linux.free_blocks(0);
        let Machine { table, linux, .. } = &mut machine;
        let taken = linux.take_from_lists(table, 0, Order::BASE, MigrateType::Unmovable).unwrap();
        machine.undo_take(taken, Order::BASE, MigrateType::Unmovable);
        machine.linux.validate(&machine.table);
        assert_eq!(machine.linux.free_blocks(0), before);
    }

    #[test]
    fn what_is_in_use_does_not_go_offline() {
        let mut machine = machine();
        let Machine { table, linux, .. } = &mut machine;
        let taken = linux.take_from_lists(table, 0, Order::BASE, MigrateType::Movable).unwrap();
        machine.hold(taken, Order::BASE, MigrateType::Movable, taken);
        machine.isolate(Frame(0));
        assert!(!machine.remove(Frame(0)));
    }
}
