// An isolated range lies in one zone, which may not be the one that was read before.
// file: mm/page_alloc.c
// inserts: 4
// without: oscillates
@@ @@
+ if (!contiguitas_one_zone(start, end, &cc.zone)) {
+	ret = -EBUSY;
+	goto done;
+ }
  drain_all_pages(cc.zone);
