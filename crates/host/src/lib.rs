//! A Linux host as values: what its kernel says about its memory, read once and kept.
//!
//! [`capture`] holds the raw material, [`page_flags`] what a frame's flags mean.
#![forbid(unsafe_code)]

pub mod capture;
pub mod page_flags;

pub use capture::{Capture, FrameRun, LeftOut};
pub use page_flags::PageFlags;
