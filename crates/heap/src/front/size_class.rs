//! Size classes: the sizes that small objects are rounded up to.
//!
//! The rule: up to 1 KiB every multiple of 16 bytes is a class, so that a class is found by a shift
//! and a request wastes at most 15 bytes. Above, eight classes per doubling up to 32 KiB and four
//! up to 256 KiB, so that a request wastes at most an eighth, or a quarter, of its class. What a
//! span cannot cut into objects is at most an eighth of it.

use crate::units::Pages;

/// The largest small object: 256 KiB (section 3 of the paper).
pub const MAX_SMALL: usize = 256 << 10;
/// Alignment of every object, and the step of the smallest classes.
pub const GRANULE: usize = 16;
/// Up to this size every multiple of [`GRANULE`] is a class.
pub const MAX_DIRECT: usize = 1 << 10;
/// Up to this size there are eight classes per doubling, four above.
pub const MAX_FINE: usize = 32 << 10;
/// Objects in a span at most, so that a span's metadata has a fixed size.
pub const MAX_OBJECTS: usize = 512;
/// Objects that move between caches at once, at most.
pub const MAX_BATCH: usize = 32;

const DIRECT: usize = MAX_DIRECT / GRANULE;
const FINE: usize = 8 * (MAX_FINE / MAX_DIRECT).ilog2() as usize;
const COARSE: usize = 4 * (MAX_SMALL / MAX_FINE).ilog2() as usize;
/// Number of size classes.
pub const CLASSES: usize = DIRECT + FINE + COARSE;

/// A size class, 1 to [`CLASSES`]. 0 stands for "no small object", so that memory that was never
/// written names no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

/// Constants of a class.
#[derive(Clone, Copy, Debug)]
pub struct ClassInfo {
    /// Bytes of an object.
    pub size: u32,
    /// Pages of a span.
    pub pages: u16,
    /// Objects of a span.
    pub objects: u16,
    /// Objects that move between caches at once.
    pub batch: u16,
    /// Objects of this class that one cache may hold.
    pub max_cached: u16,
    /// 2^40 over the size, rounded up: division of an offset in a span by the size is a product.
    reciprocal: u64,
}

impl ClassInfo {
    const fn of_size(size: usize) -> ClassInfo {
        let page = Pages::SIZE as usize;
        // A span holds some objects, so that a refill does not need a span for each of them.
        let wanted = at_most(at_least((64 << 10) / size, 1), 8);
        let mut pages = 1;
        while pages * page / size < wanted || pages * page % size * 8 > pages * page {
            pages += 1;
        }
        let objects = pages * page / size;
        ClassInfo {
            size: size as u32,
            pages: pages as u16,
            objects: objects as u16,
            batch: at_most(at_least((64 << 10) / size, 2), MAX_BATCH) as u16,
            max_cached: at_most(at_least((256 << 10) / size, 4), 448) as u16,
            reciprocal: (1u64 << 40).div_ceil(size as u64),
        }
    }

    /// Which object of a span the byte at `offset` lies in.
    #[inline]
    pub const fn index_of(&self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal) >> 40) as usize
    }
}

