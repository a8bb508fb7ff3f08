//! Policies that users write, in Python or in a library of their own, on a core that keeps the
//! frame table correct.
//!
//! A [`Policy`] decides; the [`Core`] owns the free lists and checks every block that the policy
//! returns. A block is on a free list, taken by the policy, or in use, and only the core moves it
//! from one to the next, so that no frame is handed out twice. What a policy does wrong becomes a
//! [`Fault`] that names the call. From then on [`Custom`] decides by its own rule, without the
//! policy, so that the replay can be ended in order.
//!
//! ```text
//! free list --take_block--> taken --returned from allocate--> in use
//!     ^                       |  ^                              |
//!     +----------put----------+  +-------------free-------------+
//! ```

mod checked;
mod nearest;
mod region;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::checked::{Call, Core, Fault, Freed};
pub use self::region::{LISTS, Region};

use super::{Counter, Placement, Request};
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, Pfn};

/// A placement policy on a [`Core`]. Errors are the policy's own, such as an exception's text.
pub trait Policy {
    /// Prepares regions, before any memory is there.
    ///
    /// # Errors
    /// Ends the replay.
    fn boot(&mut self, _core: &mut Core) -> Result<(), String> {
        Ok(())
    }

    /// A block that was taken from the core, of the order requested; `None` if nothing fits.
    ///
    /// # Errors
    /// Ends the replay.
    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String>;

    /// Puts a freed block, which counts as taken, on a free list, or keeps it.
    ///
    /// # Errors
    /// Ends the replay.
    fn free(&mut self, core: &mut Core, block: &Freed) -> Result<(), String> {
        core.put_back(block);
        Ok(())
    }

    /// Upkeep off the allocation path.
    ///
    /// # Errors
    /// Ends the replay.
    fn tick(&mut self, _core: &mut Core) -> Result<(), String> {
        Ok(())
    }

    /// Whether the policy decides for many requests at once.
    fn plans(&self) -> bool {
        false
    }

    /// A place for each of the requests that come next, or [`ASK`] for those that
    /// `allocate` shall decide.
    ///
    /// # Errors
    /// Ends the replay.
    fn allocate_many(&mut self, _core: &mut Core, _: &[Request]) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}

/// The place that stands for a call of [`Policy::allocate`].
pub const ASK: u8 = u8::MAX;

/// Where the first fault of a policy is left for the one who drives the replay.
pub trait Report: Send + Sync {
    /// Takes a fault. Called once.
    fn fault(&self, fault: Fault);
}

/// A user's policy as a placement.
pub struct Custom<P> {
    core: Core,
    policy: P,
    report: Arc<dyn Report>,
    failed: bool,
    plan: Vec<u8>,
    planned: usize,
}

impl<P: Policy> Custom<P> {
    /// A policy on the zones of `layout`. `name` stands in faults, which go to `report`.
    pub fn new(layout: &Layout, name: &str, policy: P, report: Arc<dyn Report>) -> Custom<P> {
        let (core, plan) = (Core::new(layout, name), Vec::new());
        let mut custom = Custom { core, policy, report, failed: false, plan, planned: 0 };
        custom.core.begin(Call::Boot);
        let result = custom.policy.boot(&mut custom.core);
        custom.end(result);
        custom
    }

    /// The core, for tests.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Checks a call's outcome; `None` if the policy must not be asked any more.
    fn end<T>(&mut self, result: Result<T, String>) -> Option<T> {
        match self.core.end(result) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fail(fault);
                None
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        if !core::mem::replace(&mut self.failed, true) {
            self.report.fault(fault);
        }
    }

    /// Places without the policy: as planned, or after a fault by the core's own rule.
    fn place(&mut self, request: &Request, owner: Owner) -> Option<Frame> {
        if self.failed {
            return self.core.allocate_by_rule(request, owner);
        }
        let place = self.plan.get(self.planned).copied().unwrap_or(ASK);
        self.planned += 1;
        if place != ASK {
            match self.core.take_at(request, place) {
                Ok(Some(frame)) => return Some(self.core.hand_out(frame, request, owner)),
                Ok(None) => {}
                Err(fault) => {
                    self.fail(fault);
                    return self.core.allocate_by_rule(request, owner);
                }
            }
        }
        self.core.begin(Call::Allocate(*request));
        let result = self.policy.allocate(&mut self.core, request);
        let settled = self.end(result).map(|answer| self.core.settle(answer, request, owner));
        match settled {
            Some(Ok(frame)) => frame,
            Some(Err(fault)) => {
                self.fail(fault);
                self.core.allocate_by_rule(request, owner)
            }
            None => self.core.allocate_by_rule(request, owner),
        }
    }
}

impl<P: Policy> Placement for Custom<P> {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.core.with(table, |core| core.seed(frame, order));
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        self.core.swap(table);
        let frame = self.place(request, owner);
        self.core.swap(table);
        frame
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        self.core.swap(table);
        let block = self.core.take_freed(frame, cpu);
        if self.failed {
            self.core.put_back(&block);
        } else {
            self.core.begin(Call::Free(block));
            let result = self.policy.free(&mut self.core, &block);
            if self.end(result).is_none() {
                self.core.put_back_if_taken(&block);
            }
        }
        self.core.swap(table);
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        if self.failed {
            return;
        }
        self.core.swap(table);
        self.core.begin(Call::Tick);
        let result = self.policy.tick(&mut self.core);
        self.end(result);
        self.core.swap(table);
    }

    fn plans(&self) -> bool {
        !self.failed && self.policy.plans()
    }

    fn plan(&mut self, table: &mut FrameTable, requests: &[Request]) {
        if self.failed {
            return;
        }
        self.core.swap(table);
        self.core.begin(Call::Plan(requests.len()));
        let result = self.policy.allocate_many(&mut self.core, requests);
        let plan = self.end(result);
        match plan.map(|plan| self.core.check_plan(plan, requests.len())) {
            Some(Ok(plan)) => (self.plan, self.planned) = (plan, 0),
            Some(Err(fault)) => self.fail(fault),
            None => {}
        }
        self.core.swap(table);
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        alloc::vec![(MigrateType::Movable, self.core.free_blocks(zone))]
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.core.free_frames(zone)
    }

    fn cached_frames(&self) -> u64 {
        self.core.taken_frames()
    }

    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        self.core.validate(table);
    }
}
