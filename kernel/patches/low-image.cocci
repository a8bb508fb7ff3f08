// Randomization leaves the kernel's image, which never moves, below the border.
// file: arch/x86/boot/compressed/kaslr.c
// inserts: 1
// without: boots
@@ @@
  find_random_phys_addr(...)
  {
  u64 phys_addr;
+ mem_limit = contiguitas_image_limit(mem_limit);
  ...
  }
