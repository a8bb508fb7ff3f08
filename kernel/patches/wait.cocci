// Before direct reclaim an unmovable request waits for the border.
// file: mm/page_alloc.c
// inserts: 2
// without: grows
@@ @@
+ if (contiguitas_wait(ac, order, &contiguitas_waits))
+	goto retry;
  page = __alloc_pages_direct_reclaim(...);
