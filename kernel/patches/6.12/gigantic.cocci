// 1 GiB pages may lie above the border.
// file: mm/hugetlb.c
// inserts: 1
// without: gigantic
@@ @@
+ gfp_mask = contiguitas_gigantic_gfp(gfp_mask);
  folio = folio_alloc_gigantic(order, gfp_mask, nid, nodemask);
