// What the hook of this file calls.
// file: arch/x86/boot/compressed/kaslr.c
// inserts: 1
// without: build
@@ @@
  #include <linux/ctype.h>
+ #include <linux/contiguitas_image.h>
