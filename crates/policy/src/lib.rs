//! Placement policies in shared libraries.
//!
//! A library exports a table of functions ([`abi`]); [`Library`] loads it and makes a
//! [`Policy`](prairie_frames::placement::custom::Policy) of it for each replay. [`template`] is the
//! source of such a library, which `prairie allocators new` copies.
//!
//! A library runs in this process: it can do whatever the user can. What it does to the core is
//! checked; what it does to memory is not.

pub mod abi;
mod calls;
mod library;
pub mod template;

pub use library::{Library, LibraryPolicy, LoadError};
