//! Shared by server workloads: the layout of their memory, and the parts of their requests.

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
    pub regions: [Region; 2],
    /// Scattered data: of the program and its libraries, and small objects of the heap.
    pub scattered: Scattered,
}

/// A few used lines in each of some pages: this determines a program's translations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scattered {
    /// The pages, of 4 KiB.
    pub region: Region,
    /// Bytes used of each, a power of two up to 4,096.
    pub bytes_of_page: u64,
}

impl Scattered {
    /// A word that is used, by a number of 11 bits.
    #[inline]
    fn at(&self, number: u64) -> Virtual {
        let pages = self.region.bytes >> 12;
        let used = (number * pages * self.bytes_of_page) >> 11 & !7;
        let (page, byte) = (used / self.bytes_of_page, used % self.bytes_of_page);
        // Not the same bytes of every page, which would all fall into the same sets of a cache.
        let from = (page * 5 * self.bytes_of_page) & 4095;
        self.region.at((page << 12) + from + byte)
    }
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
        debug_assert!(accesses <= instructions, "an access is an instruction");
        // Spread evenly, so that none is lost to rounding.
        let before = |number: u32| {
            (u64::from(number) * u64::from(instructions) / u64::from(accesses)) as u32
        };
        let mut bits = 0;
        for number in 0..accesses {
            if number % 4 == 0 {
                bits = random.next();
            }
            // Half to the stack, a quarter to each of the others.
            let place = bits >> 2 & 0x7FF;
            let address = match bits & 3 {
                2 => near.regions[1].at(((place * near.regions[1].bytes) >> 11) & !7),
                3 => near.scattered.at(place),
                _ => near.regions[0].at(((place * near.regions[0].bytes) >> 11) & !7),
            };
            let kind = if bits >> 13 & 7 < 3 { Kind::Store } else { Kind::Load };
            let instructions = before(number + 1) - before(number);
            self.accesses.push(Access::new(address, kind, instructions));
            bits >>= 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_data_uses_the_same_few_lines_of_every_page() {
        let region = Region { start: Virtual::new(PageSize::Base, 1 << 20), bytes: 14 << 12 };
        let scattered = Scattered { region, bytes_of_page: 128 };
        let lines = |shift: u32| {
            let all = (0..1 << 11).map(|number| scattered.at(number).0 >> shift);
            all.collect::<std::collections::BTreeSet<u64>>().len()
        };
        assert_eq!((lines(12), lines(6)), (14, 28));
    }

    #[test]
    fn work_takes_the_instructions_that_it_was_given() {
        let near = Region { start: Virtual::new(PageSize::Base, 0), bytes: 4096 };
        let scattered = Scattered { region: near, bytes_of_page: 128 };
        let near = Near { regions: [near, near], scattered };
        for (accesses, instructions) in [(1, 1), (12, 30), (1500, 3700), (700, 1500), (3, 65_000)] {
            let mut request = Request::default();
            request.work(&near, accesses, instructions, &mut Random::new(1, 0));
            let each: Vec<u64> = request.accesses.iter().map(|a| a.instructions()).collect();
            assert_eq!(each.len(), accesses as usize);
            assert_eq!(each.iter().sum::<u64>(), u64::from(instructions));
            assert!(each.iter().max().unwrap() - each.iter().min().unwrap() <= 1, "{each:?}");
        }
    }
}
