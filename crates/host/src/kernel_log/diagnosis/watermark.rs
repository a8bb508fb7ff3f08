//! The watermark of a zone, for one request.

use prairie_frames::placement::linux::version::ZONE_WATERMARKS;
use prairie_frames::{KernelVersion, MigrateType, ZoneKind};
use serde::Serialize;

use super::super::{Incident, ZoneState};

/// The arithmetic of a watermark, in KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WatermarkTest {
    /// Free memory.
    pub free_kib: u64,
    /// Free memory that this request may not use, and why.
    pub withheld_kib: Vec<(&'static str, u64)>,
    /// The watermark `min`.
    pub min_kib: u64,
    /// What is left of it after the request's privileges.
    pub mark_kib: u64,
    /// The privileges that lower it.
    pub privileges: Vec<&'static str>,
    /// What is kept for requests that only this zone or a lower one can serve.
    pub lowmem_reserve_kib: u64,
    /// Whether the test passes.
    pub passes: bool,
    /// Whether the further tests of Linux before 4.4 pass: each order has a watermark of its own,
    /// half of that of the order below, for the blocks that are at least as large.
    pub passes_by_order: bool,
}

impl WatermarkTest {
    /// Free memory that counts, in KiB; negative if more is withheld than is free.
    pub fn usable_kib(&self) -> i64 {
        let withheld: u64 = self.withheld_kib.iter().map(|(_, kib)| kib).sum();
        self.free_kib as i64 - withheld as i64
    }

    /// What must stay free, in KiB.
    pub fn demanded_kib(&self) -> u64 {
        self.mark_kib + self.lowmem_reserve_kib
    }
}

/// Whether the request may use the reserves of atomic requests.
pub(crate) fn is_urgent(incident: &Incident) -> bool {
    let gfp = &incident.request.gfp;
    gfp.has("__GFP_HIGH") && !gfp.can_wait()
}

/// Tests the watermark of a zone (`__zone_watermark_ok`).
pub(crate) fn test_watermark(
    incident: &Incident,
    zone: &ZoneState,
    version: Option<KernelVersion>,
) -> WatermarkTest {
    let gfp = &incident.request.gfp;
    let page_kib = zone.page_kib.max(1);
    let mut test = WatermarkTest {
        free_kib: zone.kib("free"),
        min_kib: zone.kib("min"),
        ..Default::default()
    };
    test.mark_kib = test.min_kib;
    if gfp.has("__GFP_HIGH") {
        test.mark_kib -= test.mark_kib / 2;
        test.privileges.push("__GFP_HIGH: half of min");
    }
    if !gfp.can_wait() && gfp.has("__GFP_HIGH") {
        test.mark_kib -= test.mark_kib / 4;
        test.privileges.push("cannot wait: a quarter less");
    }
    if gfp.has("__GFP_MEMALLOC") {
        test.mark_kib = 0;
        test.privileges.push("__GFP_MEMALLOC: no watermark");
    }
    if !is_urgent(incident) {
        // From 6.12 on only the free part of the reserve is withheld; newer reports print it.
        let reserve = match zone.sizes_kib.get("free_highatomic") {
            Some(&free) => free,
            None => zone.kib("reserved_highatomic"),
        };
        withhold(&mut test, "reserved for atomic requests", reserve);
    }
    if gfp.migrate_type() != MigrateType::Movable {
        withhold(&mut test, "CMA, for movable memory only", zone.kib("free_cma"));
    }
    let pages = incident.request.order.min(20);
    withhold(&mut test, "the request itself, less one page", ((1u64 << pages) - 1) * page_kib);
    test.lowmem_reserve_kib = reserve_pages(incident, zone).saturating_mul(page_kib);
    let demanded = i64::try_from(test.demanded_kib()).unwrap_or(i64::MAX);
    test.passes = test.usable_kib() > demanded;
    let is_old = version.is_some_and(|version| version < ZONE_WATERMARKS.since);
    test.passes_by_order = !is_old || passes_by_order(incident, zone, &test);
    test
}

fn withhold(test: &mut WatermarkTest, what: &'static str, kib: u64) {
    if kib > 0 {
        test.withheld_kib.push((what, kib));
    }
}

/// `__zone_watermark_ok` up to 4.3: without the blocks of order 0 half of the mark must be free,
/// without those of order 1 a quarter, and so on.
fn passes_by_order(incident: &Incident, zone: &ZoneState, test: &WatermarkTest) -> bool {
    let (mut free, mut mark) = (test.usable_kib(), test.mark_kib as i64);
    let page_kib = zone.page_kib.max(1);
    let below = zone.free_blocks.iter().take(incident.request.order as usize);
    for (order, blocks) in below.enumerate() {
        let kib = blocks.blocks.saturating_mul(page_kib << order.min(20));
        free = free.saturating_sub(i64::try_from(kib).unwrap_or(i64::MAX));
        mark /= 2;
        if free <= mark {
            return false;
        }
    }
    true
}

/// The entry of `lowmem_reserve[]` for the request, in pages.
fn reserve_pages(incident: &Incident, zone: &ZoneState) -> u64 {
    let highest = incident.request.gfp.highest_zone();
    let zones = &incident.memory.zones;
    let has = |kind| zones.iter().any(|zone| zone.id.kind == kind);
    // Which zones a kernel has depends on its configuration: high memory on 32 bits, DMA32 on 64.
    let kinds: Vec<ZoneKind> = ZoneKind::ALL
        .into_iter()
        .filter(|&kind| match kind {
            ZoneKind::Dma => has(ZoneKind::Dma) || !has(ZoneKind::Dma32),
            ZoneKind::Dma32 => !has(ZoneKind::HighMem),
            ZoneKind::HighMem => has(ZoneKind::HighMem),
            _ => true,
        })
        .collect();
    let at = kinds.iter().rposition(|&kind| kind <= highest).unwrap_or(0);
    let reserve = &zone.lowmem_reserve_pages;
    reserve.get(at.min(reserve.len().saturating_sub(1))).copied().unwrap_or(0)
}
