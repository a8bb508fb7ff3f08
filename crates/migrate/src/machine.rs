//! A whole machine: cores with TLBs over the memory hierarchy, and an IOMMU with a device.

mod batch;

use serde::Serialize;

pub use batch::{BATCH, Batch};

use crate::address::{Frame, LINES, Line, PageSize, Virtual, Vpn};
use crate::geometry::{Any, Geometry};
use crate::hierarchy::Hierarchy;
use crate::iommu::Iommu;
use crate::pages::{Pages, TooSmall};
use crate::params::Params;
use crate::tlb::Tlbs;

/// A page that software keeps everybody from, while it moves.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    page: Vpn,
    from_ps: u64,
    until_ps: u64,
    by: usize,
}

/// What address translation did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Translations {
    /// Found in the second-level TLB.
    pub second_level_hits: u64,
    /// Page walks.
    pub walks: u64,
    /// Entries of page tables that walks read.
    pub walk_reads: u64,
    /// Picoseconds of walks, as the accesses that caused them waited.
    pub walk_ps: u64,
    /// Accesses that faulted on a page under software migration.
    pub faults: u64,
    /// Picoseconds they waited.
    pub fault_ps: u64,
    /// Translations that missed the IOTLB.
    pub iotlb_misses: u64,
}

impl Translations {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Translations) -> Translations {
        Translations {
            second_level_hits: self.second_level_hits - earlier.second_level_hits,
            walks: self.walks - earlier.walks,
            walk_reads: self.walk_reads - earlier.walk_reads,
            walk_ps: self.walk_ps - earlier.walk_ps,
            faults: self.faults - earlier.faults,
            fault_ps: self.fault_ps - earlier.fault_ps,
            iotlb_misses: self.iotlb_misses - earlier.iotlb_misses,
        }
    }
}

/// A machine at work.
#[derive(Clone, Debug)]
pub struct Machine<G: Geometry = Any> {
    /// Caches, directory, mesh, memory, metadata table.
    pub hierarchy: Hierarchy<G>,
    /// What address translation did.
    pub translations: Translations,
    tlbs: Tlbs<G>,
    pages: Pages,
    iommu: Iommu,
    blocked: Vec<Blocked>,
    costs: Costs,
}

#[derive(Clone, Copy, Debug)]
struct Costs {
    l1: u64,
    l2_tlb: u64,
    line_fill_buffers: u64,
    stores_in_flight: u64,
    walks_at_once: u64,
    fault: u64,
    wake: u64,
    device: u64,
}

impl Machine {
    /// [`Machine::of`] any geometry.
    ///
    /// # Errors
    /// [`TooSmall`] if memory does not hold them.
    pub fn new(params: &Params, bytes: [u64; 3]) -> Result<Machine, TooSmall> {
        Machine::of(params, bytes)
    }
}

impl<G: Geometry> Machine<G> {
    /// A machine whose program has `bytes` mapped of each arena.
    ///
    /// # Errors
    /// [`TooSmall`] if memory does not hold them.
    pub fn of(params: &Params, bytes: [u64; 3]) -> Result<Machine<G>, TooSmall> {
        let costs = Costs {
            l1: params.cycles(params.l1.cycles),
            l2_tlb: params.cycles(params.tlb.l2_cycles),
            line_fill_buffers: params.cores.line_fill_buffers,
            stores_in_flight: params.cores.stores_in_flight,
            walks_at_once: params.walker.parallel,
            fault: params.software.fault_ns * 1000,
            wake: params.software.wake_ns * 1000,
            device: params.iommu.device_ns * 1000,
        };
        Ok(Machine {
            hierarchy: Hierarchy::of(params),
            translations: Translations::default(),
            tlbs: Tlbs::new(params),
            pages: Pages::new(params.frames(), bytes)?,
            iommu: Iommu::new(params),
            blocked: Vec::new(),
            costs,
        })
    }

