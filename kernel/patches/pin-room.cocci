// Room below the border before a long pin.
// file: mm/gup.c
// inserts: 1
// without: pins
@@ @@
  __gup_longterm_locked(...)
  {
  <...
+ contiguitas_prepare_pins(nr_pages);
  flags = memalloc_pin_save();
  ...>
  }
