//! Instructions of the fast paths for x86-64.

/// Instructions of malloc: `{slow}` gets the size in its register.
///
/// A size of 1 to 1,024 bytes is of class `(size − 1) / 16 + 1`; up to 32 KiB the class is in a
/// table, `(size − 1) / 128` being the place; size 0 wraps to more than any limit. The section is
/// [`Sections::pop`](crate::front::rseq); then the object loses its [mark](crate::front::mark),
/// which of the larger ones lies in the window: while that is not open, they take the slow path.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_text {
    () => {
        concat!(
            ".cfi_startproc\n",
            "lea rcx, [rdi - 1]\n",
            "cmp rcx, [rip + {control} + {fast_limit}]\n",
            "jae 98f\n",
            "shr rcx, 4\n",
            $crate::malloc_section_text!(),
            "99:\n",
            "mov qword ptr [rax + 8], 0\n",
            "ret\n",
            $crate::rseq_describe!(),
            "98:\n",
            "cmp rcx, [rip + {control} + {table_limit}]\n",
            "jae 90f\n",
            "cmp qword ptr [rip + {control} + {window_pages}], 0\n",
            "je 90f\n",
            "shr rcx, 7\n",
            "lea rdx, [rip + {fine_classes}]\n",
            "movzx ecx, byte ptr [rdx + rcx]\n",
            $crate::malloc_section_text!(),
            "cmp ecx, {apart}\n",
            "jb 99b\n",
            "mov rdx, rax\n",
            "shr rdx, 13\n",
            "sub rdx, [rip + {control} + {window_start}]\n",
            "mov rcx, [rip + {control} + {window_pages}]\n",
            "cmp rdx, rcx\n",
            "jae 99b\n",
            "lea rcx, [rcx + rdx * 2]\n",
            "bt eax, 12\n",
            "adc rcx, [rip + {control} + {window_classes}]\n",
            "mov byte ptr [rcx], 0\n",
            "ret\n",
            $crate::rseq_describe!(),
            "90:\n",
        )
    };
}

/// The section of a malloc, which takes an object of the class `rcx`, from 0, into `rax`.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_section_text {
    () => {
        concat!(
            "mov r8, [rip + {control} + {rseq_offset}]\n",
            "lea r9, [rip + {table} + {cpu_zero}]\n",
            "91:\n",
            "lea rdx, [rip + 95f]\n",
            "mov fs:[r8 + {RSEQ_CS}], rdx\n",
            "92:\n",
            "movsxd rdx, dword ptr fs:[r8 + {CPU_ID}]\n",
            "mov rdx, [r9 + rdx * 8]\n",
            "mov esi, [rdx + rcx * 8 + 8]\n",
            "mov rax, [rdx + rsi * 8]\n",
            "test rax, rax\n",
            "jz 90f\n",
            "dec dword ptr [rdx + rcx * 8 + 8]\n",
            "93:\n",
        )
    };
}

/// Instructions of free: `{slow}` and `{full}` get the object in its register.
///
/// The class comes from the page map's window as its [code](crate::front::code). An object that has
/// the [mark](crate::front::mark) of a free one takes the slow path, which ends the process; else it
/// gets the mark, before the section ([`Sections::push`](crate::front::rseq)) makes it another
/// thread's.
#[macro_export]
#[doc(hidden)]
macro_rules! free_text {
    () => {
        concat!(
            ".cfi_startproc\n",
            "mov rax, rdi\n",
            "shr rax, 13\n",
            "sub rax, [rip + {control} + {window_start}]\n",
            "cmp rax, [rip + {control} + {free_pages}]\n",
            "jae 90f\n",
            "mov rcx, [rip + {control} + {window_classes}]\n",
            "movzx ecx, byte ptr [rcx + rax]\n",
            "cmp ecx, {first_carrying}\n",
            "jb 98f\n",
            "mov rdx, [rip + {control} + {free_mark}]\n",
            "xor rdx, rdi\n",
            "cmp [rdi + 8], rdx\n",
            "je 90f\n",
            "mov [rdi + 8], rdx\n",
            "97:\n",
            "mov r8, [rip + {control} + {rseq_offset}]\n",
            "lea r9, [rip + {table} + {cpu_zero}]\n",
            "91:\n",
            "lea rdx, [rip + 95f]\n",
            "mov fs:[r8 + {RSEQ_CS}], rdx\n",
            "92:\n",
            "movsxd rax, dword ptr fs:[r8 + {CPU_ID}]\n",
            "mov rax, [r9 + rax * 8]\n",
            "mov edx, [rax + rcx * 8 + {count}]\n",
            "cmp edx, [rax + rcx * 8 + {limit}]\n",
            "jae 96f\n",
            "mov [rax + rdx * 8 + 8], rdi\n",
            "inc dword ptr [rax + rcx * 8 + {count}]\n",
            "93:\n",
            "ret\n",
            "98:\n",
            "dec ecx\n",
            "js 90f\n",
            "add ecx, {to_place}\n",
            "add rax, rax\n",
            "bt edi, 12\n",
            "adc rax, [rip + {control} + {window_classes}]\n",
            "add rax, [rip + {control} + {window_pages}]\n",
            "cmp byte ptr [rax], 0\n",
            "jne 90f\n",
            "mov byte ptr [rax], 1\n",
            "jmp 97b\n",
            $crate::rseq_describe!(),
            "96: jmp {full}\n",
            "90: jmp {slow}\n",
            ".cfi_endproc\n",
        )
    };
}

