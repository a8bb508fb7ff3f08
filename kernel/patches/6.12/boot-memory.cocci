// Memory that is allocated before there are zones lies at the low end of its node.
// file: arch/x86/mm/numa.c
// inserts: 1
// without: boots
@@ identifier ret; @@
+ contiguitas_boot_memory();
  ret = numa_register_nodes();
