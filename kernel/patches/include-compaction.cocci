// What the hooks of this file call.
// file: mm/compaction.c
// inserts: 1
// without: build
@@ @@
  #include <linux/compaction.h>
+ #include <linux/contiguitas.h>
