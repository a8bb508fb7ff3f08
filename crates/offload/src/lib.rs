//! Transparent memory offloading (TMO): who may be made smaller, by how much, and by what means.
//!
//! The first half **decides**: [`controller`] is one container's controller, made of the paper's
//! formula ([`senpai`]), a pressure of three terms ([`pressure`]), [`guard`]s, [`ageing`],
//! [`over_reclaim`] and [`returns`]; [`g_swap`], [`senpai_py`] and [`oomd`] are other tools' laws, for
//! comparison. None of it has a clock or touches a file.
//!
//! The second half **acts**: [`world`] is cgroup v2 and the kernel's means, [`daemon`] drives the
//! controllers with it, [`config`] says for whom. [`check`] tells whether a host is ready, and
//! [`coldness`] how much of a container's memory is cold.

pub mod ageing;
pub mod budget;
pub mod check;
pub mod coldness;
mod conditions;
pub mod config;
pub mod controller;
pub mod counter;
pub mod daemon;
pub mod g_swap;
pub mod guard;
pub mod log;
pub mod notify;
pub mod observation;
pub mod oomd;
pub mod over_reclaim;
pub mod pressure;
pub mod profile;
pub mod returns;
pub mod senpai;
pub mod senpai_py;
pub mod series;
pub mod signal;
pub mod status;
pub mod world;

pub use controller::{Controller, Decision, Reclaim};
pub use counter::{Counter, Counters};
pub use guard::Guard;
pub use observation::{Idle, Observation, Room};
pub use pressure::Pressure;
pub use profile::Profile;
pub use signal::{SIGNALS, Signal};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
