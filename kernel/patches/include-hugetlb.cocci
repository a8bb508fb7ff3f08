// What the hooks of this file call.
// file: mm/hugetlb.c
// inserts: 1
// without: build
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
