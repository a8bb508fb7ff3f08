//! The zone-based strategy of the 2006 paper: a plain model of memory, and cases worked by hand.

mod model;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::zones::{Kernelcore, Zones};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

const MIB: u64 = 256;

fn zone(node: u16, kind: ZoneKind, start: u64, end: u64) -> ZoneSpan {
    ZoneSpan {
        node,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks { min: 128, low: 160, high: 192 },
        lowmem_reserve: [0; 6],
    }
}

/// The x86 machine of Figure 4, rounded to whole MiB: 1,518 MiB, of which 896 are not HighMem.
fn x86() -> Layout {
    Layout::new(vec![
        zone(0, ZoneKind::Dma, 0, 16 * MIB),
        zone(0, ZoneKind::Normal, 16 * MIB, 896 * MIB),
        zone(0, ZoneKind::HighMem, 896 * MIB, 1518 * MIB),
    ])
    .unwrap()
}

/// Kinds and sizes in MiB.
fn sizes(layout: &Layout, kernelcore: Option<Kernelcore>) -> Vec<(ZoneKind, u64)> {
    let zones = Zones::new(layout, Order::LARGEST_FREE, kernelcore);
    let size = |zone: &prairie_frames::layout::Zone| u64::from(zone.end.0 - zone.start.0) / MIB;
    zones.layout().zones().iter().map(|zone| (zone.span.kind, size(zone))).collect()
}

#[test]
fn kernelcore_bounds_the_standard_zones() {
    use ZoneKind::{Dma, HighMem, Movable, Normal};
    let whole = vec![(Dma, 16), (Normal, 880), (HighMem, 622)];
    assert_eq!(sizes(&x86(), None), whole, "an empty zone when it is not given");
    assert_eq!(sizes(&x86(), Some(Kernelcore::Frames(0))), whole);
    assert_eq!(sizes(&x86(), Some(Kernelcore::Frames(u64::MAX))), whole);
    // The paper's 1,024 MiB leave some HighMem for page tables.
    assert_eq!(
        sizes(&x86(), Some(Kernelcore::Frames(1024 * MIB))),
        [(Dma, 16), (Normal, 880), (HighMem, 128), (Movable, 494)]
    );
    // Less than lowmem: Normal is cut and there is no HighMem (`calculate_core_memory`). The two
    // parts of ZONE_EASYRCLM make up 1,518 - 512 MiB.
    assert_eq!(
        sizes(&x86(), Some(Kernelcore::Frames(512 * MIB))),
        [(Dma, 16), (Normal, 496), (Movable, 384), (Movable, 622)]
    );
    // Half of the PPC64 machine of Figure 4, all of whose memory is one zone.
    let ppc64 = Layout::new(vec![zone(0, ZoneKind::Dma, 0, 4019 * MIB)]).unwrap();
    assert_eq!(sizes(&ppc64, Some(Kernelcore::Frames(2048 * MIB))), [(Dma, 2048), (Movable, 1971)]);
    assert_eq!(sizes(&ppc64, Some(Kernelcore::Percent(50))), [(Dma, 2012), (Movable, 2007)]);
}

#[test]
fn kernelcore_is_spread_over_the_nodes() {
    use ZoneKind::{Dma32, Movable, Normal};
    let layout = Layout::new(vec![
        zone(0, Dma32, 0, 256 * MIB),
        zone(0, Normal, 256 * MIB, 1024 * MIB),
        zone(1, Normal, 1024 * MIB, 1088 * MIB),
        zone(2, Normal, 2048 * MIB, 3072 * MIB),
    ])
    .unwrap();
    // 900 MiB over three nodes: the small one gives its 64, the others 418 each.
    assert_eq!(
        sizes(&layout, Some(Kernelcore::Frames(900 * MIB))),
        [
            (Dma32, 256),
            (Normal, 164), // 418 - 256, up to the next 4 MiB
            (Movable, 604),
            (Normal, 64),
            (Normal, 420),
            (Movable, 604),
        ]
    );
}

struct Machine {
    table: FrameTable,
    zones: Zones,
    next_owner: Owner,
}

impl Machine {
    /// 32 MiB of one zone, half of it ZONE_EASYRCLM.
    fn halved() -> Machine {
        let mut span = zone(0, ZoneKind::Normal, 0, 32 * MIB);
        span.watermarks = Watermarks::default();
        let layout = Layout::new(vec![span]).unwrap();
        let core = Some(Kernelcore::Percent(50));
        let mut machine = Machine {
            table: FrameTable::new(&layout),
            zones: Zones::new(&layout, Order::LARGEST_FREE, core),
            next_owner: 0,
        };
        machine.zones.boot(&mut machine.table, &layout);
        machine
    }

    fn allocate(&mut self, migrate_type: MigrateType, highest_zone: ZoneKind) -> Option<u32> {
        let order = Order::HUGE;
        let mobility = mobility_of(migrate_type);
        let request = Request { order, migrate_type, mobility, highest_zone, ..Request::default() };
        let frame = self.zones.allocate(&mut self.table, &request, self.next_owner)?;
        self.next_owner += order.frames() as u32;
        Some(frame.0 / 512)
    }
}

