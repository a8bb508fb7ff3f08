//! The system interface below the page heap: address space and physical memory.

mod counting;
pub mod node;
mod on_node;
mod shared;
mod system;

pub use counting::{Calls, CountingMemory, Resident};
pub use on_node::{OnNode, Placement};
pub use shared::Shared;
pub use system::SystemMemory;

use crate::storage::Storage;
use crate::units::{HugePages, HugeRange, PageRange};

/// The system below the page heap: address space, and physical memory behind it.
///
/// The page heap never reads or writes the memory that it hands out, so it runs on the real system
/// ([`SystemMemory`]) and on one that only counts, in playback and tests.
pub trait Memory {
    /// Storage of the page heap's metadata.
    type Storage: Storage;

    /// Reserves address space of at least `len` huge pages, aligned to a huge page, with no
    /// physical memory behind it yet. It reads as zeros. `None` if the system refuses.
    fn reserve(&mut self, len: HugePages) -> Option<HugeRange>;

    /// Announces that the range is about to be used as whole huge pages. None of it has memory
    /// behind it. This is advice: the system may back it late, or by small pages.
    fn back(&mut self, range: HugeRange);

    /// Gives the physical memory of the pages back; they read as zeros afterwards. Whether the
    /// system did: if not, nothing has changed.
    ///
    /// A range that covers part of a huge page breaks that huge page.
    fn release(&mut self, range: PageRange) -> bool;

    /// Gives address space without memory behind it back to the system. Whether the system took
    /// it: if not, it is still reserved.
    fn unreserve(&mut self, range: HugeRange) -> bool;
}
