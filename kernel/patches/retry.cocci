// A movable request of a high order is tried again while reclaim could make room for it.
// file: mm/page_alloc.c
// inserts: 2
// without: fills
@@ @@
+ if (contiguitas_retry(ac, order, no_progress_loops, &compact_priority))
+	goto retry;
  page = __alloc_pages_may_oom(...);
