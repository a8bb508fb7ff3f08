//! The process's heap: the functions of malloc's family, and what happens to the heap as its
//! process starts, forks, runs, and ends.
//!
//! Files import only those above them:
//!
//! ```text
//! settings, limit, output, huge_page_mode, possible_cpus, deepbind
//!                                                               what the environment says
//! statistics, collect, publish                                  statistics, also for other processes
//! shared                                                        the heap of this process
//! nodes                                                         the heaps of several NUMA nodes
//! setup                                                         its setup in the first call
//! malloc                                                        slow paths, fast paths for Rust
//! at_exit, pprof, background, fork                              the rest of the life cycle
//! abi, cxx, export, global, load                                entry points
//! ```

pub mod abi;
pub mod at_exit;
pub mod background;
pub mod collect;
pub mod cxx;
pub mod deepbind;
mod export;
pub mod fork;
pub mod global;
pub mod huge_page_mode;
mod limit;
pub mod load;
pub mod malloc;
pub mod nodes;
pub mod output;
pub mod possible_cpus;
pub mod pprof;
pub mod publish;
mod reallocate;
pub mod settings;
pub mod setup;
pub mod shared;
pub mod statistics;
#[cfg(debug_assertions)]
pub mod validate;
