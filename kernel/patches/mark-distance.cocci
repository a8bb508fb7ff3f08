// The distance of ZONE_MOVABLE's marks, from its share of all memory.
// file: mm/page_alloc.c
// inserts: 1
// without: boots
@@ @@
  __setup_per_zone_wmarks(...)
  {
  <...
+ tmp = contiguitas_share_of_min(zone, tmp);
  tmp = max_t(...);
  ...>
  }
