// Compaction has put back what it took.
// file: mm/compaction.c
// inserts: 1
// without: oscillates
@@ @@
+ contiguitas_read_unlock(cc->zone);
  trace_mm_compaction_end(cc, ...);
