//! Transparent memory offloading (TMO): which containers to reclaim from, how much, and how.
//!
//! The first half **decides** and has neither clock nor I/O: [`controller`] is the controller of one
//! container. It combines the paper's formula ([`senpai`]) with pressure signals ([`signal`]),
//! [`guard`]s, page ages ([`ageing`]), [`over_reclaim`], [`returns`], and the service's own [`objective`].
//! [`emergency`] decides about the host. [`g_swap`], [`senpai_py`],
//! and [`oomd`] are the laws of other tools, for comparison.
//!
//! The second half **acts**: [`world`] is cgroup v2 and the kernel's interfaces, [`daemon`] drives the
//! controllers with it, and [`config`] selects the containers. [`check`] reports whether a host is
//! ready, and [`coldness`] how much of a container's memory is cold.

pub mod ageing;
pub mod budget;
pub mod call_size;
pub mod check;
pub mod coldness;
mod conditions;
pub mod config;
pub mod controller;
pub mod counter;
pub mod daemon;
pub mod emergency;
pub mod g_swap;
pub mod guard;
pub mod kubernetes;
pub mod objective;
pub mod observation;
pub mod oomd;
pub mod over_reclaim;
pub mod precedence;
pub mod pressure;
pub mod profile;
pub mod restraint;
pub mod returns;
pub mod senpai;
pub mod senpai_py;
pub mod series;
pub mod signal;
pub mod status;
pub mod tiers;
pub mod world;

pub use controller::{Controller, Decision, Reclaim};
pub use counter::{Counter, Counters};
pub use guard::Guard;
pub use observation::{Idle, Observation, Orders, Room};
pub use pressure::Pressure;
pub use profile::Profile;
pub use signal::{SIGNALS, Signal};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
