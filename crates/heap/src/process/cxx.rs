//! Functions of the C++ library that operator new needs when memory is short: the new-handler, and
//! the one that throws. The library is found when it is needed; a C program has none.
//!
//! The operators themselves are instructions (`entry.rs`), as exceptions that a handler throws pass
//! through them and must not pass through Rust.

use core::ffi::{CStr, c_void};
use core::mem::transmute;

use super::malloc;
use crate::front::fatal::fatal;
use crate::front::inside::inside;
use crate::front::weak::weak_address;

/// A function that operator new calls, or jumps to.
pub type Function = Option<unsafe extern "C-unwind" fn()>;

/// Memory for operator new, or null.
pub extern "C" fn attempt(size: usize) -> *mut c_void {
    inside(|| malloc::allocate(size)).cast()
}

/// Aligned memory for operator new, or null. An alignment that is no power of two has none.
pub extern "C" fn attempt_aligned(size: usize, align: usize) -> *mut c_void {
    match align.is_power_of_two() {
        true => inside(|| malloc::allocate_aligned(size, align)).cast(),
        false => core::ptr::null_mut(),
    }
}

/// The new-handler that the program has set, if any.
pub extern "C" fn handler() -> Function {
    type GetNewHandler = unsafe extern "C" fn() -> Function;
    let get = find(weak_address!("_ZSt15get_new_handlerv"), c"_ZSt15get_new_handlerv")?;
    // SAFETY: `std::get_new_handler` takes nothing and returns a pointer to a function, or null.
    unsafe { transmute::<*const u8, GetNewHandler>(get)() }
}

/// The function that throws `std::bad_alloc`.
pub extern "C" fn thrower() -> unsafe extern "C-unwind" fn() {
    let name = c"_ZSt17__throw_bad_allocv";
    match find(weak_address!("_ZSt17__throw_bad_allocv"), name) {
        // SAFETY: `std::__throw_bad_alloc` takes nothing and does not return.
        Some(throw) => unsafe { transmute::<*const u8, unsafe extern "C-unwind" fn()>(throw) },
        None => fatal(format_args!(
            "operator new has no memory, and no C++ library is there to throw std::bad_alloc"
        )),
    }
}

/// The C++ library's own nothrow operator, which calls the throwing one (of this heap) and catches
/// what the handler throws. `None` if no handler is set: then null is all there is to return.
pub extern "C" fn nothrow_of_library(aligned: bool) -> Function {
    handler()?;
    let (weak, name) = match aligned {
        false => (core::ptr::null(), c"_ZnwmRKSt9nothrow_t"),
        true => (core::ptr::null(), c"_ZnwmSt11align_val_tRKSt9nothrow_t"),
    };
    // SAFETY: the operator is a function; its instructions are jumped to with its arguments.
    find(weak, name)
        .map(|operator| unsafe { transmute::<*const u8, unsafe extern "C-unwind" fn()>(operator) })
}

/// A function of the C++ library: linked or preloaded, or loaded later with local scope.
fn find(weak: *const u8, name: &CStr) -> Option<*const u8> {
    if !weak.is_null() {
        return Some(weak);
    }
    [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"].into_iter().find_map(|library| {
        // SAFETY: names of a library and a symbol; a library that is not loaded stays so.
        let found = unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
        };
        (!found.is_null()).then_some(found.cast_const().cast())
    })
}
