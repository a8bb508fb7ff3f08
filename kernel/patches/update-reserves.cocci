// A name that others can call.
// file: mm/page_alloc.c
// inserts: 4
// without: build
@@ @@
  setup_per_zone_lowmem_reserve(...)
  {
  ...
  }
+ void contiguitas_update_reserves(void)
+ {
+	setup_per_zone_lowmem_reserve();
+ }
