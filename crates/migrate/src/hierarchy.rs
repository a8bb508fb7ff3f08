//! The memory hierarchy in time: what an access to a physical line costs once the caches, the
//! directory, the mesh, memory and the metadata table of Contiguitas-HW have had their say.
//!
//! Every request that a private cache cannot serve is one transaction at the last-level cache, as
//! in the transaction layer of the checked protocol; [`Table::route`] decides where its data is at
//! home and under which opposite name private copies have to go first.

mod redirect;

use serde::Serialize;

use crate::address::{Frame, Line};
use crate::cache::{
    CoreSet, EXCLUSIVE, HitLevel, InL1, InLlc, Llc, MODIFIED, Private, SHARED, Tracked, Vacancy,
};
use crate::contention::Queue;
use crate::geometry::{Any, Geometry};
use crate::lru::{Place, Slot};
use crate::mesh::Mesh;
use crate::params::{LINE_BYTES, MAX_ENTRIES, Params};
use crate::protocol::table::Table;

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Loads and stores of the cores, page walks included.
    pub accesses: u64,
    /// Served by the L2.
    pub l2_hits: u64,
    /// Transactions at the last-level cache, of cores.
    pub llc_requests: u64,
    /// Of these, the data was in the last-level cache.
    pub llc_hits: u64,
    /// Of these, served by another core.
    pub forwards: u64,
    /// Stores that requested ownership of a shared line.
    pub upgrades: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Private copies invalidated by others.
    pub invalidations: u64,
    /// Lines recalled because the directory was full.
    pub directory_evictions: u64,
    /// Hops of messages through the mesh.
    pub hops: u64,
    /// Lines written or read by devices.
    pub device_lines: u64,
    /// Requests to a migrating page at the last-level cache.
    pub redirected: u64,
    /// Private copies invalidated because a request came by the opposite name.
    pub opposite_recalls: u64,
    /// Requests forwarded to another slice.
    pub crossings: u64,
    /// Lines copied by the migration engine.
    pub lines_copied: u64,
}

impl Counts {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            accesses: self.accesses - earlier.accesses,
            l2_hits: self.l2_hits - earlier.l2_hits,
            llc_requests: self.llc_requests - earlier.llc_requests,
            llc_hits: self.llc_hits - earlier.llc_hits,
            forwards: self.forwards - earlier.forwards,
            upgrades: self.upgrades - earlier.upgrades,
            memory_reads: self.memory_reads - earlier.memory_reads,
            memory_writes: self.memory_writes - earlier.memory_writes,
            invalidations: self.invalidations - earlier.invalidations,
            directory_evictions: self.directory_evictions - earlier.directory_evictions,
            hops: self.hops - earlier.hops,
            device_lines: self.device_lines - earlier.device_lines,
            redirected: self.redirected - earlier.redirected,
            opposite_recalls: self.opposite_recalls - earlier.opposite_recalls,
            crossings: self.crossings - earlier.crossings,
            lines_copied: self.lines_copied - earlier.lines_copied,
        }
    }
}

/// Latencies in picoseconds, worked out once.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    l2: u64,
    llc: u64,
    /// What memory adds to a look-up in the last-level cache.
    memory: u64,
    lookup: u64,
    crossing: u64,
}

/// Caches, directory, mesh and memory of a machine.
#[derive(Clone, Debug)]
pub struct Hierarchy<G: Geometry = Any> {
    private: Private<G>,
    llc: Llc<G>,
    mesh: Mesh,
    ports: Vec<Queue>,
    memory: Queue,
    latencies: Latencies,
    /// Migrations under way.
    table: Table<Frame, MAX_ENTRIES>,
    live: usize,
    /// The counters.
    pub counts: Counts,
}

impl Hierarchy {
    /// An empty hierarchy of any machine.
    pub fn new(params: &Params) -> Hierarchy {
        Hierarchy::of(params)
    }
}

