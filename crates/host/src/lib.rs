//! A Linux host as values: what its kernel reports about its memory, read once and kept.
//!
//! [`capture`](fn@capture) reads the raw files into a [`Capture`], [`texts`] parses them,
//! [`classify`] interprets the [`PageFlags`] of frames as a [`FrameClass`], [`layout`] locates them,
//! [`survey`] computes the figures, and [`BlockMap`] the cells of a memory map. [`memory_blocks`] are the units in which memory goes
//! offline. [`contiguitas`] has the regions of a kernel with a movable border. [`psi`] and [`cgroup`] parse the files that the offload daemon reads every period.
//! [`kernel_log`] explains reports of failed allocations, [`verdict`] judges measures, and [`advice`]
//! holds the rules of what helps, for every command that gives advice.
#![forbid(unsafe_code)]
// Lists of frame ranges are meant where they have one entry.
#![allow(clippy::single_range_in_vec_init)]

pub mod advice;
mod block_map;
mod capture;
pub mod cgroup;
mod class;
pub mod classify;
pub mod contiguitas;
mod error;
mod kallsyms;
pub mod kernel_log;
pub mod kpageflags;
pub mod layout;
pub mod memory_blocks;
mod page_flags;
pub mod psi;
mod reader;
pub mod remedy;
mod roots;
pub mod survey;
pub mod texts;
pub mod verdict;
mod wanted;
mod wanted_pins;

pub use block_map::{BlockMap, Cell, MapBuilder, ZoneCells};
pub use capture::{Capture, FrameRun, LeftOut};
pub use class::FrameClass;
pub use classify::{ClassRun, Classifier};
pub use contiguitas::Contiguitas;
pub use error::{Error, ParseError};
pub use kallsyms::Kallsyms;
pub use memory_blocks::{BlockState, BlockZone, MemoryBlock, MemoryBlocks, Occupancy};
pub use page_flags::PageFlags;
pub use prairie_frames::KernelVersion;
pub use reader::{
    FrameOptions, Options, capture, capture_texts, capture_to, frames_cut, monotonic_ns,
    read_frames,
};
pub use roots::Roots;
pub use survey::{FrameTally, Survey};
pub use texts::ZoneId;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