#[test]
fn fallback_has_one_direction() {
    let mut machine = Machine::halved();
    let easy = |machine: &mut Machine| machine.allocate(MigrateType::Movable, ZoneKind::Normal);
    let kernel =
        |machine: &mut Machine| machine.allocate(MigrateType::Unmovable, ZoneKind::Movable);
    // Easily reclaimed pages fill the upper half first ...
    for _ in 0..8 {
        assert!((8..16).contains(&easy(&mut machine).unwrap()));
    }
    // ... and fall back.
    for _ in 0..5 {
        assert!((0..8).contains(&easy(&mut machine).unwrap()));
    }
    for _ in 0..3 {
        assert!((0..8).contains(&kernel(&mut machine).unwrap()));
    }
    machine.zones.free(&mut machine.table, Frame(15 * 512), 0);
    // The upper half has room, and the kernel may not use it.
    assert_eq!(kernel(&mut machine), None);
    assert_eq!(machine.allocate(MigrateType::Reclaimable, ZoneKind::Normal), None);
    // Nor may a user page that must lie below 4 GiB.
    assert_eq!(machine.allocate(MigrateType::Movable, ZoneKind::Dma32), None);
    assert_eq!(easy(&mut machine), Some(15));
    let counters = machine.zones.counters();
    let counter = |name| counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert_eq!(counter("easyrclm_frames"), 16 * MIB);
    assert_eq!((counter("easyrclm_allocations"), counter("easyrclm_fallbacks")), (14, 5));
}

#[test]
fn what_is_pinned_leaves_the_zone_or_is_not_pinned() {
    let mut machine = Machine::halved();
    let owners = |block: u32| block * 512;
    for _ in 0..9 {
        machine.allocate(MigrateType::Movable, ZoneKind::Normal).unwrap();
    }
    // The ninth fell back and is pinned where it lies; of the others, seven find room beside it.
    for block in (0..9).rev() {
        let pinned = machine.zones.pin_block(&mut machine.table, owners(block), Order::HUGE);
        let lies = machine.table.block_of(owners(block)).unwrap();
        assert_eq!((pinned, machine.zones.is_easyrclm(lies)), (block > 0, block == 0));
        let mobility = if pinned { Mobility::Unmovable } else { Mobility::Movable };
        assert_eq!(machine.table.mobility(lies), mobility, "block {block}");
        machine.zones.validate(&machine.table);
    }
    let counters = machine.zones.counters();
    let moved = counters.iter().find(|counter| counter.name == "easyrclm_moved_for_pins").unwrap();
    assert_eq!(moved.value, 7 * 512);
}

#[test]
fn free_blocks_are_reported_by_the_machines_own_zones() {
    let mut machine = Machine::halved();
    let blocks = machine.zones.free_blocks(0);
    let order_10 = |at: usize| (blocks[at].0, blocks[at].1[10]);
    assert_eq!(blocks.len(), 2);
    assert_eq!(order_10(0), (MigrateType::Unmovable, 4));
    assert_eq!(order_10(1), (MigrateType::Movable, 4));
    machine.allocate(MigrateType::Movable, ZoneKind::Normal);
    assert_eq!(machine.zones.free_blocks(0)[1].1[9..=10], [1, 3]);
}

/// What both placements do with the same steps, as frames.
fn trail(
    mut placement: impl Placement,
    layout: &Layout,
    orders: &[(u8, bool)],
) -> Vec<Option<Frame>> {
    let mut table = FrameTable::new(layout);
    placement.boot(&mut table, layout);
    let mut owner = 0;
    let mut live = Vec::new();
    let mut step = |&(order, movable): &(u8, bool)| {
        if order == 11 {
            placement.free(&mut table, live.pop()?, 0);
            return None;
        }
        let order = Order::new(order).unwrap();
        let migrate_type = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
        let mobility = mobility_of(migrate_type);
        let request = Request { order, migrate_type, mobility, ..Request::default() };
        let frame = placement.allocate(&mut table, &request, owner)?;
        live.push(frame);
        owner += 1024;
        Some(frame)
    };
    orders.iter().map(&mut step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn agrees_with_a_plain_model(
        steps in prop::collection::vec(model::step(10), 1..120),
        kernelcore in 0..24_000u64,
    ) {
        let layout = model::layout();
        let kernelcore = Some(Kernelcore::Frames(kernelcore));
        let mut zones = Zones::new(&layout, Order::LARGEST_FREE, kernelcore);
        let easyrclm = Zones::new(&layout, Order::LARGEST_FREE, kernelcore);
        model::exercise(&mut zones, &layout, &steps, |_, table| {
            // No kernel page in ZONE_EASYRCLM, whatever happened.
            for frame in (0..layout.frames() as u32).step_by(512).map(Frame) {
                let last = frame.offset(511);
                if easyrclm.is_easyrclm(frame) && easyrclm.is_easyrclm(last) {
                    assert_eq!(table.block(frame).unmovable, 0, "{frame:?}");
                }
            }
        });
    }

    /// Without `kernelcore=` the strategy changes nothing.
    #[test]
    fn an_empty_zone_is_the_standard_allocator(
        orders in prop::collection::vec((0..=11u8, any::<bool>()), 1..60)
    ) {
        let layout = model::layout();
        // As many owners as the machine has are enough for as many steps of order 10.
        prop_assume!(orders.len() * 1024 <= layout.frames() as usize);
        let zones = trail(Zones::new(&layout, Order::LARGEST_FREE, None), &layout, &orders);
        let buddy = trail(Buddy::new(&layout, Order::LARGEST_FREE), &layout, &orders);
        prop_assert_eq!(zones, buddy);
    }

    /// Dividing zones leaves the numbers of frames as they are.
    #[test]
    fn frames_keep_their_numbers(kernelcore in 0..2_000_000u64, pfns in prop::collection::vec(0..400_000u64, 8)) {
        let zones = Zones::new(&x86(), Order::LARGEST_FREE, Some(Kernelcore::Frames(kernelcore)));
        for pfn in pfns.into_iter().map(Pfn) {
            prop_assert_eq!(zones.layout().frame(pfn), x86().frame(pfn));
        }
        let total: u64 = zones.layout().zones().iter().map(|z| z.span.managed).sum();
        prop_assert_eq!(total, 1518 * MIB);
    }
}
