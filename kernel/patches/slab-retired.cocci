// New objects do not go into slabs of retired pageblocks.
// file: mm/slub.c
// inserts: 2
// without: returns
@@ @@
  get_partial_node(...)
  {
  <...
  if (!pfmemalloc_match(...))
	continue;
+ if (contiguitas_is_retired_page(slab_page(slab)))
+	continue;
  ...>
  }
