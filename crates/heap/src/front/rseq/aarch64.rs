//! Sections for aarch64.
//!
//! Loads and stores of one CPU to different places may reach others in any order here. A section
//! finds the slab by a chain of addresses (the CPU's number, the table's entry, the slab), which
//! orders its loads without an instruction of its own.

use core::arch::asm;

use super::super::slab::Slab;
use super::{Area, CPU_ID, RSEQ_CS, Sections};

/// The abort handler behind glibc's signature: on aarch64 the instruction `brk #0x45e0`.
#[macro_export]
#[doc(hidden)]
macro_rules! rseq_abort_text {
    () => {
        concat!(".balign 4\n", ".inst 0xd428bc00\n", "94:\n", "b 91b\n",)
    };
}

/// A section on stack `$class` of the slab, `{t}`, of the CPU that the thread runs on: enters it,
/// runs `$body`, which finds the stack's header at `{header}` and commits right before label 93, and
/// describes it.
macro_rules! section {
    ($area:expr, $class:expr, [$($body:expr,)*], $($operands:tt)*) => {
        asm!(
            "mrs {area}, tpidr_el0",
            "add {area}, {area}, {rseq}",
            "91:",
            "adrp {t}, 95f",
            "add {t}, {t}, :lo12:95f",
            "str {t}, [{area}, #{RSEQ_CS}]",
            "92:",
            "ldrsw {t}, [{area}, #{CPU_ID}]",
            "ldr {t}, [{table}, {t}, lsl #3]",
            "add {header}, {t}, {class}, lsl #3",
            $($body,)*
            rseq_describe!(),
            area = out(reg) _,
            t = out(reg) _,
            header = out(reg) _,
            class = in(reg) $class,
            rseq = in(reg) $area.offset,
            table = in(reg) $area.table,
            CPU_ID = const CPU_ID,
            RSEQ_CS = const RSEQ_CS,
            $($operands)*
            options(nostack),
        )
    };
}

impl Sections for Area {
    #[inline]
    unsafe fn slab(self) -> *mut Slab {
        let slab;
        // SAFETY: reads `cpu_id`, and the table's entry for it, which exists by the caller's
        // promise. It acquires what the thread that stored the entry has released, as the compiler
        // does not keep the order of addresses.
        unsafe {
            asm!(
                "mrs {t}, tpidr_el0",
                "add {t}, {t}, {rseq}",
                "ldrsw {t}, [{t}, #{CPU_ID}]",
                "add {t}, {table}, {t}, lsl #3",
                "ldar {t}, [{t}]",
                t = out(reg) slab,
                rseq = in(reg) self.offset,
                table = in(reg) self.table,
                CPU_ID = const CPU_ID,
                options(nostack, preserves_flags),
            );
        }
        slab
    }

    unsafe fn cpu(self) -> i32 {
        let cpu;
        // SAFETY: reads `cpu_id`.
        unsafe {
            asm!(
                "mrs {t}, tpidr_el0",
                "add {t}, {t}, {rseq}",
                "ldr {cpu:w}, [{t}, #{CPU_ID}]",
                t = out(reg) _,
                cpu = lateout(reg) cpu,
                rseq = in(reg) self.offset,
                CPU_ID = const CPU_ID,
                options(nostack, readonly, preserves_flags),
            );
        }
        cpu
    }

    #[inline]
    unsafe fn pop(self, class: usize) -> *mut u8 {
        let object;
        // SAFETY: the section reads within the CPU's slab and commits with the store of the top.
        unsafe {
            section!(
                self,
                class,
                [
                    "ldr {n:w}, [{header}]",
                    "ldr {object}, [{t}, {n}, lsl #3]",
                    "cbz {object}, 93f",
                    "sub {n:w}, {n:w}, #1",
                    "str {n:w}, [{header}]",
                    "93:",
                ],
                n = out(reg) _,
                object = out(reg) object,
            );
        }
        object
    }

