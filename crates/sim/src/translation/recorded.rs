//! The translations of a real program: recorded accesses, and which of its memory huge pages back.

use std::ops::Range;

use serde::Serialize;

use super::hardware::Hardware;
use super::tlb::{Cost, PageSize, Translator};

/// One access of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// Whether it is a store.
    pub store: bool,
    /// Instructions since the access before.
    pub instructions: u32,
}

/// Addresses that pages of 2 MiB back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugeRanges {
    /// Rising, without overlap.
    ranges: Vec<Range<u64>>,
}

impl FromIterator<Range<u64>> for HugeRanges {
    /// In any order, overlapping or not.
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> HugeRanges {
        let mut sorted: Vec<Range<u64>> = ranges.into_iter().collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        HugeRanges { ranges: merged }
    }
}

impl HugeRanges {
    /// The size of the page that an address is in.
    pub fn size_at(&self, address: u64) -> PageSize {
        let next = self.ranges.partition_point(|range| range.start <= address);
        match next.checked_sub(1).is_some_and(|at| address < self.ranges[at].end) {
            true => PageSize::Huge,
            false => PageSize::Base,
        }
    }
}

/// What the accesses of a program cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Translations {
    /// Instructions that it executed.
    pub instructions: u64,
    /// Its loads.
    pub loads: Cost,
    /// Its stores.
    pub stores: Cost,
    /// Accesses to pages of 2 MiB.
    pub to_huge: u64,
}

/// A core that one thread runs on.
#[derive(Clone, Debug)]
pub struct Core {
    translator: Translator,
    warm_up: u64,
    /// What was counted so far.
    pub counted: Translations,
}

impl Core {
    /// A core that has translated nothing. Of each window the first `warm_up` accesses fill its
    /// TLBs and are not counted.
    pub fn new(hardware: &Hardware, warm_up: u64) -> Core {
        let translator = Translator::new(hardware);
        Core { translator, warm_up, counted: Translations::default() }
    }

    /// Translates one window of accesses.
    pub fn run(&mut self, accesses: impl IntoIterator<Item = Access>, huge: &HugeRanges) {
        let mut uncounted = Cost::default();
        for (at, access) in accesses.into_iter().enumerate() {
            let size = huge.size_at(access.address);
            let counts = at as u64 >= self.warm_up;
            let counted = &mut self.counted;
            let cost = match (counts, access.store) {
                (false, _) => &mut uncounted,
                (true, false) => &mut counted.loads,
                (true, true) => &mut counted.stores,
            };
            self.translator.translate(access.address >> 12, size, cost);
            if counts {
                counted.instructions += u64::from(access.instructions);
                counted.to_huge += u64::from(size == PageSize::Huge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 2 << 20;

    fn sweep(bytes: u64, step: u64) -> impl Iterator<Item = Access> + Clone {
        (0..bytes / step).map(move |at| Access {
            address: at * step,
            store: at % 4 == 3,
            instructions: 3,
        })
    }

    #[test]
    fn ranges_are_merged_and_found() {
        let huge = HugeRanges::from_iter(
            [4..8, 0..2, 6..10, 10..12].map(|r: Range<u64>| r.start * HUGE..r.end * HUGE),
        );
        assert_eq!(huge.ranges, [0..2 * HUGE, 4 * HUGE..12 * HUGE]);
        for (block, size) in [(0, PageSize::Huge), (2, PageSize::Base), (11, PageSize::Huge)] {
            assert_eq!(huge.size_at(block * HUGE), size);
            assert_eq!(huge.size_at((block + 1) * HUGE - 1), size);
        }
        assert_eq!(huge.size_at(12 * HUGE), PageSize::Base);
        assert_eq!(HugeRanges::default().size_at(0), PageSize::Base);
    }

    /// 32 MiB are 8,192 pages, more than any TLB holds, and 16 huge pages, which the first level
    /// holds.
    #[test]
    fn a_sweep_misses_once_a_page_on_small_pages_and_never_on_huge_ones() {
        let window = sweep(16 * HUGE, 1024);
        let accesses = window.clone().count() as u64;
        for (huge, walks, to_huge) in [
            (HugeRanges::default(), accesses / 4, 0),
            (HugeRanges::from_iter(std::iter::once(0..16 * HUGE)), 0, accesses),
        ] {
            let mut core = Core::new(&Hardware::default(), 0);
            core.run(window.clone(), &huge);
            let cold = core.counted;
            core.run(window.clone(), &huge);
            let Translations { instructions, loads, stores, to_huge: huge_now } = core.counted;
            assert_eq!(loads.walks + stores.walks - cold.loads.walks - cold.stores.walks, walks);
            assert_eq!(stores.walks, cold.stores.walks, "each page's first access is a load");
            assert_eq!(loads.translations + stores.translations, 2 * accesses);
            assert_eq!((instructions, huge_now), (2 * 3 * accesses, 2 * to_huge));
        }
    }

    #[test]
    fn the_warm_up_fills_the_tlbs_and_does_not_count() {
        let window = sweep(64 << 12, 1 << 12);
        let mut core = Core::new(&Hardware::default(), 64);
        core.run(window.clone().chain(window), &HugeRanges::default());
        let Translations { instructions, loads, stores, .. } = core.counted;
        assert_eq!((loads.translations, stores.translations, instructions), (48, 16, 64 * 3));
        assert_eq!((loads.walks, stores.walks), (0, 0));
    }
}
