//! A cache of objects in front of the shared levels, of a CPU or of a thread.
//!
//! Each class has a stack. Its capacity follows misses: a stack that runs empty, or overflows after
//! it ran empty, gets room for another batch, within the budget of its cache. When the budget is
//! spent, the room comes from a class that has not missed for the longest time (a clock with a
//! second chance). A stack that only overflows, as on a CPU that frees what others allocate, gets
//! room for two batches: more would withhold objects from the CPUs that allocate.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::size_class::{CLASSES, MAX_BATCH, SizeClass};
use super::slab::{Header, Slab, begin};

/// Classes that a miss checks for room to take. More would make misses expensive where all classes
/// are in use, and the hand reaches all of them anyway.
const STEAL_SPINS: usize = 4;

/// Objects above this size get the remaining room, but take none from others: a few of them would
/// empty the stacks of all small classes, and users of so much memory hardly notice a miss.
const LARGEST_THIEF: usize = 4 << 10;

/// A stack's room grows by a batch, or by this many bytes of objects: more would let a class with
/// few objects in use take the room of many others.
const LARGEST_STEP: usize = 16 << 10;

/// The stacks of a cache. The thread may be moved to another CPU, and so to other stacks, between
/// any two calls.
pub trait Stacks {
    /// Takes the object on top of a stack, or null if it is empty.
    fn pop(&self, class: SizeClass) -> *mut u8;
    /// Puts an object on top of a stack. False if there is no room.
    fn push(&self, class: SizeClass, object: *mut u8) -> bool;
    /// Puts objects on top of a stack, the last one topmost, as many as there is room for.
    fn push_batch(&self, class: SizeClass, objects: &[*mut u8]) -> usize;
    /// Takes objects from the top of a stack, as many as there are and `objects` holds.
    fn pop_batch(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize;
    /// The memory of the stacks, if there is some.
    fn slab(&self) -> Option<&Slab>;
    /// Replaces a stack's header if `slab` still is the memory of the stacks, and `old` the header.
    fn replace_header(&self, slab: &Slab, class: SizeClass, old: Header, new: Header) -> bool;
}

impl<S: Stacks> Stacks for &S {
    fn pop(&self, class: SizeClass) -> *mut u8 {
        S::pop(self, class)
    }
    fn push(&self, class: SizeClass, object: *mut u8) -> bool {
        S::push(self, class, object)
    }
    fn push_batch(&self, class: SizeClass, objects: &[*mut u8]) -> usize {
        S::push_batch(self, class, objects)
    }
    fn pop_batch(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
        S::pop_batch(self, class, objects)
    }
    fn slab(&self) -> Option<&Slab> {
        S::slab(self)
    }
    fn replace_header(&self, slab: &Slab, class: SizeClass, old: Header, new: Header) -> bool {
        S::replace_header(self, slab, class, old, new)
    }
}

/// The shared levels below a cache.
pub trait Lower {
    /// Takes objects of a class. Fewer than `objects` holds, or none, when memory is short.
    fn take(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize;
    /// Takes objects back.
    fn give(&self, class: SizeClass, objects: &[*mut u8]);
}

/// Why a stack operation misses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Miss {
    /// It is empty when an object is allocated.
    Dry,
    /// It is full when one is freed.
    Over,
}

/// A cache: stacks, what is below them, and how many bytes they may have room for.
pub struct Cache<'a, S, L> {
    /// The stacks.
    pub stacks: S,
    /// What is below.
    pub lower: &'a L,
    /// Bytes of objects that the stacks may have room for.
    pub budget: usize,
}

