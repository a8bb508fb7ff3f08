//! The world around the controllers: cgroup v2 files, the kernel's means, leases on what must not
//! outlive the daemon.
//!
//! Only [`reclaim`], [`lease`], [`trigger`], and [`kill`](mod@kill) write to a cgroup's files, and only to those of
//! cgroups that [`discover`] found under a configured pattern.

pub mod accessed_bits;
pub mod cgroup;
pub mod clock;
pub mod discover;
pub mod fault_alarm;
pub mod generations;
pub mod guardian;
pub mod host_memory;
pub mod kill;
pub mod lease;
pub mod objectives;
pub mod pods;
pub mod probe;
pub mod reclaim;
pub mod return_cost;
pub mod trigger;
pub mod workers;

pub use cgroup::Cgroup;
pub use probe::Host;
