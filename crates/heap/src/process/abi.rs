//! The functions of malloc's family with the behavior that POSIX, C23 and glibc promise, to be
//! exported under their C names by [`export_malloc_family`](crate::export_malloc_family).
//!
//! Failures set `errno` to `ENOMEM`, or to `EINVAL` for an alignment that is no power of two.
//! Successful calls and `free` leave it unchanged.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use super::reallocate::reallocate;
use super::{at_exit, malloc, shared};
use crate::front::inside::inside;
use crate::front::size_class::GRANULE;
use crate::units::Pages;

/// What [`mallinfo2`] returns: glibc's `struct mallinfo2`, which `libc` does not have for musl.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // mallinfo(3) describes the fields.
pub struct MallInfo2 {
    pub arena: usize,
    pub ordblks: usize,
    pub smblks: usize,
    pub hblks: usize,
    pub hblkhd: usize,
    pub usmblks: usize,
    pub fsmblks: usize,
    pub uordblks: usize,
    pub fordblks: usize,
    pub keepcost: usize,
}

/// Bytes in a page of the system, as `valloc` and `pvalloc` mean it.
fn system_page() -> usize {
    rustix::param::page_size()
}

fn fail(errno: c_int) -> *mut c_void {
    // SAFETY: the place of the thread's `errno`.
    unsafe { *libc::__errno_location() = errno };
    null_mut()
}

#[inline]
fn or_enomem(object: *mut u8) -> *mut c_void {
    if object.is_null() { fail(libc::ENOMEM) } else { object.cast() }
}

/// `malloc`, behind its fast path.
pub extern "C" fn malloc_slow(size: usize) -> *mut c_void {
    or_enomem(inside(|| malloc::allocate(size)))
}

/// `calloc`: the product is checked, and memory that is known to be zero is not written.
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => or_enomem(inside(|| malloc::allocate_zeroed(bytes))),
        None => fail(libc::ENOMEM),
    }
}

/// `realloc`: size 0 frees and returns null, as glibc does.
///
/// # Safety
/// `object` is null or came from this family and was not freed.
pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    if object.is_null() {
        return malloc_slow(size);
    }
    // SAFETY: the caller's promise.
    unsafe {
        if size == 0 {
            free_slow(object);
            return null_mut();
        }
        or_enomem(inside(|| reallocate(object.cast(), size)))
    }
}

/// `reallocarray`: `realloc` of a product that is checked.
///
/// # Safety
/// As for [`realloc`].
pub unsafe extern "C" fn reallocarray(
    object: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc(object, bytes) },
        None => fail(libc::ENOMEM),
    }
}

/// `memalign`: an alignment that is no power of two is rounded up to one, as glibc does.
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.max(GRANULE).checked_next_power_of_two() {
        Some(align) => or_enomem(inside(|| malloc::allocate_aligned(size, align))),
        None => fail(libc::EINVAL),
    }
}

/// `aligned_alloc`: any size will do (C17), an alignment that is no power of two will not.
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { memalign(align, size) } else { fail(libc::EINVAL) }
}

/// `posix_memalign`: returns the error and then leaves `*place` alone. Without memory `errno` is
/// `ENOMEM` as well, as with glibc, which programs rely on.
///
/// # Safety
/// `place` is valid for a write.
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let object = inside(|| malloc::allocate_aligned(size, align.max(GRANULE)));
    if object.is_null() {
        fail(libc::ENOMEM);
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(object.cast()) };
    0
}

/// `valloc`: aligned to a page of the system.
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(system_page(), size)
}

/// `pvalloc`: whole pages of the system.
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(system_page()) {
        Some(bytes) => memalign(system_page(), bytes),
        None => fail(libc::ENOMEM),
    }
}

/// `malloc_usable_size`: 0 for null.
///
/// # Safety
/// As for [`realloc`].
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { malloc::usable_size(object.cast()) }
}

/// `free`, behind its fast path.
///
/// # Safety
/// As for [`realloc`].
pub unsafe extern "C" fn free_slow(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        if !malloc::free_to_its_node(object.cast()) {
            inside(|| malloc::free(object.cast()));
        }
    }
}

/// `free`, where the fast path has marked the object and found its cache full.
///
/// # Safety
/// As for [`realloc`].
pub unsafe extern "C" fn free_full(object: *mut c_void) {
    // SAFETY: the caller's promise.
    inside(|| unsafe { malloc::free_marked(object.cast()) });
}

/// `malloc_trim`: gives back what can be spared; ignores `pad`. Returns 1 if memory was given back,
/// else 0.
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    let released = inside(|| malloc::release(Pages(u64::MAX >> Pages::SHIFT)));
    c_int::from(released > Pages::ZERO)
}

/// `malloc_stats`: the statistics as text on standard error.
pub extern "C" fn malloc_stats() {
    inside(at_exit::to_standard_error);
}

/// `mallinfo2`: the fields that have a meaning here.
pub extern "C" fn mallinfo2() -> MallInfo2 {
    let mut info = MallInfo2::default();
    let Some(statistics) = inside(shared::statistics) else { return info };
    let backing = statistics.page_heap.backing;
    info.arena = backing.backed().bytes() as usize;
    info.hblks = statistics.large.objects as usize;
    info.hblkhd = statistics.large.bytes as usize;
    info.uordblks = statistics.live_bytes();
    info.fordblks = info.arena.saturating_sub(info.uordblks);
    info.keepcost = backing.free.bytes() as usize;
    info
}
