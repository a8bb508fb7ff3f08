// Reclaim wakes the resizer.
// file: mm/vmscan.c
// inserts: 1
// without: wakes
@@ @@
  wakeup_kswapd(...)
  {
  <...
  pgdat = zone->zone_pgdat;
+ contiguitas_wake(zone);
  ...>
  }
