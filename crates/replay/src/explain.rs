//! Why Contiguitas's border is where it is: every wake-up of the resizer, in a scenario, over a
//! recorded trace, or as a kernel traced it.

mod kernel;

use std::sync::atomic::{AtomicBool, Ordering};

use prairie_frames::Order;
use prairie_frames::layout::LayoutError;
use prairie_frames::placement::regions::resizer::Resize;
use prairie_frames::placement::regions::{Config, Decision, Regions};
use prairie_trace::EventSource;
use serde::Serialize;

pub use self::kernel::{Place, RecordingError, TraceError, has_decisions, kernel, recorded};
use crate::initial_state::InitialState;
use crate::replay::{Initial, Replay};
use prairie_model::allocator::Allocator;
use prairie_sim::machine::Machine;
use prairie_sim::machine::scenario::Scenario;
use prairie_sim::simulate::live;

/// The decision of a node's resizer at a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The border stays.
    Stay,
    /// A reversal was delayed.
    Refused,
    /// The unmovable region was short or stalled, and grew.
    Grow,
    /// Surplus was returned.
    Shrink,
    /// The movable region was short or stalled, and got some of it.
    Yield,
}

/// One wake-up. Sizes in bytes, pressures as shares of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WakeUp {
    /// Nanoseconds since the start.
    pub time_ns: u64,
    /// The NUMA node.
    pub node: u16,
    /// The decision.
    pub action: Action,
    /// The unmovable region, before.
    pub region_bytes: u64,
    /// Of that, what is free for ordinary requests.
    pub free_bytes: u64,
    /// Below this the region is short.
    pub low_bytes: u64,
    /// Free memory of the movable region for ordinary requests.
    pub movable_free_bytes: u64,
    /// Below this that is short.
    pub movable_low_bytes: u64,
    /// Share of time stalled for lack of unmovable memory.
    pub pressure_unmovable: f64,
    /// For lack of movable memory.
    pub pressure_movable: f64,
    /// Pageblocks that the border moved.
    pub pageblocks: u64,
    /// Pages migrated out of its way.
    pub pages_moved: u64,
    /// Allocations since the previous wake-up that moved the border.
    pub waited: u64,
}

impl WakeUp {
    fn of(time_ns: u64, decision: &Decision) -> WakeUp {
        let Decision { view, .. } = decision;
        let bytes = |frames: u64| frames * Order::BASE.bytes();
        WakeUp {
            time_ns,
            node: decision.node,
            action: match decision.resize {
                Resize::Stay if decision.refused => Action::Refused,
                Resize::Stay => Action::Stay,
                Resize::Grow { .. } => Action::Grow,
                Resize::Shrink => Action::Shrink,
                Resize::Yield { .. } => Action::Yield,
            },
            region_bytes: bytes(view.size),
            free_bytes: bytes(view.available[0]),
            low_bytes: bytes(view.low[0]),
            movable_free_bytes: bytes(view.available[1]),
            movable_low_bytes: bytes(view.low[1]),
            pressure_unmovable: f64::from(view.pressure[0]) / 1000.0,
            pressure_movable: f64::from(view.pressure[1]) / 1000.0,
            pageblocks: decision.steps,
            pages_moved: decision.pages_moved,
            waited: decision.waited,
        }
    }
}

/// Whose decisions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// A kernel with a movable border.
    Kernel,
    /// `contiguitas`, which served a recording's requests.
    Replay,
    /// `contiguitas` in a simulated machine.
    Simulation,
}

/// The wake-ups of a run.
#[derive(Clone, Debug, Serialize)]
pub struct WakeUps {
    /// Whose they are.
    pub decider: Decider,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// All of them, by time.
    pub wake_ups: Vec<WakeUp>,
}

/// Simulates a scenario under `contiguitas`. `progress` gets the share of its time that has passed.
///
/// # Errors
/// If the scenario's memory makes no layout.
pub fn scenario(
    scenario: &Scenario,
    progress: &mut dyn FnMut(f64),
    cancel: &AtomicBool,
) -> Result<WakeUps, LayoutError> {
    let system: Allocator = "contiguitas".parse().expect("a system");
    let simulated_ns = scenario.phases.iter().map(|phase| phase.duration.0).sum();
    let mut machine = Machine::new(scenario, &system)?;
    machine.note_decisions();
    live(&mut machine, scenario, simulated_ns, progress, cancel);
    let wake_ups = machine.decisions().iter().map(|(now, decision)| WakeUp::of(*now, decision));
    let interrupted = cancel.load(Ordering::Relaxed);
    Ok(WakeUps { decider: Decider::Simulation, interrupted, wake_ups: wake_ups.collect() })
}

/// Replays a trace under `contiguitas`. `progress` gets the number of events so far.
///
/// # Errors
/// Those of the source.
pub fn trace(
    found: &InitialState,
    source: &mut dyn EventSource,
    progress: &mut dyn FnMut(u64),
    cancel: &AtomicBool,
) -> prairie_trace::Result<WakeUps> {
    let regions = Regions::new(&found.layout, Config::default());
    let mut replay = Replay::new(found, regions, Initial::AsFound);
    replay.placement_mut().note_decisions();
    let (mut origin, mut events) = (None, 0);
    let mut explained =
        WakeUps { decider: Decider::Replay, interrupted: false, wake_ups: Vec::new() };
    while let Some(batch) = source.next_batch()? {
        for event in batch {
            let origin = *origin.get_or_insert(event.time_ns);
            let now = event.time_ns.saturating_sub(origin);
            replay.apply(event);
            let decisions = replay.placement_mut().take_decisions();
            explained.wake_ups.extend(decisions.iter().map(|decision| WakeUp::of(now, decision)));
        }
        events += batch.len() as u64;
        progress(events);
        if cancel.load(Ordering::Relaxed) {
            explained.interrupted = true;
            break;
        }
    }
    Ok(explained)
}
