//! The steps of a recording in the order in which they must have happened, which is not always
//! the order of the events that report them.

use super::step::Step;

/// Steps, each with the act that it belongs to.
#[derive(Clone, Debug, Default)]
pub struct Script {
    steps: Vec<(Moment, Step)>,
}

/// When a step happens: at an act, before it, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    act: u32,
    side: i8,
}

impl Moment {
    /// Just before an act.
    pub fn before(act: usize) -> Moment {
        Moment { act: act as u32, side: -1 }
    }

    /// With an act.
    pub fn at(act: usize) -> Moment {
        Moment { act: act as u32, side: 0 }
    }
}

impl Script {
    /// Adds a step. What happens at the same moment keeps the order in which it is added.
    pub fn add(&mut self, moment: Moment, step: Step) {
        self.steps.push((moment, step));
    }

    /// Puts the steps in the order of their moments.
    pub fn sort(&mut self) {
        self.steps.sort_by_key(|&(moment, _)| moment);
    }

    /// The steps and the acts that they belong to.
    pub fn steps(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.steps.iter().map(|(moment, step)| (moment.act as usize, step))
    }
}
