// Below the border pageblocks may be mixed: no mark is raised there for kswapd to prevent it.
// file: mm/page_alloc.c
// inserts: 2
// without: mixes
@@ @@
  boost_watermark(...)
  {
  <...
+ if (contiguitas_mixes(zone))
+	return false;
  if (!watermark_boost_factor)
	return false;
  ...>
  }
