//! Accesses of a core by the batch: first all are translated, then all are served.
//!
//! The contents of TLBs and walk caches do not depend on the contents of caches, so the two can be
//! separated without changing either: translation determines the lines that page walks and accesses
//! go to, in order, and the hierarchy then serves them. In between, all lines are known, and the
//! host prefetches them at once.

use super::Machine;
use crate::address::{Access, Frame, Kind, LINES, Line, PageSize, Vpn};
use crate::geometry::Geometry;

/// Accesses of a batch.
pub const BATCH: usize = 16;

/// Levels of the page table that a walk reads at most.
const LEVELS: usize = 4;

/// A line that is read or written, in one word:
///
/// ```text
/// 34                                | 33 32                         | 31 … 0
/// the first-level TLB had it not    | kind; 3 for what a walk reads | line
/// ```
#[derive(Clone, Copy, Debug)]
struct Step(u64);

impl Step {
    const WALK: u64 = 3 << 32;
    const BEYOND: u64 = 1 << 34;

    #[inline(always)]
    fn access(line: Line, access: Access) -> Step {
        Step(u64::from(line.0) | access.kind_bits() << 32)
    }

    #[inline(always)]
    fn walk(line: Line) -> Step {
        Step(u64::from(line.0) | Step::WALK)
    }

    #[inline(always)]
    fn line(self) -> Line {
        Line(self.0 as u32)
    }

    #[inline(always)]
    fn is_walk(self) -> bool {
        self.0 & Step::WALK == Step::WALK
    }

    #[inline(always)]
    fn kind(self) -> Kind {
        Kind::of_bits((self.0 >> 32) as u32)
    }

    #[inline(always)]
    fn is_store(self) -> bool {
        self.0 & Step::WALK == (Kind::Store as u64) << 32
    }

    /// Whether it is an access whose translation took no time.
    #[inline(always)]
    fn is_plain(self) -> bool {
        self.0 & Step::BEYOND == 0 && !self.is_walk()
    }
}

/// Accesses that are translated and wait to be served.
#[derive(Clone, Debug)]
pub struct Batch {
    steps: [Step; BATCH * (1 + LEVELS)],
    count: usize,
    /// Instructions of the accesses.
    instructions: u64,
    second_level_hits: u64,
    walks: u64,
    walk_reads: u64,
    /// The wait of the one access to a page under software migration.
    fault_ps: u64,
    /// Lines that the L1 did not hold.
    far: [Line; BATCH],
    far_count: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            steps: [Step(0); BATCH * (1 + LEVELS)],
            count: 0,
            instructions: 0,
            second_level_hits: 0,
            walks: 0,
            walk_reads: 0,
            fault_ps: 0,
            far: [Line(0); BATCH],
            far_count: 0,
        }
    }
}

impl Batch {
    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Instructions of its accesses.
    #[inline]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Empties it for the next.
    #[inline]
    pub fn clear(&mut self) {
        (self.count, self.instructions, self.fault_ps, self.far_count) = (0, 0, 0, 0);
        (self.second_level_hits, self.walks, self.walk_reads) = (0, 0, 0);
    }

    #[inline(always)]
    fn push(&mut self, step: Step) {
        self.push_if(true, step);
    }

    /// Written in any case, so that nothing has to be predicted.
    #[inline(always)]
    fn push_if(&mut self, wanted: bool, step: Step) {
        self.steps[self.count] = step;
        self.count += usize::from(wanted);
    }

    #[inline(always)]
    fn steps(&self) -> &[Step] {
        &self.steps[..self.count]
    }
}

impl<G: Geometry> Machine<G> {
    /// Translates accesses of `core`, at most [`BATCH`], into `batch`, which is empty. The TLBs have
    /// seen them then. While pages are [blocked](Machine::is_blocking), it is one at `now_ps`.
    #[inline]
    pub fn translate(&mut self, core: usize, accesses: &[Access], now_ps: u64, batch: &mut Batch) {
        debug_assert!(batch.is_empty() && (accesses.len() <= 1 || !self.is_blocking()));
        for access in accesses {
            batch.instructions += access.instructions();
            // Each size by itself, so that what depends on it is known there.
            match access.address().size() {
                PageSize::Base => self.translate_one(core, *access, PageSize::Base, now_ps, batch),
                PageSize::Huge => self.translate_one(core, *access, PageSize::Huge, now_ps, batch),
                PageSize::Giant => {
                    self.translate_one(core, *access, PageSize::Giant, now_ps, batch)
                }
            }
        }
    }

