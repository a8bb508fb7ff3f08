// How often a request waited.
// file: mm/page_alloc.c
// inserts: 1
// without: build
@@ @@
  unsigned int zonelist_iter_cookie;
+ unsigned int contiguitas_waits = 0;
  int reserve_flags;
