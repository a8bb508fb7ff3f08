//! A host's fragmentation, observed again and again at next to no cost.
//!
//! [`reading`] reads the few files that are cheap (free lists, counters, pressure), and [`moment`]
//! makes values of them. [`walk`] reads page flags within a CPU [`budget`]: every frame where that
//! fits, otherwise a random [`sample`] of pageblocks, whose totals come with an interval
//! ([`estimate`]). Both together are [`metrics`] for Prometheus and a [`summary`], which [`journal`] appends to Parquet files and `prairie top` shows.
#![forbid(unsafe_code)]

pub mod block;
pub mod budget;
pub mod collector;
pub mod estimate;
pub mod figures;
pub mod journal;
pub mod metrics;
pub mod moment;
pub mod population;
pub mod reading;
pub mod sample;
pub mod summary;
pub mod walk;

pub use budget::{Budget, Plan};
pub use collector::Collector;
pub use estimate::{Estimate, Sample};
pub use figures::Figures;
pub use moment::Moment;
pub use summary::Summary;