impl<G: Geometry> Hierarchy<G> {
    /// An empty hierarchy.
    pub fn of(params: &Params) -> Hierarchy<G> {
        let mesh = Mesh::new(params);
        let llc = params.cycles(params.llc.cycles);
        let idle = params.memory.load_ns * 1000;
        let latencies = Latencies {
            l2: params.cycles(params.l2.cycles),
            llc,
            memory: idle.saturating_sub(llc + mesh.mean_round_trip_ps()),
            lookup: params.cycles(params.migration.lookup_cycles),
            crossing: params.migration.crossing_ps,
        };
        Hierarchy {
            private: Private::of(params),
            llc: Llc::new(params),
            mesh,
            ports: vec![Queue::new(params.llc.port_ps); params.llc.slices as usize],
            memory: Queue::new(LINE_BYTES * 1_000_000 / params.memory.mb_per_second),
            latencies,
            table: Table::new(params.migration.entries as usize),
            live: 0,
            counts: Counts::default(),
        }
    }

    /// Ends a window of time for everything that is queued for.
    pub fn turn(&mut self, window_ps: u64) {
        self.ports.iter_mut().for_each(|port| port.turn(window_ps));
        self.memory.turn(window_ps);
    }

    /// A load or store of `core`. Returns the picoseconds beyond an L1 hit until it is served.
    pub fn access(&mut self, core: usize, line: Line, write: bool) -> u64 {
        self.counts.accesses += 1;
        self.serve(core, line, write)
    }

    /// The same, counted by the caller.
    #[inline(always)]
    pub(crate) fn serve(&mut self, core: usize, line: Line, write: bool) -> u64 {
        match self.private.look_up_l1(core, line, write) {
            InL1::Served => 0,
            InL1::Not(at, slot) => self.beyond_l1(core, line, write, at, slot),
        }
    }

    /// Accesses that the L1 does not serve, and their place in the L1.
    #[inline(never)]
    fn beyond_l1(
        &mut self,
        core: usize,
        line: Line,
        write: bool,
        l1: Place,
        slot: Option<Slot>,
    ) -> u64 {
        match self.private.look_up_l2(core, line, write, l1, slot) {
            HitLevel::L1 => 0,
            HitLevel::L2 => {
                self.counts.l2_hits += 1;
                self.latencies.l2
            }
            HitLevel::Upgrade => {
                self.counts.upgrades += 1;
                self.request(core, line, true, None)
            }
            HitLevel::Nowhere(at) => self.request(core, line, write, Some(at)),
        }
    }

    /// Whether the L1 of `core` holds a line; no use.
    #[inline]
    pub fn is_in_l1(&self, core: usize, line: Line) -> bool {
        self.private.is_in_l1(core, line)
    }

    /// Prefetches the data that an access of `core` reads after a miss in its L1.
    #[inline]
    pub fn prefetch(&self, core: usize, line: Line) {
        self.private.prefetch_l2(core, line);
        self.llc.prefetch(self.llc.place(line));
    }

    /// The same of a line that the L2 nearly always holds.
    #[inline]
    pub fn prefetch_private(&self, core: usize, line: Line) {
        self.private.prefetch_l2(core, line);
    }

    /// The data that a request for a line reads to choose a victim.
    #[inline]
    pub fn prefetch_next_out(&self, core: usize, line: Line) {
        if let Some(out) = self.private.next_out(core, line) {
            self.llc.prefetch(self.llc.place(out));
        }
    }

