//! Checks, by name and size: what `prairie migrate check` runs.

use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use crate::checker::fair;
use crate::checker::german::German;
use crate::checker::graph::{self, Graph, Live};
use crate::checker::model::Model;
use crate::checker::search::{self, Limits, Progress, Verdict};
use crate::checker::trace::Step;
use crate::checker::walk::Random;
use crate::protocol::action::{Action, Agent};
use crate::protocol::at_random::ActionCounts;
use crate::protocol::coarse::{Coarse, Steps};
use crate::protocol::design::Design;
use crate::protocol::machine::Machine;
use crate::protocol::message::Messages;
use crate::protocol::property::Property;
use crate::protocol::table::Caching;
use crate::protocol::variant::Variant;

/// How large a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Cores.
    pub cores: u8,
    /// Devices behind the IOMMU.
    pub devices: u8,
    /// Lines of a page.
    pub lines: u8,
}

/// What cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// No machine of this size is built in.
    #[error(
        "no machine of {} cores, {} devices and {} lines: there are 1 to 3 cores, 0 or 1 device, \
         1 or 2 lines",
        .0.cores, .0.devices, .0.lines
    )]
    Shape(Shape),
    /// Requests cannot be put off in this design.
    #[error(
        "requests cannot be put off where prefetches bring lines unasked, or where what a finished \
         page leaves is kept"
    )]
    Coarse,
    /// German's protocol for N caches.
    #[error("German's protocol is built in for 2 to 5 caches, not {0}")]
    Caches(u8),
}

/// One line of a counterexample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The agent.
    pub from: String,
    /// The receiver; the agent itself for an internal step.
    pub to: String,
    /// What.
    pub words: String,
}

/// A counterexample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counterexample {
    /// The violated property.
    pub property: String,
    /// The number of the property, if it has one.
    pub number: Option<u8>,
    /// Step by step.
    pub steps: Vec<Line>,
    /// For an infinite run: the number of steps before the repetition.
    pub repeats_from: Option<usize>,
    /// The violation, in a sentence.
    pub ending: String,
}

impl Counterexample {
    /// The agents, from programs to memory, the operating system first.
    #[must_use]
    pub fn agents(&self) -> Vec<String> {
        agents(&self.steps)
    }
}

