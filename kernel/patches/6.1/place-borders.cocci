// The first border of each node, in place of what "kernelcore=" asks for.
// file: mm/page_alloc.c
// inserts: 2
// without: boots
@@ @@
  find_usable_zone_for_movable();
+ if (contiguitas_place_borders(zone_movable_pfn,
+			arch_zone_lowest_possible_pfn[movable_zone]))
+	goto out2;
