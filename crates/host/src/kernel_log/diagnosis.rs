//! Why nothing could serve a request, by the numbers of its report.
//!
//! The page allocator serves a request from a zone if two demands are met (`__zone_watermark_ok`,
//! `mm/page_alloc.c`): enough pages stay free, and there is a free block that is large enough and
//! that the request may use. The numbers were printed after the failure; a zone that could serve
//! the request by then was full, or was reclaimed, a moment before.

mod watermark;

use prairie_frames::indices::{FreeBlocks, kernel_fragmentation_index, unusable_free_space};
use prairie_frames::{KernelVersion, MigrateType, Order, ZoneKind};
use serde::Serialize;

pub use self::watermark::WatermarkTest;
use self::watermark::{is_urgent, test_watermark};
use super::header::names_node;
use super::{Incident, ZoneState};
use crate::ZoneId;

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Enough memory was free, in blocks too small.
    Fragmentation,
    /// Too little memory was free.
    LowMemory,
    /// Too little was free, and what was free lay in blocks too small.
    LowAndFragmented,
    /// Free memory was kept for requests that only a lower zone can serve.
    LowmemReserve,
    /// The only free blocks that were large enough are kept for others: atomic requests, CMA.
    Reserved,
    /// No block of this size exists: the page allocator's largest is smaller.
    TooLarge,
    /// The zones that the request accepts have no memory.
    NoSuchMemory,
    /// A cgroup was at its limit; the machine's memory has nothing to do with it.
    CgroupLimit,
    /// A zone could have served it when the report was printed.
    ServedMeanwhile,
    /// The report does not have the numbers: it was cut off, or the log lost lines.
    Unknown,
}

impl Verdict {
    /// The verdict in one line.
    pub const fn label(self) -> &'static str {
        match self {
            Verdict::Fragmentation => "fragmentation: enough memory was free, in blocks too small",
            Verdict::LowMemory => "lack of memory: too little was free",
            Verdict::LowAndFragmented => {
                "lack of memory, and fragmentation: too little was free, in blocks too small"
            }
            Verdict::LowmemReserve => {
                "lowmem_reserve: free memory of lower zones is kept for requests that need it"
            }
            Verdict::Reserved => {
                "the free blocks that are large enough are kept for other requests"
            }
            Verdict::TooLarge => "the request is larger than the page allocator's largest block",
            Verdict::NoSuchMemory => "the zones that the request accepts have no memory",
            Verdict::CgroupLimit => "a cgroup reached its limit; the machine is not the cause",
            Verdict::ServedMeanwhile => {
                "brief shortage: the request could be served when the report was printed"
            }
            Verdict::Unknown => "unknown: the report is incomplete",
        }
    }
}

/// What one zone had to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ZoneDiagnosis {
    /// The zone.
    #[serde(flatten)]
    pub id: ZoneId,
    /// What it lacked.
    pub outcome: Outcome,
    /// The test of the watermark, where the request may use the zone.
    pub watermark: Option<WatermarkTest>,
    /// F_u for each order on the free lists: the share of free memory in blocks too small.
    pub unusable_free_space_index: Vec<f64>,
    /// The kernel's fragmentation index for the request, in thousandths: towards 0 lack of memory,
    /// towards 1000 fragmentation; -1000 if a free block is large enough. `None` without free lists.
    pub fragmentation_index_thousandths: Option<i64>,
    /// The free blocks that are large enough, by the letters of their types.
    pub large_enough: u64,
    /// Those letters.
    pub large_enough_types: String,
}

/// Why a zone did not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The request may not use it: the zone is above its highest one, or of another node.
    NotAllowed,
    /// It has no memory.
    Empty,
    /// Too little is free.
    BelowWatermark,
    /// No free block is large enough.
    NoBlock,
    /// The free blocks that are large enough are kept for others.
    ReservedBlocks,
    /// It could serve the request.
    CouldServe,
    /// The numbers are missing.
    Unknown,
}

