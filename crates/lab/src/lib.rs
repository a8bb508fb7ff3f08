//! The laboratory: what other systems would have made of what a machine did.
//!
//! It has no clock and reads no files. A machine as it was found ([`found`]) and a stream of page
//! events go in; each [`system`] places every allocation anew ([`replay`]) and is measured at the
//! same instants ([`sample`]); [`run`] drives several systems through one pass over the stream.
#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod exact;
pub mod explain;
pub mod fleet;
pub mod found;
pub mod held;
pub mod machine;
pub mod psi;
pub mod replay;
pub mod results;
pub mod run;
pub mod sample;
pub mod simulate;
pub mod system;
pub mod tmo;
pub mod translation;
pub mod variant;
