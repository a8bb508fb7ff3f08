//! A fleet: many servers that each run one workload for a while, and the state of their memory
//! (Contiguitas, 2023, Figures 2 and 5).
//!
//! A server here is coarser than the [`machine`](prairie_sim::machine): time goes in steps of some
//! seconds, programs do not compute, and reclaim takes the oldest read of the page cache. What is
//! exact is the allocator: every page goes through the system's own placement. Fragmentation comes
//! from where pages of different lifetimes land, which this keeps, at a cost that lets a thousand
//! servers live for a day.
//!
//! Each server is a pure function of the study, the system and its number, so that a study can be
//! cut into shards which run anywhere, in any order ([`study`]).
//!
//! Real servers send one row each ([`host_row`]); [`hosts`] summarizes a million of them.
#![forbid(unsafe_code)]

mod demand;
pub mod host_row;
pub mod hosts;
pub mod identity;
pub mod part;
pub mod row;
mod server;
pub mod study;
pub mod watch;

pub use server::Failures;
