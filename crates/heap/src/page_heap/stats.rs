//! Statistics of a page heap.

use core::fmt;

use serde::Serialize;

use super::huge_allocator::HugeAllocatorStats;
use super::huge_cache::HugeCacheStats;
use super::huge_filler::HugeFillerStats;
use super::huge_region::HugeRegionStats;
use crate::units::Pages;

/// State and counters of a page heap.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PageHeapStats {
    /// Name of the page heap, as in the settings.
    pub page_heap: &'static str,
    /// The address space by state.
    pub backing: Backing,
    /// Spans handed out so far.
    pub spans_created: u64,
    /// Spans taken back so far.
    pub spans_deleted: u64,
    /// Pages given back to the system so far.
    pub released_pages: Pages,
    /// State and counters of its components.
    pub components: Components,
}

/// The components of a page heap.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "statistics of a malloc are in no box")]
#[non_exhaustive]
pub enum Components {
    /// Those of TEMERAIRE.
    Temeraire(TemeraireStats),
    /// The lists of the legacy page heap.
    Legacy(LegacyStats),
}

/// State and counters of TEMERAIRE's components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[repr(C)]
#[non_exhaustive]
pub struct TemeraireStats {
    /// Unbacked address space.
    pub huge_allocator: HugeAllocatorStats,
    /// Backed, empty huge pages.
    pub huge_cache: HugeCacheStats,
    /// Huge pages that spans share.
    pub huge_filler: HugeFillerStats,
    /// Regions of 1 GiB.
    pub huge_region: HugeRegionStats,
    /// Pages in spans of up to 1 MiB.
    pub small_pages: Pages,
    /// Slack: pages by which larger spans fall short of whole huge pages.
    pub slack_pages: Pages,
}

/// What the lists of the legacy page heap hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct LegacyStats {
    /// Free pages with memory behind them.
    pub normal_pages: Pages,
    /// Free pages that were returned to the system.
    pub returned_pages: Pages,
    /// Free ranges of either kind.
    pub free_ranges: u32,
    /// Calls that returned a range to the system so far.
    pub releases: u64,
}

/// Address space of a page heap, by whether it is backed.
///
/// *Backed* is what the page heap believes: it was handed out once and not released since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct Backing {
    /// Pages in spans.
    pub live: Pages,
    /// Backed pages in no span: the overhead of the page heap.
    pub free: Pages,
    /// Pages without memory behind them.
    pub unbacked: Pages,
    /// Pages, live or free, on huge pages without a released part.
    pub on_huge_pages: Pages,
}

impl Backing {
    /// Pages with memory behind them.
    pub fn backed(&self) -> Pages {
        self.live + self.free
    }

    /// Overhead: backed memory in no span, over memory in spans (section 5.2). `None` without
    /// spans.
    pub fn overhead(&self) -> Option<f64> {
        (self.live.0 > 0).then(|| self.free.0 as f64 / self.live.0 as f64)
    }

    /// Hugepage coverage: share of backed memory on whole huge pages. `None` without backed memory.
    pub fn coverage(&self) -> Option<f64> {
        let backed = self.backed();
        (backed.0 > 0).then(|| self.on_huge_pages.0 as f64 / backed.0 as f64)
    }
}

/// Bytes of pages, in MiB as `malloc_stats` readers expect them.
struct Mib(Pages);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0.bytes() as f64 / f64::from(1 << 20))
    }
}

/// A share in per cent, or a dash where there is nothing to share.
struct Percent(Option<f64>);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(share) => write!(f, "{:.1} %", share * 100.0),
            None => f.write_str("–"),
        }
    }
}

impl fmt::Display for PageHeapStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backing = &self.backing;
        writeln!(f, "page heap {}", self.page_heap)?;
        writeln!(
            f,
            "  in spans {}, free and backed {}, unbacked {}; released so far {}",
            Mib(backing.live),
            Mib(backing.free),
            Mib(backing.unbacked),
            Mib(self.released_pages)
        )?;
        writeln!(
            f,
            "  overhead {}, hugepage coverage of backed memory {}",
            Percent(backing.overhead()),
            Percent(backing.coverage())
        )?;
        writeln!(f, "  spans: {} created, {} deleted", self.spans_created, self.spans_deleted)?;
        match &self.components {
            Components::Temeraire(components) => components.fmt(f),
            Components::Legacy(components) => components.fmt(f),
        }
    }
}

impl fmt::Display for TemeraireStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { huge_allocator: allocator, huge_cache: cache, huge_filler: filler, .. } = self;
        let region = &self.huge_region;
        writeln!(
            f,
            "  HugeAllocator: {} huge pages reserved, {} unbacked in {} ranges, the longest {}",
            allocator.reserved_huge_pages.0,
            allocator.unbacked_huge_pages.0,
            allocator.unbacked_ranges,
            allocator.longest_unbacked_range.0
        )?;
        writeln!(
            f,
            "  HugeCache: {} huge pages cached in {} ranges, limit {}, demand {}; {} hits, \
             {} extensions, {} misses; released {} by the limit, {} on request",
            cache.cached_huge_pages.0,
            cache.cached_ranges,
            cache.limit_huge_pages.0,
            cache.demand_huge_pages.0,
            cache.hits,
            cache.extensions,
            cache.misses,
            cache.released_by_limit_huge_pages.0,
            cache.released_on_request_huge_pages.0
        )?;
        writeln!(
            f,
            "  HugeFiller: {} huge pages ({} full, {} donated, {} broken), used {}, free {}, \
             released {}; subreleased so far {} from {} huge pages",
            filler.huge_pages.0,
            filler.full_huge_pages.0,
            filler.donated_huge_pages.0,
            filler.broken_huge_pages.0,
            Mib(filler.used_pages),
            Mib(filler.free_backed_pages),
            Mib(filler.released_pages),
            Mib(filler.subreleased_pages_total),
            filler.broken_huge_pages_total.0
        )?;
        writeln!(
            f,
            "  HugeRegion: {} regions, {} spans, used {} on {} huge pages, {} idle; slack {} \
             against small spans {}",
            region.regions,
            region.spans,
            Mib(region.used_pages),
            region.used_huge_pages.0,
            region.idle_huge_pages.0,
            Mib(self.slack_pages),
            Mib(self.small_pages)
        )
    }
}

impl fmt::Display for LegacyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  lists: {} free ranges, {} normal and {} returned pages; {} releases",
            self.free_ranges, self.normal_pages.0, self.returned_pages.0, self.releases
        )
    }
}