    #[inline]
    unsafe fn push(self, class: usize, object: *mut u8) -> bool {
        let done: u32;
        // SAFETY: the section writes one slot above the top, within the stack's room, and commits
        // with the store of the top.
        unsafe {
            section!(
                self,
                class,
                [
                    "mov {done:w}, #0",
                    "ldp {n:w}, {end:w}, [{header}]",
                    "cmp {n:w}, {end:w}",
                    "b.hs 96f",
                    "add {n:w}, {n:w}, #1",
                    "str {object}, [{t}, {n}, lsl #3]",
                    "str {n:w}, [{header}]",
                    "93:",
                    "mov {done:w}, #1",
                    "96:",
                ],
                n = out(reg) _,
                end = out(reg) _,
                done = out(reg) done,
                object = in(reg) object,
            );
        }
        done != 0
    }

    unsafe fn push_batch(self, class: usize, objects: &[*mut u8]) -> usize {
        let pushed: usize;
        // SAFETY: the section writes slots above the top, within the stack's room, reads within
        // `objects`, and commits with the store of the top.
        unsafe {
            section!(
                self,
                class,
                [
                    "ldp {n:w}, {pushed:w}, [{header}]",
                    "sub {pushed}, {pushed}, {n}",
                    "cmp {pushed}, {count}",
                    "csel {pushed}, {count}, {pushed}, hi",
                    "cbz {pushed}, 93f",
                    "add {slot}, {t}, {n}, lsl #3",
                    "mov {i}, #0",
                    "97:",
                    "ldr {object}, [{objects}, {i}, lsl #3]",
                    "add {i}, {i}, #1",
                    "str {object}, [{slot}, {i}, lsl #3]",
                    "cmp {i}, {pushed}",
                    "b.lo 97b",
                    "add {n:w}, {n:w}, {pushed:w}",
                    "str {n:w}, [{header}]",
                    "93:",
                ],
                n = out(reg) _,
                i = out(reg) _,
                slot = out(reg) _,
                object = out(reg) _,
                pushed = out(reg) pushed,
                objects = in(reg) objects.as_ptr(),
                count = in(reg) objects.len(),
            );
        }
        pushed
    }

    unsafe fn pop_batch(self, class: usize, begin: usize, objects: &mut [*mut u8]) -> usize {
        let popped: usize;
        // SAFETY: the section reads slots of the stack, writes within `objects`, which is written
        // again if it restarts, and commits with the store of the top.
        unsafe {
            section!(
                self,
                class,
                [
                    "ldr {n:w}, [{header}]",
                    "subs {popped}, {n}, {begin}",
                    "csel {popped}, {popped}, xzr, hs",
                    "cmp {popped}, {count}",
                    "csel {popped}, {count}, {popped}, hi",
                    "cbz {popped}, 93f",
                    "add {slot}, {t}, {n}, lsl #3",
                    "mov {i}, #0",
                    "97:",
                    "ldr {object}, [{slot}], #-8",
                    "str {object}, [{objects}, {i}, lsl #3]",
                    "add {i}, {i}, #1",
                    "cmp {i}, {popped}",
                    "b.lo 97b",
                    "sub {n:w}, {n:w}, {popped:w}",
                    "str {n:w}, [{header}]",
                    "93:",
                ],
                n = out(reg) _,
                i = out(reg) _,
                slot = out(reg) _,
                object = out(reg) _,
                popped = out(reg) popped,
                begin = in(reg) begin,
                objects = in(reg) objects.as_mut_ptr(),
                count = in(reg) objects.len(),
            );
        }
        popped
    }

    unsafe fn replace_header(self, slab: *mut Slab, class: usize, old: u64, new: u64) -> bool {
        let done: u32;
        // SAFETY: the section writes a header of the CPU's own slab, with one store.
        unsafe {
            section!(
                self,
                class,
                [
                    "mov {done:w}, #0",
                    "cmp {t}, {slab}",
                    "b.ne 96f",
                    "ldr {t}, [{header}]",
                    "cmp {t}, {old}",
                    "b.ne 96f",
                    "str {new}, [{header}]",
                    "93:",
                    "mov {done:w}, #1",
                    "96:",
                ],
                done = out(reg) done,
                slab = in(reg) slab,
                old = in(reg) old,
                new = in(reg) new,
            );
        }
        done != 0
    }
}