/// The jump of malloc to its slow path.
#[macro_export]
#[doc(hidden)]
macro_rules! malloc_slow_text {
    () => {
        "jmp {slow}\n.cfi_endproc\n"
    };
}

/// Instructions of operator new after its fast path: tries, calls the new-handler and tries again
/// as long as there is one, then throws. `rdi` is the size, `rsi` the alignment if there is one.
///
/// The frame is described for the unwinder, as the handler may throw through it.
#[macro_export]
#[doc(hidden)]
macro_rules! new_slow_text {
    () => {
        concat!(
            "push rdi\n",
            ".cfi_adjust_cfa_offset 8\n",
            "push rsi\n",
            ".cfi_adjust_cfa_offset 8\n",
            "sub rsp, 8\n",
            ".cfi_adjust_cfa_offset 8\n",
            "81:\n",
            "mov rdi, [rsp + 16]\n",
            "mov rsi, [rsp + 8]\n",
            "call {attempt}\n",
            "test rax, rax\n",
            "jnz 89f\n",
            "call {handler}\n",
            "test rax, rax\n",
            "jz 82f\n",
            "call rax\n",
            "jmp 81b\n",
            "82:\n",
            "call {thrower}\n",
            "call rax\n",
            "ud2\n",
            "89:\n",
            "add rsp, 24\n",
            ".cfi_adjust_cfa_offset -24\n",
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
            "push rdi\n",
            ".cfi_adjust_cfa_offset 8\n",
            "push rsi\n",
            ".cfi_adjust_cfa_offset 8\n",
            "push rdx\n",
            ".cfi_adjust_cfa_offset 8\n",
            "call {attempt}\n",
            "test rax, rax\n",
            "jnz 89f\n",
            "mov edi, {aligned}\n",
            "call {library}\n",
            "test rax, rax\n",
            "jz 89f\n",
            "pop rdx\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop rsi\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop rdi\n",
            ".cfi_adjust_cfa_offset -8\n",
            "jmp rax\n",
            ".cfi_adjust_cfa_offset 24\n",
            "89:\n",
            "add rsp, 24\n",
            ".cfi_adjust_cfa_offset -24\n",
            "ret\n",
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
            to_place = const $crate::exported::entry::FIRST_CARRYING
                + $crate::exported::entry::PLACE_APART,
            count = const 8 - 8 * $crate::exported::entry::FIRST_CARRYING as isize,
            limit = const 12 - 8 * $crate::exported::entry::FIRST_CARRYING as isize,
            free_mark = const $crate::control_offset!(free_mark),
            free_pages = const $crate::control_offset!(free_pages),
            $($operand)*
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
            "push rdi\n",
            ".cfi_adjust_cfa_offset 8\n",
            "mov edi, esi\n",
            "call {flags}\n",
            "push rax\n",
            ".cfi_adjust_cfa_offset 8\n",
            "sub rsp, 8\n",
            ".cfi_adjust_cfa_offset 8\n",
            "call {next}\n",
            "add rsp, 8\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop rsi\n",
            ".cfi_adjust_cfa_offset -8\n",
            "pop rdi\n",
            ".cfi_adjust_cfa_offset -8\n",
            "jmp rax\n",
            ".cfi_endproc\n",
        )
    };
}
