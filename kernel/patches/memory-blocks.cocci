// Memory blocks stay as they are while the border is active: the zone that each caches may be wrong.
// file: drivers/base/memory.c
// inserts: 4
// without: boots
@@ @@
  memory_block_offline(...)
  {
  ...
+ if (contiguitas_keeps_online(mem->nid))
+	return -EBUSY;
  if (!mem->zone)
  return -EINVAL;
  ...
  }
@@ @@
  memory_block_online(...)
  {
  ...
+ if (contiguitas_keeps_online(mem->nid))
+	return -EBUSY;
  zone = zone_for_pfn_range(...);
  ...
  }
