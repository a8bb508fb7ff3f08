//! Transparent memory offloading (TMO): which containers to reclaim from, how much, and how.
//!
//! The first half **decides** and has neither clock nor I/O: [`Controller`] is the controller of one
//! container. It combines the paper's formula ([`senpai`]) with pressure signals ([`signal`]),
//! [`Guard`]s, page ages ([`ageing`]), over-reclaim, returned pages, and the service's own [`objective`].
//! The rules of emergencies decide about the host. [`g_swap`], [`senpai_py`],
//! and [`oomd`] are the laws of other tools, for comparison.
//!
//! The second half **acts**: [`world`] is cgroup v2 and the kernel's interfaces, [`daemon`] drives the
//! controllers with it, and [`config`] selects the containers. [`check`] reports whether a host is
//! ready, and [`coldness`] how much of a container's memory is cold.

pub mod ageing;
mod balance;
mod budget;
mod call_size;
pub mod check;
pub mod coldness;
mod conditions;
pub mod config;
mod controller;
mod counter;
pub mod daemon;
mod emergency;
pub mod g_swap;
mod guard;
pub mod kubernetes;
pub mod objective;
mod observation;
pub mod oomd;
mod over_reclaim;
mod precedence;
pub mod pressure;
pub mod profile;
mod restraint;
mod returns;
pub mod senpai;
pub mod senpai_py;
mod series;
pub mod signal;
pub mod status;
pub mod tiers;
mod trial;
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
