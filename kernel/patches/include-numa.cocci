// What the hooks of this file call.
// file: arch/x86/mm/numa.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
