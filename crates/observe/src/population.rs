//! The pageblocks of a host, numbered, so that some can be drawn.

use prairie_frames::{Order, Pfn};
use prairie_host::layout::{Layout, ZoneRun};
use prairie_host::{ClassRun, FrameClass};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// One pageblock's part of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The zone's place in [`Layout::zones`].
    pub zone: usize,
    /// The pageblock's first frame; it may lie before the zone.
    pub start: Pfn,
}

/// All pageblocks with memory, zone by zone. A pageblock that two zones share is one of each.
#[derive(Clone, Debug)]
pub struct Population {
    /// Consecutive pageblocks of a zone, and the number of the first; ascending.
    stretches: Vec<Stretch>,
    units: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u64,
    zone: usize,
    start: u64,
    blocks: u64,
}

impl Population {
    /// The pageblocks of a layout.
    pub fn new(layout: &Layout) -> Population {
        let size = Order::HUGE.frames();
        let mut pieces: Vec<(usize, u64, u64)> = Vec::new();
        let whole = ClassRun {
            start: Pfn(0),
            frames: Order::LIMIT.frames(),
            class: FrameClass::Free,
            unevictable: false,
        };
        layout.split(whole, &mut 0, &mut |part: ZoneRun| {
            let first = part.run.start.0 / size;
            let last = (part.run.end().0 - 1) / size;
            pieces.push((part.zone, first, last));
        });
        // Within a zone, a pageblock with a hole in it would come twice.
        pieces.sort_unstable();
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut units = 0;
        for (zone, first, last) in pieces {
            let after = stretches.last().filter(|stretch| stretch.zone == zone);
            let after = after.map_or(0, |stretch| stretch.start / size + stretch.blocks);
            let first = first.max(after);
            if first <= last {
                let blocks = last - first + 1;
                stretches.push(Stretch { first: units, zone, start: first * size, blocks });
                units += blocks;
            }
        }
        Population { stretches, units }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.units
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.units == 0
    }

    /// The unit with this number, which must be less than [`Population::len`].
    pub fn unit(&self, number: u64) -> Unit {
        let at = self.stretches.partition_point(|stretch| stretch.first <= number) - 1;
        let stretch = self.stretches[at];
        let start = Pfn(stretch.start + (number - stretch.first) * Order::HUGE.frames());
        Unit { zone: stretch.zone, start }
    }
}

/// `size` numbers below `population`, each set of them equally likely, ascending; all numbers if
/// `size` is no less. The seed determines them.
pub fn choose(population: u64, size: u64, seed: u64) -> Vec<u64> {
    if size >= population {
        return (0..population).collect();
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let chosen = rand::seq::index::sample(&mut random, population as usize, size as usize);
    let mut chosen: Vec<u64> = chosen.into_iter().map(|at| at as u64).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::texts::zoneinfo;

    fn layout(zones: &[(u64, u64)], memory: &[std::ops::Range<u64>]) -> Layout {
        let zone = |(node, (start, frames)): (usize, &(u64, u64))| {
            format!("Node {node}, zone Normal\n spanned {frames}\n start_pfn: {start}\n")
        };
        let text: String = zones.iter().enumerate().map(zone).collect();
        Layout::new(&zoneinfo::parse(&text).unwrap(), memory).unwrap()
    }

    #[test]
    fn every_pageblock_with_memory_is_a_unit() {
        // Zone 0 to frame 1280, zone 1 from there; a hole that ends within pageblock 4.
        let layout = layout(&[(1, 1279), (1280, 2816)], &[1..1600, 2100..2200, 2300..4096]);
        let population = Population::new(&layout);
        let units: Vec<(usize, u64)> = (0..population.len())
            .map(|number| population.unit(number))
            .map(|unit| (unit.zone, unit.start.0 / 512))
            .collect();
        assert_eq!(units, [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7)]);
        assert!(Population::new(&Layout::default()).is_empty());
    }

    #[test]
    fn choices_are_even_and_reproducible() {
        let mut times = [0u32; 20];
        for seed in 0..4000 {
            let chosen = choose(20, 5, seed);
            assert!(chosen.len() == 5 && chosen.windows(2).all(|pair| pair[0] < pair[1]));
            chosen.iter().for_each(|at| times[*at as usize] += 1);
        }
        // 1000 expected, with a standard deviation of 27.
        assert!(times.iter().all(|&times| (860..1140).contains(&times)), "{times:?}");
        assert_eq!(choose(20, 5, 7), choose(20, 5, 7));
        assert_eq!(choose(3, 9, 7), [0, 1, 2]);
    }
}
