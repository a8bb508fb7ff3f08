//! Physical page frames: names, layout, and page allocators.
//!
//! The crate knows no files, clocks, or processes. The types at its root are Prairie's vocabulary
//! ([`Pfn`], [`Order`], [`MigrateType`], [`ZoneKind`]). On them build the measures of fragmentation
//! ([`indices`], [`contiguity`]), the table that holds the state of every frame ([`table`]), and the
//! placement policies ([`placement`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bit_tree;
pub mod block;
pub mod compaction;
pub mod contiguity;
pub mod free_area;
mod free_list;
pub mod indices;
mod kernel_version;
pub mod kstack;
pub mod kva;
pub mod layout;
mod migrate_type;
pub mod page_table;
pub mod placement;
mod run;
pub mod table;
mod units;
mod zone;

pub use block::{BlockCounts, Mobility};
pub use kernel_version::KernelVersion;
pub use layout::{Frame, Layout};
pub use migrate_type::MigrateType;
pub use table::FrameTable;
pub use units::{Order, Pfn};
pub use zone::ZoneKind;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
