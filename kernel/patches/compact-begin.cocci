// No hand-over while compaction takes blocks off lists by their number.
// file: mm/compaction.c
// inserts: 2
// without: oscillates
@@ @@
+ if (!contiguitas_read_trylock(cc->zone))
+	return COMPACT_CONTENDED;
  if (compaction_restarting(cc->zone, cc->order))
	__reset_isolation_suitable(cc->zone);
