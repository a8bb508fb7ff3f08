//! HugeCache (section 4.3): backed, empty huge pages, and when to release them.

use serde::Serialize;

use super::demand::DemandWindow;
use super::huge_allocator::HugeAllocator;
use super::range_tree::RangeTree;
use crate::memory::Memory;
use crate::storage::Storage;
use crate::units::{HugePageId, HugePages, HugeRange};

/// Backed ranges that nothing uses, kept as long as demand in the last two seconds has shown a need
/// for them.
#[derive(Debug)]
pub struct HugeCache<S: Storage> {
    ranges: RangeTree<S>,
    window: DemandWindow,
    /// Huge pages that were taken and not returned.
    demand: HugePages,
    counters: Counters,
}

/// Cached ranges that are checked for one to extend.
const MOST_SPINS: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    hits: u64,
    extensions: u64,
    misses: u64,
    released_by_limit: HugePages,
    released_on_request: HugePages,
}

/// What a [`HugeCache`] holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct HugeCacheStats {
    /// Backed, empty huge pages.
    pub cached_huge_pages: HugePages,
    /// Number of ranges that they lie in.
    pub cached_ranges: u32,
    /// Huge pages in use: the demand.
    pub demand_huge_pages: HugePages,
    /// How many the cache may keep, by the demand up to its last change.
    pub limit_huge_pages: HugePages,
    /// Requests served from the cache.
    pub hits: u64,
    /// Requests served from the cache in part, and from the unbacked memory next to that.
    pub extensions: u64,
    /// Requests that took unbacked memory.
    pub misses: u64,
    /// Given back to the system because the cache would have exceeded its limit, or memory the
    /// highest demand.
    pub released_by_limit_huge_pages: HugePages,
    /// Given back to the system on request.
    pub released_on_request_huge_pages: HugePages,
}

/// Huge pages from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromCache {
    /// The huge pages.
    pub range: HugeRange,
    /// Whether they came unbacked from the allocator, and so read as zeros.
    pub zeroed: bool,
}

impl<S: Storage> HugeCache<S> {
    /// A cache without huge pages, and no demand.
    pub const fn new() -> HugeCache<S> {
        HugeCache {
            ranges: RangeTree::new(),
            window: DemandWindow::new(),
            demand: HugePages::ZERO,
            counters: Counters {
                hits: 0,
                extensions: 0,
                misses: 0,
                released_by_limit: HugePages::ZERO,
                released_on_request: HugePages::ZERO,
            },
        }
    }

    /// Huge pages in the cache.
    pub const fn size(&self) -> HugePages {
        self.ranges.total()
    }

    /// A range to use, from the cache if it has one so long, else from the allocator. `None` if the
    /// system has none.
    pub fn get(
        &mut self,
        len: HugePages,
        now_ns: u64,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) -> Option<FromCache> {
        let cached = self.size();
        let got = if let Some(range) = self.ranges.take(len) {
            self.counters.hits += 1;
            FromCache { range, zeroed: false }
        } else if let Some(range) = self.take_extended(len, allocator, memory) {
            self.counters.extensions += 1;
            FromCache { range, zeroed: false }
        } else {
            let range = allocator.get(len, HugePages::ONE, memory)?;
            memory.back(range);
            self.counters.misses += 1;
            FromCache { range, zeroed: true }
        };
        let fresh = len - (cached - self.size());
        self.demand_rises(len, now_ns);
        self.make_up_for(fresh, now_ns, allocator, memory);
        Some(got)
    }

    /// Takes the `len` huge pages from `start` on, right behind a range in use: cached ones, then
    /// unbacked ones. False if they are not free; nothing has changed then.
    pub fn get_behind(
        &mut self,
        start: HugePageId,
        len: HugePages,
        now_ns: u64,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) -> bool {
        let cached = HugeRange { start, len: self.ranges.len_from(start).min(len) };
        let fresh = HugeRange { start: cached.end(), len: len - cached.len };
        if !allocator.begins_with(fresh) {
            return false;
        }
        if !cached.len.is_zero() {
            self.ranges.take_end(cached);
            self.counters.hits += 1;
        }
        if !fresh.len.is_zero() {
            allocator.take_part(fresh);
            memory.back(fresh);
        }
        self.demand_rises(len, now_ns);
        self.make_up_for(fresh.len, now_ns, allocator, memory);
        true
    }

