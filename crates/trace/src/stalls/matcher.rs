//! From the points that tasks pass to the stalls between them.

use std::collections::HashMap;

use prairie_frames::Order;

use super::Cause;
use crate::{Event, EventKind, GfpFlags, StackId, StallPoint};

/// A task that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub task: i32,
    /// Why it waited.
    pub cause: Cause,
    /// The size of the request; order 0 where the kernel does not say.
    pub order: Order,
    /// The flags of the request, in the kernel's own numbers.
    pub gfp: GfpFlags,
    /// When it began, in nanoseconds.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Nanoseconds in between that belong to stalls within this one.
    pub nested_ns: u64,
    /// Whether no other stall of the task was going on around it.
    pub outermost: bool,
    /// The call chain at the beginning.
    pub stack: StackId,
}

impl Stall {
    /// Nanoseconds from beginning to end.
    pub fn whole_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// Nanoseconds without the stalls within, so that sums count no moment twice.
    pub fn own_ns(&self) -> u64 {
        self.whole_ns().saturating_sub(self.nested_ns)
    }
}

/// Points that have no counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Mismatches {
    /// Ends of stalls that began before the events, or whose beginning was lost.
    pub ends_without_begin: u64,
    /// Beginnings that were given up: the same task began another, or events were lost.
    pub begins_without_end: u64,
    /// Stalls still going on when the events ended. They count up to that moment.
    pub unfinished: u64,
}

/// Pairs beginnings and ends, task by task.
///
/// A lost event may be the end of one stall and the beginning of the next: every stall that is open
/// when events are lost is given up, so that no duration is ever longer than the stall was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    tasks: HashMap<i32, Task>,
    mismatches: Mismatches,
}

/// The state of a thread on its way through the page allocator.
#[derive(Clone, Debug, Default)]
struct Task {
    /// Stalls that have begun, the outermost first.
    open: Vec<Open>,
    /// What the task last asked compaction for.
    request: Option<(Order, GfpFlags)>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    point: StallPoint,
    stall: Stall,
}

impl Matcher {
    /// Takes the next event, in the order of time; returns the stall that it ends.
    pub fn event(&mut self, event: &Event) -> Option<Stall> {
        match event.what {
            EventKind::Stall { point, task, order, gfp, stack, .. } => {
                let state = self.tasks.entry(task).or_default();
                if point == StallPoint::CompactRequest {
                    state.request = Some((order, gfp));
                    return None;
                }
                if let Some(begin) = point.begin() {
                    return self.end(task, begin, event.time_ns);
                }
                let (order, gfp) = match point {
                    StallPoint::CompactBegin => state.wanted().unwrap_or((order, gfp)),
                    _ => (order, gfp),
                };
                let cause = cause(point, order, state);
                let given_up = state.give_up_from(point);
                self.mismatches.begins_without_end += given_up;
                let (outermost, begin_ns) = (state.open.is_empty(), event.time_ns);
                let (pid, end_ns, nested_ns) = (event.pid, begin_ns, 0);
                let stall = Stall {
                    pid,
                    task,
                    cause,
                    order,
                    gfp,
                    begin_ns,
                    end_ns,
                    nested_ns,
                    outermost,
                    stack,
                };
                state.open.push(Open { point, stall });
                None
            }
            EventKind::Lost { .. } => {
                self.give_up_all();
                None
            }
            _ => None,
        }
    }

    /// The stalls that are going on at `now_ns`, as if they ended then. They are forgotten, and
    /// counted as unfinished.
    pub fn finish(&mut self, now_ns: u64) -> Vec<Stall> {
        let tasks: Vec<(i32, StallPoint)> = self
            .tasks
            .iter()
            .flat_map(|(&task, state)| state.open.iter().rev().map(move |open| (task, open.point)))
            .collect();
        self.mismatches.unfinished += tasks.len() as u64;
        let mut stalls: Vec<Stall> =
            tasks.into_iter().filter_map(|(task, point)| self.end(task, point, now_ns)).collect();
        stalls.sort_by_key(|stall| (stall.begin_ns, stall.task));
        stalls
    }

    /// Whether a stall of this thread is going on.
    pub fn is_stalling(&self, task: i32) -> bool {
        self.tasks.get(&task).is_some_and(|state| !state.open.is_empty())
    }

    /// Points without a counterpart so far.
    pub fn mismatches(&self) -> Mismatches {
        self.mismatches
    }

