//! `realloc`, which keeps objects in place as long as it can.

use super::malloc::{after_decline, allocate, free, publish_window, usable_size};
use super::nodes;
use crate::page_heap::Tail;
use crate::units::HugePages;

/// From this size on, objects that grow get whole huge pages, which can be extended in their place:
/// 4 MiB (chosen: a quarter more than that holds the rest of a huge page).
const EXTENSIBLE: usize = 2 * HugePages::SIZE as usize;

/// From this size on, growing objects get more than they need: 1 KiB (chosen: below it a copy costs
/// less than malloc itself).
const GROWING: usize = 1 << 10;

/// What an object of `held` bytes that must hold `size` gets: a quarter more than it had, as one that
/// grows once will grow again.
fn ample(size: usize, held: usize) -> usize {
    let ample = size.max(held + held / 4);
    if ample < EXTENSIBLE { ample } else { ample.next_multiple_of(HugePages::SIZE as usize) }
}

/// Memory of `size` bytes, above 0, that begins with what `object` holds. The object is freed then.
/// Null when there is no memory; the object is as it was then.
///
/// It stays in place while it fits and would waste less than half. A large object loses whole huge
/// pages in place.
///
/// # Safety
/// As for [`usable_size`].
pub unsafe fn reallocate(object: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let held = unsafe { usable_size(object) };
    if size <= held && (size >= held / 2 || held <= 64) {
        return object;
    }
    // SAFETY: a live object of the caller, who needs only its first `size` bytes; as large as this, it
    // has a span of its own.
    if size < held && size >= HugePages::SIZE as usize && unsafe { truncate(object, size) } {
        return object;
    }
    let ample = if size > held && held >= GROWING { ample(size, held) } else { size };
    // SAFETY: a live object of the caller; one of whole huge pages is large.
    let extends = || unsafe { nodes::heap_of(object).extend_large(object, ample) };
    if size > held && held >= EXTENSIBLE && extends() {
        publish_window();
        return object;
    }
    let mut fresh = allocate(ample);
    if fresh.is_null() && ample != size {
        fresh = allocate(size);
    }
    if fresh.is_null() {
        return if size <= held { object } else { fresh };
    }
    // SAFETY: two objects that hold as many bytes; the old one is the caller's to free.
    unsafe { move_contents(object, held, fresh, held.min(size)) };
    fresh
}

/// # Safety
/// `object` is a live large object whose bytes from `size` on nobody needs.
unsafe fn truncate(object: *mut u8, size: usize) -> bool {
    let whole = size.next_multiple_of(HugePages::SIZE as usize);
    // SAFETY: the caller's promise.
    let truncated = unsafe { nodes::heap_of(object).truncate_large(object, whole, Tail::Kept) };
    if truncated {
        after_decline();
    }
    truncated
}

/// Parts in which a large object is copied, if they are at least a huge page each (chosen: the two
/// copies then need an eighth more memory than one, for a few system calls).
const PARTS: usize = 8;

/// Copies the first `kept` of the `held` bytes of `object` to `fresh`, and frees the object.
///
/// The end of a large object is copied first, and its memory returned to the system before the next
/// part is copied, so that memory holds hardly anything twice.
///
/// # Safety
/// Both objects are the caller's, and hold `kept` bytes.
unsafe fn move_contents(object: *mut u8, held: usize, fresh: *mut u8, kept: usize) {
    let part = (held / PARTS).next_multiple_of(HugePages::SIZE as usize);
    let mut left = kept;
    while held >= EXTENSIBLE && left > part {
        let start = (left - 1) / part * part;
        // SAFETY: within both objects, of which the old one has not lost these bytes.
        unsafe { fresh.add(start).copy_from_nonoverlapping(object.add(start), left - start) };
        left = start;
        let heap = nodes::heap_of(object);
        // SAFETY: a live large object of the caller; what lies behind was copied.
        if !unsafe { heap.truncate_large(object, left, Tail::Released) } {
            break;
        }
    }
    // SAFETY: as above; the object is the caller's to free.
    unsafe {
        fresh.copy_from_nonoverlapping(object, left);
        free(object);
    }
}
