//! The page heaps that a trace can be played back on, by name.

use core::fmt;
use core::str::FromStr;

use super::best_fit::BestFit;
use super::fullness::ExactFullness;
use crate::memory::{CountingMemory, Memory, Shared};
use crate::page_heap::ranking::{ByRank, Fullness, Ranking};
use crate::page_heap::{Clock, Legacy, PageHeap, Temeraire};
use crate::storage::Allocated;

/// A page heap, and the filler's strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum System {
    /// Best fit over pages, hugepage-oblivious.
    Legacy,
    /// TEMERAIRE as the paper has it: the longest free range first.
    Temeraire,
    /// TEMERAIRE with a filler that prefers fullness.
    TemeraireFullness,
    /// The same by the filler's chunks of fullness, not by the exact number of spans.
    TemeraireFullnessChunks,
    /// TEMERAIRE with a filler that searches the best fit over all huge pages.
    TemeraireBestFit,
}

impl System {
    /// All of them.
    pub const ALL: [System; 5] = [
        System::Legacy,
        System::Temeraire,
        System::TemeraireFullness,
        System::TemeraireFullnessChunks,
        System::TemeraireBestFit,
    ];

    /// The name by which it is chosen.
    pub const fn name(self) -> &'static str {
        match self {
            System::Legacy => "legacy",
            System::Temeraire => "temeraire",
            System::TemeraireFullness => "temeraire:fullness",
            System::TemeraireFullnessChunks => "temeraire:fullness-chunks",
            System::TemeraireBestFit => "temeraire:best-fit",
        }
    }

    /// The page heap on a memory and a clock.
    pub(super) fn start<C: Clock + 'static>(
        self,
        memory: Shared<CountingMemory>,
        clock: C,
    ) -> Box<dyn PageHeap> {
        match self {
            System::Legacy => Box::new(Legacy::new(memory).expect(STORAGE)),
            System::Temeraire => Box::new(Temeraire::<_, _>::new(memory, clock).expect(STORAGE)),
            System::TemeraireFullness => temeraire::<_, _, ExactFullness>(memory, clock),
            System::TemeraireFullnessChunks => {
                temeraire::<_, _, ByRank<Allocated, Fullness>>(memory, clock)
            }
            System::TemeraireBestFit => temeraire::<_, _, BestFit>(memory, clock),
        }
    }
}

const STORAGE: &str = "the global allocator does not fail for a few kilobytes";

fn temeraire<M, C, R>(memory: M, clock: C) -> Box<dyn PageHeap>
where
    M: Memory + 'static,
    C: Clock + 'static,
    R: Ranking<M::Storage> + 'static,
{
    Box::new(Temeraire::<M, C, R>::new(memory, clock).expect(STORAGE))
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<System, String> {
        System::ALL.into_iter().find(|system| system.name() == text).ok_or_else(|| {
            let names: Vec<&str> = System::ALL.iter().map(|system| system.name()).collect();
            format!("no page heap `{text}`, expected one of: {}", names.join(", "))
        })
    }
}