impl<S: Stacks, L: Lower> Cache<'_, S, L> {
    /// An object of a class, or null when memory is short.
    pub fn allocate(&self, class: SizeClass) -> *mut u8 {
        let object = self.stacks.pop(class);
        if !object.is_null() { object } else { self.refill(class) }
    }

    /// Takes a batch from below, and an object of it.
    #[cold]
    fn refill(&self, class: SizeClass) -> *mut u8 {
        let room = self.after_miss(class, Miss::Dry);
        let mut objects = [null_mut(); MAX_BATCH];
        let wanted = (room + 1).min(class.info().batch.into());
        let got = self.lower.take(class, &mut objects[..wanted]);
        let objects = &mut objects[..got];
        // They come in the order of their addresses: so they are handed out, too.
        objects.reverse();
        if class.size() < CACHE_LINE {
            stack_apart(class, objects);
        }
        let Some((&mut first, rest)) = objects.split_last_mut() else { return null_mut() };
        let kept = self.stacks.push_batch(class, rest);
        if kept < rest.len() {
            self.lower.give(class, &rest[kept..]);
        }
        first
    }

    /// Takes an object back.
    pub fn free(&self, class: SizeClass, object: *mut u8) {
        if !self.stacks.push(class, object) {
            self.overflow(class, object);
        }
    }

    /// Makes room on a full stack, by more room or by a batch that goes below.
    #[cold]
    fn overflow(&self, class: SizeClass, object: *mut u8) {
        let room = self.after_miss(class, Miss::Over);
        if self.stacks.push(class, object) {
            return;
        }
        let mut objects = [null_mut(); MAX_BATCH];
        let batch = usize::from(class.info().batch).min(room.div_ceil(2));
        let popped = self.stacks.pop_batch(class, &mut objects[..batch]);
        if popped > 0 {
            self.lower.give(class, &objects[..popped]);
        }
        if !self.stacks.push(class, object) {
            self.lower.give(class, &[object]);
        }
    }

    /// Notes a miss and lets the stack grow if that will help. Returns the room that it has now.
    fn after_miss(&self, class: SizeClass, miss: Miss) -> usize {
        let Some(slab) = self.stacks.slab() else { return 0 };
        let learned = &slab.learned;
        set_bit(&learned.missed, class, true);
        let grows = match miss {
            Miss::Dry => {
                increment(&learned.underflows);
                set_bit(&learned.ran_dry, class, true);
                true
            }
            Miss::Over => {
                increment(&learned.overflows);
                let few = slab.room(class) < 2 * usize::from(class.info().batch);
                set_bit(&learned.ran_dry, class, false) || few
            }
        };
        if grows {
            self.grow(slab, class);
        }
        slab.room(class)
    }

    /// Gives a stack room for a batch more, if its class and the budget allow it.
    fn grow(&self, slab: &Slab, class: SizeClass) {
        let old = slab.header(class);
        let first = begin(class);
        let (top, end) = (old.top.max(first), old.end.max(first));
        let info = class.info();
        let batch = u32::from(info.batch).min((LARGEST_STEP / class.size()).max(2) as u32);
        let step = batch.min(u32::from(info.max_cached) - (end - first));
        let bytes = step as usize * class.size();
        if step == 0 || !self.reserve(slab, class, bytes) {
            return;
        }
        if !self.stacks.replace_header(slab, class, old, Header { top, end: end + step }) {
            slab.learned.room_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// Reserves bytes of the budget, at other classes' cost if it is spent.
    fn reserve(&self, slab: &Slab, class: SizeClass, bytes: usize) -> bool {
        let room = &slab.learned.room_bytes;
        if room.load(Relaxed) + bytes > self.budget && class.size() <= LARGEST_THIEF {
            self.steal(slab, class, bytes);
        }
        // Threads that share the CPU may pass this together; the budget is exceeded by little then.
        let fits = room.load(Relaxed) + bytes <= self.budget;
        if fits {
            room.fetch_add(bytes, Relaxed);
        }
        fits
    }

    /// Takes room of at least `bytes` from classes that have not missed lately.
    fn steal(&self, slab: &Slab, class: SizeClass, bytes: usize) {
        let mut stolen = 0;
        for _ in 0..STEAL_SPINS {
            if stolen >= bytes {
                break;
            }
            let hand = slab.learned.hand.load(Relaxed) as usize % CLASSES + 1;
            slab.learned.hand.store(hand as u32, Relaxed);
            let Some(victim) = SizeClass::new(hand as u8).filter(|&victim| victim != class) else {
                continue;
            };
            let spared = set_bit(&slab.learned.missed, victim, false);
            if !spared && slab.room(victim) > 0 {
                stolen += self.shrink(slab, victim);
            }
        }
    }

    /// Takes room for a batch from a stack, and the objects that are in it. Returns its bytes.
    fn shrink(&self, slab: &Slab, class: SizeClass) -> usize {
        let room = slab.room(class) as u32;
        let step = u32::from(class.info().batch).min(room);
        if step == 0 {
            return 0;
        }
        let end = begin(class) + room - step;
        let above = slab.header(class).top.saturating_sub(end) as usize;
        let mut objects = [null_mut(); MAX_BATCH];
        let popped = self.stacks.pop_batch(class, &mut objects[..above.min(MAX_BATCH)]);
        if popped > 0 {
            self.lower.give(class, &objects[..popped]);
        }
        let old = slab.header(class);
        let shrinks = old.top <= end && old.end == end + step;
        if !shrinks || !self.stacks.replace_header(slab, class, old, Header { end, ..old }) {
            return 0;
        }
        let bytes = step as usize * class.size();
        slab.learned.room_bytes.fetch_sub(bytes, Relaxed);
        slab.learned.stolen.fetch_add(1, Relaxed);
        bytes
    }

    /// Gives all objects of all stacks below.
    pub fn drain(&self) {
        for class in SizeClass::all() {
            let mut objects = [null_mut(); MAX_BATCH];
            loop {
                let popped = self.stacks.pop_batch(class, &mut objects);
                if popped == 0 {
                    break;
                }
                self.lower.give(class, &objects[..popped]);
            }
        }
    }
}

/// Size of a cache line.
const CACHE_LINE: usize = 64;

/// Reorders objects that are stacked by their addresses, the lowest on top, so that each lies in
/// another cache line than the one above it. Else a program that gives each of its threads an
/// object has them write to one line forever, as each frees its object into the cache of its CPU
/// and gets it back there.
fn stack_apart(class: SizeClass, objects: &mut [*mut u8]) {
    let mut before = [null_mut(); MAX_BATCH];
    let before = &mut before[..objects.len()];
    before.copy_from_slice(objects);
    let in_a_line = CACHE_LINE.div_ceil(class.size());
    let mut places = objects.iter_mut().rev();
    for first in 0..in_a_line {
        let apart = before.iter().rev().skip(first).step_by(in_a_line);
        apart.zip(places.by_ref()).for_each(|(&object, place)| *place = object);
    }
}

/// Sets the bit of a class or clears it. Returns whether it was set.
///
/// Plain loads and stores, here and in [`increment`]: a bit or a count that two threads lose
/// between them does no harm, and locked instructions would dominate the cost of a miss.
fn set_bit(bits: &[AtomicU64; 2], class: SizeClass, to: bool) -> bool {
    let (word, bit) = (&bits[class.number() / 64], 1 << (class.number() % 64));
    let before = word.load(Relaxed);
    word.store(if to { before | bit } else { before & !bit }, Relaxed);
    before & bit != 0
}

fn increment(count: &AtomicU32) {
    count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::super::thread::tests::stacks_of_nobody;
    use super::*;

    #[test]
    fn objects_handed_out_one_after_another_share_no_cache_line() {
        for size in [16, 32, 48] {
            let class = SizeClass::of_size(size).unwrap();
            let mut objects = addresses(size);
            objects.reverse();
            stack_apart(class, &mut objects);
            let order: Vec<usize> = objects.iter().rev().map(|object| object.addr()).collect();
            assert_eq!(order[0], FIRST);
            for pair in order.windows(2).filter(|pair| pair[0] < pair[1]) {
                let last_byte = pair[0] + size - 1;
                assert_ne!(last_byte / CACHE_LINE, pair[1] / CACHE_LINE, "{pair:?} of {size}");
            }
            objects.sort();
            assert_eq!(objects, addresses(size));
        }
    }

    const FIRST: usize = 1 << 13;

    /// A batch of objects side by side, which are not there.
    fn addresses(size: usize) -> Vec<*mut u8> {
        (0..MAX_BATCH).map(|at| core::ptr::without_provenance_mut(FIRST + at * size)).collect()
    }

    /// A level that always has objects.
    struct Plenty;

    impl Lower for Plenty {
        fn take(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
            let fresh = addresses(class.size());
            objects.copy_from_slice(&fresh[..objects.len()]);
            objects.len()
        }
        fn give(&self, _: SizeClass, _: &[*mut u8]) {}
    }

    #[test]
    fn a_stack_that_only_runs_over_stays_small() {
        let cache = Cache { stacks: stacks_of_nobody(), lower: &Plenty, budget: 1 << 20 };
        let class = SizeClass::of_size(64).unwrap();
        let batch = usize::from(class.info().batch);
        let object: *mut u8 = core::ptr::without_provenance_mut(FIRST);
        let room = || cache.stacks.slab().unwrap().room(class);
        (0..1000).for_each(|_| cache.free(class, object));
        assert_eq!(room(), 2 * batch);
        // Who allocates as well, in bursts, gets room for a burst.
        for _ in 0..10 {
            (0..400).for_each(|_| assert!(!cache.allocate(class).is_null()));
            (0..400).for_each(|_| cache.free(class, object));
        }
        assert!(room() >= 400, "room for {}", room());
    }
}
