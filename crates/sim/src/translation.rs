//! From contiguity to speed: what address translation costs a program whose memory lies in pages
//! of several sizes (Contiguitas, 2023, Figure 6).
//!
//! Two separate questions:
//!
//! - [`fragment`]: how much of its memory a program gets in pages of 2 MiB and 1 GiB on a machine
//!   that a *fragmenter* has had before it, under a system's placement. It runs on that placement.
//! - [`tlb`]: how many cycles translations then take. A small trace-driven model: two levels of
//!   TLB, caches of upper page-table entries, and page-table entries that lie in the data caches
//!   or in memory. Accesses are drawn from a skewed distribution over the program's pages.
//!
//! [`study`] joins them. A performance ratio is one of cycles: those that the program computes,
//! which do not depend on its pages, and those that its translations take. [`recorded`] asks the
//! second question of the accesses of a real program.
//!
//! Not modeled: translations of instructions, virtual machines (whose walks are two-dimensional),
//! page faults and the zeroing of huge pages, and effects of contiguity besides translation.

pub mod fragment;
pub mod hardware;
pub mod recorded;
pub mod study;
pub mod tlb;
