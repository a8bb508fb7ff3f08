// Empty slabs of all caches go, under locks in the order in which CPU hotplug takes them.
// file: mm/slub.c
// inserts: 6
// without: build
@@
identifier arg;
@@
  slab_mem_going_offline_callback(void *arg)
  {
  ...
  }
+ void contiguitas_drop_empty_slabs(void)
+ {
+ 	cpus_read_lock();
+ 	slab_mem_going_offline_callback(NULL);
+ 	cpus_read_unlock();
+ }