    /// Gives back as much as was backed afresh, as far as there is more memory than the highest
    /// demand of the last two seconds: what the cache holds did not fit then, and would only be
    /// added to what is needed.
    fn make_up_for(
        &mut self,
        fresh: HugePages,
        now_ns: u64,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) {
        let (_, highest) = self.window.extremes(now_ns);
        let excess = (self.demand + self.size()).saturating_sub(highest);
        let released = self.shrink(excess.min(fresh), allocator, memory);
        self.counters.released_by_limit += released;
    }

    /// The longest cached range that the unbacked address space around it makes `len` huge pages
    /// long, with that. The cache would fall into pieces otherwise that are too short for large
    /// spans, and each of these would be backed afresh while the pieces are given back.
    fn take_extended(
        &mut self,
        len: HugePages,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) -> Option<HugeRange> {
        let extensions = self
            .ranges
            .iter()
            .take(MOST_SPINS)
            .filter_map(|range| allocator.extension_of(range, len).map(|parts| (range, parts)));
        let (range, parts) = extensions.max_by_key(|(range, _)| range.len)?;
        self.ranges.take_end(range);
        for part in parts.into_iter().filter(|part| !part.len.is_zero()) {
            allocator.take_part(part);
            memory.back(part);
        }
        Some(HugeRange { start: parts[0].start, len })
    }

    /// Takes a backed range back, and gives as much to the system as exceeds the limit.
    pub fn put(
        &mut self,
        range: HugeRange,
        now_ns: u64,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) {
        self.demand_falls(range.len, now_ns);
        if !self.ranges.insert(range) {
            // Without storage for its metadata, the range is better released than lost.
            memory.release(range.pages());
            allocator.put(range);
            return;
        }
        let excess = self.ranges.total().saturating_sub(self.limit(now_ns));
        let released = self.shrink(excess, allocator, memory);
        self.counters.released_by_limit += released;
    }

    /// Gives at least `len` cached huge pages to the system, or all there are. Returns how many.
    pub fn release(
        &mut self,
        len: HugePages,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) -> HugePages {
        let released = self.shrink(len, allocator, memory);
        self.counters.released_on_request += released;
        released
    }

    /// How many huge pages the cache may keep now.
    pub fn limit(&mut self, now_ns: u64) -> HugePages {
        self.window.rise(now_ns)
    }

    /// Records that huge pages that did not come from the cache are in use.
    pub fn demand_rises(&mut self, len: HugePages, now_ns: u64) {
        self.demand += len;
        self.window.record(self.demand, now_ns);
    }

    /// Records that huge pages that do not go to the cache are no longer in use.
    pub fn demand_falls(&mut self, len: HugePages, now_ns: u64) {
        self.demand -= len;
        self.window.record(self.demand, now_ns);
    }

    /// State and counters.
    pub fn stats(&self) -> HugeCacheStats {
        HugeCacheStats {
            cached_huge_pages: self.ranges.total(),
            cached_ranges: self.ranges.len(),
            demand_huge_pages: self.demand,
            limit_huge_pages: self.window.clone().rise(0),
            hits: self.counters.hits,
            extensions: self.counters.extensions,
            misses: self.counters.misses,
            released_by_limit_huge_pages: self.counters.released_by_limit,
            released_on_request_huge_pages: self.counters.released_on_request,
        }
    }

    /// The cached ranges.
    pub fn ranges(&self) -> impl Iterator<Item = HugeRange> {
        self.ranges.iter()
    }

    /// Whether it holds a huge page of the range.
    pub fn overlaps(&self, range: HugeRange) -> bool {
        self.ranges.overlaps(range)
    }

    /// Checks its tree.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        self.ranges.validate().map_err(|error| format!("HugeCache: {error}"))
    }

    /// Smallest ranges first, as the long ones serve more requests.
    fn shrink(
        &mut self,
        len: HugePages,
        allocator: &mut HugeAllocator<S>,
        memory: &mut impl Memory,
    ) -> HugePages {
        let mut released = HugePages::ZERO;
        while released < len {
            let Some(range) = self.ranges.take_at_most(len - released) else { break };
            if !memory.release(range.pages()) {
                // The node that was just removed is there to note it again.
                let noted = self.ranges.insert(range);
                debug_assert!(noted);
                break;
            }
            allocator.put(range);
            released += range.len;
        }
        released
    }
}

impl<S: Storage> Default for HugeCache<S> {
    fn default() -> Self {
        HugeCache::new()
    }
}
