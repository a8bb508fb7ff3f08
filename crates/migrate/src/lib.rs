//! Contiguitas-HW: hardware that moves pages while they are in use, after Zhao et al.,
//! *Contiguitas*, ISCA 2023, section "Hardware Migration of Unmovables".
//!
//! - [`protocol`] is the protocol as data and pure transition functions. The checker proves it and
//!   the timing simulator times it: both call the same functions for every decision.
#![forbid(unsafe_code)]

pub mod protocol;
