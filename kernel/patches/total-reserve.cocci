// What is confined does not count as reserved.
// file: mm/page_alloc.c
// inserts: 1
// without: boots
@@ @@
+ reserve_pages = contiguitas_total_reserve(reserve_pages);
  totalreserve_pages = reserve_pages;
