//! Contiguitas on the running kernel: unmovable memory is confined to a kernel region whose size
//! follows demand, by moving memory blocks between the zones with memory hotplug.
//!
//! The first half **decides** and has neither clock nor I/O. [`policy`] turns a [`Sample`] of the
//! zones into the next [`Step`], with the resizer that the simulated machine uses
//! ([`prairie_frames::placement::regions::resizer`]); [`choice`] picks the block, [`limits`] bounds
//! retries and operations an hour, [`rest`] says when a glance suffices, [`ratios`] computes the kernel's lower-zone reserves.
//!
//! The second half **acts**: [`host`] reads the kernel's files, [`operation`] converts one block with
//! a timer, [`kswapd`] sets a priority, [`record`] and [`guardian`] keep what has to be undone, [`daemon`] is the loop, which
//! takes [`request`]s, and [`check`], [`undo`], [`huge`], and [`reserve`] serve the command's other parts.

pub mod check;
pub mod choice;
pub mod config;
pub mod daemon;
pub mod guardian;
pub mod host;
pub mod huge;
pub mod kswapd;
pub mod limits;
pub mod lock;
pub mod operation;
pub mod policy;
pub mod ratios;
pub mod reclaim;
pub mod record;
pub mod request;
pub mod reserve;
pub mod rest;
pub mod run;
pub mod sample;
pub mod series;
pub mod settings;
pub mod status;
pub mod timer;
pub mod undo;

pub use choice::{Block, Place};
pub use config::Config;
pub use policy::{Policy, Reason, Step};
pub use sample::{NodeSample, Sample};
