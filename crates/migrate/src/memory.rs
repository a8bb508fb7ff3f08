//! Memory of the host for large arrays that are read at random.
//!
//! The tags of a simulated machine are some megabytes, and a simulated miss reads some twenty
//! places in them, most of which the host's own caches miss. Two things keep that bearable: huge
//! pages, so that the host's TLB does not miss as well (a third of the time, by itself), and
//! prefetches, so that many of these misses wait together. Neither changes any result.

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

/// Words of a line of the host's cache.
const LINE_WORDS: usize = 64 / 4;

/// Words of a huge page of the host.
const HUGE_WORDS: usize = (2 << 20) / 4;

/// Arrays of this many words are worth huge pages of their own: 512 KiB.
const MANY_WORDS: usize = HUGE_WORDS / 4;

/// Words, zero at first, that begin with a line of the host's cache; many of them, with one of its
/// huge pages.
#[derive(Debug)]
pub struct Words {
    all: Vec<u32>,
    first: usize,
    len: usize,
}

impl Words {
    /// `len` zeroes.
    pub fn zeroed(len: usize) -> Words {
        let align = if len >= MANY_WORDS { HUGE_WORDS } else { LINE_WORDS };
        // Zeroed memory of this size comes untouched from the kernel: what is never used of the
        // first and the last huge page costs nothing.
        let all = vec![0u32; len.next_multiple_of(align) + align];
        let first = all.as_ptr().align_offset(align * 4).min(align);
        if align == HUGE_WORDS {
            advise_huge(&all[first..][..len.next_multiple_of(align)]);
        }
        Words { all, first, len }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Clone for Words {
    fn clone(&self) -> Words {
        let mut copy = Words::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Words {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.all[self.first..][..self.len]
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.all[self.first..][..self.len]
    }
}

/// Has an element brought into the host's cache and does not wait for it. Where the host has no
/// such instruction, and beyond the end, nothing happens.
#[inline]
pub fn prefetch<T>(elements: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = elements.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of a live element, and a prefetch is a hint: it reads
        // nothing into the program and cannot fault.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, at);
}

/// Asks the kernel to back whole huge pages by such.
fn advise_huge(words: &[u32]) {
    // SAFETY: the range is memory of ours, and MADV_HUGEPAGE changes neither its content nor who
    // may use it.
    #[allow(unsafe_code)]
    let advised = unsafe {
        madvise(words.as_ptr().cast_mut().cast(), size_of_val(words), Advice::LinuxHugepage)
    };
    // A kernel without huge pages refuses: it is slower then, and nothing else.
    let _ = advised;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zero_aligned_and_as_many_as_asked_for() {
        for len in [0, 1, 16, 1000, HUGE_WORDS / 4, HUGE_WORDS, HUGE_WORDS + 5] {
            let words = Words::zeroed(len);
            assert_eq!((words.len(), words.iter().sum::<u32>()), (len, 0));
            let align = if len >= MANY_WORDS { 2 << 20 } else { 64 };
            assert_eq!(words.as_ptr() as usize % align, 0, "{len} words");
        }
        let mut words = Words::zeroed(3);
        words[2] = 7;
        assert_eq!(words.clone()[..], [0, 0, 7]);
    }
}
