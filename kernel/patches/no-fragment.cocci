// Nothing below the border has to be protected from unmovable requests: no lower zone comes first.
// file: mm/page_alloc.c
// inserts: 2
// without: mixes
@@ @@
+ if (contiguitas_mixes(zone))
+	return alloc_flags;
  if (zone_idx(zone) != ZONE_NORMAL)
  return alloc_flags;
