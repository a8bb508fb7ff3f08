//! What servers have in common: where their memory lies, and the pieces their requests are made of.

use super::Request;
use crate::address::{Access, Kind, PageSize, Virtual};
use crate::random::Random;

/// A piece of virtual memory, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub start: Virtual,
    /// Its size.
    pub bytes: u64,
}

impl Region {
    /// The byte `offset` of it.
    #[inline]
    pub fn at(&self, offset: u64) -> Virtual {
        debug_assert!(offset < self.bytes, "{offset} of {}", self.bytes);
        self.start.plus(offset)
    }

    /// The part number `index` of `bytes` bytes.
    #[inline]
    pub fn part(&self, index: u64, bytes: u64) -> Region {
        Region { start: self.at(index * bytes), bytes }
    }
}

/// Lays regions out in the arenas, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Bytes given out of each arena.
    pub bytes: [u64; 3],
}

impl Layout {
    /// A region of at least `bytes` in pages of `size`.
    pub fn add(&mut self, size: PageSize, bytes: u64) -> Region {
        let bytes = bytes.next_multiple_of(u64::from(size.pages()) << 12);
        let used = &mut self.bytes[size as usize];
        let region = Region { start: Virtual::new(size, *used), bytes };
        *used += bytes;
        region
    }
}

/// Memory that a core works in all the time: its stack, the structures of its thread and of the
/// connection at hand.
pub struct Near {
    /// The regions, each with the bytes of it that are used.
    pub regions: [Region; 3],
}

impl Request {
    /// A load whose value is needed at once.
    #[inline]
    pub fn load(&mut self, address: Virtual, instructions: u32) {
        self.accesses.push(Access::new(address, Kind::Load, instructions));
    }

    /// A store.
    #[inline]
    pub fn store(&mut self, address: Virtual, instructions: u32) {
        self.accesses.push(Access::new(address, Kind::Store, instructions));
    }

    /// Reads `bytes` in order, eight at a time.
    pub fn read(&mut self, from: Virtual, bytes: u64) {
        for offset in (0..bytes).step_by(8) {
            self.accesses.push(Access::new(from.plus(offset), Kind::Stream, 1));
        }
    }

    /// Writes `bytes` in order, eight at a time.
    pub fn write(&mut self, to: Virtual, bytes: u64) {
        for offset in (0..bytes).step_by(8) {
            self.store(to.plus(offset), 1);
        }
    }

    /// Copies `bytes`, eight at a time.
    pub fn copy(&mut self, from: Virtual, to: Virtual, bytes: u64) {
        for offset in (0..bytes).step_by(8) {
            self.accesses.push(Access::new(from.plus(offset), Kind::Stream, 1));
            self.store(to.plus(offset), 1);
        }
    }

    /// `accesses` accesses to what is near, two in five of them stores, `instructions` instructions
    /// in all: the body of the program between the accesses that matter.
    pub fn work(&mut self, near: &Near, accesses: u32, instructions: u32, random: &mut Random) {
        let each = (instructions / accesses.max(1)).max(1);
        let mut bits = 0;
        for number in 0..accesses {
            if number % 4 == 0 {
                bits = random.next();
            }
            // Half to the stack, a quarter to each of the others.
            let region = &near.regions[[0, 0, 1, 2][(bits & 3) as usize]];
            let offset = (((bits >> 2 & 0x7FF) * region.bytes) >> 11) & !7;
            let kind = if bits >> 13 & 7 < 3 { Kind::Store } else { Kind::Load };
            self.accesses.push(Access::new(region.at(offset), kind, each));
            bits >>= 16;
        }
    }
}
