//! Compares documents of measurements, whatever they measure.
//!
//! [`rows()`] makes one number of each value in a JSON document, under a name that finds the same value
//! in another document. [`Comparison`] sets several documents before against several after, with the
//! spread of each side ([`spread`]). [`Condition`] is what a test in continuous integration asks of
//! the result. Everything is pure: no clock, no files.
#![forbid(unsafe_code)]

pub mod comparison;
pub mod condition;
pub mod rows;
pub mod spread;

pub use comparison::{Change, Comparison};
pub use condition::{Condition, Finding};
pub use rows::rows;
pub use spread::{Interval, Spread};
