//! Addresses: physical lines and frames, virtual addresses by page size, and accesses packed into
//! one word.

use serde::{Deserialize, Serialize};

/// A physical frame of 4 KiB, by number. Simulated memory is at most 128 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame(pub u32);

/// A physical line of 64 bytes, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub u32);

/// Lines of a frame.
pub const LINES: u32 = 64;

impl Frame {
    /// Its line number `offset`, which may lie in a frame after it if the page is larger.
    #[inline]
    pub fn line(self, offset: u32) -> Line {
        Line(self.0 * LINES + offset)
    }
}

impl Line {
    /// Its frame.
    #[inline]
    pub fn frame(self) -> Frame {
        Frame(self.0 / LINES)
    }

    /// Its position in its frame.
    #[inline]
    pub fn offset(self) -> u32 {
        self.0 % LINES
    }
}

/// The size of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    #[serde(rename = "4K")]
    Base,
    /// 2 MiB.
    #[serde(rename = "2M")]
    Huge,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Giant,
}

impl PageSize {
    /// The size that two bits of an address name. (Of addresses made here the last is never named.)
    #[inline]
    fn of_bits(bits: u32) -> PageSize {
        match bits & 3 {
            0 => PageSize::Base,
            1 => PageSize::Huge,
            _ => PageSize::Giant,
        }
    }

    /// All, from the smallest.
    pub const ALL: [PageSize; 3] = [PageSize::Base, PageSize::Huge, PageSize::Giant];

    /// Base pages in one, as a power of two.
    #[inline]
    pub fn order(self) -> u32 {
        self as u32 * 9
    }

    /// Base pages in one.
    #[inline]
    pub fn pages(self) -> u32 {
        1 << self.order()
    }
}

/// A virtual address of 42 bits. Each page size has 1 TiB of its own, as an operating system keeps
/// arenas, so that the address shows the size and a look-up goes to one TLB:
///
/// ```text
/// 41 40 | 39 … 12                            | 11 … 0
/// size  | page of 4 KiB within the arena     | byte
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Virtual(pub u64);

const ARENA_BITS: u32 = 40;

impl Virtual {
    /// The byte `offset` of the arena of `size`.
    pub fn new(size: PageSize, offset: u64) -> Virtual {
        debug_assert!(offset < 1 << ARENA_BITS);
        Virtual((size as u64) << ARENA_BITS | offset)
    }

    /// The size of its page.
    #[inline]
    pub fn size(self) -> PageSize {
        PageSize::of_bits((self.0 >> ARENA_BITS) as u32)
    }

    /// Its base page, counted over all arenas: 30 bits.
    #[inline]
    pub fn vpn(self) -> Vpn {
        Vpn((self.0 >> 12) as u32)
    }

    /// The address `bytes` further on.
    #[inline]
    pub fn plus(self, bytes: u64) -> Virtual {
        Virtual(self.0 + bytes)
    }
}

/// The number of a virtual base page, counted over all arenas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vpn(pub u32);

impl Vpn {
    /// The size of the page that it is part of.
    #[inline]
    pub fn size(self) -> PageSize {
        PageSize::of_bits(self.0 >> (ARENA_BITS - 12))
    }

    /// The first base page of the page of its size that it is part of.
    #[inline]
    pub fn first(self) -> Vpn {
        self.first_of(self.size())
    }

    /// The same, of a size that is known.
    #[inline(always)]
    pub(crate) fn first_of(self, size: PageSize) -> Vpn {
        debug_assert_eq!(size, self.size());
        Vpn(self.0 & !(size.pages() - 1))
    }

    /// Its place within the arena, in base pages.
    #[inline]
    pub fn in_arena(self) -> u32 {
        self.0 & ((1 << (ARENA_BITS - 12)) - 1)
    }
}

/// The dependency of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load whose value the next instruction needs: its latency shows in full.
    Load,
    /// A load of a sequence whose addresses are known ahead: misses overlap.
    Stream,
    /// A store: it retires into a buffer, and misses overlap.
    Store,
}

impl Kind {
    /// The kind that two bits name. (Of accesses made here the last is never named.)
    #[inline]
    pub(crate) fn of_bits(bits: u32) -> Kind {
        match bits & 3 {
            0 => Kind::Load,
            1 => Kind::Stream,
            _ => Kind::Store,
        }
    }
}

/// An access of a program, in one word: address, kind, and the instructions since the last access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u64);

impl Access {
    /// An access after `instructions` (this one included), at most 65,535.
    #[inline]
    pub fn new(address: Virtual, kind: Kind, instructions: u32) -> Access {
        debug_assert!(instructions < 1 << 16);
        Access(address.0 | (kind as u64) << 42 | u64::from(instructions) << 44)
    }

    /// Where.
    #[inline]
    pub fn address(self) -> Virtual {
        Virtual(self.0 & ((1 << 42) - 1))
    }

    /// Its dependency.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::of_bits(self.kind_bits() as u32)
    }

    /// The same, as its two bits.
    #[inline]
    pub(crate) fn kind_bits(self) -> u64 {
        self.0 >> 42 & 3
    }

    /// Instructions since the access before it.
    #[inline]
    pub fn instructions(self) -> u64 {
        self.0 >> 44
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_keeps_what_it_was_made_of() {
        for size in PageSize::ALL {
            for kind in [Kind::Load, Kind::Stream, Kind::Store] {
                let address = Virtual::new(size, (1 << 40) - 1);
                let access = Access::new(address, kind, 65_535);
                assert_eq!(access.address(), address);
                assert_eq!((access.kind(), access.instructions()), (kind, 65_535));
                assert_eq!((address.size(), address.vpn().size()), (size, size));
                assert!(address.vpn().0 < 3 << 28, "the highest bits of a key are not all set");
            }
        }
    }

    #[test]
    fn a_huge_page_has_one_first_page() {
        let address = Virtual::new(PageSize::Huge, (5 << 21) + 12_345);
        assert_eq!(address.vpn().first(), Virtual::new(PageSize::Huge, 5 << 21).vpn());
        assert_eq!(address.vpn().in_arena(), (5 << 9) + 3);
        assert_eq!(Frame(2).line(65), Line(193));
        assert_eq!((Line(193).frame(), Line(193).offset()), (Frame(3), 1));
    }
}
