// Pressure of a region: direct compaction.
// file: mm/page_alloc.c
// inserts: 2
// without: compacts
@@ @@
  __alloc_pages_direct_compact(...)
  {
  <...
(
  psi_memstall_enter(&pflags);
+ contiguitas_stall_begin(ac);
|
+ contiguitas_stall_end(ac);
  psi_memstall_leave(&pflags);
)
  ...>
  }
