//! A Linux host as values: what its kernel says about its memory, read once and kept.
//!
//! [`capture`] reads the raw material and holds it, [`texts`] parses it, [`class`] and
//! [`classify`] say what the flags of frames mean.
#![forbid(unsafe_code)]

pub mod capture;
pub mod class;
pub mod classify;
pub mod error;
pub mod kpageflags;
pub mod page_flags;
pub mod texts;

pub use capture::{Capture, FrameRun, LeftOut};
pub use class::FrameClass;
pub use classify::{ClassRun, Classifier};
pub use error::{Error, ParseError};
pub use page_flags::PageFlags;
pub use texts::ZoneId;
