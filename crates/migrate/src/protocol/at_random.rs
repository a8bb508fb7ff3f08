//! Random walks of machines too large to be visited, and what was done on them.

use serde::Serialize;

use crate::checker::model::Model;
use crate::checker::walk::{Random, WalkResult, walk};

use super::action::{Action, Verb};
use super::design::MAX_MIGRATIONS;
use super::machine::Machine;
use super::property::Property;
use super::state::{NONE, Stage, State};

/// How often each action was taken on a walk: an action never taken was not tested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ActionCounts {
    /// Migrations from `Migrate` to `Clear`.
    pub migrations: u64,
    /// Steps by the number of migrations in flight: none, one, two, three, four.
    pub at_once: [u64; MAX_MIGRATIONS + 1],
    /// Lines that the engine or another agent copied.
    pub lines_copied: u64,
    /// Requests of cores that were served.
    pub misses: u64,
    /// Stores to lines that the core owned.
    pub store_hits: u64,
    /// Locked instructions: atomic reads with writes.
    pub locked: u64,
    /// Prefetches by a physical name that is going away.
    pub prefetches: u64,
    /// Modified lines that private caches gave up by themselves.
    pub victims: u64,
    /// Page walks that read the table in one step and filled the TLB in another.
    pub walks: u64,
    /// Device reads that were served.
    pub dma_reads: u64,
    /// Device writes of whole lines.
    pub dma_writes: u64,
    /// Device writes of parts of lines.
    pub partial_writes: u64,
    /// Translations that devices or their IOMMU evicted.
    pub io_evictions: u64,
    /// Lines that the last-level cache evicted.
    pub llc_evictions: u64,
}

impl ActionCounts {
    /// Each with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 16] {
        [
            ("migrations completed", self.migrations),
            ("steps during two at once", self.at_once[2]),
            ("steps during three at once", self.at_once[3]),
            ("steps during four at once", self.at_once[4]),
            ("lines copied", self.lines_copied),
            ("misses served", self.misses),
            ("stores that hit", self.store_hits),
            ("locked instructions", self.locked),
            ("prefetches by the old name", self.prefetches),
            ("victims", self.victims),
            ("page walks in two steps", self.walks),
            ("DMA reads", self.dma_reads),
            ("DMA writes of lines", self.dma_writes),
            ("DMA writes of parts of lines", self.partial_writes),
            ("IOMMU and device TLB evictions", self.io_evictions),
            ("last-level cache evictions", self.llc_evictions),
        ]
    }

    fn count<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>(
        &mut self,
        action: &Action,
        after: &State<C, D, L, P, F>,
    ) {
        self.at_once[after.table.entries().count().min(MAX_MIGRATIONS)] += 1;
        let counter = match action.verb {
            Verb::Clear => &mut self.migrations,
            Verb::CopyRead | Verb::CopyAnswer => &mut self.lines_copied,
            Verb::Serve => &mut self.misses,
            Verb::StoreHit => &mut self.store_hits,
            Verb::Unlock => &mut self.locked,
            Verb::Prefetch => &mut self.prefetches,
            Verb::ServeVictim => &mut self.victims,
            Verb::EndWalk => &mut self.walks,
            Verb::ServeDmaRead => &mut self.dma_reads,
            Verb::DmaWrite => &mut self.dma_writes,
            Verb::DmaWritePart => &mut self.partial_writes,
            Verb::EvictIoTranslation | Verb::EvictOwnTranslation => &mut self.io_evictions,
            Verb::EvictLlc => &mut self.llc_evictions,
            _ => return,
        };
        *counter += 1;
    }
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    Machine<C, D, L, P, F>
{
    /// A random walk of `steps` steps, which are counted in `done`. Each checks one line, one page
    /// and one thing that one agent may do: to look at more would cost a copy of the machine for
    /// each step that is possible and not taken; and what is always possible, as an eviction from a
    /// TLB is, would be most of what is done.
    #[must_use]
    pub fn walk(
        &self,
        steps: u64,
        seed: u64,
        done: &mut ActionCounts,
    ) -> WalkResult<Action, Property> {
        let mut random = Random::new(seed);
        let look = |action: &Action, after: &State<C, D, L, P, F>| {
            done.count(action, after);
            self.violated(after)
        };
        walk(
            self.start(),
            steps,
            &mut random,
            |at, random, emit| self.offer(at, random, emit),
            look,
        )
    }

    fn offer(
        &self,
        state: &State<C, D, L, P, F>,
        random: &mut Random,
        mut emit: &mut dyn FnMut(Action, State<C, D, L, P, F>),
    ) {
        let design = &self.design;
        let line = random.below(L);
        let (lines, page) = (line..line + 1, random.below(P));
        // The engine and the operating system have more to do than their number.
        const OTHERS: usize = 5;
        match random.below(2 * C + 2 * D + OTHERS) {
            core if core < 2 * C => self.offer_core(state, random, (core / 2, page, line), emit),
            device if device < 2 * C + 2 * D => {
                let d = (device - 2 * C) / 2;
                match random.below(2) {
                    0 => state.device_page_demands(design, d, page, lines, &mut emit),
                    _ => state.device_served(design, d, &mut emit),
                }
            }
            // No lines: evictions from the last-level cache would be nearly all that is drawn.
            other if other < 2 * C + 2 * D + 2 => state.engine_steps(design, 0..0, &mut emit),
            other if other == 2 * C + 2 * D + 2 => {
                if random.below(4) == 0 {
                    state.llc_evictions(lines, &mut emit);
                }
            }
            // A page that could migrate rests a while, or all would nearly always be under way.
            _ if state.pages[page].stage == Stage::Idle && random.below(32) > 0 => {}
            _ => state.system_steps(design, page, &mut emit),
        }
    }

    fn offer_core(
        &self,
        state: &State<C, D, L, P, F>,
        random: &mut Random,
        (c, page, line): (usize, usize, usize),
        mut emit: &mut dyn FnMut(Action, State<C, D, L, P, F>),
    ) {
        let (design, lines) = (&self.design, line..line + 1);
        match random.below(16) {
            0..6 => state.uses(design, c, page, lines, &mut emit),
            6..8 => {
                // An existing translation is rarely evicted.
                let walks = state.cores[c].tlb[page] == NONE;
                if walks || random.below(8) == 0 {
                    state.translations(design, c, page, &mut emit);
                }
            }
            8..12 => state.core_served(design, c, &mut emit),
            12..14 => {
                // A locked line is released next: others wait for it.
                let anywhere = (random.below(F), line);
                let (frame, line) = state.cores[c].locked().unwrap_or(anywhere);
                state.eviction(design, c, frame, line, &mut emit);
            }
            14 => state.victim_taken(design, c, &mut emit),
            _ if random.below(8) == 0 => state.prefetches(design, c, lines, &mut emit),
            _ => {}
        }
    }
}