    #[inline(always)]
    fn translate_one(
        &mut self,
        core: usize,
        access: Access,
        size: PageSize,
        now_ps: u64,
        batch: &mut Batch,
    ) {
        let address = access.address();
        let first = address.vpn().first_of(size);
        let (frame, beyond) = match self.tlbs.find_first(core, first, size) {
            Some(frame) => (frame, 0),
            None => (self.translate_beyond(core, first, size, now_ps, batch), Step::BEYOND),
        };
        let within = (address.0 >> 6) as u32 & (size.pages() * LINES - 1);
        batch.push(Step(Step::access(frame.line(within), access).0 | beyond));
    }

    /// A translation that the first level does not have.
    #[inline(always)]
    fn translate_beyond(
        &mut self,
        core: usize,
        first: Vpn,
        size: PageSize,
        now_ps: u64,
        batch: &mut Batch,
    ) -> Frame {
        if let Some(frame) = self.tlbs.find_second(core, first, size) {
            batch.second_level_hits += 1;
            return frame;
        }
        batch.walks += 1;
        if self.is_blocking() {
            batch.fault_ps += self.fault(core, first, now_ps);
        }
        let from = batch.count;
        let (top, lowest) = (self.tlbs.walk_from(core, first, size), size as u32 + 1);
        for level in (lowest + 2..=top).rev() {
            batch.push(Step::walk(self.pages.entry_line(first, level)));
        }
        batch.push_if(top > lowest, Step::walk(self.pages.entry_line(first, lowest + 1)));
        batch.push(Step::walk(self.pages.entry_line(first, lowest)));
        batch.walk_reads += (batch.count - from) as u64;
        let frame = self.pages.frame(first);
        self.tlbs.fill(core, first, size, frame);
        frame
    }

    /// Prefetches the data that a batch reads beyond the L1. L1s are small enough to be there.
    pub fn prefetch(&self, core: usize, batch: &mut Batch) {
        batch.far_count = 0;
        for at in 0..batch.count {
            let step = batch.steps[at];
            let line = step.line();
            if step.is_walk() {
                // Of page tables the L2 nearly always has what the L1 has not.
                self.hierarchy.prefetch_private(core, line);
            } else if !self.hierarchy.is_in_l1(core, line) {
                self.hierarchy.prefetch(core, line);
                batch.far[batch.far_count % BATCH] = line;
                batch.far_count += 1;
            }
        }
    }

    /// Prefetches the data that the translation of accesses reads beyond first-level TLBs.
    pub fn prefetch_translations(&self, core: usize, accesses: &[Access]) {
        for access in accesses {
            let vpn = access.address().vpn();
            self.tlbs.prefetch_second(core, vpn);
            self.pages.prefetch(vpn);
        }
    }

    /// Then, once that has come, has what the lines look at that have to go for these brought.
    pub fn prefetch_victims(&self, core: usize, batch: &Batch) {
        for line in &batch.far[..batch.far_count] {
            self.hierarchy.prefetch_next_out(core, *line);
        }
    }

    /// Serves a batch. Returns the picoseconds for which its accesses hold the core up: nothing for
    /// those that hit in the first level of caches and TLBs.
    pub fn serve(&mut self, core: usize, batch: &Batch) -> u64 {
        // Of the walk at hand, and of all accesses.
        let (mut walk_ps, mut ps) = (0, 0);
        for step in batch.steps() {
            let line_ps = self.hierarchy.serve(core, step.line(), step.is_store());
            if line_ps == 0 && step.is_plain() {
                continue;
            }
            if step.is_walk() {
                walk_ps += self.costs.l1 + line_ps;
                continue;
            }
            let beyond = step.0 & Step::BEYOND != 0;
            let wait = if beyond { self.costs.l2_tlb + batch.fault_ps } else { 0 };
            ps += self.exposed(step.kind(), wait + walk_ps, line_ps);
            self.translations.walk_ps += walk_ps;
            walk_ps = 0;
        }
        self.hierarchy.counts.accesses += batch.count as u64;
        self.translations.second_level_hits += batch.second_level_hits;
        self.translations.walks += batch.walks;
        self.translations.walk_reads += batch.walk_reads;
        ps
    }

    /// One access of `core` at `now_ps`. Returns the picoseconds for which it holds the core up.
    pub fn access(&mut self, core: usize, access: Access, now_ps: u64) -> u64 {
        let mut batch = Batch::default();
        self.translate(core, &[access], now_ps, &mut batch);
        self.serve(core, &batch)
    }

    #[inline]
    fn exposed(&self, kind: Kind, translation_ps: u64, data_ps: u64) -> u64 {
        let overlapping = match kind {
            Kind::Load => return translation_ps + data_ps,
            Kind::Stream => self.costs.line_fill_buffers,
            Kind::Store => self.costs.stores_in_flight,
        };
        translation_ps / self.costs.walks_at_once.min(overlapping) + data_ps / overlapping
    }
}
