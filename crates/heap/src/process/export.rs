//! Export of malloc's family and C++'s operators under their C names.

/// Defines malloc's family, and every C++ operator new and delete, in the crate that calls this
/// macro: a shared library to preload, or a static one to link.
///
/// `malloc`, `free` and the operators begin with the fast path.
#[macro_export]
macro_rules! export_malloc_family {
    () => {
        $crate::run_at_load_and_exit!();

        mod exported {
            use core::ffi::{c_int, c_void};
            use $crate::exported::abi;

            $crate::export_plain! {
                fn calloc(count: usize, size: usize) -> *mut c_void;
                fn realloc(object: *mut c_void, size: usize) -> *mut c_void;
                fn reallocarray(object: *mut c_void, count: usize, size: usize) -> *mut c_void;
                fn memalign(align: usize, size: usize) -> *mut c_void;
                fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
                fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int;
                fn valloc(size: usize) -> *mut c_void;
                fn pvalloc(size: usize) -> *mut c_void;
                fn malloc_usable_size(object: *mut c_void) -> usize;
                fn malloc_trim(pad: usize) -> c_int;
                fn malloc_stats() -> ();
                fn mallinfo2() -> $crate::exported::abi::MallInfo2;
            }

            $crate::export_as! {
                __libc_calloc = calloc(count: usize, size: usize) -> *mut c_void;
                __libc_realloc = realloc(object: *mut c_void, size: usize) -> *mut c_void;
                __libc_memalign = memalign(align: usize, size: usize) -> *mut c_void;
                __libc_valloc = valloc(size: usize) -> *mut c_void;
                __libc_pvalloc = pvalloc(size: usize) -> *mut c_void;
                __posix_memalign =
                    posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int;
            }

            $crate::export_dlopen!();
            $crate::export_malloc!(malloc __libc_malloc);
            $crate::export_free!(
                free cfree __libc_free free_sized free_aligned_sized
                _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
                _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
                _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
                _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
            );
            $crate::export_new!(_Znwm _Znam);
            $crate::export_new_nothrow!(_ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t);
            $crate::export_new_aligned!(_ZnwmSt11align_val_t _ZnamSt11align_val_t);
            $crate::export_new_aligned_nothrow!(
                _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
            );
        }
    };
}

/// Functions of the heap under the same name.
#[macro_export]
#[doc(hidden)]
macro_rules! export_plain {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $crate::export_as! { $($name = $name($($argument: $type),*) -> $result;)* }
    };
}

/// Functions of the heap under another name.
#[macro_export]
#[doc(hidden)]
macro_rules! export_as {
    ($($name:ident = $own:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some of them are safe")]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $crate::link_load_and_exit!();
            // SAFETY: the caller makes the promises of the C function.
            unsafe { abi::$own($($argument),*) }
        }
    )*};
}

/// Makes the function that contains this require the entries of
/// [`run_at_load_and_exit`](crate::run_at_load_and_exit).
#[macro_export]
#[doc(hidden)]
macro_rules! link_load_and_exit {
    () => {
        // SAFETY: relocations of type NONE, no instruction.
        unsafe {
            core::arch::asm!(
                $crate::link_load_and_exit_text!(),
                on_load = sym super::PRAIRIE_HEAP_ON_LOAD,
                on_exit = sym super::PRAIRIE_HEAP_ON_EXIT,
                options(nomem, nostack, preserves_flags),
            );
        }
    };
}

/// References to both entries that change no byte of the code. A linker takes an object of an
/// archive only if a symbol of it is referenced, and the compiler may put the entries into an
/// object of their own.
#[macro_export]
#[doc(hidden)]
macro_rules! link_load_and_exit_text {
    () => {
        ".reloc ., BFD_RELOC_NONE, {on_load}\n.reloc ., BFD_RELOC_NONE, {on_exit}\n"
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_malloc {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(size: usize) -> *mut c_void {
            $crate::malloc_naked!($crate::malloc_slow_text!(), slow = sym abi::malloc_slow)
        }
    )*};
}

