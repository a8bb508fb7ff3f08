// Free blocks beside the border are used last.
// file: mm/page_alloc.c
// inserts: 2
// without: places
@@ @@
+ if (contiguitas_comes_last(zone, pfn, order))
+	to_tail = true;
  if (to_tail)
	add_to_free_list_tail(page, zone, order, migratetype);
  else
	add_to_free_list(page, zone, order, migratetype);
