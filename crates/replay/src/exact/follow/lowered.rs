//! Updates of statistics before the record has the kernel's numbers, that drained nothing.
//!
//! They lower the high mark of a CPU's lists by an eighth, and leave no event. The first numbers of those
//! lists show by how much the mark is too high, and so when it was lowered: refills raise it step by
//! step, and each step has its own eighth.

use prairie_frames::placement::linux::Tuning;

use super::Follow;
use crate::exact::script::Moment;
use crate::exact::step::Step;

/// A high mark that an update of statistics lowered before an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lowered {
    pub(super) act: usize,
    pub(super) zone: usize,
    pub(super) cpu: u16,
    /// The mark from then on.
    pub(super) high: u32,
}

/// The high mark of a CPU's lists until an act changed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    act: usize,
    high: u32,
    /// The mark that an update of statistics would have left just before.
    lowered: u32,
}

impl Follow<'_> {
    /// Lowers the high marks that are known to have been lowered before an act.
    pub(super) fn lower_before(&mut self, index: usize) {
        for &Lowered { zone, cpu, high, .. } in
            self.known.lowered.iter().filter(|it| it.act == index)
        {
            let tuning = self.machine.linux.tuning(zone, cpu);
            self.machine.linux.set_tuning(zone, cpu, Tuning { high, ..tuning });
            self.result.script.add(Moment::before(index), Step::Lower { zone, cpu, high });
        }
    }

    /// The high marks of a CPU's lists that have no reading yet, by zone, before an act.
    pub(super) fn marks_before(&mut self, index: usize, cpu: u16) -> Vec<(usize, Mark)> {
        let unread = |zone: &usize| self.marks[*zone][usize::from(cpu)].is_some();
        let zones = (0..self.marks.len()).filter(unread);
        let lists = &mut self.machine.linux;
        let marks = zones.filter_map(|zone| {
            let before = lists.tuning(zone, cpu);
            let excess = lists.lower_high(zone, cpu);
            let lowered = lists.tuning(zone, cpu).high;
            lists.set_tuning(zone, cpu, before);
            let unseen = excess == 0 && lowered < before.high;
            unseen.then_some((zone, Mark { act: index, high: before.high, lowered }))
        });
        marks.collect()
    }

    /// Keeps those of a CPU's high marks that have changed since.
    pub(super) fn keep_changed(&mut self, cpu: u16, marks: Vec<(usize, Mark)>) {
        for (zone, mark) in marks {
            if self.machine.linux.tuning(zone, cpu).high != mark.high
                && let Some(marks) = &mut self.marks[zone][usize::from(cpu)]
            {
                marks.push(mark);
            }
        }
    }

    /// Finds out, from the first reading of a CPU's lists, when their high mark was lowered unseen.
    pub(super) fn find_lowered(&mut self, zone: usize, cpu: u16, high: u32) {
        let Some(marks) = self.marks[zone][usize::from(cpu)].take() else { return };
        let known = self.known.lowered.iter().any(|it| (it.zone, it.cpu) == (zone, cpu));
        let surplus = self.machine.linux.tuning(zone, cpu).high.saturating_sub(high);
        let mut fits = marks.into_iter().rev().filter(|mark| mark.high - mark.lowered == surplus);
        if surplus > 0
            && !known
            && let Some(Mark { act, lowered, .. }) = fits.next()
        {
            self.found.lowered.push(Lowered { act, zone, cpu, high: lowered });
        }
    }
}
