// 1 GiB pages may lie above the border.
// file: mm/hugetlb.c
// inserts: 1
// without: gigantic
@@ @@
+ gfp_mask = contiguitas_gigantic_gfp(gfp_mask);
  return alloc_contig_pages(nr_pages, gfp_mask, nid, nodemask);