/// Why a request was not served, zone by zone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The reason.
    pub verdict: Verdict,
    /// The zone with the most memory among those that the request may use.
    pub main_zone: Option<ZoneId>,
    /// Zone by zone, in the order of the report.
    pub zones: Vec<ZoneDiagnosis>,
}

/// Compares a report's numbers with what the page allocator demands.
pub fn diagnose(incident: &Incident) -> Diagnosis {
    let zones: Vec<ZoneDiagnosis> =
        incident.memory.zones.iter().map(|zone| diagnose_zone(incident, zone)).collect();
    let usable = incident.memory.zones.iter().zip(&zones).filter(|(_, diagnosis)| {
        !matches!(diagnosis.outcome, Outcome::NotAllowed | Outcome::Empty)
    });
    let main = usable.max_by_key(|(zone, _)| zone.kib("managed").max(zone.kib("present")));
    let verdict = verdict(incident, &zones, main.map(|(_, diagnosis)| diagnosis));
    Diagnosis { verdict, main_zone: main.map(|(zone, _)| zone.id), zones }
}

fn verdict(incident: &Incident, zones: &[ZoneDiagnosis], main: Option<&ZoneDiagnosis>) -> Verdict {
    if incident.cgroup.is_some() && incident.constraint.as_deref() != Some("CONSTRAINT_NONE") {
        return Verdict::CgroupLimit;
    }
    let orders = incident.memory.zones.iter().map(|zone| zone.free_blocks.len()).max().unwrap_or(0);
    if orders > 0 && incident.request.order as usize >= orders {
        return Verdict::TooLarge;
    }
    let Some(main) = main else {
        let any_empty = zones.iter().any(|zone| zone.outcome == Outcome::Empty);
        return if any_empty { Verdict::NoSuchMemory } else { Verdict::Unknown };
    };
    if zones.iter().any(|zone| zone.outcome == Outcome::CouldServe) {
        return Verdict::ServedMeanwhile;
    }
    match main.outcome {
        Outcome::NoBlock => Verdict::Fragmentation,
        Outcome::ReservedBlocks => Verdict::Reserved,
        Outcome::BelowWatermark => {
            let test = main.watermark.as_ref();
            let by_reserve = test.is_some_and(|test| {
                test.lowmem_reserve_kib > 0 && test.usable_kib() > test.mark_kib as i64
            });
            let is_fragmented = incident.request.order > 0
                && main.fragmentation_index_thousandths.is_some_and(|index| index >= 500);
            match (by_reserve, is_fragmented) {
                (true, _) => Verdict::LowmemReserve,
                (false, true) => Verdict::LowAndFragmented,
                (false, false) => Verdict::LowMemory,
            }
        }
        _ => Verdict::Unknown,
    }
}

fn diagnose_zone(incident: &Incident, zone: &ZoneState) -> ZoneDiagnosis {
    let order = u8::try_from(incident.request.order).ok().and_then(Order::new);
    let blocks = zone.blocks();
    let free = FreeBlocks { counts: &blocks };
    let index = order.filter(|_| !blocks.is_empty() && is_small(&blocks));
    let at = incident.request.order as usize;
    let large = zone.free_blocks.iter().skip(at).filter(|free| free.blocks > 0);
    let mut letters: Vec<char> = large.clone().flat_map(|free| free.types.chars()).collect();
    letters.sort_unstable();
    letters.dedup();
    let orders = (0..blocks.len() as u8).filter_map(Order::new);
    let mut diagnosis = ZoneDiagnosis {
        id: zone.id,
        outcome: Outcome::Unknown,
        watermark: None,
        unusable_free_space_index: match is_small(&blocks) {
            true => orders.map(|order| unusable_free_space(free, order)).collect(),
            false => Vec::new(),
        },
        fragmentation_index_thousandths: index.map(|order| kernel_fragmentation_index(free, order)),
        large_enough: large.fold(0, |sum: u64, free| sum.saturating_add(free.blocks)),
        large_enough_types: letters.into_iter().collect(),
    };
    diagnosis.outcome = outcome(incident, zone, &mut diagnosis);
    diagnosis
}

