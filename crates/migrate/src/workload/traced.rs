//! A recorded program, run on every core.

use std::collections::HashMap;

use super::parts::{Layout, Region};
use super::{Request, Workload};
use crate::access_trace::{Error, Record};
use crate::address::{Access, Kind, PageSize};
use crate::random::Random;

/// Accesses that count as a request.
const ACCESSES: usize = 1000;

/// The recorded accesses of one thread. Each core goes round them from a place of its own, and all
/// share the memory. Pages lie in the order of their first use, since only their number and what is
/// near what within a page matters to caches and TLBs.
pub struct Traced {
    layout: Layout,
    memory: Region,
    buffers: Region,
    accesses: Vec<Access>,
    cores: Vec<(usize, Random)>,
}

impl Traced {
    /// For `cores` cores, the program's memory in pages of `size`.
    ///
    /// # Errors
    /// The first of the records that could not be read.
    pub fn new(
        records: impl Iterator<Item = Result<Record, Error>>,
        cores: usize,
        seed: u64,
        size: PageSize,
    ) -> Result<Traced, Error> {
        let mut pages = HashMap::new();
        let mut places = Vec::new();
        let mut last_load = u64::MAX;
        for record in records {
            let record = record?;
            let count = pages.len() as u64;
            let page = *pages.entry(record.address >> 12).or_insert(count);
            // A load within a line's length after the one before is part of a sequence.
            let kind = match record.store {
                true => Kind::Store,
                false if record.address.wrapping_sub(last_load) <= 64 => Kind::Stream,
                false => Kind::Load,
            };
            if !record.store {
                last_load = record.address;
            }
            places.push((page << 12 | record.address & 0xFFF, kind, record.instructions));
        }
        if places.is_empty() {
            return Err(Error::Empty);
        }
        let mut layout = Layout::default();
        let memory = layout.add(size, (pages.len() as u64) << 12);
        let buffers = layout.add(PageSize::Base, 1 << 20);
        let access =
            |(offset, kind, instructions)| Access::new(memory.at(offset), kind, instructions);
        let accesses: Vec<Access> = places.into_iter().map(access).collect();
        let cores = (0..cores)
            .map(|core| (core * accesses.len() / cores, Random::new(seed, core as u64)))
            .collect();
        Ok(Traced { layout, memory, buffers, accesses, cores })
    }
}

impl Workload for Traced {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.buffers
    }

    fn heap(&self) -> Region {
        self.memory
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let (next, random) = &mut self.cores[core];
        request.received.push((self.buffers.at(random.below(self.buffers.bytes) & !63), 1));
        for _ in 0..ACCESSES {
            request.accesses.push(self.accesses[*next]);
            *next = (*next + 1) % self.accesses.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(address: u64, store: bool) -> Result<Record, Error> {
        Ok(Record { address, store, instructions: 2 })
    }

    /// Three pages far apart become three pages side by side; offsets stay.
    #[test]
    fn pages_lie_in_the_order_of_their_first_use() {
        let far = 0x7FFF_0000_0000;
        let all = [record(far + 8, false), record(far + 16, false), record(0x1234, true)];
        let mut traced = Traced::new(all.into_iter(), 2, 1, PageSize::Base).unwrap();
        let mut request = Request::default();
        traced.request(0, &mut request);
        let first: Vec<(u64, Kind)> = request.accesses[..4]
            .iter()
            .map(|access| (access.address().0, access.kind()))
            .collect();
        let wanted = [(8, Kind::Load), (16, Kind::Stream), (0x1234, Kind::Store), (8, Kind::Load)];
        assert_eq!(first, wanted);
        request.clear();
        traced.request(1, &mut request);
        assert_eq!(request.accesses[0].address().0, 16, "the second core begins elsewhere");
        let none = std::iter::empty();
        assert!(matches!(Traced::new(none, 1, 1, PageSize::Base), Err(Error::Empty)));
        let torn = std::iter::once(Err(Error::MidRecord { record: 0, bytes: 1 }));
        assert!(Traced::new(torn, 1, 1, PageSize::Base).is_err());
    }
}
