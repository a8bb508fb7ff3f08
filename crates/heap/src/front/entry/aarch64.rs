//! Instructions of the fast paths for aarch64.
//!
//! They change the registers x8 to x15 alone, so the arguments are there for the slow paths. x8 is
//! the address of the control block.

/// Instructions of malloc: they fall through to what follows if the fast path cannot serve it, with
/// the size in its register.
///
/// As for x86-64, with two loads that acquire: the limit, after which the heap is set up, and the
/// number of the window's pages, after which the window is open.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_text {
    () => {
        concat!(
            ".cfi_startproc\n",
            "adrp x8, {control}\n",
            "add x8, x8, :lo12:{control}\n",
            "sub x9, x0, #1\n",
            "add x10, x8, #{fast_limit}\n",
            "ldar x10, [x10]\n",
            "cmp x9, x10\n",
            "b.hs 98f\n",
            "lsr x9, x9, #4\n",
            $crate::malloc_section_text!(),
            "99:\n",
            "mov x0, x10\n",
            "str xzr, [x0, #8]\n",
            "ret\n",
            $crate::rseq_describe!(),
            "98:\n",
            "ldr x10, [x8, #{table_limit}]\n",
            "cmp x9, x10\n",
            "b.hs 90f\n",
            "add x10, x8, #{window_pages}\n",
            "ldar x10, [x10]\n",
            "cbz x10, 90f\n",
            "lsr x9, x9, #7\n",
            "adrp x10, {fine_classes}\n",
            "add x10, x10, :lo12:{fine_classes}\n",
            "ldrb w9, [x10, x9]\n",
            $crate::malloc_section_text!(),
            "cmp w9, #{apart}\n",
            "b.lo 99b\n",
            "lsr x11, x10, #13\n",
            "ldr x12, [x8, #{window_start}]\n",
            "sub x11, x11, x12\n",
            "ldr x12, [x8, #{window_pages}]\n",
            "cmp x11, x12\n",
            "b.hs 99b\n",
            "add x12, x12, x11, lsl #1\n",
            "ubfx x11, x10, #12, #1\n",
            "add x12, x12, x11\n",
            "ldr x11, [x8, #{window_classes}]\n",
            "strb wzr, [x11, x12]\n",
            "mov x0, x10\n",
            "ret\n",
            $crate::rseq_describe!(),
            "90:\n",
        )
    };
}

/// Finds what a section needs: the table at x11, the registered area at x12.
#[macro_export]
#[doc(hidden)]
macro_rules! section_start_text {
    () => {
        concat!(
            "adrp x11, {table} + {cpu_zero}\n",
            "add x11, x11, :lo12:{table} + {cpu_zero}\n",
            "mrs x12, tpidr_el0\n",
            "ldr x13, [x8, #{rseq_offset}]\n",
            "add x12, x12, x13\n",
            "91:\n",
            "adrp x13, 95f\n",
            "add x13, x13, :lo12:95f\n",
            "str x13, [x12, #{RSEQ_CS}]\n",
            "92:\n",
            "ldrsw x13, [x12, #{CPU_ID}]\n",
            "ldr x13, [x11, x13, lsl #3]\n",
        )
    };
}

/// The section of a malloc, which takes an object of the class x9, from 0, into x10.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_section_text {
    () => {
        concat!(
            $crate::section_start_text!(),
            "add x14, x13, x9, lsl #3\n",
            "ldr w15, [x14, #8]\n",
            "ldr x10, [x13, x15, lsl #3]\n",
            "cbz x10, 90f\n",
            "sub w15, w15, #1\n",
            "str w15, [x14, #8]\n",
            "93:\n",
        )
    };
}

/// Instructions of free: `{slow}` and `{full}` get the object in its register.
///
/// As for x86-64, with one load that acquires: the number of pages that free takes, which is stored
/// after all else that free reads. While it is 0, no object lies within.
#[macro_export]
#[doc(hidden)]
macro_rules! free_text {
    () => {
        concat!(
            ".cfi_startproc\n",
            "adrp x8, {control}\n",
            "add x8, x8, :lo12:{control}\n",
            "add x10, x8, #{free_pages}\n",
            "ldar x10, [x10]\n",
            "lsr x9, x0, #13\n",
            "ldr x11, [x8, #{window_start}]\n",
            "sub x9, x9, x11\n",
            "cmp x9, x10\n",
            "b.hs 90f\n",
            "ldr x11, [x8, #{window_classes}]\n",
            "ldrb w10, [x11, x9]\n",
            "subs w10, w10, #{first_carrying}\n",
            "b.lo 98f\n",
            "ldr x12, [x8, #{free_mark}]\n",
            "eor x12, x12, x0\n",
            "ldr x13, [x0, #8]\n",
            "cmp x13, x12\n",
            "b.eq 90f\n",
            "str x12, [x0, #8]\n",
            "97:\n",
            $crate::section_start_text!(),
            "add x14, x13, x10, lsl #3\n",
            "ldp w15, w9, [x14, #8]\n",
            "cmp w15, w9\n",
            "b.hs 96f\n",
            "add w15, w15, #1\n",
            "str x0, [x13, x15, lsl #3]\n",
            "str w15, [x14, #8]\n",
            "93:\n",
            "ret\n",
            "98:\n",
            "add w10, w10, #{to_place}\n",
            "cmp w10, #{apart}\n",
            "b.lo 90f\n",
            "ldr x12, [x8, #{window_pages}]\n",
            "add x9, x12, x9, lsl #1\n",
            "ubfx x12, x0, #12, #1\n",
            "add x9, x9, x12\n",
            "ldrb w12, [x11, x9]\n",
            "cbnz w12, 90f\n",
            "mov w12, #1\n",
            "strb w12, [x11, x9]\n",
            "b 97b\n",
            $crate::rseq_describe!(),
            "96: b {full}\n",
            "90: b {slow}\n",
            ".cfi_endproc\n",
        )
    };
}

