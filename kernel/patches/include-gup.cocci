// What the hooks of this file call.
// file: mm/gup.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
