//! Pages of 8 KiB and huge pages of 2 MiB: their numbers, their counts, and ranges of them.
//!
//! A number names a place (its address divided by the size), a count is an amount. They are
//! separate types, so that a page is never mistaken for a huge page, nor a place for a size.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

macro_rules! count {
    ($name:ident) => {
        impl $name {
            /// None.
            pub const ZERO: $name = $name(0);

            /// The count minus `other`, or zero where `other` is larger.
            pub const fn saturating_sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }

            /// Whether the count is 0.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }

        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(iter: I) -> $name {
                iter.fold($name::ZERO, Add::add)
            }
        }
    };
}

/// A number of pages of 8 KiB, the unit of spans (section 3 of the paper).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Pages(pub u64);
count!(Pages);

/// A number of huge pages of 2 MiB.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct HugePages(pub u64);
count!(HugePages);

impl Pages {
    /// Bytes in a page, as a power of two.
    pub const SHIFT: u32 = 13;
    /// Bytes in a page.
    pub const SIZE: u64 = 1 << Pages::SHIFT;
    /// A single page.
    pub const ONE: Pages = Pages(1);

    /// As many pages as hold `bytes`, rounded up. Bytes up to `u64::MAX` do not overflow.
    pub const fn holding(bytes: u64) -> Pages {
        Pages(bytes.div_ceil(Pages::SIZE))
    }

    /// Their size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 << Pages::SHIFT
    }
}

impl HugePages {
    /// Bytes in a huge page, as a power of two.
    pub const SHIFT: u32 = 21;
    /// Bytes in a huge page.
    pub const SIZE: u64 = 1 << HugePages::SHIFT;
    /// A single huge page.
    pub const ONE: HugePages = HugePages(1);
    /// Pages in a huge page.
    pub const PAGES: Pages = Pages(HugePages::SIZE / Pages::SIZE);

    /// As many huge pages as hold `pages`, rounded up.
    pub const fn holding(pages: Pages) -> HugePages {
        HugePages(pages.0.div_ceil(HugePages::PAGES.0))
    }

    /// The pages in them.
    pub const fn pages(self) -> Pages {
        Pages(self.0 * HugePages::PAGES.0)
    }

    /// Their size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 << HugePages::SHIFT
    }
}

/// The number of a page: its address divided by 8 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

/// The number of a huge page: its address divided by 2 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HugePageId(pub u64);

impl PageId {
    /// The page that the byte at `address` lies in.
    pub const fn containing(address: u64) -> PageId {
        PageId(address >> Pages::SHIFT)
    }

    /// The address of its first byte.
    pub const fn address(self) -> u64 {
        self.0 << Pages::SHIFT
    }

    /// The huge page that it lies in.
    pub const fn huge_page(self) -> HugePageId {
        HugePageId(self.0 / HugePages::PAGES.0)
    }

    /// How many pages of its huge page lie before it: 0 to 255.
    pub const fn index_in_huge_page(self) -> usize {
        (self.0 % HugePages::PAGES.0) as usize
    }
}

impl HugePageId {
    /// Its first page.
    pub const fn first_page(self) -> PageId {
        PageId(self.0 * HugePages::PAGES.0)
    }

    /// The address of its first byte.
    pub const fn address(self) -> u64 {
        self.0 << HugePages::SHIFT
    }

    /// The pages of this huge page alone.
    pub const fn page_range(self) -> PageRange {
        PageRange { start: self.first_page(), len: HugePages::PAGES }
    }
}

impl Add<Pages> for PageId {
    type Output = PageId;
    fn add(self, pages: Pages) -> PageId {
        PageId(self.0 + pages.0)
    }
}

impl Sub for PageId {
    type Output = Pages;
    fn sub(self, earlier: PageId) -> Pages {
        Pages(self.0 - earlier.0)
    }
}

impl Add<HugePages> for HugePageId {
    type Output = HugePageId;
    fn add(self, huge_pages: HugePages) -> HugePageId {
        HugePageId(self.0 + huge_pages.0)
    }
}

