//! The placement with two regions and a moving border: confinement under any mix of requests.

mod model;

use frames::layout::{Layout, Watermarks, ZoneSpan};
use frames::placement::regions::{Bias, Config, Regions};
use frames::placement::{Counter, Placement, Request};
use frames::table::Owner;
use frames::{Frame, FrameTable, MigrateType, Order, Pfn, ZoneKind};
use proptest::prelude::*;

/// `Regions` with `maintain` called every so many allocations, as periodic reclaim would.
struct Maintained {
    regions: Regions,
    every: usize,
    calls: usize,
}

impl Placement for Maintained {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.regions.seed(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        self.regions.start(table);
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        self.calls += 1;
        if self.calls.is_multiple_of(self.every) {
            self.regions.maintain(table);
            self.regions.validate(table);
        }
        self.regions.allocate(table, request, owner)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        self.regions.free(table, frame, cpu);
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        self.regions.free_blocks(zone)
    }

    fn cached_frames(&self) -> u64 {
        self.regions.cached_frames()
    }

    fn counters(&self) -> Vec<Counter> {
        self.regions.counters()
    }

    fn validate(&self, table: &FrameTable) {
        self.regions.validate(table);
    }
}

fn config() -> impl Strategy<Value = Config> {
    let bias = prop::sample::select(&[Bias::Furthest, Bias::SmallestBlock]);
    (0..1024u64, 0..64u64, 1..20u64, bias).prop_map(|(initial, low, step, bias)| Config {
        initial_per_1024: initial,
        low_per_1024: low,
        step_pageblocks: step,
        bias,
        ..Config::default()
    })
}

/// Two nodes: a PC's zones and a Movable zone on the first, one Normal zone on the second.
fn two_nodes() -> Layout {
    let zone = |node, kind, start: u64, end: u64| ZoneSpan {
        node,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks { min: 16, low: 20, high: 24 },
        lowmem_reserve: std::array::from_fn(|k| if k > kind as usize { 64 } else { 0 }),
    };
    Layout::new(vec![
        zone(0, ZoneKind::Dma, 1, 2048),
        zone(0, ZoneKind::Normal, 2048, 6144),
        zone(0, ZoneKind::Movable, 6144, 8192),
        zone(1, ZoneKind::Normal, 8192, 8192 + 3000),
    ])
    .unwrap()
}

/// No frame of the wrong kind on either side, told from the table alone.
fn confined(regions: &Regions, table: &FrameTable, layout: &Layout) {
    for zone in layout.zones() {
        let border = regions.border(zone.span.node).unwrap();
        for pageblock in zone.start.pageblock()..=Frame(zone.end.0 - 1).pageblock() {
            let counts = table.blocks()[pageblock];
            if (pageblock as u32) << 9 < border.0 {
                assert_eq!(counts.movable, 0, "pageblock {pageblock} below {border:?}");
            } else {
                assert_eq!(counts.unmovable, 0, "pageblock {pageblock} above {border:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn agrees_with_a_plain_model_and_never_mixes(
        config in config(),
        every in 1..20usize,
        steps in prop::collection::vec(model::step(10), 1..160),
    ) {
        let layout = model::layout();
        let regions = Regions::new(&layout, config);
        let mut placement = Maintained { regions, every, calls: 0 };
        model::exercise(&mut placement, &layout, &steps, |placement, table| {
            confined(&placement.regions, table, &layout);
        });
    }

    #[test]
    fn never_mixes_on_two_nodes(
        config in config(),
        every in 1..20usize,
        steps in prop::collection::vec(model::step(10), 1..160),
    ) {
        let layout = two_nodes();
        let regions = Regions::new(&layout, config);
        let mut placement = Maintained { regions, every, calls: 0 };
        model::exercise(&mut placement, &layout, &steps, |placement, table| {
            confined(&placement.regions, table, &layout);
        });
    }
}
