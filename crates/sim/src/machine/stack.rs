//! Kernel stacks of processes: one block, or single pages of an object that holds all stacks.

use prairie_frames::kstack::Stacks;
use prairie_frames::placement::{ObjectPage, Request, gfp};
use prairie_frames::{MigrateType, Mobility, Order};

use super::Machine;
use super::page::{PageId, Use};

/// The kernel stack of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Stack {
    /// Its blocks.
    pub pages: Vec<PageId>,
    /// Where it is mapped, if it belongs to the object that holds all stacks.
    place: Option<u64>,
}

/// 8 KiB, as Linux 2.6 had.
const BLOCK: Order = Order::new(1).unwrap();

impl Machine {
    /// Allocates the stack of a new process; false if memory is short. What was allocated until
    /// then belongs to the process and ends with it.
    pub(super) fn start_stack(&mut self, number: u32) -> bool {
        if self.system.settings.policies.stacks_in_object {
            return self.start_mapped_stack(number);
        }
        self.add_to_stack(number, Request { order: BLOCK, ..kernel_request() })
    }

    /// Four single pages of the object of stacks, mapped above a guard page (FreeBSD,
    /// `vm_thread_stack_create`).
    fn start_mapped_stack(&mut self, number: u32) -> bool {
        let place = self.stack_places.take();
        self.processes[number as usize].stack.place = Some(place);
        let first = place * Stacks::AMD64.stride() + Stacks::AMD64.guards;
        (0..Stacks::AMD64.pages).all(|at| {
            let object = ObjectPage::KERNEL_STACKS;
            let page = ObjectPage { object, index: first + at, pages: u64::MAX };
            self.add_to_stack(number, Request { page: Some(page), ..kernel_request() })
        })
    }

    fn add_to_stack(&mut self, number: u32, request: Request) -> bool {
        let Some(id) = self.allocate(&request) else { return false };
        self.memory.pages.set_use(id, Use::Stack, number, 0);
        self.processes[number as usize].stack.pages.push(id);
        true
    }

    /// Frees the stack of a process that has ended.
    pub(super) fn end_stack(&mut self, stack: Stack) {
        stack.pages.into_iter().for_each(|id| self.free(id));
        if let Some(place) = stack.place {
            self.stack_places.give(place);
        }
    }
}

/// A page for the kernel.
fn kernel_request() -> Request {
    Request {
        order: Order::BASE,
        mobility: Mobility::Unmovable,
        migrate_type: MigrateType::Unmovable,
        gfp_flags: gfp::KERNEL,
        ..Request::default()
    }
}
