//! A hugepage-aware malloc after TEMERAIRE (Hunter et al., OSDI 2021).
//!
//! [`global_allocator!`] makes it the allocator of a Rust program, [`statistics`] shows where its
//! memory is. C and C++ programs preload or link `libprairie_heap` (crate `prairie-heap-preload`).
//!
//! # Layers
//!
//! Each layer uses only those below it:
//!
//! ```text
//! process     malloc's functions, and the life cycle: setup, fork, exit, background thread, publishing
//! front       fast path and cache levels, one object at a time
//! page_heap   whole pages: which huge pages fill up, and which drain
//! memory      reserved address space, physical memory given back to the system
//! storage     metadata, which never comes from the heap itself
//! ```
//!
//! A [page heap](page_heap::PageHeap) is a plain value over a [`memory::Memory`], so it also runs
//! without memory behind it: the feature `tools` adds an empirical driver (`driver`) and the
//! playback of page-heap traces (`playback`).

#[cfg(feature = "tools")]
pub mod driver;
#[cfg(feature = "tools")]
pub mod experiment;
mod front;
pub mod inspect;
mod mapping;
pub mod memory;
mod numa;
mod page_bits;
pub mod page_heap;
#[cfg(feature = "tools")]
pub mod playback;
mod process;
pub mod storage;
mod system_call;
mod units;

pub use front::limit::LimitStatistics;
pub use process::global::PrairieHeap;
pub use process::huge_page_mode::HugePageMode;
pub use process::shared::statistics;
pub use process::statistics::{
    ClassStatistics, Classes, LargeObjects, NodeStatistics, Nodes, SmallObjects, Statistics,
};
pub use units::{HugePageId, HugePages, HugeRange, PageId, PageRange, Pages};

/// The settings of a process, for programs that start others on the heap.
pub mod settings {
    pub use crate::process::output::OWNER;
    pub use crate::process::settings::{ExitStatistics, Limit, Path};
}

/// The format in which a process records the calls of its page heap.
pub mod recording {
    pub use crate::front::record::{DELETE, NEW, RELEASE, Recorded};
}

/// What the macros of this crate name.
#[doc(hidden)]
pub mod exported {
    pub use crate::front::entry;
    #[cfg(debug_assertions)]
    pub use crate::front::fatal::warn;
    #[cfg(debug_assertions)]
    pub use crate::process::validate::process as validate;
    pub use crate::process::{abi, cxx, deepbind, load};
}

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