    fn end(&mut self, task: i32, begin: StallPoint, now_ns: u64) -> Option<Stall> {
        let state = self.tasks.entry(task).or_default();
        let Some(at) = state.open.iter().rposition(|open| open.point == begin) else {
            // The daemon goes to sleep twice a second without having worked.
            self.mismatches.ends_without_begin += u64::from(begin != StallPoint::DaemonWake);
            return None;
        };
        self.mismatches.begins_without_end += state.give_up(at + 1);
        let mut stall = state.open.pop()?.stall;
        stall.end_ns = now_ns.max(stall.begin_ns);
        if let Some(around) = state.open.last_mut() {
            around.stall.nested_ns += stall.whole_ns();
        } else if begin != StallPoint::CompactBegin {
            // Reclaim or the daemon's work ends what a compaction request was about.
            state.request = None;
        }
        if state.open.is_empty() && state.request.is_none() {
            self.tasks.remove(&task);
        }
        Some(stall)
    }

    fn give_up_all(&mut self) {
        let open: usize = self.tasks.values().map(|state| state.open.len()).sum();
        self.mismatches.begins_without_end += open as u64;
        self.tasks.clear();
    }
}

impl Task {
    /// The request behind a run of compaction: the one that woke the daemon, or the task's own.
    fn wanted(&self) -> Option<(Order, GfpFlags)> {
        let daemon = self.open.iter().find(|open| open.point == StallPoint::DaemonWake);
        daemon.map(|open| (open.stall.order, open.stall.gfp)).or(self.request)
    }

    /// Drops the stalls from one of `point` on: a task cannot begin the same stall twice, so its
    /// end was not seen. Returns how many.
    fn give_up_from(&mut self, point: StallPoint) -> u64 {
        let at = self.open.iter().position(|open| open.point == point);
        self.give_up(at.unwrap_or(self.open.len()))
    }

    /// Drops the stalls from the one at index `at` on, and returns how many. Stalls that ended
    /// within them were within the stall around them as well.
    fn give_up(&mut self, at: usize) -> u64 {
        let given_up = self.open.len() - at;
        let nested_ns: u64 = self.open.drain(at..).map(|open| open.stall.nested_ns).sum();
        if let Some(around) = self.open.last_mut() {
            around.stall.nested_ns += nested_ns;
        }
        given_up as u64
    }
}

