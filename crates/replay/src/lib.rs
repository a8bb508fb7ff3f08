//! Recorded page-allocator events under other allocators.
//!
//! The crate has no clock and reads no files. The state of a machine at the start ([`initial_state`]) and
//! a stream of page events go in; each allocator places every allocation itself ([`replay`]) and is
//! measured at the same instants; [`run`] drives several allocators through one pass over the
//! stream. [`exact`] compares the Linux model with a recorded kernel frame by frame, and
//! [`explain`] reports each decision of Contiguitas's resizer.
#![forbid(unsafe_code)]

pub mod compare;
pub mod exact;
pub mod explain;
pub mod held;
pub mod initial_state;
mod purpose;
pub mod replay;
pub mod results;
pub mod run;
