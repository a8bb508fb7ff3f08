//! Sections for x86-64.

use core::arch::asm;

use super::super::slab::Slab;
use super::{Area, CPU_ID, RSEQ_CS, Sections};

/// The abort handler behind glibc's signature: on x86 the end of an undefined instruction,
/// `ud1 0x53053053(%rip), %edi`.
#[macro_export]
#[doc(hidden)]
macro_rules! rseq_abort_text {
    () => {
        concat!(".byte 0x0f, 0xb9, 0x3d\n", ".long 0x53053053\n", "94:\n", "jmp 91b\n",)
    };
}

/// A section on stack `$class` of the slab, `{t}`, of the CPU that the thread runs on: enters it,
/// runs `$body`, which commits right before label 93, and describes it.
macro_rules! section {
    ($area:expr, $class:expr, [$($body:expr,)*], $($operands:tt)*) => {
        asm!(
            "91:",
            "lea {t}, [rip + 95f]",
            "mov fs:[{rseq} + {RSEQ_CS}], {t}",
            "92:",
            "movsxd {t}, dword ptr fs:[{rseq} + {CPU_ID}]",
            "mov {t}, [{table} + {t} * 8]",
            $($body,)*
            rseq_describe!(),
            t = out(reg) _,
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
        // promise.
        unsafe {
            asm!(
                "movsxd {t}, dword ptr fs:[{rseq} + {CPU_ID}]",
                "mov {t}, [{table} + {t} * 8]",
                t = out(reg) slab,
                rseq = in(reg) self.offset,
                table = in(reg) self.table,
                CPU_ID = const CPU_ID,
                options(nostack, readonly, preserves_flags),
            );
        }
        slab
    }

    unsafe fn cpu(self) -> i32 {
        let cpu;
        // SAFETY: reads `cpu_id`.
        unsafe {
            asm!(
                "mov {cpu:e}, fs:[{rseq} + {CPU_ID}]",
                cpu = out(reg) cpu,
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
        // SAFETY: the section reads within the CPU's slab and commits with the decrement.
        unsafe {
            section!(
                self,
                class,
                [
                    "mov {n:e}, [{t} + {class} * 8]",
                    "mov {object}, [{t} + {n} * 8]",
                    "test {object}, {object}",
                    "jz 93f",
                    "dec dword ptr [{t} + {class} * 8]",
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
        // with the increment.
        unsafe {
            section!(
                self,
                class,
                [
                    "xor {done:e}, {done:e}",
                    "mov {n:e}, [{t} + {class} * 8]",
                    "cmp {n:e}, [{t} + {class} * 8 + 4]",
                    "jae 96f",
                    "mov [{t} + {n} * 8 + 8], {object}",
                    "inc dword ptr [{t} + {class} * 8]",
                    "93:",
                    "mov {done:e}, 1",
                    "96:",
                ],
                n = out(reg) _,
                done = out(reg) done,
                object = in(reg) object,
            );
        }
        done != 0
    }

    unsafe fn push_batch(self, class: usize, objects: &[*mut u8]) -> usize {
        let pushed: usize;
        // SAFETY: the section writes slots above the top, within the stack's room, reads within
        // `objects`, and commits with the addition.
        unsafe {
            section!(
                self,
                class,
                [
                    "mov {n:e}, [{t} + {class} * 8]",
                    "mov {pushed:e}, [{t} + {class} * 8 + 4]",
                    "sub {pushed}, {n}",
                    "cmp {pushed}, {count}",
                    "cmova {pushed}, {count}",
                    "test {pushed}, {pushed}",
                    "jz 93f",
                    "lea {n}, [{t} + {n} * 8]",
                    "xor {i:e}, {i:e}",
                    "97:",
                    "mov {object}, [{objects} + {i} * 8]",
                    "mov [{n} + {i} * 8 + 8], {object}",
                    "inc {i}",
                    "cmp {i}, {pushed}",
                    "jb 97b",
                    "add dword ptr [{t} + {class} * 8], {pushed:e}",
                    "93:",
                ],
                n = out(reg) _,
                i = out(reg) _,
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
        // again if it restarts, and commits with the subtraction.
        unsafe {
            section!(
                self,
                class,
                [
                    "mov {n:e}, [{t} + {class} * 8]",
                    "mov {popped}, {n}",
                    "sub {popped}, {begin}",
                    "mov {object:e}, 0",
                    "cmovb {popped}, {object}",
                    "cmp {popped}, {count}",
                    "cmova {popped}, {count}",
                    "test {popped}, {popped}",
                    "jz 93f",
                    "lea {n}, [{t} + {n} * 8]",
                    "xor {i:e}, {i:e}",
                    "97:",
                    "mov {object}, [{n}]",
                    "mov [{objects} + {i} * 8], {object}",
                    "sub {n}, 8",
                    "inc {i}",
                    "cmp {i}, {popped}",
                    "jb 97b",
                    "sub dword ptr [{t} + {class} * 8], {popped:e}",
                    "93:",
                ],
                n = out(reg) _,
                i = out(reg) _,
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
                    "xor {done:e}, {done:e}",
                    "cmp {t}, {slab}",
                    "jne 96f",
                    "cmp {old}, [{slab} + {class} * 8]",
                    "jne 96f",
                    "mov [{slab} + {class} * 8], {new}",
                    "93:",
                    "mov {done:e}, 1",
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