    /// A transaction at the last-level cache for a core that holds the line nowhere, or shared and
    /// asks to own it, if it knows of no `vacancy`.
    #[inline(always)]
    fn request(&mut self, core: usize, line: Line, write: bool, vacancy: Option<Vacancy>) -> u64 {
        self.counts.llc_requests += 1;
        let at = self.llc.place(line);
        let (hops, way_ps) = self.mesh.to_slice(core, at.slice);
        self.counts.hops += hops;
        let mut ps = self.latencies.llc + 2 * way_ps + self.ports[at.slice].take();
        let mut home = at;
        if self.live > 0 {
            let redirection = self.redirect(line);
            ps += redirection.ps;
            home = self.llc.place(redirection.home);
            if !redirection.fill {
                return ps + self.serve_uncached(line, home, write);
            }
        }
        let (granted, wait) = self.claim(core, line, at, home, write, vacancy.is_none());
        ps += wait;
        let vacancy = match vacancy {
            Some(vacancy) => vacancy,
            None if self.private.state(core, line).is_some() => {
                self.private.upgrade(core, line);
                return ps;
            }
            None => self.private.vacancy(core, line),
        };
        if let Some((victim, dirty)) = self.private.fill(core, vacancy, granted) {
            self.give_up(core, victim, dirty);
        }
        ps
    }

    /// Asks the directory for a line, invalidates or downgrades the copies of others, and brings
    /// the data. Returns the state granted and what it took.
    #[inline(always)]
    fn claim(
        &mut self,
        core: usize,
        line: Line,
        at: InLlc,
        home: InLlc,
        write: bool,
        held: bool,
    ) -> (u32, u64) {
        match self.llc.tracked(at) {
            Some(tracked) => {
                self.claim_from_others(core, line, at.slice, tracked, home, write, held)
            }
            None => {
                let ps = self.data(home, write);
                self.track(at, core);
                (if write { MODIFIED } else { EXCLUSIVE }, ps)
            }
        }
    }

    /// The same of a line that cores hold.
    #[allow(clippy::too_many_arguments)]
    fn claim_from_others(
        &mut self,
        core: usize,
        line: Line,
        slice: usize,
        at: Tracked,
        home: InLlc,
        write: bool,
        held: bool,
    ) -> (u32, u64) {
        let slice_tile = self.mesh.slice_tile(slice);
        let holders = self.llc.holders(at);
        let owned = self.llc.is_owned(at);
        let mut ps = 0;
        if write {
            let mut forwarded = false;
            for holder in holders.filter(|holder| *holder != core) {
                self.counts.invalidations += 1;
                forwarded |= self.private.invalidate(holder, line);
                // Invalidations go out together: the farthest counts.
                ps = ps.max(2 * self.travel(slice_tile, self.mesh.core_tile(holder)));
            }
            ps += if ps > 0 { self.latencies.l2 } else { 0 };
            self.llc.own(at, core);
            if forwarded {
                self.counts.forwards += 1;
                self.llc.take(home);
            } else if !held {
                ps = ps.max(self.data(home, true));
            } else {
                self.llc.take(home);
            }
        } else {
            let from = holders.first().expect("somebody holds what is tracked");
            if owned || !self.llc.has(home) {
                ps = 2 * self.travel(slice_tile, self.mesh.core_tile(from)) + self.latencies.l2;
                self.counts.forwards += 1;
                if owned && self.private.downgrade(from, line) {
                    self.keep(home, true);
                }
            } else {
                self.counts.llc_hits += 1;
            }
            self.llc.share(at, core);
        }
        (if write { MODIFIED } else { SHARED }, ps)
    }

    /// The data of a line that no core has: from the last-level cache or from memory.
    #[inline(always)]
    fn data(&mut self, home: InLlc, take: bool) -> u64 {
        let found = if take { self.llc.take(home) } else { self.llc.has(home) };
        if found {
            self.counts.llc_hits += 1;
            return 0;
        }
        self.counts.memory_reads += 1;
        self.latencies.memory + self.memory.take()
    }

    /// Tracks a line for its first holder; the line that the directory drops for it is called back
    /// from all who hold it.
    #[inline(always)]
    fn track(&mut self, at: InLlc, core: usize) {
        if let Some((dropped, holders)) = self.llc.track(at, core) {
            self.drop_from_all(dropped, holders);
        }
    }

    fn drop_from_all(&mut self, line: Line, holders: CoreSet) {
        self.counts.directory_evictions += 1;
        let mut dirty = false;
        for holder in holders {
            self.counts.invalidations += 1;
            dirty |= self.private.invalidate(holder, line);
        }
        let home = self.llc.place(self.home(line));
        self.keep(home, dirty);
    }

