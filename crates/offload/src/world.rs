//! The world around the controllers: cgroup v2 files, the kernel's means, leases on what must not
//! outlive the daemon.
//!
//! Only `reclaim`, [`lease`], `trigger`, and `kill` write to a cgroup's files, and only to those of
//! cgroups that [`discover`] found under a configured pattern.

pub mod accessed_bits;
pub mod cgroup;
pub(crate) mod clock;
pub mod discover;
pub mod fault_alarm;
pub mod generations;
pub mod guardian;
pub(crate) mod host_memory;
pub(crate) mod kill;
pub mod lease;
pub(crate) mod objectives;
pub(crate) mod pods;
pub mod probe;
pub(crate) mod reclaim;
mod record;
pub(crate) mod return_cost;
pub(crate) mod trigger;
pub(crate) mod workers;

pub use cgroup::Cgroup;
pub use probe::Host;
