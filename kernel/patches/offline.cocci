// A memory block's own zone is no longer known, so it is not even tried to take one offline.
// file: drivers/base/memory.c
// inserts: 2
// without: boots
@@ @@
  memory_block_offline(...)
  {
  ...
+ if (contiguitas_keeps_online())
+	return -EBUSY;
  if (!mem->zone)
  return -EINVAL;
  ...
  }
