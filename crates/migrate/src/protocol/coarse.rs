//! A reduction for large machines: a request is sent when it can first be distinguished from one
//! that is sent later.
//!
//! Only the slice that takes up a request and the agent that sent it see the request in flight: no
//! other step depends on it or changes it. In any run of the protocol, its sending can therefore be
//! delayed, past all steps of others, until right before the first of
//!
//! - its being taken up,
//! - a step in which the agent's translation changes or its invalidation continues: there the name
//!   that the request has may come to differ from what a request sent later would have, and the
//!   invalidation waits for a request under the old name.
//!
//! Until then the agent could still send the same request: it has the same translation and no other
//! request in flight, and its copy of the line can only arrive by a request (or a prefetch, so
//! there must be none). The reordered run has the same steps, so it is as long, and its end
//! violates the same properties: a delayed request has the name of a translation that its agent
//! still holds, so if the request violated property 3, that translation does.
//!
//! It is therefore enough to explore runs in which each request is sent and taken up at once, or
//! sent right before its agent's translation changes. The states in between need no exploration,
//! and of the requests in flight only those remain that outlived a translation.

//!
//! A layer may also say what [settles](Layer::settle) by itself: messages whose arrival disables no
//! step of any agent, and that may therefore arrive at once. In the message layer these are
//!
//! - the answer to a request that was served, on its way to a device, or to a core that keeps no
//!   copy: until it arrives, the agent has no room for another request, and its invalidation may
//!   wait for it;
//! - an acknowledgement of an invalidation: until it arrives, the operating system does not go on;
//! - the word that a granted line has arrived: until then, the slice takes up nothing else of that
//!   line. (Not where migrations are given up: there the slice recalls the line next.)
//!
//! A machine in which they have arrived can do all that the machine can in which they are on their
//! way, and comes to states that differ in nothing else; and properties 1 to 3 say nothing of them,
//! but for an answer under a name that is gone, whose request was served before.

use std::fmt;

use crate::checker::model::Model;

use super::action::{Action, Agent, Verb};

/// A layer of the protocol whose agents can be checked one by one.
pub trait Layer: Model<Action = Action> {
    /// Gives every step of one core or device, and of what it has sent, to `emit`.
    fn steps_of(
        &self,
        state: &Self::State,
        agent: Agent,
        emit: &mut impl FnMut(Action, Self::State),
    );

    /// Whether the agent's translation is still the one that it sent this request by, and no
    /// invalidation could wait for the request.
    fn is_unseen(&self, state: &Self::State, agent: Agent, sent: &Action) -> bool;

    /// Takes the steps, if there are any, that may as well be taken at once, and reports each.
    fn settle(&self, _state: &mut Self::State, _tell: &mut impl FnMut(Action)) {}
}

/// One step, or the sending of a request or two with the step for which they were delayed; and what
/// settles then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    all: [Option<Action>; MAX_STEPS],
}

/// Two requests, one step, and an answer, an acknowledgement or a word for each of a few agents.
const MAX_STEPS: usize = 10;

impl Steps {
    fn one(action: Action) -> Steps {
        Steps { all: [None; MAX_STEPS] }.and(action)
    }

    fn and(self, action: Action) -> Steps {
        let mut all = self.all;
        if let Some(free) = all.iter_mut().find(|step| step.is_none()) {
            *free = Some(action);
        }
        Steps { all }
    }

    /// The steps, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Action> {
        self.all.iter().flatten()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, action) in self.iter().enumerate() {
            let between = if nth == 0 { "" } else { "; " };
            write!(f, "{between}{action}")?;
        }
        Ok(())
    }
}

/// A layer, with or without delayed requests. It is one type, so that the search is compiled once for
/// each layer and size.
#[derive(Clone, Copy, Debug)]
pub struct Coarse<M> {
    /// Whose steps are explored.
    pub layer: M,
    /// Whether requests are delayed.
    pub delays: bool,
}

