// The EFI stub chooses the place of the kernel's image itself; without a seed it takes the lowest one.
// file: drivers/firmware/efi/libstub/x86-stub.c
// inserts: 2
// without: efi
@@ @@
+ if (contiguitas_keeps_image_low())
+	seed[0] = 0;
  status = efi_random_alloc(...);
