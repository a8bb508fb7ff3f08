//! The fast paths of `malloc` and `free`, and what exports the family under its C names.
//!
//! The functions are defined in the library that exports them, not here: a program that only links
//! this crate keeps its own malloc.
//!
//! The instructions differ by architecture. Both read the control block while
//! another thread may set the heap up, or open the window. x86-64 keeps the order of loads; aarch64
//! acquires what is stored last.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[doc(hidden)]
pub use core::arch::naked_asm;
#[doc(hidden)]
pub use core::mem::offset_of;

#[doc(hidden)]
pub use super::code::FIRST_CARRYING;
#[doc(hidden)]
pub use super::control::{CONTROL, Control};
#[doc(hidden)]
pub use super::cpu::{CPU_ZERO, TABLE};
#[doc(hidden)]
pub use super::mark::PLACE_APART;
#[doc(hidden)]
pub use super::rseq::{CPU_ID, RSEQ_CS};
#[doc(hidden)]
pub use super::size_class::FINE_CLASSES;
