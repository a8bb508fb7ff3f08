//! A record of what the resizer saw and did, for who wants to know why the border is where it is.

use alloc::vec::Vec;

use super::Regions;
use super::resizer::{Resize, View};
use crate::layout::Frame;

/// One wake-up of the resizer of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The kernel's number for the node.
    pub node: u16,
    /// What it saw.
    pub view: View,
    /// What it did.
    pub resize: Resize,
    /// Whether it would have turned the border round, and had to wait.
    pub refused: bool,
    /// Pageblocks, or strays' pageblocks, that it came.
    pub steps: u64,
    /// Pages that were moved out of the way.
    pub pages_moved: u64,
    /// Allocations on any node that had the border moved for them since the wake-up before.
    pub waited: u64,
    /// Where the border stands now.
    pub border: Frame,
}

/// The record, if there is to be one.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    noted: Option<Vec<Decision>>,
    /// The part of [`Decision::waited`]'s count that earlier decisions reported.
    waited_before: u64,
}

impl Record {
    /// Adds a decision; `waited` is the count since the start.
    pub(super) fn note(&mut self, waited: u64, decision: Decision) {
        if let Some(noted) = &mut self.noted {
            let waited_before = core::mem::replace(&mut self.waited_before, waited);
            noted.push(Decision { waited: waited - waited_before, ..decision });
        }
    }
}

impl Regions {
    /// Lets every wake-up of the resizer be noted from now on, for
    /// [`take_decisions`](Regions::take_decisions).
    pub fn note_decisions(&mut self) {
        self.record.noted.get_or_insert_default();
        self.record.waited_before = self.counts.waited;
    }

    /// The wake-ups since the last call, in order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        self.record.noted.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