    /// The wait of an access to a page under software migration.
    fn fault(&mut self, core: usize, page: Vpn, now_ps: u64) -> u64 {
        let here = |blocked: &&Blocked| blocked.page == page && blocked.by != core;
        let Some(blocked) = self.blocked.iter().find(here) else { return 0 };
        if !(blocked.from_ps..blocked.until_ps).contains(&now_ps) {
            return 0;
        }
        let ps = (blocked.until_ps - now_ps).max(self.costs.fault) + self.costs.wake;
        self.translations.faults += 1;
        self.translations.fault_ps += ps;
        ps
    }

    /// A device writes or reads `lines` lines from `address` on. Returns the picoseconds until the
    /// last is done; lines follow each other without waiting for those before.
    pub fn device(&mut self, address: Virtual, lines: u32, write: bool) -> u64 {
        let mut ps = self.costs.device;
        let (mut at, mut slowest) = (None, 0);
        for number in 0..u64::from(lines) {
            let address = address.plus(number * 64);
            let vpn = address.vpn();
            let frame = match at {
                Some((page, frame)) if page == vpn.first() => frame,
                _ => {
                    let (frame, translation) = self.translate_for_device(vpn);
                    ps += translation;
                    at = Some((vpn.first(), frame));
                    frame
                }
            };
            slowest = slowest.max(self.hierarchy.device(line_of(frame, address), write));
        }
        ps + slowest
    }

    fn translate_for_device(&mut self, vpn: Vpn) -> (Frame, u64) {
        let ps = self.iommu.lookup_ps();
        if let Some(frame) = self.iommu.find(vpn) {
            return (frame, ps);
        }
        self.translations.iotlb_misses += 1;
        let frame = self.pages.frame(vpn);
        self.iommu.fill(vpn, frame);
        // The upper levels are kept; the lowest entry is read from memory or the LLC.
        let line = self.pages.entry_line(vpn, vpn.size() as u32 + 1);
        (frame, ps + self.hierarchy.device(line, false))
    }

    /// Keeps everybody but core `by` from the page of `vpn`, for a time.
    pub fn block(&mut self, vpn: Vpn, time_ps: std::ops::Range<u64>, by: usize) {
        let (from_ps, until_ps) = (time_ps.start, time_ps.end);
        self.blocked.push(Blocked { page: vpn.first(), from_ps, until_ps, by });
    }

    /// Whether a page is blocked for a core, now or at another time.
    #[inline]
    pub fn is_blocking(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Forgets blocks that every core is past.
    pub fn unblock_before(&mut self, now_ps: u64) {
        self.blocked.retain(|blocked| blocked.until_ps > now_ps);
    }

    /// A local invalidation on one core.
    pub fn invalidate(&mut self, core: usize, vpn: Vpn) -> bool {
        self.tlbs.invalidate(core, vpn)
    }

    /// Invalidates a page in the IOTLB. Returns the picoseconds until that is done and drained.
    pub fn invalidate_device(&mut self, vpn: Vpn) -> u64 {
        self.iommu.invalidate(vpn);
        self.iommu.invalidate_ps()
    }

    /// The page table.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The page table, to change it.
    pub fn pages_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// How many cores.
    pub fn cores(&self) -> usize {
        self.tlbs.cores()
    }

    /// Checks caches and directory, and that every translation is what the page table says, or the
    /// source of a migration under way.
    pub fn validate(&self) {
        self.hierarchy.validate();
        let translations = self.tlbs.iter().chain(self.iommu.iter());
        for (vpn, frame) in translations {
            let now = self.pages.frame(vpn);
            assert!(
                frame == now || self.hierarchy.is_source(frame),
                "{vpn:?} is {now:?} in the page table and {frame:?} in a TLB"
            );
        }
    }
}

/// The physical line of a virtual address in a page that begins at `first`.
#[inline(always)]
fn line_of(first: Frame, address: Virtual) -> Line {
    let pages = address.size().pages();
    let within = (address.0 >> 6) as u32 & (pages * LINES - 1);
    first.line(within)
}

/// Lines of a page.
pub fn lines_of(size: PageSize) -> u32 {
    size.pages() * LINES
}