fn cause(point: StallPoint, order: Order, state: &Task) -> Cause {
    match point {
        StallPoint::ReclaimBegin => Cause::DirectReclaim,
        StallPoint::CgroupReclaimBegin => Cause::CgroupLimit,
        StallPoint::DaemonWake => Cause::Kcompactd,
        _ if state.open.iter().any(|open| open.point == StallPoint::DaemonWake) => Cause::Kcompactd,
        _ if state.request.is_none() => Cause::Unrequested,
        _ if order >= Order::HUGE => Cause::HugePage,
        _ => Cause::Compaction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(time_ns: u64, task: i32, point: StallPoint, order: u8) -> Event {
        let (gfp, stack) = (GfpFlags(0xcc0), StackId::NONE);
        let order = Order::new(order).unwrap();
        let what = EventKind::Stall { point, task, order, gfp, stack, value: 0 };
        Event { time_ns, pid: task, cpu: 0, what }
    }

    /// Cause, order, own time and nesting of the stalls of a history.
    fn stalls(events: &[Event]) -> (Vec<(Cause, u8, u64, bool)>, Mismatches) {
        let mut matcher = Matcher::default();
        let found = events.iter().filter_map(|event| matcher.event(event));
        let row = |stall: Stall| (stall.cause, stall.order.get(), stall.own_ns(), stall.outermost);
        let found = found.map(row).collect();
        (found, matcher.mismatches())
    }

    use StallPoint::*;

    #[test]
    fn tasks_are_kept_apart() {
        let (found, mismatches) = stalls(&[
            at(10, 1, ReclaimBegin, 2),
            at(12, 2, ReclaimBegin, 0),
            at(20, 1, ReclaimEnd, 0),
            at(30, 2, ReclaimEnd, 0),
        ]);
        assert_eq!(
            found,
            [(Cause::DirectReclaim, 2, 10, true), (Cause::DirectReclaim, 0, 18, true)]
        );
        assert_eq!(mismatches, Mismatches::default());
    }

    #[test]
    fn runs_of_compaction_have_the_order_of_their_request() {
        let (found, _) = stalls(&[
            at(1, 1, CompactRequest, 9),
            at(2, 1, CompactBegin, 0),
            at(5, 1, CompactEnd, 0),
            at(6, 1, CompactBegin, 0),
            at(10, 1, CompactEnd, 0),
            at(11, 1, CompactRequest, 3),
            at(12, 1, CompactBegin, 0),
            at(13, 1, CompactEnd, 0),
            at(20, 2, CompactBegin, 0),
            at(27, 2, CompactEnd, 0),
        ]);
        let huge = |ns| (Cause::HugePage, 9, ns, true);
        let (small, unrequested) =
            ((Cause::Compaction, 3, 1, true), (Cause::Unrequested, 0, 7, true));
        assert_eq!(found, [huge(3), huge(4), small, unrequested]);
    }

    #[test]
    fn no_moment_counts_twice() {
        let (found, mismatches) = stalls(&[
            at(0, 50, DaemonSleep, 0),
            at(10, 50, DaemonWake, 9),
            at(12, 50, CompactBegin, 0),
            at(20, 50, CompactEnd, 0),
            at(25, 50, DaemonSleep, 0),
        ]);
        assert_eq!(found, [(Cause::Kcompactd, 9, 8, false), (Cause::Kcompactd, 9, 7, true)]);
        assert_eq!(mismatches, Mismatches::default());
    }

    #[test]
    fn what_is_lost_never_makes_a_stall_longer() {
        let lost = Event { time_ns: 15, pid: -1, cpu: 0, what: EventKind::Lost { count: 2 } };
        let (found, mismatches) =
            stalls(&[at(10, 1, ReclaimBegin, 0), lost, at(90, 1, ReclaimEnd, 0)]);
        assert!(found.is_empty());
        assert_eq!((mismatches.begins_without_end, mismatches.ends_without_begin), (1, 1));
        // The end was not seen, though nothing was reported lost.
        let (found, mismatches) = stalls(&[
            at(10, 1, ReclaimBegin, 0),
            at(50, 1, ReclaimBegin, 0),
            at(53, 1, ReclaimEnd, 0),
        ]);
        assert_eq!(found, [(Cause::DirectReclaim, 0, 3, true)]);
        assert_eq!(mismatches.begins_without_end, 1);
    }

    #[test]
    fn what_ended_within_a_lost_stall_belongs_to_the_stall_around_it() {
        let begin = [
            at(0, 50, DaemonWake, 9),
            at(1, 50, ReclaimBegin, 0),
            at(2, 50, CompactBegin, 0),
            at(5, 50, CompactEnd, 0),
        ];
        let compaction = (Cause::Kcompactd, 9, 3, false);
        // The daemon sleeps, so its reclaim is over.
        let (found, mismatches) =
            stalls(&[begin.as_slice(), &[at(9, 50, DaemonSleep, 0)]].concat());
        assert_eq!(found, [compaction, (Cause::Kcompactd, 9, 6, true)]);
        assert_eq!(mismatches.begins_without_end, 1);
        // It begins to reclaim again, so its reclaim before is over.
        let again =
            [at(7, 50, ReclaimBegin, 0), at(8, 50, ReclaimEnd, 0), at(9, 50, DaemonSleep, 0)];
        let (found, mismatches) = stalls(&[begin.as_slice(), &again].concat());
        let reclaim = (Cause::DirectReclaim, 0, 1, false);
        assert_eq!(found, [compaction, reclaim, (Cause::Kcompactd, 9, 5, true)]);
        assert_eq!(mismatches.begins_without_end, 1);
    }

    #[test]
    fn what_goes_on_at_the_end_counts_up_to_it() {
        let mut matcher = Matcher::default();
        assert_eq!(matcher.event(&at(10, 1, CgroupReclaimBegin, 0)), None);
        let left = matcher.finish(14);
        assert_eq!((left.len(), left[0].own_ns(), left[0].cause), (1, 4, Cause::CgroupLimit));
        assert_eq!(matcher.mismatches().unfinished, 1);
        assert!(matcher.finish(20).is_empty());
    }

    proptest! {
        /// Any points in any order: own times of a task add up to no more than the time that
        /// passed, and every beginning is accounted for.
        #[test]
        fn own_times_fit_into_the_time(
            steps in prop::collection::vec((0..3i32, 0..10usize, 0..12u8), 0..200)
        ) {
            let mut matcher = Matcher::default();
            let (mut own, mut begun, mut ended) = (HashMap::new(), 0u64, 0u64);
            for (time, &(task, point, order)) in (0u64..).zip(&steps) {
                let event = match StallPoint::ALL.get(point) {
                    Some(&point) => at(time, task, point, order),
                    None => Event { time_ns: time, pid: -1, cpu: 0, what: EventKind::Lost { count: 1 } },
                };
                begun += u64::from(StallPoint::ALL.get(point).is_some_and(|p| p.is_begin()));
                if let Some(stall) = matcher.event(&event) {
                    ended += 1;
                    *own.entry(stall.task).or_insert(0) += stall.own_ns();
                }
            }
            let left = matcher.finish(steps.len() as u64);
            for stall in &left {
                *own.entry(stall.task).or_insert(0) += stall.own_ns();
            }
            prop_assert!(own.values().all(|&ns| ns <= steps.len() as u64));
            prop_assert_eq!(begun, ended + left.len() as u64 + matcher.mismatches().begins_without_end);
        }
    }
}