/// Whether the counts are those of a machine: a log can be damaged.
fn is_small(blocks: &[u64]) -> bool {
    blocks.len() <= 16 && blocks.iter().all(|&count| count < 1 << 33)
}

fn outcome(incident: &Incident, zone: &ZoneState, diagnosis: &mut ZoneDiagnosis) -> Outcome {
    if !is_allowed(incident, zone) {
        return Outcome::NotAllowed;
    }
    if zone.sizes_kib.is_empty() {
        return Outcome::Unknown;
    }
    if zone.sizes_kib.get("managed").or(zone.sizes_kib.get("present")) == Some(&0) {
        return Outcome::Empty;
    }
    let version = incident.kernel_release.as_deref().and_then(KernelVersion::of_kernel);
    let test = test_watermark(incident, zone, version);
    let (passes, passes_by_order) = (test.passes, test.passes_by_order);
    diagnosis.watermark = Some(test);
    match () {
        () if !passes => Outcome::BelowWatermark,
        () if !passes_by_order && diagnosis.large_enough > 0 => Outcome::BelowWatermark,
        () if !passes_by_order => Outcome::NoBlock,
        () if incident.request.order == 0 => Outcome::CouldServe,
        () if zone.free_blocks.is_empty() => Outcome::Unknown,
        () if diagnosis.large_enough == 0 => Outcome::NoBlock,
        () if !may_use_any(incident, &diagnosis.large_enough_types) => Outcome::ReservedBlocks,
        () => Outcome::CouldServe,
    }
}

fn is_allowed(incident: &Incident, zone: &ZoneState) -> bool {
    let highest = incident.request.gfp.highest_zone();
    let request = &incident.request;
    let is_named =
        |list: &Option<String>| list.as_deref().is_none_or(|list| names_node(list, zone.id.node));
    // Charges of a cgroup and kernel requests ignore the cpuset; only `__GFP_HARDWALL` binds.
    let by_cpuset = !request.gfp.has("__GFP_HARDWALL") || is_named(&request.mems_allowed);
    zone.id.kind <= highest
        && zone.id.kind != ZoneKind::Device
        && is_named(&request.nodemask)
        && by_cpuset
}

