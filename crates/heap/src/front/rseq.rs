//! Restartable sequences: critical sections that the kernel restarts when the thread is preempted,
//! moved to another CPU, or interrupted by a signal.
//!
//! The area that the kernel and a thread share is the one that glibc (2.35 and later) has
//! registered, `__rseq_offset` bytes from the thread pointer. Of it only two documented fields are
//! used: `cpu_id` is read, `rseq_cs` is written. Both behave as documented on kernels (6.19 and
//! later) that no longer refresh the area at each preemption.
//!
//! A section has a descriptor in the ELF section `__rseq_cs`: its first instruction, its length,
//! and the abort handler, which glibc's signature precedes. All sections here have the same form:
//! they read the CPU's slab through [`super::cpu`]'s table, prepare, and end with one store that
//! commits. A thread without registration has a negative `cpu_id`; the table maps it to a slab that
//! is empty and full at once, so no section has to check.
//!
//! The sections of a CPU need no barriers between them: the CPU sees its own loads and stores in
//! order, and the kernel orders those of a thread that it moves. Two places are shared with other
//! CPUs. An entry of the table is stored with release; the sections read it and then what its
//! address leads to, an order that x86-64 and aarch64 keep. And what a section stored is read by
//! others only after a barrier on its CPU (`membarrier`).

/// The end of a section: its descriptor, and its abort handler.
///
/// Labels: 91 where the section is entered again, 92 its first instruction, 93 behind its last,
/// 94 the abort handler, 95 the descriptor.
#[macro_export]
#[doc(hidden)]
macro_rules! rseq_describe {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "95:\n",
            ".long 0, 0\n",
            ".quad 92b, 93b - 92b, 94f\n",
            ".popsection\n",
            ".pushsection __rseq_cs_ptr_array, \"aw\"\n",
            ".quad 95b\n",
            ".popsection\n",
            ".pushsection .text.prairie_rseq_abort, \"ax\", @progbits\n",
            $crate::rseq_abort_text!(),
            ".popsection\n",
        )
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::slab::Slab;
use super::weak::weak_address;

/// Offset of `rseq_cs` in the registered area (`struct rseq` in `linux/rseq.h`).
pub const RSEQ_CS: usize = 8;
/// Offset of `cpu_id` in the registered area.
pub const CPU_ID: usize = 4;

/// Where the thread's registered area is: the offset from the thread pointer, or `None` if the C
/// library has registered none.
pub fn registered_offset() -> Option<isize> {
    let offset = weak_address!("__rseq_offset").cast::<isize>();
    let size = weak_address!("__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: both are constants of the C library, set before any code of a program runs. The size
    // is 0 where the registration is switched off.
    unsafe { (*size != 0).then_some(*offset) }
}

/// The place of the registered area and of the table of slabs: what every section needs.
#[derive(Clone, Copy)]
pub struct Area {
    /// Offset of the registered area from the thread pointer.
    pub offset: isize,
    /// Entry of CPU 0 in the table of slabs; the two entries before it stand for threads without
    /// registration.
    pub table: *const *mut Slab,
}

/// The sections, and what finds the CPU that they are for.
pub trait Sections {
    /// The slab of the CPU that the thread runs on; it may run on another one at any time.
    ///
    /// # Safety
    /// The area is registered, and the table has an entry for each possible CPU.
    unsafe fn slab(self) -> *mut Slab;

    /// The CPU that the thread runs on, negative if it has no registration.
    ///
    /// # Safety
    /// As for [`Sections::slab`].
    unsafe fn cpu(self) -> i32;

    /// Takes the top object of stack `class`, or null if it is empty.
    ///
    /// # Safety
    /// As for [`Sections::slab`], and `class` names a stack.
    unsafe fn pop(self, class: usize) -> *mut u8;

    /// Puts an object on stack `class`. Whether there was room.
    ///
    /// # Safety
    /// As for [`Sections::pop`]; the object is the stack's from now on.
    unsafe fn push(self, class: usize, object: *mut u8) -> bool;

    /// Puts objects on stack `class`, the last one on top, as many as there is room for. Returns
    /// how many.
    ///
    /// # Safety
    /// As for [`Sections::push`].
    unsafe fn push_batch(self, class: usize, objects: &[*mut u8]) -> usize;

    /// Takes the top objects of stack `class`, whose lowest slot is number `begin`, into `objects`.
    /// Returns how many.
    ///
    /// # Safety
    /// As for [`Sections::pop`].
    unsafe fn pop_batch(self, class: usize, begin: usize, objects: &mut [*mut u8]) -> usize;

    /// Replaces the header of stack `class` of `slab`, if the thread runs on the slab's CPU and the
    /// header still is `old`. Whether it did.
    ///
    /// # Safety
    /// As for [`Sections::pop`], and `new` describes objects that are in the stack.
    unsafe fn replace_header(self, slab: *mut Slab, class: usize, old: u64, new: u64) -> bool;
}
