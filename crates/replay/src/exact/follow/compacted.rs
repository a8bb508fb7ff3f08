//! What compaction takes from the free lists, and how it leaves them.

use prairie_frames::table::State;
use prairie_frames::{Frame, MigrateType, Order};

use super::Follow;
use crate::exact::act::Act;
use crate::exact::where_is;

impl Follow<'_> {
    /// Compaction takes a block, whose frames then wait one by one for what will move into them.
    pub(super) fn isolated(&mut self, index: usize, act: &Act, searched: bool) {
        let (frame, order) = (act.frame, act.order);
        let is_there = self.machine.table.is_free_block(frame, order);
        if index >= self.scored_from {
            let (layout, machine) = (&self.recording.layout, &self.machine);
            let told = is_there.then(|| layout.pfn(frame));
            self.result
                .isolated
                .count(index, layout.pfn(frame), told, order, || where_is(machine, frame));
        }
        if is_there && searched {
            self.machine.linux.turn_list(&mut self.machine.table, frame);
        }
        self.machine.force(frame, order);
        for inside in 0..order.frames() {
            let frame = frame.offset(inside);
            self.machine.hold(frame, Order::BASE, MigrateType::Movable, frame);
        }
    }

    /// A search of the free lists without a result rotates them, too, and leaves no event. It shows
    /// in a wrong guess where the recorded block is further down the same list: from there on the
    /// list continues unchanged.
    pub(super) fn turn_back(&mut self, index: usize, act: &Act, guessed: Frame) {
        let compacts = self.recording.reclaim.is_some_and(|reclaim| index >= reclaim);
        let free = |frame| self.machine.head_of(frame).filter(|(_, state)| *state == State::Free);
        let (Some((found, _)), Some((head, _))) = (free(act.frame), free(guessed)) else { return };
        let table = &self.machine.table;
        let list = |frame| (table.order(frame), table.list(frame));
        if compacts
            && found == act.frame
            && list(found) == list(head)
            && usize::from(table.list(found)) == MigrateType::Movable.index()
        {
            self.machine.linux.turn_list(&mut self.machine.table, found);
            self.result.hidden.turned += 1;
        }
    }

    /// A pageblock got another type. Where it joins or leaves the atomic reserve, what is free in it
    /// goes along; where compaction took most of it, nothing is left to go.
    pub(super) fn retyped(&mut self, act: &Act, migrate_type: MigrateType) {
        let before = self.machine.linux.pageblock_type(act.frame);
        if [before, migrate_type].contains(&MigrateType::HighAtomic) {
            let machine = &mut self.machine;
            machine.linux.move_pageblock(&mut machine.table, act.frame, migrate_type);
        } else {
            self.machine.linux.set_pageblock_type(act.frame, migrate_type);
        }
    }

    /// A pageblock got another type, and what is free in it goes along.
    pub(super) fn regrouped(&mut self, act: &Act, migrate_type: MigrateType) {
        let machine = &mut self.machine;
        machine.linux.move_pageblock(&mut machine.table, act.frame, migrate_type);
    }

    /// The search for a pageblock to empty ended at this free block.
    pub(super) fn picked(&mut self, act: &Act) {
        if self.machine.table.state(act.frame) == State::Free {
            self.machine.linux.turn_list_past(&mut self.machine.table, act.frame);
        }
    }
}
