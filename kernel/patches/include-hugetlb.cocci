// What the hooks of this file call.
// file: mm/hugetlb.c
// inserts: 1
@@ @@
  #include <linux/mm.h>
+ #include <linux/contiguitas.h>
