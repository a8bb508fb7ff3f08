//! The memory of one cache: a stack of objects for each size class, in one piece.
//!
//! ```text
//! word 0          header of no class: always zero
//! word 1 …        header of each class: number of the top slot, number of the last slot in use
//! then            what the cache has learned (`Learned`)
//! then, a class   a slot that is always zero, and as many slots as the class may ever fill
//! ```
//! Slots are numbered by their word in the slab. A stack is empty when its top is the slot that is
//! always zero, so taking an object needs no comparison with the bottom: it takes a null. Memory
//! that was never written is a slab whose stacks are all empty and have no room.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::size_class::{CLASSES, SizeClass};

const HEADERS: usize = CLASSES + 1;
const LEARNT_WORDS: usize = size_of::<Learned>() / 8;

/// What a cache has learned about its use: how much it may hold, and which classes ran empty or
/// overflowed lately.
#[repr(C)]
#[derive(Debug)]
pub struct Learned {
    /// Bytes that the stacks have room for.
    pub room_bytes: AtomicUsize,
    /// Bitmap of classes that missed since the clock hand passed them.
    pub missed: [AtomicU64; 2],
    /// Bitmap of classes that ran empty since they overflowed and got more room.
    pub ran_dry: [AtomicU64; 2],
    /// The clock hand: the next class that may lose room.
    pub hand: AtomicU32,
    /// Allocations that found their stack empty.
    pub underflows: AtomicU32,
    /// Frees that found their stack full.
    pub overflows: AtomicU32,
    /// Times that a stack lost room to another.
    pub stolen: AtomicU32,
}

/// First slot of each class, and after the last class the number of words of a slab.
const BEGINS: [u32; HEADERS + 1] = {
    let mut begins = [0; HEADERS + 1];
    let mut word = (HEADERS + LEARNT_WORDS) as u32;
    let mut class = 1;
    while class <= CLASSES {
        begins[class] = word;
        word += 1 + SizeClass::info_of(class).max_cached as u32;
        class += 1;
    }
    begins[HEADERS] = word;
    begins
};

/// Words of a slab.
pub const WORDS: usize = BEGINS[HEADERS] as usize;

/// The memory of one cache.
#[repr(C)]
pub struct Slab {
    headers: [AtomicU64; HEADERS],
    /// What the cache has learned.
    pub learned: Learned,
    slots: [AtomicU64; WORDS - HEADERS - LEARNT_WORDS],
}

/// The header of a stack: where its top is and where its room ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the top slot in use.
    pub top: u32,
    /// Number of the last slot that may be used.
    pub end: u32,
}

impl Header {
    /// The header as the word that a section compares and stores.
    pub const fn word(self) -> u64 {
        self.top as u64 | (self.end as u64) << 32
    }

    const fn of_word(word: u64) -> Header {
        Header { top: word as u32, end: (word >> 32) as u32 }
    }
}

/// Number of the slot of `class` that is always zero.
#[inline]
pub const fn begin(class: SizeClass) -> u32 {
    BEGINS[class.number()]
}

impl Slab {
    /// The header of a stack, at this moment.
    #[inline]
    pub fn header(&self, class: SizeClass) -> Header {
        Header::of_word(self.headers[class.number()].load(Relaxed))
    }

    /// Sets the header of a stack of a slab that no other thread uses.
    pub fn set_header(&self, class: SizeClass, header: Header) {
        self.headers[class.number()].store(header.word(), Relaxed);
    }

    /// Objects in a stack, at this moment.
    pub fn len(&self, class: SizeClass) -> usize {
        self.header(class).top.saturating_sub(begin(class)) as usize
    }

    /// Objects that a stack has room for, at this moment.
    pub fn room(&self, class: SizeClass) -> usize {
        self.header(class).end.saturating_sub(begin(class)) as usize
    }

    /// A slot of the slab by its number.
    #[inline]
    pub fn slot(&self, number: u32) -> &AtomicU64 {
        &self.slots[number as usize - HEADERS - LEARNT_WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_lie_apart_and_within_the_slab() {
        assert_eq!(size_of::<Slab>(), WORDS * 8);
        let mut end = HEADERS + LEARNT_WORDS;
        for class in SizeClass::all() {
            assert_eq!(begin(class) as usize, end);
            end += 1 + class.info().max_cached as usize;
        }
        assert_eq!(end, WORDS);
        // Address space; of it a class touches what its stack fills.
        const { assert!(WORDS * 8 <= 512 << 10) };
    }

    #[test]
    fn fresh_memory_is_an_empty_cache_without_room() {
        let slab: Box<Slab> = zeroed();
        for class in SizeClass::all() {
            assert_eq!((slab.len(class), slab.room(class)), (0, 0));
        }
    }

    fn zeroed() -> Box<Slab> {
        // SAFETY: a slab is made of atomic integers, for which zero is valid.
        unsafe { Box::<Slab>::new_zeroed().assume_init() }
    }
}