    /// A core's L2 had no room for a line: the last one to give it up leaves it in the last-level
    /// cache.
    #[inline(always)]
    fn give_up(&mut self, core: usize, line: Line, dirty: bool) {
        let at = self.llc.place(line);
        if self.llc.give_up(at, core) {
            let home = if self.live == 0 { at } else { self.llc.place(self.home(line)) };
            self.keep(home, dirty);
        }
    }

    /// Keeps data in the last-level cache.
    #[inline(always)]
    fn keep(&mut self, home: InLlc, dirty: bool) {
        if let Some((_, true)) = self.llc.keep(home, dirty) {
            self.counts.memory_writes += 1;
            self.memory.take();
        }
    }

    /// Calls all private copies of a line back into the last-level cache, at `home`. Returns what
    /// it took.
    fn recall(&mut self, line: Line, home: InLlc) -> u64 {
        let place = self.llc.place(line);
        let Some(at) = self.llc.tracked(place) else { return 0 };
        let slice_tile = self.mesh.slice_tile(place.slice);
        let holders = self.llc.holders(at);
        let (mut dirty, mut ps) = (false, 0);
        for holder in holders {
            self.counts.invalidations += 1;
            dirty |= self.private.invalidate(holder, line);
            ps = ps.max(2 * self.travel(slice_tile, self.mesh.core_tile(holder)));
        }
        self.llc.untrack(at);
        self.keep(home, dirty);
        ps + self.latencies.l2
    }

    /// A device writes or reads a whole line. Returns the picoseconds from the root complex on.
    pub fn device(&mut self, line: Line, write: bool) -> u64 {
        self.counts.device_lines += 1;
        let mut home = self.llc.place(line);
        let slice = home.slice;
        let mut ps = self.latencies.llc + self.ports[slice].take();
        // The root complex sits at tile 0.
        ps += 2 * self.travel(0, self.mesh.slice_tile(slice));
        if self.live > 0 {
            let redirection = self.redirect(line);
            ps += redirection.ps;
            home = self.llc.place(redirection.home);
        }
        ps += self.recall(line, home);
        if write {
            self.keep(home, true);
        } else if self.llc.has(home) {
            self.counts.llc_hits += 1;
        } else {
            self.counts.memory_reads += 1;
            ps += self.latencies.memory + self.memory.take();
        }
        ps
    }

    /// Picoseconds of a message from tile to tile, whose hops are counted.
    #[inline]
    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let (hops, ps) = self.mesh.way(from, to);
        self.counts.hops += hops;
        ps
    }

    /// Bytes of host memory that caches and directory take.
    pub fn bytes(&self) -> usize {
        self.private.bytes() + self.llc.bytes()
    }

    /// Checks that directory and private caches agree: a line is tracked exactly for those who hold
    /// it, and one who may change it holds it alone; and that no line is held under both names of
    /// a migration.
    pub fn validate(&self) {
        self.llc.validate();
        self.private.validate();
        let mut held = self.private.lines();
        for (at, line, owned) in self.llc.all_tracked() {
            let holders: Vec<usize> = self.llc.holders(at).collect();
            assert!(!holders.is_empty(), "{line:?} is tracked and nobody holds it");
            assert!(!owned || holders.len() == 1, "{line:?} is owned and {holders:?} hold it");
            for &holder in &holders {
                let state = self.private.state(holder, line);
                let state = state.unwrap_or_else(|| panic!("core {holder} has no {line:?}"));
                assert!(owned || state == SHARED, "{line:?} is shared, {state} in core {holder}");
            }
            held -= holders.len();
            if let Some(opposite) = self.opposite(line) {
                assert!(!self.llc.is_tracked(opposite), "{line:?} and {opposite:?} are both held");
            }
        }
        assert_eq!(held, 0, "lines are held that the directory does not track");
    }
}
