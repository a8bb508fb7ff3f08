//! Contiguitas-HW: hardware that moves pages while they are in use, after Zhao et al.,
//! *Contiguitas*, ISCA 2023, section "Hardware Migration of Unmovables".
//!
//! - [`protocol`] is the protocol as data and pure transition functions. The checker proves it and
//!   the timing simulator times it: both call the same functions for every decision.
//! - [`checker`] visits every state of a protocol; [`check`] runs the checks that have a name.
//! - The timing simulator: [`params`] describe a machine; [`lru`] sets in the host's memory make
//!   up [`cache`]s and [`tlb`]s; [`hierarchy`] is what an access to a physical line costs, with
//!   [`mesh`] and [`contention`]; [`machine`] adds translation, the [`iommu`] and the page table
//!   ([`pages`]); [`workload`]s are what cores do, compared with an [`access_trace`] of a real
//!   program by their [`profile`]; [`engine`] moves pages by hardware, [`software`] has the steps
//!   and costs of moving them without; [`sim`] runs it all, and [`paper`] is the paper's
//!   evaluation, run again.
#![forbid(unsafe_code)]

pub mod access_trace;
pub mod access_windows;
pub mod address;
pub mod cache;
pub mod check;
pub mod checker;
pub mod contention;
pub mod engine;
pub mod geometry;
pub mod hierarchy;
pub mod iommu;
pub mod lru;
pub mod machine;
pub mod mesh;
pub mod pages;
pub mod paper;
pub mod params;
pub mod profile;
pub mod protocol;
pub mod random;
pub mod sim;
pub mod software;
pub mod tlb;
pub mod workload;