impl Sub for HugePageId {
    type Output = HugePages;
    fn sub(self, earlier: HugePageId) -> HugePages {
        HugePages(self.0 - earlier.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {:#x}", self.address())
    }
}

impl fmt::Display for HugePageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "huge page {:#x}", self.address())
    }
}

/// Pages that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// The first of them.
    pub start: PageId,
    /// How many there are.
    pub len: Pages,
}

/// Huge pages that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HugeRange {
    /// The first of them.
    pub start: HugePageId,
    /// How many there are.
    pub len: HugePages,
}

impl PageRange {
    /// The page after the last one.
    pub const fn end(self) -> PageId {
        PageId(self.start.0 + self.len.0)
    }

    /// Whether `page` is one of them.
    pub const fn contains(self, page: PageId) -> bool {
        self.start.0 <= page.0 && page.0 < self.end().0
    }

    /// The huge pages that some of them lie in.
    pub const fn touched_huge_pages(self) -> HugeRange {
        let start = self.start.huge_page();
        let end = self.end().0.div_ceil(HugePages::PAGES.0);
        HugeRange { start, len: HugePages(end.saturating_sub(start.0)) }
    }
}

impl HugeRange {
    /// The huge page after the last one.
    pub const fn end(self) -> HugePageId {
        HugePageId(self.start.0 + self.len.0)
    }

    /// Whether `huge_page` is one of them.
    pub const fn contains(self, huge_page: HugePageId) -> bool {
        self.start.0 <= huge_page.0 && huge_page.0 < self.end().0
    }

    /// All of their pages.
    pub const fn pages(self) -> PageRange {
        PageRange { start: self.start.first_page(), len: self.len.pages() }
    }

    /// The first `len` of them, and the others.
    ///
    /// # Panics
    /// If there are fewer than `len`.
    pub fn split(self, len: HugePages) -> (HugeRange, HugeRange) {
        let rest = self.len - len;
        (HugeRange { start: self.start, len }, HugeRange { start: self.start + len, len: rest })
    }
}

impl fmt::Display for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages at {:#x}", self.len.0, self.start.address())
    }
}

impl fmt::Display for HugeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} huge pages at {:#x}", self.len.0, self.start.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_papers() {
        assert_eq!(Pages::SIZE, 8 << 10);
        assert_eq!(HugePages::PAGES, Pages(256));
        assert_eq!(HugePages::ONE.bytes(), 2 << 20);
    }

    #[test]
    fn bytes_round_up_to_pages_and_pages_to_huge_pages() {
        assert_eq!(Pages::holding(0), Pages(0));
        assert_eq!(Pages::holding(1), Pages(1));
        assert_eq!(Pages::holding(8192), Pages(1));
        assert_eq!(Pages::holding(8193), Pages(2));
        assert_eq!(Pages::holding(u64::MAX), Pages(1 << 51));
        assert_eq!(HugePages::holding(Pages(256)), HugePages(1));
        assert_eq!(HugePages::holding(Pages(257)), HugePages(2));
    }

    #[test]
    fn a_range_lists_the_huge_pages_it_touches() {
        let touched = |start, len| {
            let range = PageRange { start: PageId(start), len: Pages(len) };
            let huge = range.touched_huge_pages();
            (huge.start.0, huge.len.0)
        };
        assert_eq!(touched(256, 256), (1, 1));
        assert_eq!(touched(255, 2), (0, 2));
        assert_eq!(touched(300, 1), (1, 1));
        assert_eq!(touched(511, 258), (1, 3));
    }

    #[test]
    fn a_page_knows_its_place() {
        let page = PageId::containing((5 << 21) + (3 << 13) + 17);
        assert_eq!(page.huge_page(), HugePageId(5));
        assert_eq!(page.index_in_huge_page(), 3);
        assert_eq!(page.address(), (5 << 21) + (3 << 13));
    }
}
