// What the hooks of this file call.
// file: mm/compaction.c
// inserts: 1
@@ @@
  #include <linux/compaction.h>
+ #include <linux/contiguitas.h>
