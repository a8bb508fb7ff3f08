// What the hook of this file calls.
// file: arch/x86/kernel/setup.c
// inserts: 1
// without: build
@@ @@
  #include <linux/memblock.h>
+ #include <linux/contiguitas.h>
