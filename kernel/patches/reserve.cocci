// Lower zones are out of bounds for movable requests.
// file: mm/page_alloc.c
// inserts: 1
// without: confines
@@ @@
  setup_per_zone_lowmem_reserve(...)
  {
  ...
+ contiguitas_reserve();
  calculate_totalreserve_pages();
  }
