// Compaction ends early if a hand-over waits.
// file: mm/compaction.c
// inserts: 4
@@ @@
+ if (contiguitas_mover_waits(cc->zone)) {
+	ret = COMPACT_CONTENDED;
+	break;
+ }
  cc->finish_pageblock = false;