impl<M: Layer> Coarse<M> {
    /// Lets the state after some steps settle.
    fn settled(
        &self,
        mut steps: Steps,
        mut state: M::State,
        emit: &mut dyn FnMut(Steps, M::State),
    ) {
        if self.layer.violated(&state).is_none() {
            self.layer.settle(&mut state, &mut |action| steps = steps.and(action));
        }
        emit(steps, state);
    }

    /// Goes on after a request was sent, and none of two is to be taken up.
    fn after_sending(&self, sent: Steps, state: &M::State, emit: &mut dyn FnMut(Steps, M::State)) {
        let Some(&first) = sent.iter().next() else { return };
        let Some(agent) = sender(first.verb, first.agent) else { return };
        if self.layer.violated(state).is_some() {
            return emit(sent, *state);
        }
        let alone = sent.iter().count() == 1;
        let mut second = Vec::new();
        self.layer.steps_of(state, agent, &mut |action, after| {
            if alone && Some(action.verb) == taking(first.verb, action.verb) {
                self.settled(sent.and(action), after, emit);
            } else if translates(action.verb) {
                let unseen = |sent: &Action| self.layer.is_unseen(&after, agent, sent);
                if !sent.iter().any(unseen) || self.layer.violated(&after).is_some() {
                    self.settled(sent.and(action), after, emit);
                }
            } else if alone && first.verb == Verb::DmaRead && posts(action.verb) {
                second.push((action, after));
            }
        });
        for (action, after) in second {
            self.after_sending(sent.and(action), &after, emit);
        }
    }
}

impl<M: Layer> Model for Coarse<M> {
    type State = M::State;
    type Action = Steps;
    type Property = M::Property;

    fn initial(&self) -> Vec<M::State> {
        self.layer.initial()
    }

    fn successors(&self, state: &M::State, emit: &mut impl FnMut(Steps, M::State)) {
        // One copy for all callers, as in `Machine`.
        let emit = emit as &mut dyn FnMut(Steps, M::State);
        self.layer.successors(state, &mut |action, after| {
            let steps = Steps::one(action);
            match sender(action.verb, action.agent) {
                _ if !self.delays => emit(steps, after),
                Some(_) => self.after_sending(steps, &after, emit),
                None => self.settled(steps, after, emit),
            }
        });
    }

    fn violated(&self, state: &M::State) -> Option<M::Property> {
        self.layer.violated(state)
    }

    fn canonical(&self, state: M::State) -> M::State {
        self.layer.canonical(state)
    }
}

/// Who sends a request, if the step is that.
fn sender(verb: Verb, agent: u8) -> Option<Agent> {
    match verb {
        Verb::LoadMiss | Verb::StoreMiss | Verb::LockMiss => Some(Agent::Core(agent)),
        Verb::DmaRead | Verb::DmaWrite | Verb::DmaWritePart => Some(Agent::Device(agent)),
        _ => None,
    }
}

fn posts(verb: Verb) -> bool {
    matches!(verb, Verb::DmaWrite | Verb::DmaWritePart)
}

/// The verb, if it is the taking up of what was sent.
fn taking(sent: Verb, verb: Verb) -> Option<Verb> {
    let taken = match sent {
        Verb::DmaRead => matches!(verb, Verb::ServeDmaRead | Verb::TakeDmaRead),
        Verb::DmaWrite | Verb::DmaWritePart => matches!(verb, Verb::ServePosted | Verb::TakePosted),
        _ => matches!(verb, Verb::Serve | Verb::Take),
    };
    taken.then_some(verb)
}

/// Whether an agent's translation changes in the step, or its invalidation continues.
fn translates(verb: Verb) -> bool {
    use Verb::*;
    matches!(
        verb,
        EvictTranslation
            | BeginWalk
            | EndWalk
            | EvictIoTranslation
            | EvictOwnTranslation
            | Invalidate
            | Drained
            | Acknowledge
            | InvalidateIo
            | DrainedIo
    )
}
