//! Where each state came from, in the order of discovery: 6 bytes, from which a counterexample
//! is replayed ([`super::trace`]).

/// For each state its parent, and which of the parent's steps leads to it.
#[derive(Default)]
pub(super) struct Origins {
    parents: Vec<u32>,
    steps: Vec<u16>,
}

/// The parent of a state that the model can start in.
pub(super) const NONE: u32 = u32::MAX;

impl Origins {
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    pub(super) fn push(&mut self, parent: u32, step: usize) {
        assert!(self.parents.len() < NONE as usize, "more states than fit 32 bits");
        self.parents.push(parent);
        self.steps.push(u16::try_from(step).expect("fewer than 65 536 steps"));
    }

    /// Takes over what another has, behind all that is here.
    pub(super) fn append(&mut self, found: &mut Origins) {
        assert!(self.len() + found.len() < NONE as usize, "more states than fit 32 bits");
        self.parents.append(&mut found.parents);
        self.steps.append(&mut found.steps);
    }

    /// From a start to `state`: which of the starts, then which of the possible steps each time.
    pub(super) fn way_to(&self, state: u32) -> Vec<u16> {
        let mut way = Vec::new();
        let mut at = state;
        while at != NONE {
            way.push(self.steps[at as usize]);
            at = self.parents[at as usize];
        }
        way.reverse();
        way
    }

    pub(super) fn bytes(&self) -> usize {
        self.parents.len() * size_of::<u32>() + self.steps.len() * size_of::<u16>()
    }
}
