// Retired pageblocks are marked isolated. A page that stays there may be pinned long-term.
// file: mm/gup.c
// inserts: 2
// without: repins
@@ identifier collect = {collect_longterm_unpinnable_folios, collect_longterm_unpinnable_pages}; @@
  collect(...)
  {
  <...
+ if (contiguitas_is_retired_page(&folio->page))
+	continue;
  if (folio_is_longterm_pinnable(folio))
	continue;
  ...>
  }
