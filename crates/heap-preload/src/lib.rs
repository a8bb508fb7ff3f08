//! `libprairie_heap.so` to preload and `libprairie_heap.a` to link: malloc's family and C++'s
//! operators, served by [`heap`].

heap::export_malloc_family!();
