//! Page-allocator events: what happened to which frames of a machine's memory, and when.
//!
//! An [`Event`] is one entry of the page allocator's history. Streams of events ([`EventSource`]) come
//! from a file ([`Reader`]), from other tools' traces, or from a generator, and go to a file
//! ([`Writer`]). A file also holds the state of all frames when the events began, so that a replay
//! starts from the recorded state.
#![deny(unsafe_code)]

mod attribution;
mod error;
mod event;
mod event_source;
mod format;
pub mod generate;
mod held;
pub mod import;
mod in_use;
mod kind;
mod metadata;
pub mod page_heap;
pub mod random;
pub mod record;
pub mod snapshot;
pub mod sources;
mod stall_point;
pub mod stalls;

pub use error::{Error, Result};
pub use event::{Event, EventKind, StackId, Text, Texts};
pub use event_source::EventSource;
pub use format::{
    Column, Columns, Events, FrameRuns, Kind, ROWS_IN_GROUP, Reader, SCHEMA_VERSION, Summary,
    Writer,
};
pub use kind::kind_of;
pub use metadata::{Metadata, Origin, Recording};
pub use prairie_frames::placement::gfp::GfpFlags;
pub use sources::Sources;
pub use stall_point::StallPoint;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
