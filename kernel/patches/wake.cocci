// Reclaim wakes the resizer, and kswapd sleeps on while growth alone would do.
// file: mm/vmscan.c
// inserts: 2
// without: wakes
@@ @@
  wakeup_kswapd(...)
  {
  <...
  pgdat = zone->zone_pgdat;
+ if (contiguitas_wake(zone, highest_zoneidx))
+	return;
  ...>
  }
