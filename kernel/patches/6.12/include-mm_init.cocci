// What the hook of this file calls.
// file: mm/mm_init.c
// inserts: 1
// without: build
@@ @@
  #include <linux/memblock.h>
+ #include <linux/contiguitas.h>
