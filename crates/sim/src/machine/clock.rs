//! Simulated time: the schedule of actors on CPUs.
//!
//! An actor that is woken waits for a CPU, runs a slice of work whose length it tells afterwards,
//! and then runs again, sleeps or ends. Equal times are served in the order in which they were
//! asked for, so that a run depends on nothing but its input.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A process or daemon that runs on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A process, by its number and how often the number was used before.
    Process(u32, u32),
    /// The reclaim daemon of a node.
    Kswapd(u16),
    /// The compaction daemon of a node.
    Kcompactd(u16),
    /// The check of a node's fragmentation score.
    Proactive(u16),
    /// The work of a node's placement off the allocation path.
    Upkeep(u16),
    /// The daemon that makes huge pages out of small ones.
    Khugepaged,
    /// The daemon that writes dirty pages back.
    Flusher,
    /// A kind of kernel object that comes and goes.
    KernelObjects(u32),
    /// Arrival of new processes of a kind.
    Arrivals(u32),
    /// The daemon that moves memory blocks between zones.
    RegionsDaemon,
}

impl Actor {
    /// Whether it runs before processes. khugepaged has the least priority of all.
    const fn is_daemon(self) -> bool {
        !matches!(self, Actor::Process(..) | Actor::Arrivals(_) | Actor::Khugepaged)
    }
}

/// What becomes of an actor after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has more to do.
    Again,
    /// It has nothing to do before this time.
    SleepUntil(u64),
    /// It sleeps until it is woken.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(Actor),
    SliceOver { cpu: u16, actor: Actor },
}

/// The queue of what is to come.
#[derive(Clone, Debug)]
pub struct Clock {
    now_ns: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Daemons that run before all others, in round-robin order.
    daemons: VecDeque<Actor>,
    ready: VecDeque<Actor>,
    /// Whether daemons stay first until they sleep.
    daemons_first: bool,
    idle: Vec<u16>,
    /// The next state of each running actor after its slice.
    after: Vec<Next>,
    busy_ns: u64,
    served: u64,
}

impl Clock {
    /// A clock at 0 with `cpus` idle CPUs. A daemon that is woken runs next; with `daemons_first` it
    /// stays before processes until it sleeps, as who has slept more than others does since Linux
    /// 2.6.23, otherwise it lines up after a slice.
    pub fn new(cpus: u16, daemons_first: bool) -> Clock {
        Clock {
            now_ns: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            daemons: VecDeque::new(),
            ready: VecDeque::new(),
            daemons_first,
            idle: (0..cpus).rev().collect(),
            after: vec![Next::Wait; usize::from(cpus)],
            busy_ns: 0,
            served: 0,
        }
    }

    /// Nanoseconds since the machine started.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Nanoseconds that CPUs were busy, over all of them.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Slices begun.
    pub fn slices(&self) -> u64 {
        self.served
    }