/// The fast path of free, with its operands.
#[macro_export]
#[doc(hidden)]
macro_rules! free_naked {
    ($($operand:tt)*) => {
        $crate::fast_path!(
            [$crate::free_text!()],
            first_carrying = const $crate::exported::entry::FIRST_CARRYING,
            apart = const $crate::exported::entry::PLACE_APART,
            to_place = const $crate::exported::entry::FIRST_CARRYING
                + $crate::exported::entry::PLACE_APART
                - 1,
            free_mark = const $crate::control_offset!(free_mark),
            free_pages = const $crate::control_offset!(free_pages),
            $($operand)*
        )
    };
}

/// The jump of malloc to its slow path.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_slow_text {
    () => {
        "b {slow}\n.cfi_endproc\n"
    };
}

/// Instructions of operator new after its fast path: tries, calls the new-handler and tries again
/// as long as there is one, then throws. x0 is the size, x1 the alignment if there is one.
///
/// The frame is described for the unwinder, as the handler may throw through it.
#[macro_export]
#[doc(hidden)]
macro_rules! new_slow_text {
    () => {
        concat!(
            "stp x29, x30, [sp, #-32]!\n",
            ".cfi_adjust_cfa_offset 32\n",
            ".cfi_rel_offset x29, 0\n",
            ".cfi_rel_offset x30, 8\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "81:\n",
            "ldp x0, x1, [sp, #16]\n",
            "bl {attempt}\n",
            "cbnz x0, 89f\n",
            "bl {handler}\n",
            "cbz x0, 82f\n",
            "blr x0\n",
            "b 81b\n",
            "82:\n",
            "bl {thrower}\n",
            "blr x0\n",
            "brk #1\n",
            "89:\n",
            "ldp x29, x30, [sp], #32\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_adjust_cfa_offset -32\n",
            "ret\n",
            ".cfi_endproc\n",
        )
    };
}

/// Instructions of the nothrow operator new after its fast path: tries, then leaves the handler to
/// the C++ library's own operator, which can catch. `{aligned}` is 0 or 1.
#[macro_export]
#[doc(hidden)]
macro_rules! new_nothrow_slow_text {
    () => {
        concat!(
            "stp x29, x30, [sp, #-48]!\n",
            ".cfi_adjust_cfa_offset 48\n",
            ".cfi_rel_offset x29, 0\n",
            ".cfi_rel_offset x30, 8\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "str x2, [sp, #32]\n",
            "bl {attempt}\n",
            "cbnz x0, 89f\n",
            "mov w0, #{aligned}\n",
            "bl {library}\n",
            "cbz x0, 89f\n",
            "mov x16, x0\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldr x2, [sp, #32]\n",
            ".cfi_remember_state\n",
            "ldp x29, x30, [sp], #48\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_adjust_cfa_offset -48\n",
            "br x16\n",
            "89:\n",
            ".cfi_restore_state\n",
            "ldp x29, x30, [sp], #48\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_adjust_cfa_offset -48\n",
            "ret\n",
            ".cfi_endproc\n",
        )
    };
}

/// Instructions of `dlopen`: asks for the flags and for the C library's own, and jumps.
#[macro_export]
#[doc(hidden)]
macro_rules! dlopen_text {
    () => {
        concat!(
            ".cfi_startproc\n",
            "stp x29, x30, [sp, #-32]!\n",
            ".cfi_adjust_cfa_offset 32\n",
            ".cfi_rel_offset x29, 0\n",
            ".cfi_rel_offset x30, 8\n",
            "mov x29, sp\n",
            "str x0, [sp, #16]\n",
            "mov w0, w1\n",
            "bl {flags}\n",
            "str w0, [sp, #24]\n",
            "bl {next}\n",
            "mov x16, x0\n",
            "ldr x0, [sp, #16]\n",
            "ldr w1, [sp, #24]\n",
            "ldp x29, x30, [sp], #32\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            ".cfi_adjust_cfa_offset -32\n",
            "br x16\n",
            ".cfi_endproc\n",
        )
    };
}
