// Compaction of last resort looks at every page for a free one.
// file: mm/compaction.c
// inserts: 4
// without: fills
@@ @@
  if (cc->order <= 0)
	return;
+ if (contiguitas_scans_all(cc->zone, cc->ignore_block_suitable))
+	return;
@@ @@
  stride = min_t(unsigned int, COMPACT_CLUSTER_MAX, stride << 1);
+ if (contiguitas_scans_all(zone, cc->ignore_block_suitable))
+	stride = 1;
