//! Playback of page-heap traces against the real components, with no memory behind them
//! (section 6.2).
//!
//! ```text
//!   events ──► Names ──► numbered calls ──► Player per page heap: Temeraire or Legacy
//!                                              │  on CountingMemory, which keeps the kernel's books
//!                                              └► Samples, at the same instants for all
//! ```
//!
//! Each span counts as fully written when it is handed out.

mod best_fit;
mod fullness;
mod names;
mod player;
mod release;
mod samples;
mod system;

pub use names::Oddities;
pub use player::Totals;
pub use samples::{Means, Sample};
pub use system::System;

use prairie_trace::page_heap::Event;
use serde::Serialize;

use crate::page_heap::PageHeapStats;
use names::Names;
use player::Player;
pub use release::Release;

/// What to play back on.
#[derive(Clone, Debug)]
pub struct Options {
    /// The page heaps.
    pub systems: Vec<System>,
    /// The source of release requests.
    pub release: Release,
}

/// A playback under way.
pub struct Playback {
    names: Names,
    players: Vec<Player>,
    release: Release,
    events: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Results of a playback.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Results {
    /// Events played back.
    pub events: u64,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// Impossible calls in the trace.
    pub oddities: Oddities,
    /// The source of release requests.
    pub release: Release,
    /// One for each page heap.
    pub systems: Vec<SystemResults>,
}

/// Results of one page heap.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SystemResults {
    /// Its name.
    pub system: String,
    /// Means over the time of the trace.
    pub means: Means,
    /// Counts over all of it.
    pub totals: Totals,
    /// Statistics of the page heap at the end.
    pub stats: PageHeapStats,
    /// Over time.
    pub samples: Vec<Sample>,
}

impl Playback {
    /// A playback that has seen no event.
    pub fn new(options: &Options) -> Playback {
        Playback {
            names: Names::default(),
            players: options.systems.iter().map(|&system| Player::new(system)).collect(),
            release: options.release,
            events: 0,
            first_ns: None,
            last_ns: 0,
        }
    }

    /// Plays events that follow those before.
    pub fn play(&mut self, events: &[Event]) {
        let Some(last) = events.last() else { return };
        let calls = self.names.number(events);
        for player in &mut self.players {
            player.play(calls, self.release);
        }
        self.events += events.len() as u64;
        self.first_ns.get_or_insert(events[0].time_ns);
        self.last_ns = self.last_ns.max(last.time_ns);
    }

    /// Ends it.
    ///
    /// # Errors
    /// An inconsistency in a page heap, which is a bug of this crate.
    pub fn finish(self) -> Result<Results, String> {
        let systems: Result<Vec<_>, String> =
            self.players.into_iter().map(|player| player.finish(self.last_ns)).collect();
        Ok(Results {
            events: self.events,
            duration_ns: self.last_ns - self.first_ns.unwrap_or(self.last_ns),
            oddities: self.names.oddities(),
            release: self.release,
            systems: systems?,
        })
    }
}
