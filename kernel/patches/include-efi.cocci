// What the hook of this file calls.
// file: drivers/firmware/efi/libstub/x86-stub.c
// inserts: 1
// without: build
@@ @@
  #include <linux/stddef.h>
+ #include <linux/contiguitas_image.h>
