//! Statistics of several page heaps, added up: those of the NUMA nodes.

use super::huge_allocator::HugeAllocatorStats;
use super::huge_cache::HugeCacheStats;
use super::huge_filler::HugeFillerStats;
use super::huge_region::HugeRegionStats;
use super::stats::{Backing, Components, LegacyStats, PageHeapStats, TemeraireStats};

/// Adds each field of `other`, a value of the type, to that of `sum`. A field that is missing does
/// not compile.
macro_rules! add_fields {
    ($type:ident { $($field:ident),* }, $sum:expr, $other:expr) => {{
        let $type { $($field),* } = $other;
        $($sum.$field += $field;)*
    }};
}

impl PageHeapStats {
    /// Adds what another page heap of the same kind has.
    pub fn add(&mut self, other: &PageHeapStats) {
        self.backing.add(other.backing);
        self.spans_created += other.spans_created;
        self.spans_deleted += other.spans_deleted;
        self.released_pages += other.released_pages;
        match (&mut self.components, &other.components) {
            (Components::Temeraire(sum), Components::Temeraire(other)) => sum.add(*other),
            (Components::Legacy(sum), Components::Legacy(other)) => sum.add(*other),
            _ => {}
        }
    }
}

impl Backing {
    fn add(&mut self, other: Backing) {
        add_fields!(Backing { live, free, unbacked, on_huge_pages }, self, other);
    }
}

impl LegacyStats {
    fn add(&mut self, other: LegacyStats) {
        add_fields!(
            LegacyStats { normal_pages, returned_pages, free_ranges, releases },
            self,
            other
        );
    }
}

impl TemeraireStats {
    fn add(&mut self, other: TemeraireStats) {
        self.huge_allocator.add(other.huge_allocator);
        self.huge_cache.add(other.huge_cache);
        self.huge_filler.add(other.huge_filler);
        self.huge_region.add(other.huge_region);
        self.small_pages += other.small_pages;
        self.slack_pages += other.slack_pages;
    }
}

impl HugeAllocatorStats {
    fn add(&mut self, other: HugeAllocatorStats) {
        let longest = self.longest_unbacked_range.max(other.longest_unbacked_range);
        add_fields!(
            HugeAllocatorStats {
                reserved_huge_pages,
                unbacked_huge_pages,
                unbacked_ranges,
                longest_unbacked_range,
                lost_huge_pages
            },
            self,
            other
        );
        self.longest_unbacked_range = longest;
    }
}

impl HugeCacheStats {
    fn add(&mut self, other: HugeCacheStats) {
        add_fields!(
            HugeCacheStats {
                cached_huge_pages,
                cached_ranges,
                demand_huge_pages,
                limit_huge_pages,
                hits,
                extensions,
                misses,
                released_by_limit_huge_pages,
                released_on_request_huge_pages
            },
            self,
            other
        );
    }
}

impl HugeFillerStats {
    fn add(&mut self, other: HugeFillerStats) {
        add_fields!(
            HugeFillerStats {
                huge_pages,
                donated_huge_pages,
                broken_huge_pages,
                full_huge_pages,
                used_pages,
                used_on_broken_pages,
                free_backed_pages,
                free_on_broken_pages,
                released_pages,
                subreleased_pages_total,
                broken_huge_pages_total
            },
            self,
            other
        );
    }
}

impl HugeRegionStats {
    fn add(&mut self, other: HugeRegionStats) {
        add_fields!(
            HugeRegionStats {
                regions,
                spans,
                used_pages,
                used_huge_pages,
                idle_huge_pages,
                released_huge_pages_total
            },
            self,
            other
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{HugePages, Pages};

    #[test]
    fn all_but_the_longest_range_is_added_up() {
        let stats = |pages, longest| PageHeapStats {
            page_heap: "temeraire",
            backing: Backing { live: Pages(pages), ..Default::default() },
            spans_created: pages,
            spans_deleted: 0,
            released_pages: Pages::ZERO,
            components: Components::Temeraire(TemeraireStats {
                huge_allocator: HugeAllocatorStats {
                    reserved_huge_pages: HugePages(pages),
                    longest_unbacked_range: HugePages(longest),
                    ..Default::default()
                },
                huge_filler: HugeFillerStats { used_pages: Pages(pages), ..Default::default() },
                ..Default::default()
            }),
        };
        let mut sum = stats(3, 9);
        sum.add(&stats(4, 5));
        assert_eq!(sum, stats(7, 9));
    }
}