    /// Wakes `actor` at `at_ns`, or now if that is past. An actor must not be woken twice.
    pub fn wake(&mut self, at_ns: u64, actor: Actor) {
        self.push(at_ns.max(self.now_ns), Event::Wake(actor));
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    /// The next actor to run, and its CPU; `None` once no event is left up to `until_ns`, where
    /// the clock then stands.
    pub fn next(&mut self, until_ns: u64) -> Option<(Actor, u16)> {
        loop {
            if !self.idle.is_empty()
                && let Some(actor) = self.daemons.pop_front().or_else(|| self.ready.pop_front())
            {
                let cpu = self.idle.pop().expect("just seen");
                self.served += 1;
                return Some((actor, cpu));
            }
            match self.events.peek() {
                Some(&Reverse((at, _, event))) if at <= until_ns => {
                    self.events.pop();
                    self.now_ns = at;
                    self.happen(event);
                }
                _ => {
                    self.now_ns = self.now_ns.max(until_ns);
                    return None;
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            // A daemon that is woken preempts at the end of the next slice.
            Event::Wake(actor) if actor.is_daemon() && !self.daemons_first => {
                self.ready.push_front(actor);
            }
            Event::Wake(actor) => self.line_up(actor),
            Event::SliceOver { cpu, actor } => {
                self.idle.push(cpu);
                match self.after[usize::from(cpu)] {
                    Next::Again => self.line_up(actor),
                    Next::SleepUntil(at) if at <= self.now_ns => self.line_up(actor),
                    Next::SleepUntil(at) => self.push(at, Event::Wake(actor)),
                    Next::Wait => {}
                }
            }
        }
    }

    fn line_up(&mut self, actor: Actor) {
        let first = self.daemons_first && actor.is_daemon();
        if first { &mut self.daemons } else { &mut self.ready }.push_back(actor);
    }

    /// Sets the length of the slice of `actor` on `cpu`, and what follows.
    pub fn slice(&mut self, actor: Actor, cpu: u16, took_ns: u64, next: Next) {
        self.busy_ns += took_ns;
        self.after[usize::from(cpu)] = next;
        self.push(self.now_ns + took_ns, Event::SliceOver { cpu, actor });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Actor = Actor::Process(0, 0);
    const B: Actor = Actor::Process(1, 0);
    const C: Actor = Actor::Process(2, 0);

    #[test]
    fn two_cpus_serve_three_in_turn() {
        let mut clock = Clock::new(2, true);
        for actor in [A, B, C] {
            clock.wake(0, actor);
        }
        let mut order = Vec::new();
        while let Some((actor, cpu)) = clock.next(35) {
            order.push((clock.now_ns(), actor));
            clock.slice(actor, cpu, 10, Next::Again);
        }
        // A and B run first; C takes the first CPU that is free, and they go round.
        let expected = [(0, A), (0, B), (10, C), (10, A), (20, B), (20, C), (30, A), (30, B)];
        assert_eq!(order, expected);
        assert_eq!(clock.now_ns(), 35);
        assert_eq!(clock.busy_ns(), 80);
    }

    #[test]
    fn daemons_run_in_turn_before_processes_until_they_sleep() {
        let (kswapd, flusher) = (Actor::Kswapd(0), Actor::Flusher);
        let order = |daemons_first| {
            let mut clock = Clock::new(1, daemons_first);
            for actor in [A, kswapd, flusher] {
                clock.wake(0, actor);
            }
            let (mut order, mut rounds) = (Vec::new(), 0);
            while let Some((actor, cpu)) = clock.next(55) {
                order.push(actor);
                rounds += u32::from(actor == kswapd);
                let rests = actor == flusher || (actor == kswapd && rounds == 3);
                clock.slice(actor, cpu, 10, if rests { Next::Wait } else { Next::Again });
            }
            order
        };
        assert_eq!(order(true), [A, kswapd, flusher, kswapd, kswapd, A]);
        assert_eq!(order(false), [A, flusher, kswapd, A, kswapd, A]);
    }

    #[test]
    fn sleepers_return_in_time_and_waiters_only_when_woken() {
        let mut clock = Clock::new(1, true);
        clock.wake(5, A);
        clock.wake(5, B);
        let (first, cpu) = clock.next(100).unwrap();
        assert_eq!((clock.now_ns(), first), (5, A));
        clock.slice(A, cpu, 10, Next::SleepUntil(50));
        let (second, cpu) = clock.next(100).unwrap();
        assert_eq!((clock.now_ns(), second), (15, B));
        clock.slice(B, cpu, 1, Next::Wait);
        let (third, cpu) = clock.next(100).unwrap();
        assert_eq!((clock.now_ns(), third), (50, A));
        clock.slice(A, cpu, 1, Next::Wait);
        assert_eq!(clock.next(100), None);
        clock.wake(0, B);
        assert_eq!(clock.next(100).unwrap().0, B);
    }
}
