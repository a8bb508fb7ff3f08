//! Simulated containers under the controllers of the crate `offload` (TMO).
//!
//! [`app`] models how cold an application's memory is, [`access`] when each page is touched. A
//! [`container`] keeps its pages on lists; `reclaim` chooses pages as a [`kernel`] does and moves
//! them to a [`backend`]. Refaulted pages are classified by refault distance and counted as the
//! kernel counts them. An [`agent`] is one of the controllers, and [`experiment`] reproduces the
//! paper's figures.
//!
//! Pages are mapped, so use shows in accessed bits; reads of files by system call are not
//! modeled. Nothing is random but by the seed.
#![forbid(unsafe_code)]

pub mod access;
pub mod agent;
pub mod app;
pub mod backend;
pub mod container;
pub mod experiment;
pub mod findings;
pub mod kernel;
mod lists;
pub mod psi;
mod reclaim;
#[cfg(test)]
mod tests;
