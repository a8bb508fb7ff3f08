//! The files of a memory cgroup (version 2), parsed: pure functions from `&str`, which do not
//! allocate unless the text is malformed, because a daemon calls them for hundreds of cgroups.

pub mod limit;
pub mod lru_gen;
pub mod memory_stat;
pub mod mounts;
pub mod swaps;

pub use limit::Limit;
pub use memory_stat::MemoryStat;
