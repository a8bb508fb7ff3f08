// Requests that may use several zones below the border use the one beside it last.
// file: mm/page_alloc.c
// inserts: 1
// without: orders
@@ @@
  build_zonerefs_node(...)
  {
  ...
+ contiguitas_order_zones(zonerefs, nr_zones);
  return nr_zones;
  }
