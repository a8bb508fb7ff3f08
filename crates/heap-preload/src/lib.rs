//! `libprairie_heap.so` to preload and `libprairie_heap.a` to link: malloc's family and C++'s
//! operators, served by `prairie-heap`.

mod uncancelled;

heap::export_malloc_family!();

/// Whether all levels of the heap agree with each other: 0, or 1 after a line on standard error.
/// For tests; no other thread may be inside the heap meanwhile.
#[cfg(debug_assertions)]
#[unsafe(no_mangle)]
pub extern "C" fn prairie_heap_validate() -> core::ffi::c_int {
    match heap::exported::validate() {
        Ok(()) => 0,
        Err(error) => {
            heap::exported::warn(format_args!("{error}"));
            1
        }
    }
}
