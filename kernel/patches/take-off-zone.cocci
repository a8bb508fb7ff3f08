// The page may have changed zones before the lock was taken.
// file: mm/page_alloc.c
// inserts: 4
// without: poisons
@@ @@
  take_page_off_buddy(...)
  {
  <...
  spin_lock_irqsave(&zone->lock, flags);
+ if (contiguitas_changed_zone(page, zone)) {
+	spin_unlock_irqrestore(&zone->lock, flags);
+	return false;
+ }
  ...>
  }
