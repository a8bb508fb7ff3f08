// Compaction ends early if a hand-over waits.
// file: mm/compaction.c
// inserts: 4
// without: yields
@@ statement S; @@
+ if (contiguitas_mover_waits(cc->zone)) {
+	ret = COMPACT_CONTENDED;
+	break;
+ }
  if (pageblock_start_pfn(last_migrated_pfn) == pageblock_start_pfn(iteration_start_pfn))
  S