/// Whether a request may take a block of one of these types. Without letters the types are not
/// known, and the request is given the benefit of the doubt.
fn may_use_any(incident: &Incident, letters: &str) -> bool {
    let gfp = &incident.request.gfp;
    letters.is_empty()
        || letters.chars().any(|letter| match letter {
            'C' => gfp.migrate_type() == MigrateType::Movable,
            'H' | 'R' => is_urgent(incident),
            'I' => false,
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use super::super::Parser;
    use super::*;

    /// The diagnosis of a report with one zone `Normal` of 1 GiB.
    fn of(header: &str, sizes: &str, reserve: &str, blocks: &str) -> Diagnosis {
        let mut parser = Parser::default();
        for line in [
            header,
            &format!("Node 0 Normal {sizes} present:1048576kB managed:1000000kB"),
            &format!("lowmem_reserve[]: {reserve}"),
            &format!("Node 0 Normal: {blocks}"),
        ] {
            parser.push(line);
        }
        let incidents = parser.finish();
        assert_eq!(incidents.len(), 1);
        diagnose(&incidents[0])
    }

    fn header(order: u32, gfp: &str) -> String {
        format!("x: page allocation failure: order:{order}, mode:0x1({gfp}), nodemask=(null)")
    }

    const SMALL: &str = "9000*4kB (UME) 100*8kB (M) 0*16kB 0*32kB 0*64kB = 36800kB";

    #[test]
    fn enough_memory_in_blocks_too_small() {
        let found = of(&header(3, "GFP_KERNEL"), "free:36800kB min:4000kB", "0 0 0 0", SMALL);
        assert_eq!(found.verdict, Verdict::Fragmentation);
        let zone = &found.zones[0];
        assert_eq!(zone.outcome, Outcome::NoBlock);
        let test = zone.watermark.as_ref().unwrap();
        assert_eq!((test.usable_kib(), test.demanded_kib()), (36800 - 28, 4000));
        // 9200 pages in 9100 blocks: 1000 - (1000 + 9200 * 1000 / 8) / 9100.
        assert_eq!(zone.fragmentation_index_thousandths, Some(874));
        assert_eq!(zone.unusable_free_space_index[3], 1.0);
    }

    #[test]
    fn privileges_lower_the_watermark() {
        let sizes = "free:2000kB min:4000kB";
        let blocks = "0*4kB 0*8kB 0*16kB 0*32kB 31*64kB (U) = 1984kB";
        assert_eq!(of(&header(3, "GFP_KERNEL"), sizes, "0", blocks).verdict, Verdict::LowMemory);
        let atomic = of(&header(3, "GFP_ATOMIC"), sizes, "0", blocks);
        // 4000 / 2 = 2000, less a quarter: 1500.
        assert_eq!(atomic.zones[0].watermark.as_ref().unwrap().mark_kib, 1500);
        assert_eq!(atomic.verdict, Verdict::ServedMeanwhile);
    }

    #[test]
    fn what_is_kept_for_others() {
        let large = "0*4kB 0*8kB 0*16kB 0*32kB 500*64kB (HC) = 32000kB";
        let sizes = "free:32000kB min:400kB";
        assert_eq!(of(&header(3, "GFP_KERNEL"), sizes, "0", large).verdict, Verdict::Reserved);
        let movable = of(&header(3, "GFP_HIGHUSER_MOVABLE"), sizes, "0", large);
        assert_eq!(movable.verdict, Verdict::ServedMeanwhile);
        let reserve = "0 0 8000 8000";
        assert_eq!(
            of(&header(0, "GFP_KERNEL"), sizes, reserve, large).verdict,
            Verdict::LowmemReserve
        );
        let sizes = "free:32000kB min:400kB reserved_highatomic:31800KB";
        let found = of(&header(3, "GFP_KERNEL"), sizes, "0", large);
        assert_eq!(found.zones[0].outcome, Outcome::BelowWatermark);
        // 6.12 and later: what is free of the reserve.
        let sizes = "free:32000kB min:400kB reserved_highatomic:31800KB free_highatomic:100KB";
        let found = of(&header(0, "GFP_KERNEL"), sizes, "0", large);
        assert_eq!(found.verdict, Verdict::ServedMeanwhile);
    }

    #[test]
    fn old_kernels_have_a_watermark_for_each_order() {
        // Passes as a whole; without the small blocks 1 MiB is free, and 1/8 of min is 2.5 MiB.
        let blocks = "9000*4kB (M) 0*8kB 0*16kB 32*32kB (M) = 37024kB";
        let sizes = "free:37024kB min:20000kB";
        let version = |release: &str| {
            let mut parser = Parser::default();
            for line in [
                &header(3, "GFP_KERNEL"),
                &format!("CPU: 0 PID: 1 Comm: x Not tainted {release} #1"),
                &format!("Node 0 Normal {sizes} managed:1000000kB"),
                &format!("Node 0 Normal: {blocks}"),
            ] {
                parser.push(line);
            }
            diagnose(&parser.finish()[0]).zones[0].outcome
        };
        assert_eq!(version("3.10.0-514.el7"), Outcome::BelowWatermark);
        assert_eq!(version("4.19.0"), Outcome::CouldServe);
    }

    #[test]
    fn zones_that_do_not_count() {
        let dma = of(&header(0, "GFP_KERNEL|GFP_DMA"), "free:900000kB min:4kB", "0", SMALL);
        assert_eq!((dma.zones[0].outcome, dma.verdict), (Outcome::NotAllowed, Verdict::Unknown));
        let huge = of(&header(9, "GFP_KERNEL"), "free:900000kB min:4kB", "0", SMALL);
        assert_eq!(huge.verdict, Verdict::TooLarge);
    }
}
