// The page tables that map all memory lie at the low end, too: boot takes them before it knows the nodes.
// file: arch/x86/kernel/setup.c
// inserts: 1
// without: boots
@@ @@
+ contiguitas_boot_memory();
  init_mem_mapping();