/// A function of the texts in brackets, with the operands that all fast paths have and its own.
/// Where a field of the heap's control block lies, in bytes.
#[macro_export]
#[doc(hidden)]
macro_rules! control_offset {
    ($($field:tt)*) => {
        $crate::exported::entry::offset_of!($crate::exported::entry::Control, $($field)*)
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! fast_path {
    ([$($text:expr),*], $($operand:tt)*) => {
        $crate::exported::entry::naked_asm!(
            $crate::link_load_and_exit_text!(),
            $($text,)*
            on_load = sym super::PRAIRIE_HEAP_ON_LOAD,
            on_exit = sym super::PRAIRIE_HEAP_ON_EXIT,
            control = sym $crate::exported::entry::CONTROL,
            table = sym $crate::exported::entry::TABLE,
            cpu_zero = const $crate::exported::entry::CPU_ZERO,
            window_start = const $crate::control_offset!(window.start),
            window_pages = const $crate::control_offset!(window.pages),
            window_classes = const $crate::control_offset!(window.classes),
            rseq_offset = const $crate::control_offset!(rseq_offset),
            CPU_ID = const $crate::exported::entry::CPU_ID,
            RSEQ_CS = const $crate::exported::entry::RSEQ_CS,
            $($operand)*
        )
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! malloc_naked {
    ($slow:expr, $($operand:tt)*) => {
        $crate::fast_path!(
            [$crate::malloc_text!(), $slow],
            fast_limit = const $crate::control_offset!(fast_limit),
            table_limit = const $crate::control_offset!(table_limit),
            fine_classes = sym $crate::exported::entry::FINE_CLASSES,
            apart = const $crate::exported::entry::PLACE_APART,
            $($operand)*
        )
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_free {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(object: *mut c_void) {
            $crate::free_naked!(slow = sym abi::free_slow, full = sym abi::free_full,)
        }
    )*};
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_new {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(size: usize) -> *mut c_void {
            $crate::malloc_naked!(
                $crate::new_slow_text!(),
                attempt = sym $crate::exported::cxx::attempt,
                handler = sym $crate::exported::cxx::handler,
                thrower = sym $crate::exported::cxx::thrower,
            )
        }
    )*};
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_new_nothrow {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(size: usize, nothrow: *const c_void) -> *mut c_void {
            $crate::malloc_naked!(
                $crate::new_nothrow_slow_text!(),
                aligned = const 0,
                attempt = sym $crate::exported::cxx::attempt,
                library = sym $crate::exported::cxx::nothrow_of_library,
            )
        }
    )*};
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_new_aligned {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(size: usize, align: usize) -> *mut c_void {
            $crate::exported::entry::naked_asm!(
                $crate::link_load_and_exit_text!(),
                ".cfi_startproc",
                $crate::new_slow_text!(),
                on_load = sym super::PRAIRIE_HEAP_ON_LOAD,
                on_exit = sym super::PRAIRIE_HEAP_ON_EXIT,
                attempt = sym $crate::exported::cxx::attempt_aligned,
                handler = sym $crate::exported::cxx::handler,
                thrower = sym $crate::exported::cxx::thrower,
            )
        }
    )*};
}

#[macro_export]
#[doc(hidden)]
macro_rules! export_new_aligned_nothrow {
    ($($name:ident)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            size: usize, align: usize, nothrow: *const c_void,
        ) -> *mut c_void {
            $crate::exported::entry::naked_asm!(
                $crate::link_load_and_exit_text!(),
                ".cfi_startproc",
                $crate::new_nothrow_slow_text!(),
                on_load = sym super::PRAIRIE_HEAP_ON_LOAD,
                on_exit = sym super::PRAIRIE_HEAP_ON_EXIT,
                aligned = const 1,
                attempt = sym $crate::exported::cxx::attempt_aligned,
                library = sym $crate::exported::cxx::nothrow_of_library,
            )
        }
    )*};
}

/// `dlopen` without `RTLD_DEEPBIND`.
#[macro_export]
#[doc(hidden)]
macro_rules! export_dlopen {
    () => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn dlopen(name: *const core::ffi::c_char, flags: c_int) -> *mut c_void {
            $crate::exported::entry::naked_asm!(
                $crate::dlopen_text!(),
                flags = sym $crate::exported::deepbind::flags,
                next = sym $crate::exported::deepbind::next_dlopen,
            )
        }
    };
}
