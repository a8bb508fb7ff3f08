//! A simulated machine: processes, page cache, kernel objects, reclaim, swap, and compaction over
//! any of the allocators ([`machine`]); the benchmarks of the 2006 paper on it ([`mod@bench`]); one
//! scenario under several allocators, sampled over time ([`simulate`]); and what huge pages are
//! worth to programs, by a model of address translation ([`translation`]).
#![forbid(unsafe_code)]

pub mod bench;
pub mod machine;
pub mod simulate;
pub mod translation;
pub mod workload;
