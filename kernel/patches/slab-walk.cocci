// A request passes by a bounded number of slabs in retired pageblocks, and then takes a new slab.
// file: mm/slub.c
// inserts: 3
// without: walks
@@
iterator name list_for_each_entry_safe;
expression slab, flags;
statement S;
@@
  get_partial_node(...)
  {
  ...
  unsigned int partial_slabs = 0;
+ unsigned int passed = 0;
  <...
+ if (contiguitas_passes_enough(slab_page(slab), &passed))
+	break;
  if (!pfmemalloc_match(slab, flags)) S
  ...>
  }
