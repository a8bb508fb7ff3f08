// What the hooks of this file call.
// file: drivers/base/memory.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