const fn at_most(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

const fn at_least(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// The classes, by number; the first entry stands for none.
static INFOS: [ClassInfo; CLASSES + 1] = TABLE;
const TABLE: [ClassInfo; CLASSES + 1] = infos();

const fn infos() -> [ClassInfo; CLASSES + 1] {
    let nothing =
        ClassInfo { size: 0, pages: 0, objects: 0, batch: 0, max_cached: 0, reciprocal: 0 };
    let mut infos = [nothing; CLASSES + 1];
    let mut class = 1;
    let mut size = GRANULE;
    while class <= CLASSES {
        infos[class] = ClassInfo::of_size(size);
        size += step_above(size);
        class += 1;
    }
    infos
}

/// Distance from a class to the next larger one.
const fn step_above(size: usize) -> usize {
    let doubling = 1usize << size.ilog2();
    if size < MAX_DIRECT {
        GRANULE
    } else if size < MAX_FINE {
        doubling / 8
    } else {
        doubling / 4
    }
}

/// Distance of the classes just above [`MAX_DIRECT`]; up to [`MAX_FINE`] all are multiples of it.
const FINE_STEP: usize = MAX_DIRECT / 8;

/// Number, less one, of the class of each size up to [`MAX_FINE`], by `(size − 1) / 128`.
#[doc(hidden)]
pub static FINE_CLASSES: [u8; MAX_FINE / FINE_STEP] = {
    let mut classes = [0; MAX_FINE / FINE_STEP];
    let mut place = 0;
    while place < classes.len() {
        match SizeClass::of_size((place + 1) * FINE_STEP) {
            Some(class) => classes[place] = class.0 - 1,
            None => unreachable!(),
        }
        place += 1;
    }
    classes
};

impl SizeClass {
    /// The smallest class that holds `size` bytes, or `None` above [`MAX_SMALL`]. O(1).
    #[inline]
    pub const fn of_size(size: usize) -> Option<SizeClass> {
        if size <= MAX_DIRECT {
            return Some(SizeClass(((at_least(size, 1) - 1) / GRANULE + 1) as u8));
        }
        if size > MAX_SMALL {
            return None;
        }
        let (first, from, per_doubling) = match size <= MAX_FINE {
            true => (DIRECT, MAX_DIRECT, 8),
            false => (DIRECT + FINE, MAX_FINE, 4),
        };
        // The doubling that `size` lies in reaches from `low` (not part of it) to twice `low`.
        let low = 1usize << (size - 1).ilog2();
        let doublings = (low / from).ilog2() as usize;
        let step = low / per_doubling;
        let class = first + doublings * per_doubling + (size - low).div_ceil(step);
        Some(SizeClass(class as u8))
    }

    /// The smallest class whose objects hold `size` bytes and all lie at multiples of `align`, a
    /// power of two up to a page. `None` if there is none.
    pub fn of_layout(size: usize, align: usize) -> Option<SizeClass> {
        debug_assert!(align.is_power_of_two() && align as u64 <= Pages::SIZE);
        let mut class = SizeClass::of_size(size.max(1).checked_next_multiple_of(align)?)?;
        // Spans begin at a page, so objects are aligned as far as their size is.
        while !(class.info().size as usize).is_multiple_of(align) {
            class = SizeClass::new(class.0 + 1)?;
        }
        Some(class)
    }

    /// The class of a number, if there is one of that number.
    pub const fn new(number: u8) -> Option<SizeClass> {
        if number == 0 || number as usize > CLASSES { None } else { Some(SizeClass(number)) }
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = SizeClass> {
        (1..=CLASSES as u8).map(SizeClass)
    }

    /// The number of the class, 1 to [`CLASSES`].
    #[inline]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Constants of the class.
    #[inline]
    pub fn info(self) -> &'static ClassInfo {
        &INFOS[self.0 as usize]
    }

    /// Constants of the class of a number, for compile-time tables.
    pub(super) const fn info_of(number: usize) -> ClassInfo {
        TABLE[number]
    }

    /// Bytes of an object.
    #[inline]
    pub fn size(self) -> usize {
        self.info().size as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Vec<usize> {
        SizeClass::all().map(SizeClass::size).collect()
    }

    #[test]
    fn there_are_about_a_hundred_classes_up_to_256_kib() {
        let sizes = sizes();
        assert_eq!(sizes.len(), 116);
        assert_eq!((sizes[0], sizes[63], sizes[64]), (16, 1024, 1152));
        assert_eq!(*sizes.last().unwrap(), MAX_SMALL);
        assert!(sizes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn each_size_gets_the_smallest_class_that_holds_it() {
        let sizes = sizes();
        for size in 0..=MAX_SMALL {
            let class = SizeClass::of_size(size).unwrap();
            assert_eq!(class.number() - 1, sizes.partition_point(|&held| held < size), "{size}");
        }
        assert_eq!(SizeClass::of_size(MAX_SMALL + 1), None);
        assert_eq!(SizeClass::of_size(usize::MAX), None);
    }

    #[test]
    fn the_table_of_fine_classes_agrees() {
        for size in MAX_DIRECT + 1..=MAX_FINE {
            let number = FINE_CLASSES[(size - 1) / 128] + 1;
            assert_eq!(SizeClass::new(number), SizeClass::of_size(size), "{size}");
        }
    }

    #[test]
    fn slack_obeys_the_rule() {
        for pair in sizes().windows(2) {
            let worst = pair[1] - pair[0] - 1;
            let share = if pair[1] <= MAX_FINE { 8 } else { 4 };
            let allowed = if pair[1] <= MAX_DIRECT { GRANULE - 1 } else { pair[1] / share };
            assert!(worst <= allowed, "{pair:?} wastes {worst}");
        }
        for class in SizeClass::all() {
            let info = class.info();
            let span = info.pages as usize * Pages::SIZE as usize;
            let used = info.objects as usize * class.size();
            assert!((span - used) * 8 <= span, "{info:?}");
            assert!(info.objects as usize <= MAX_OBJECTS && used <= span, "{info:?}");
            assert!(info.pages <= 64, "{info:?}");
        }
    }

    #[test]
    fn reciprocals_divide_exactly() {
        for class in SizeClass::all() {
            let span = class.info().pages as usize * Pages::SIZE as usize;
            for offset in 0..span {
                assert_eq!(class.info().index_of(offset), offset / class.size(), "{class:?}");
            }
        }
    }

    #[test]
    fn an_aligned_class_holds_the_size_at_every_object() {
        for align in (0..=13).map(|shift| 1usize << shift) {
            for size in (0..=MAX_SMALL).step_by(97).chain([0, 1, MAX_SMALL]) {
                let Some(class) = SizeClass::of_layout(size, align) else {
                    assert!(size.next_multiple_of(align) > MAX_SMALL);
                    continue;
                };
                assert!(class.size() >= size && class.size().is_multiple_of(align));
            }
        }
    }
}
