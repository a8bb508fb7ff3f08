// Each zone's share of min_free_kbytes: from its side of the border, below without huge pages' part.
// file: mm/page_alloc.c
// inserts: 1
// without: boots
@@ @@
  __setup_per_zone_wmarks(...)
  {
  <...
(
  tmp = div64_ul(...);
+ tmp = contiguitas_share_of_min(zone, tmp);
|
  do_div(tmp, lowmem_pages);
+ tmp = contiguitas_share_of_min(zone, tmp);
)
  ...>
  }
