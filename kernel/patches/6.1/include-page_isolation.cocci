// What the hooks of this file call.
// file: mm/page_isolation.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