/// The agents of some steps, from programs to memory, the operating system first.
#[must_use]
pub fn agents(steps: &[Line]) -> Vec<String> {
    let mut agents: Vec<String> = Vec::new();
    for end in steps.iter().flat_map(|step| [&step.from, &step.to]) {
        if !agents.contains(end) {
            agents.push(end.clone());
        }
    }
    let order = ["OS", "core", "LLC", "engine", "device"];
    agents.sort_by_key(|agent| {
        (order.iter().position(|each| agent.starts_with(each)), agent.clone())
    });
    agents
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Result {
    /// Every reachable state was visited and no property is broken.
    Holds,
    /// A property is broken.
    Broken(Counterexample),
    /// There were more states than allowed.
    TooMany,
    /// It was asked to stop.
    Stopped,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// How it ended.
    pub result: Result,
    /// Different states.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Steps from a start to the last level.
    pub depth: u32,
    /// States in the widest level.
    pub widest: u64,
    /// Most memory held at once.
    pub bytes: u64,
    /// How long it took.
    #[serde(rename = "elapsed_ns", serialize_with = "nanoseconds")]
    pub elapsed: Duration,
    /// The collision probability of fingerprints, so that some state was not seen.
    pub collision_chance: f64,
}

fn nanoseconds<S: serde::Serializer>(
    time: &Duration,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// How closely the machine is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Each request is one transaction at the last-level cache.
    Transaction,
    /// Message by message; each step is compared with the transaction layer, unless an injected bug is
    /// built in.
    Message,
}

/// Calls a generic function with the model of a layer and a shape: one of `found` and `lives`.
macro_rules! with_shape {
    ($how:ident, $layer:expr, $shape:expr, $design:expr, $($rest:expr),*) => {
        with_shape!(@ $how, $layer, $shape, $design, ($($rest),*),
            (1, 0, 1) (1, 0, 2) (1, 1, 1) (1, 1, 2) (2, 0, 1) (2, 0, 2) (2, 1, 1) (2, 1, 2)
            (3, 0, 1) (3, 0, 2) (3, 1, 1) (3, 1, 2))
    };
    (@ $how:ident, $layer:expr, $shape:expr, $design:expr, $rest:tt, $($size:tt)+) => {{
        let Shape { cores, devices, lines } = $shape;
        match (cores, devices, lines) {
            $(with_shape!(@at $size) => Ok(with_shape!(@$how $layer, $design, $rest, $size)),)+
            _ => Err(Unsupported::Shape($shape)),
        }
    }};
    (@at ($c:literal, $d:literal, $l:literal)) => { ($c, $d, $l) };
    (@found $layer:expr, $design:expr, ($($rest:expr),*),
        ($c:literal, $d:literal, $l:literal)) => {{
        let delays = $design.coarse;
        match $layer {
            Layer::Transaction => {
                let layer = Machine::<$c, $d, $l> { design: $design };
                found(&Coarse { layer, delays }, $($rest),*)
            }
            Layer::Message => {
                let layer = messages::<$c, $d, $l>($design);
                found(&Coarse { layer, delays }, $($rest),*)
            }
        }
    }};
    (@lives $layer:expr, $design:expr, ($($rest:expr),*),
        ($c:literal, $d:literal, $l:literal)) => {
        match $layer {
            Layer::Transaction => lives(&Machine::<$c, $d, $l> { design: $design }, $($rest),*),
            Layer::Message => lives(&messages::<$c, $d, $l>($design), $($rest),*),
        }
    };
}

fn messages<const C: usize, const D: usize, const L: usize>(design: Design) -> Messages<C, D, L> {
    Messages { refines: design.variant.is_none(), ..Messages::new(design) }
}

/// Properties 1 to 3, and 6 of messages: no reachable state breaks them.
///
/// # Errors
///
/// If no machine of this shape is built in, or requests are to be put off and cannot.
pub fn safety(
    layer: Layer,
    shape: Shape,
    design: Design,
    limits: Limits,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> std::result::Result<Finding, Unsupported> {
    if design.coarse && !design.can_be_coarse() {
        return Err(Unsupported::Coarse);
    }
    with_shape!(found, layer, shape, design, limits, watch)
}

/// Steps that are described one by one.
trait Describe {
    fn lines(&self) -> Vec<Line>;
}

impl Describe for Action {
    fn lines(&self) -> Vec<Line> {
        vec![line(self)]
    }
}

impl Describe for Steps {
    fn lines(&self) -> Vec<Line> {
        self.iter().map(line).collect()
    }
}

fn found<M>(model: &M, limits: Limits, watch: &mut dyn FnMut(&Progress) -> bool) -> Finding
where
    M: Model<Property = Property>,
    M::Action: Describe,
{
    let outcome = search::search(model, limits, watch);
    let collision_chance = outcome.collision_chance();
    let result = match outcome.verdict {
        Verdict::Holds => Result::Holds,
        Verdict::TooMany => Result::TooMany,
        Verdict::Stopped => Result::Stopped,
        Verdict::Violated(trace) => {
            let property = trace.property.unwrap_or(Property::LastValue);
            let ending = ending(property).to_owned();
            let lines = trace.steps.iter().map(|step| step.action.lines()).collect();
            Result::Broken(counterexample(property, lines, None, ending))
        }
    };
    Finding {
        result,
        states: outcome.states,
        transitions: outcome.transitions,
        depth: outcome.depth,
        widest: outcome.widest,
        bytes: outcome.bytes,
        elapsed: outcome.elapsed,
        collision_chance,
    }
}

fn ending(broken: Property) -> &'static str {
    match broken {
        Property::LastValue => "a value is used that is not the last one written",
        Property::OneName => "a line is cached privately under both names",
        Property::SourceGone => "the source is free, and something can still reach it",
        Property::NobodyWaits => "somebody waits whom caches, network and memory cannot help",
        Property::MigrationsEnd => "the migration never ends",
        Property::Refines => "the last step is none that the transaction layer has",
    }
}

/// A step as a line of a chart.
#[must_use]
pub fn line(action: &Action) -> Line {
    let (from, to) = action.ends();
    Line { from: from.to_string(), to: to.to_string(), words: action.words() }
}

/// The lines come step by step: flattened by the callers, that would be compiled for each model.
fn counterexample(
    property: Property,
    steps: Vec<Vec<Line>>,
    repeats_from: Option<usize>,
    ending: String,
) -> Counterexample {
    Counterexample {
        property: property.to_string(),
        number: Some(property.number()),
        steps: steps.into_iter().flatten().collect(),
        repeats_from,
        ending,
    }
}

/// Liveness in the graph of all states.
#[derive(Clone, Debug, Serialize)]
pub struct Liveness {
    /// States of the graph: without symmetry.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Property 4; nothing if it holds.
    pub waits_in_vain: Option<Counterexample>,
    /// Property 5; nothing if it holds.
    pub never_ends: Option<Counterexample>,
}

/// Properties 4 and 5, over the graph of all states; nothing if there are more than `limits`.
/// Requests are not put off: what waits has to be seen waiting.
///
/// # Errors
///
/// If no machine of this shape is built in.
pub fn liveness(
    layer: Layer,
    shape: Shape,
    design: Design,
    limits: Limits,
) -> std::result::Result<Option<Liveness>, Unsupported> {
    let design = Design { symmetry: false, ..design };
    with_shape!(lives, layer, shape, design, shape, limits)
}

fn lives<M>(model: &M, shape: Shape, limits: Limits) -> Option<Liveness>
where
    M: Live<Action = Action>,
{
    let (graph, states) = Graph::build(model, limits)?;
    let actions = |way: &[u32]| graph::actions(model, &states, way);
    Some(liveness_of(&graph, shape, &actions))
}

/// Liveness of a graph; `actions` tells those along a way. Apart from `lives`, which is compiled
/// for each model.
fn liveness_of(graph: &Graph, shape: Shape, actions: &dyn Fn(&[u32]) -> Vec<Action>) -> Liveness {
    let lines = |way: &[u32]| actions(way).iter().map(|action| vec![line(action)]).collect();
    let waits_in_vain = graph::stuck(graph).map(|stuck| {
        let agent = match stuck.waiter.checked_sub(usize::from(shape.cores)) {
            None => Agent::Core(stuck.waiter as u8),
            Some(device) => Agent::Device(device as u8 / 2),
        };
        let ending = format!("{agent} waits, and caches, network and memory alone cannot help it");
        counterexample(Property::NobodyWaits, lines(&stuck.way), None, ending)
    });
    let never_ends = fair::starvation(graph).map(|starvation| {
        let ending = match starvation.stem + 1 == starvation.way.len() {
            true => "nobody who is to be fair can do anything more",
            false => "this may repeat forever, and the migration never ends",
        };
        let steps = lines(&starvation.way);
        let repeats_from = Some(starvation.stem);
        counterexample(Property::MigrationsEnd, steps, repeats_from, ending.to_owned())
    });
    Liveness {
        states: graph.len() as u64,
        transitions: graph.transitions() as u64,
        waits_in_vain,
        never_ends,
    }
}

/// How a random walk of a large machine went.
#[derive(Clone, Debug, Serialize)]
pub struct Walk {
    /// How accesses to a migrating page are cached.
    pub caching: Caching,
    /// The injected bug, if any.
    pub variant: Option<Variant>,
    /// The seed.
    pub seed: u64,
    /// Steps taken.
    pub steps: u64,
    /// The actions, counted.
    pub done: ActionCounts,
    /// Whether it was asked to stop.
    pub stopped: bool,
    /// The violation with the last steps before it, if any.
    pub broken: Option<Counterexample>,
    /// How long it took.
    #[serde(rename = "elapsed_ns", serialize_with = "nanoseconds")]
    pub elapsed: Duration,
}

/// Steps of a walk before it starts again.
const RESTART_STEPS: u64 = 200_000;

/// Walks a machine of 8 cores, 2 devices and four pages of 64 lines at random, with
/// [everything](Design::everything) that it may do; from the start again every 200 000 steps.
/// `watch` gets the number of steps before each restart, and ends the walk by returning false.
pub fn walk(
    caching: Caching,
    variant: Option<Variant>,
    steps: u64,
    seed: u64,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Walk {
    let began = Instant::now();
    let machine = Machine::<8, 2, 64, 4, 8> { design: Design::everything(caching, variant) };
    let (mut taken, mut broken, mut stopped) = (0, None, false);
    let (mut seeds, mut done) = (Random::new(seed), ActionCounts::default());
    while taken < steps && broken.is_none() && !stopped {
        if !watch(taken) {
            stopped = true;
            break;
        }
        let walked = machine.walk(RESTART_STEPS.min(steps - taken), seeds.next(), &mut done);
        taken += walked.steps;
        broken = walked.broken.map(|(property, last)| Counterexample {
            property: property.to_string(),
            number: Some(property.number()),
            steps: last.iter().map(line).collect(),
            repeats_from: None,
            ending: ending(property).to_owned(),
        });
    }
    Walk { caching, variant, seed, steps: taken, done, stopped, broken, elapsed: began.elapsed() }
}

/// German's protocol with data, whose counts are known.
///
/// # Errors
///
/// For a number of caches that is not built in.
pub fn german(
    caches: u8,
    symmetry: bool,
    limits: Limits,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> std::result::Result<Finding, Unsupported> {
    fn run<const N: usize>(
        symmetry: bool,
        limits: Limits,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Finding {
        let outcome = search::search(&German::<N> { symmetry }, limits, watch);
        let collision_chance = outcome.collision_chance();
        let result = match &outcome.verdict {
            Verdict::Holds => Result::Holds,
            Verdict::TooMany => Result::TooMany,
            Verdict::Stopped => Result::Stopped,
            Verdict::Violated(trace) => {
                let line = |step: &Step<German<N>>| {
                    let all = "caches".to_owned();
                    Line { from: all.clone(), to: all, words: step.action.to_string() }
                };
                let property = trace.property.map(|p| p.to_string()).unwrap_or_default();
                Result::Broken(Counterexample {
                    ending: property.clone(),
                    property,
                    number: None,
                    steps: trace.steps.iter().map(line).collect(),
                    repeats_from: None,
                })
            }
        };
        Finding {
            result,
            states: outcome.states,
            transitions: outcome.transitions,
            depth: outcome.depth,
            widest: outcome.widest,
            bytes: outcome.bytes,
            elapsed: outcome.elapsed,
            collision_chance,
        }
    }
    match caches {
        2 => Ok(run::<2>(symmetry, limits, watch)),
        3 => Ok(run::<3>(symmetry, limits, watch)),
        4 => Ok(run::<4>(symmetry, limits, watch)),
        5 => Ok(run::<5>(symmetry, limits, watch)),
        other => Err(Unsupported::Caches(other)),
    }
}
