//! The placement with two regions and a moving border: confinement under any mix of requests.

mod model;
mod regions_machine;

use prairie_frames::layout::{Layout, Watermarks, ZoneSpan};
use prairie_frames::placement::regions::{Config, Regions};
use prairie_frames::placement::{Counter, Placement, Request, gfp};
use prairie_frames::table::{Owner, State};
use prairie_frames::{Frame, FrameTable, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;
use regions_machine::{Machine, Random, order};

/// `Regions` with `maintain` called at a fixed interval of allocations, as periodic reclaim would.
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

    fn free_frames(&self, zone: usize) -> u64 {
        Placement::free_frames(&self.regions, zone)
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
    let bands = prop::array::uniform2(prop::sample::select(&[0u64, 128, 512, 1024]));
    (0..1024u64, 0..64u64, 1..20u64, bands).prop_map(|(initial, low, step, bands)| Config {
        initial_per_1024: initial,
        low_per_1024: low,
        step_pageblocks: step,
        band_per_1024: bands,
        ..Config::default()
    })
}

/// Two nodes: a PC's zones and a Movable zone on the first, one Normal zone on the second.
fn two_nodes() -> Vec<ZoneSpan> {
    let zone = |node, kind, start: u64, end: u64| ZoneSpan {
        node,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks { min: 16, low: 20, high: 24 },
        lowmem_reserve: std::array::from_fn(|k| if k > kind as usize { 64 } else { 0 }),
    };
    vec![
        zone(0, ZoneKind::Dma, 1, 2048),
        zone(0, ZoneKind::Normal, 2048, 6144),
        zone(0, ZoneKind::Movable, 6144, 8192),
        zone(1, ZoneKind::Normal, 8192, 8192 + 3000),
    ]
}

/// No frame of the wrong kind on either side, by the table alone.
fn confined(regions: &Regions, table: &FrameTable, layout: &Layout, reserved: bool) {
    for zone in layout.zones() {
        let border = regions.border(zone.span.node).unwrap();
        for pageblock in zone.start.pageblock()..=Frame(zone.end.0 - 1).pageblock() {
            let counts = table.blocks()[pageblock];
            if (pageblock as u32) << 9 < border.0 {
                assert_eq!(counts.movable, 0, "pageblock {pageblock} below {border:?}");
            } else if !reserved {
                assert_eq!(counts.unmovable, 0, "pageblock {pageblock} above {border:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

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
            confined(&placement.regions, table, &layout, false);
        });
    }
}

/// What two nodes may go through in a long life, from one number.
struct Life {
    machine: Machine,
    random: Random,
    live: Vec<(Owner, Order)>,
}

impl Life {
    /// A machine that comes with memory in use on both sides of its borders, and with reserved
    /// frames here and there.
    fn new(config: Config, seed: u64) -> Life {
        let mut random = Random::new(seed);
        let mut machine = Machine::bare(two_nodes(), config);
        let mut live = Vec::new();
        for _ in 0..random.below(96) {
            let size = order(random.pick(&[0, 0, 1, 4, 9, 10, 11]));
            let zone = machine.layout.zones()[random.below(4) as usize].clone();
            let at =
                Frame(zone.start.0 + random.below(u64::from(zone.end.0 - zone.start.0)) as u32);
            let at = at.align_down(size);
            let absent = |frame| machine.table.state(Frame(frame)) == State::Absent;
            let inside = zone.contains(at) && at.offset(size.frames()) <= zone.end;
            if !inside || !(at.0..at.offset(size.frames()).0).all(absent) {
                continue;
            }
            if random.below(4) == 0 {
                let mobility = random.pick(&[Mobility::Unmovable, Mobility::Unknown]);
                machine.table.reserve(at, mobility);
            } else {
                let kind = random.pick(&[MigrateType::Unmovable, MigrateType::Movable]);
                live.push((machine.inherit(at.0, size, kind), size));
            }
        }
        Life { machine: machine.started(), random, live }
    }

    fn step(&mut self, fill: u64) {
        let Life { machine, random, live } = self;
        let what = random.below(100);
        if what < fill {
            let size = random.pick(&[0, 0, 0, 1, 2, 3, 5, 8, 9, 10, 11]);
            let kind = random.pick(&[
                MigrateType::Unmovable,
                MigrateType::Movable,
                MigrateType::Movable,
                MigrateType::Reclaimable,
            ]);
            let highest = random.pick(&[ZoneKind::Dma, ZoneKind::Normal, ZoneKind::Movable]);
            let node = random.below(3) as u16;
            let urgency = random.pick(&[gfp::KERNEL, gfp::KERNEL, gfp::ATOMIC_REQUEST]);
            let got = machine.request(order(size), kind, |request| {
                // No unmovable request has the Movable zone.
                let normal = kind != MigrateType::Movable;
                request.highest_zone = if normal { highest.min(ZoneKind::Normal) } else { highest };
                request.node = node;
                request.gfp_flags = urgency;
            });
            live.extend(got.map(|owner| (owner, order(size))));
        } else if what < 97 && !live.is_empty() {
            let (owner, size) = live.swap_remove(random.below(live.len() as u64) as usize);
            machine.free_all(owner, size);
        } else {
            machine.maintain();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn never_mixes_in_a_long_life(
        config in config(),
        seed in any::<u64>(),
        fill in prop::sample::select(&[45u64, 55, 70]),
    ) {
        let mut life = Life::new(config, seed);
        for step in 0..2000 {
            life.step(fill);
            life.machine.regions.check_confinement(&life.machine.table);
            if step % 200 == 0 {
                life.machine.validate();
            }
        }
        for (owner, size) in std::mem::take(&mut life.live) {
            life.machine.free_all(owner, size);
        }
        life.machine.validate();
        prop_assert_eq!(life.machine.counter("inherited_strays"), 0);
        confined(&life.machine.regions, &life.machine.table, &life.machine.layout, true);
    }
}
