// The pageblock may have changed zones before the lock was taken.
// file: mm/page_isolation.c
// inserts: 4
// without: oscillates
@@ @@
  set_migratetype_isolate(...)
  {
  <...
  spin_lock_irqsave(&zone->lock, flags);
+ if (contiguitas_changed_zone(page, zone)) {
+	spin_unlock_irqrestore(&zone->lock, flags);
+	return -EBUSY;
+ }
  ...>
  }
