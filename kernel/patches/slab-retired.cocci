// New objects do not go into slabs of retired pageblocks, whichever list the slab is on.
// file: mm/slub.c
// inserts: 2
// without: returns
@@ @@
  pfmemalloc_match(...)
  {
+ if (contiguitas_is_retired_page(slab_page(slab)))
+	return false;
  ...
  }
