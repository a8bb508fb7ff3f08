//! The heap of the process: its shared levels, and its statistics.

use super::collect;
use super::publish::Publisher;
use super::statistics::{ClassStatistics, Classes, Statistics};
use crate::front::choice::ChosenPageHeap;
use crate::front::heap::{Heap, Tables};
use crate::front::size_class::SizeClass;

/// The type of [`HEAP`].
pub type ProcessHeap = Heap<ChosenPageHeap, Publisher>;

/// The shared levels of the process's heap.
pub static HEAP: ProcessHeap = Heap::new(&TABLES);
static TABLES: Tables = Tables::new();

/// The statistics of the process. `None` before the first allocation, and in a signal handler that
/// interrupted the heap.
pub fn statistics() -> Option<Statistics> {
    collect::statistics(&HEAP, Classes::Live(class_now))
}

fn class_now(class: SizeClass) -> ClassStatistics {
    collect::class(&HEAP, class)
}
