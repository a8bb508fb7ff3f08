// Limits by the memory that buffers may have count all that the border can give.
// file: mm/page_alloc.c
// inserts: 2
// without: boots
@@ @@
  nr_free_buffer_pages(...)
  {
+ if (contiguitas_enabled)
+	return nr_free_zone_pages(ZONE_MOVABLE);
  return ...;
  }
