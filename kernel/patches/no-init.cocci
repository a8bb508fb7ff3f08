// Pages that the mover takes are freed at once, and need not be cleared for that.
// file: mm/page_alloc.c
// inserts: 2
// without: clears
@@
typedef gfp_t;
identifier flags;
@@
  should_skip_init(gfp_t flags)
  {
+ if (contiguitas_takes(flags))
+	return true;
  ...
  }
