//! Marks of free objects, which detect double frees.
//!
//! An object of less than 4 KiB carries its mark in its second word: its address exclusive-or the
//! process's key. The mark of a larger one lies elsewhere, in the page map's window, one byte for
//! each 4 KiB of the address space: an object that a program never writes to must not cost a page
//! of memory, and its free must not wait for a cache line. Beyond the window, larger objects carry
//! their mark, too.

use core::sync::atomic::Ordering::Relaxed;

use super::control::CONTROL;
use super::protocol::window::{MARK_BYTES, Window};
use super::size_class::SizeClass;

/// The smallest class whose marks lie apart: no two of its objects share 4 KiB at their starts.
const FIRST_APART: SizeClass = match SizeClass::of_size(MARK_BYTES) {
    Some(class) => class,
    None => unreachable!(),
};
/// Its place among the classes, as the fast paths count them: from 0.
#[doc(hidden)]
pub const PLACE_APART: usize = FIRST_APART.number() - 1;

/// The word of an object that carries its mark, and the mark.
///
/// # Safety
/// `object` is an object of at least 16 bytes.
#[inline]
unsafe fn word_of(object: *mut u8) -> (*mut u64, u64) {
    let mark = object as u64 ^ CONTROL.free_mark.load(Relaxed);
    // SAFETY: the second word of the object.
    (unsafe { object.cast::<u64>().add(1) }, mark)
}

/// Marks an object as free. False if it was marked already.
///
/// # Safety
/// An object of `class` begins at `object`, and no other thread uses its second word. `window` is
/// the page map's, or a copy that is open.
#[must_use]
#[inline]
pub unsafe fn set(window: &Window, object: *mut u8, class: SizeClass) -> bool {
    if class >= FIRST_APART
        // SAFETY: the window has a mark for each of its addresses.
        && let Some(mark) = unsafe { window.mark(object as u64).as_ref() }
    {
        // Plain loads and stores: two threads that free an object at the same moment may both pass.
        let free = mark.load(Relaxed) != 0;
        mark.store(1, Relaxed);
        return !free;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let (word, mark) = word_of(object);
        let free = word.read() == mark;
        word.write(mark);
        !free
    }
}

/// Removes the mark of an object that is handed out.
///
/// # Safety
/// As for [`set`].
#[inline]
pub unsafe fn clear(window: &Window, object: *mut u8, class: SizeClass) {
    if class >= FIRST_APART
        // SAFETY: the window has a mark for each of its addresses.
        && let Some(mark) = unsafe { window.mark(object as u64).as_ref() }
    {
        return mark.store(0, Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { word_of(object).0.write(0) };
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU8;

    use super::*;

    /// A window of two pages at address 0x10000, and its classes and marks.
    fn window(bytes: &mut [u8; 6]) -> Window {
        let window = Window::new();
        window.open(8, 2, bytes.as_mut_ptr().cast::<AtomicU8>());
        window
    }

    #[test]
    fn marks_of_large_objects_lie_apart_one_for_each_4_kib() {
        let class = SizeClass::of_size(4096).unwrap();
        assert_eq!((PLACE_APART + 1, class.size()), (class.number(), 4096));
        let mut bytes = [0; 6];
        let window = window(&mut bytes);
        for (number, address) in (0x10000..0x14000).step_by(4096).enumerate() {
            let object = core::ptr::without_provenance_mut(address);
            // SAFETY: the objects, which are not there, are not touched.
            unsafe {
                assert!(set(&window, object, class) && !set(&window, object, class));
                assert_eq!(window.mark(address as u64 + 4095), window.mark(address as u64));
            }
            // SAFETY: within the array that the window was opened with.
            assert_eq!(unsafe { (*window.mark(address as u64)).load(Relaxed) }, 1, "{number}");
            // SAFETY: as above.
            unsafe {
                clear(&window, object, class);
                assert!(set(&window, object, class));
            }
        }
        assert_eq!(bytes, [0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn small_objects_and_those_beyond_the_window_carry_theirs() {
        let mut bytes = [0; 6];
        let window = window(&mut bytes);
        for size in [16, 4095, 5000] {
            let class = SizeClass::of_size(size.min(3584)).unwrap();
            let class = if size == 5000 { SizeClass::of_size(size).unwrap() } else { class };
            let mut object = vec![0u64; size.div_ceil(8)];
            let start = object.as_mut_ptr().cast::<u8>();
            // SAFETY: as many words as the class has, or the two that are used.
            unsafe {
                assert!(set(&window, start, class) && !set(&window, start, class));
                assert_ne!(object[1], 0);
                clear(&window, start, class);
                assert_eq!(object[1], 0);
            }
        }
        assert_eq!(bytes, [0; 6]);
    }
}
