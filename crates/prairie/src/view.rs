//! Results as reports: their figures, order, and text.

pub mod advice;
pub mod against;
pub mod colors;
pub mod diff;
pub mod explain;
pub mod findings;
pub mod fleet;
pub mod heap;
pub mod heap_experiment;
pub mod heap_lifetimes;
pub mod heap_processes;
pub mod hosts;
pub mod lab;
pub mod log;
pub mod migrate_check;
pub mod migrate_paper;
pub mod migrate_profile;
pub mod migrate_sim;
pub mod offload;
pub mod regions;
pub mod replay;
pub mod seeds;
pub mod sources;
pub mod stalls;
pub mod survey;
pub mod top;
