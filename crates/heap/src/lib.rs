//! A hugepage-aware heap for programs, after TEMERAIRE (Hunter et al., OSDI 2021).
//!
//! The crate is a malloc, so nothing on the way of an allocation may allocate through it: what the
//! heap notes about memory lies in storage of its own ([`storage`]), and what it asks of the
//! system goes through one trait ([`memory`]). Below the caches that serve single objects stands
//! the page heap ([`page_heap`]), which hands out whole pages and decides which huge pages fill
//! up and which drain.
//!
//! The feature `tools` adds the bench: an empirical driver (`driver`) and the playback of page-heap
//! traces with no memory behind them (`playback`).

#[cfg(feature = "tools")]
pub mod driver;
pub mod front;
pub mod inspect;
pub mod memory;
pub mod page_heap;
#[cfg(feature = "tools")]
pub mod playback;
pub mod storage;
mod units;

pub use front::global::PrairieHeap;
pub use units::{HugePageId, HugePages, HugeRange, PageId, PageRange, Pages};
