// What the hooks of this file call.
// file: mm/page_alloc.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
