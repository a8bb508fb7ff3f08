//! Contiguitas complete: pins, hardware, long-lived memory, and a border under hostile demand.

mod model;
mod regions_machine;

use std::collections::BTreeMap;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::regions::{Config, Hardware, Region, Regions};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, ZoneKind};
use proptest::prelude::*;
use regions_machine::{Machine, PAGEBLOCK, order, zone};

use MigrateType::{Movable, Unmovable};

const SINGLE: Order = Order::BASE;

/// As `Machine::simple`, with another configuration.
fn machine(pageblocks: u32, unmovable: u32, change: impl Fn(&mut Config)) -> Machine {
    let mut config =
        Config { initial_frames: vec![(0, u64::from(unmovable * PAGEBLOCK))], ..Config::default() };
    change(&mut config);
    let frames = u64::from(pageblocks * PAGEBLOCK);
    Machine::bare(vec![zone(0, ZoneKind::Normal, 0, frames)], config).started()
}

#[test]
fn a_page_moves_beside_the_border_before_it_is_pinned() {
    let mut m = machine(16, 4, |_| {});
    let kernel = m.allocate(SINGLE, Unmovable).unwrap();
    let page = m.allocate(SINGLE, Movable).unwrap();
    assert_eq!(m.at(kernel), 0, "far from the border");
    assert!(m.at(page) >= 4 * PAGEBLOCK);
    m.regions.note_moves();
    let from = m.at(page);
    m.regions.pin(&mut m.table, page).unwrap();
    // The order 0 block nearest the border: the rest of what the kernel's page was cut from.
    assert_eq!(m.at(page), 1);
    assert_eq!(m.table.mobility(Frame(m.at(page))), Mobility::Unmovable);
    let moves = m.regions.take_moves();
    assert_eq!((moves.len(), moves[0].owner, moves[0].from.0), (1, page, from));
    assert_eq!((m.counter("pinned"), m.counter("shootdowns")), (1, 1));
    m.validate();
    // Pinned again, it stays.
    m.regions.pin(&mut m.table, page).unwrap();
    assert_eq!(m.counter("pages_moved"), 1);
    // Where only a large block is left, it is cut from its end at the border.
    let mut m = machine(16, 4, |_| {});
    let page = m.allocate(SINGLE, Movable).unwrap();
    m.regions.pin(&mut m.table, page).unwrap();
    assert_eq!(m.at(page), 4 * PAGEBLOCK - 1);
    m.validate();
}

#[test]
fn an_unpinned_page_goes_back_from_beside_the_border_alone() {
    let mut m = machine(64, 16, |config| config.low_per_1024 = 8);
    let near = m.allocate(SINGLE, Movable).unwrap();
    m.regions.pin(&mut m.table, near).unwrap();
    assert_eq!(m.at(near), 16 * PAGEBLOCK - 1);
    let far = m.allocate(SINGLE, Unmovable).unwrap();
    assert!(m.regions.unpin(&mut m.table, near), "it lies beside the border");
    assert!(m.at(near) >= 16 * PAGEBLOCK);
    assert_eq!(m.table.mobility(Frame(m.at(near))), Mobility::Movable);
    assert!(!m.regions.unpin(&mut m.table, far), "a copy would buy nothing");
    assert_eq!((m.counter("unpinned"), m.counter("unpinned_in_place")), (1, 1));
    assert!(!m.regions.unpin(&mut m.table, near), "it is movable already");
    m.validate();
}

#[test]
fn a_pin_that_finds_no_block_of_its_size_comes_in_pieces_and_is_refused_without_room() {
    // One unmovable pageblock, of which every second page is in use; all other memory is full.
    let mut m = machine(4, 1, |config| config.low_per_1024 = 0);
    let kernel: Vec<Owner> = (0..512).map(|_| m.allocate(SINGLE, Unmovable).unwrap()).collect();
    let huge: Vec<Owner> = (0..3).map(|_| m.allocate(Order::HUGE, Movable).unwrap()).collect();
    for &owner in kernel.iter().step_by(2) {
        m.free(owner);
    }
    // 256 single pages are free, and nothing can move out of the way: half of it finds room.
    assert!(m.regions.pin(&mut m.table, huge[0]).is_err());
    assert_eq!(m.counter("pins_refused"), 1);
    assert_eq!(m.counter("pinned"), 256);
    let pieces: Vec<_> = model::pieces(&m.table, huge[0], Order::HUGE);
    let pinned = pieces.iter().filter(|(_, frame, _)| frame.0 < 512).count();
    assert_eq!(pinned, 256);
    for (_, frame, _) in pieces {
        let expected = if frame.0 < 512 { Mobility::Unmovable } else { Mobility::Movable };
        assert_eq!(m.table.mobility(frame), expected);
    }
    m.validate();
}

#[test]
fn what_is_held_for_good_lies_at_the_far_end() {
    let mut m = machine(16, 8, |_| {});
    let early = m.allocate(order(4), Unmovable).unwrap();
    // An ordinary request takes the smallest block that suffices; the next 2 MiB are whole.
    let request = Request { order: order(2), permanent: true, ..Request::default() };
    m.free(early);
    let owner = 1 << 12;
    let frame = m.regions.allocate(&mut m.table, &request, owner).unwrap();
    assert_eq!(frame, Frame(0));
    let hole = m.allocate(SINGLE, Unmovable).unwrap();
    assert_eq!(m.at(hole), 4);
    let next = m.regions.allocate(&mut m.table, &request, owner + 4).unwrap();
    assert_eq!(next, Frame(8));
    assert_eq!(m.counter("long_lived"), 2);
    m.validate();
}

/// With hardware, unmovable pages beside the border are no obstacle to it.
#[test]
fn hardware_lets_the_border_pass_unmovable_pages() {
    let shrunk = |hardware: Option<Hardware>| {
        let mut m = machine(64, 16, |config| {
            config.hardware = hardware;
            config.low_per_1024 = 8;
        });
        // The region fills up, and most of it is freed again but for a page in each pageblock.
        let all: Vec<Owner> =
            (0..16 * PAGEBLOCK - 8).map(|_| m.allocate(SINGLE, Unmovable).unwrap()).collect();
        for (at, &owner) in all.iter().enumerate() {
            if at % 512 != 100 {
                m.free(owner);
            }
        }
        let border = m.border();
        for _ in 0..40 {
            m.maintain();
            m.validate();
        }
        (border, m.border(), m.counter("pages_moved_by_hardware"), m.counter("hardware_ns"))
    };
    let (before, after, moved, _) = shrunk(None);
    assert!(before - after <= 1 && moved == 0, "a page in each pageblock holds it");
    let (_, after, moved, cost) = shrunk(Some(Hardware { ns_per_page: 1000 }));
    assert!(after <= 4, "border at {after}");
    assert!((10..=40).contains(&moved), "{moved} pages");
    assert_eq!(cost, moved * 1000);
}

/// Movable memory above the border can be compacted as Linux does it, and nothing else moves.
#[test]
fn compaction_works_above_the_border() {
    use prairie_frames::compaction::{Compactor, Plain};
    let mut m = machine(16, 4, |_| {});
    let kernel: Vec<Owner> = (0..1024).map(|_| m.allocate(SINGLE, Unmovable).unwrap()).collect();
    let pages: Vec<Owner> = (0..12 * 512).map(|_| m.allocate(SINGLE, Movable).unwrap()).collect();
    for owner in kernel.iter().chain(&pages).step_by(2) {
        m.free(*owner);
    }
    let places: Vec<u32> = kernel.iter().skip(1).step_by(2).map(|&owner| m.at(owner)).collect();
    // What lies on a list is invisible to compaction, as in the kernel.
    m.drain();
    let free_huge = |m: &Machine| m.regions.free_counts(0)[9] + 2 * m.regions.free_counts(0)[10];
    let before = free_huge(&m);
    let mut compactor = Compactor::new(&m.layout);
    let (table, regions) = (&mut m.table, &mut m.regions);
    let cost = compactor.whole(table, regions, &mut Plain, [0].into_iter(), None);
    m.validate();
    assert!(cost.moved >= 5 * 256, "{cost:?}");
    assert!(free_huge(&m) >= before + 5);
    let after: Vec<u32> = kernel.iter().skip(1).step_by(2).map(|&owner| m.at(owner)).collect();
    assert_eq!(places, after);
}

/// Free blocks of the other region serve nobody above the border, and a request for memory below it
/// gains nothing from compaction.
#[test]
fn compaction_for_a_request_looks_at_its_own_region_alone() {
    use prairie_frames::compaction::{Compactor, Direct, Outcome, Plain, Priority};
    let mut m = machine(16, 4, |_| {});
    let pages: Vec<Owner> = (0..12 * 512).map(|_| m.allocate(SINGLE, Movable).unwrap()).collect();
    for owner in pages.iter().step_by(2) {
        m.free(*owner);
    }
    m.drain();
    let mut compactor = Compactor::new(&m.layout);
    compactor.extfrag_threshold = 0;
    let mut compact = |m: &mut Machine, migrate_type| {
        let (highest_zone, priority) = (ZoneKind::Normal, Priority::SyncLight);
        let request = Direct { order: Order::HUGE, migrate_type, highest_zone, priority };
        compactor.direct(&mut m.table, &mut m.regions, &mut Plain, &[0], request)
    };
    let movable = |m: &Machine| m.regions.movable_counts(0)[9..].iter().sum::<u64>();
    assert!(m.regions.free_counts(0)[10] > 0, "the unmovable region is empty");
    assert_eq!(movable(&m), 0);
    let (outcome, cost) = compact(&mut m, Unmovable);
    assert_eq!((outcome, cost.moved), (Outcome::Skipped, 0));
    let (outcome, cost) = compact(&mut m, Movable);
    assert_eq!(outcome, Outcome::Success);
    assert!(cost.moved >= 256 && movable(&m) > 0, "{cost:?}");
    m.validate();
}

/// What may happen to a machine.
#[derive(Clone, Debug)]
enum Step {
    Allocate { order: u8, movable: bool, times: u8 },
    Free { which: prop::sample::Index, times: u8 },
    Pin { which: prop::sample::Index },
    Unpin { which: prop::sample::Index },
    Pressure { unmovable: u32, movable: u32 },
    WakeUp,
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    let order = prop_oneof![6 => 0..=1u8, 2 => 0..=4u8, 1 => 0..=9u8];
    prop_oneof![
        8 => (order, any::<bool>(), 1..60u8)
            .prop_map(|(order, movable, times)| Step::Allocate { order, movable, times }),
        6 => (which(), 1..80u8).prop_map(|(which, times)| Step::Free { which, times }),
        4 => which().prop_map(|which| Step::Pin { which }),
        3 => which().prop_map(|which| Step::Unpin { which }),
        1 => (0..300u32, 0..300u32)
            .prop_map(|(unmovable, movable)| Step::Pressure { unmovable, movable }),
        3 => Just(Step::WakeUp),
    ]
}

/// Two zones of 8 MiB each.
const FRAMES: u32 = 8192;

/// What each frame holds: the tag of its owner, moved only where the placement says that it moved.
struct Content {
    tags: Vec<Option<Owner>>,
}

impl Content {
    fn follow(&mut self, regions: &mut Regions) {
        for moved in regions.take_moves() {
            for at in 0..moved.order.frames() as usize {
                let tag = self.tags[moved.from.index() + at].take();
                assert_eq!(tag, Some(moved.owner + at as u32), "{moved:?}: not its content");
                let old = self.tags[moved.to.index() + at].replace(tag.unwrap());
                assert_eq!(old, None, "{moved:?}: onto somebody's content");
            }
        }
    }

    fn check(&self, table: &FrameTable, live: &BTreeMap<Owner, Order>) {
        let mut seen = 0;
        for (&owner, &order) in live {
            for (first, frame, order) in model::pieces(table, owner, order) {
                for at in 0..order.frames() as u32 {
                    assert_eq!(self.tags[frame.index() + at as usize], Some(first + at));
                    seen += 1;
                }
            }
        }
        assert_eq!(self.tags.iter().flatten().count(), seen, "content of nobody");
    }
}

/// Whether the unmovable region could still have grown by a pageblock for a single page.
fn could_have_grown(regions: &Regions, table: &FrameTable) -> bool {
    let border = regions.border(0).unwrap();
    if border.0 >= FRAMES {
        return false;
    }
    let block = table.block(border);
    let room = regions.free_frames(0, Region::Movable) - u64::from(block.free);
    block.free + block.movable > 0 && u64::from(block.movable) <= room
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn hostile_sequences_keep_content_confinement_and_sizes(
        steps in prop::collection::vec(step(), 1..90),
        initial in 0..12u64,
        hardware in any::<bool>(),
        low in 0..32u64,
    ) {
        let config = Config {
            initial_frames: vec![(0, initial * 512)],
            low_per_1024: low,
            hardware: hardware.then(Hardware::default),
            ..Config::default()
        };
        let zones = vec![
            zone(0, ZoneKind::Dma32, 0, 4096),
            zone(0, ZoneKind::Normal, 4096, u64::from(FRAMES)),
        ];
        let layout = Layout::new(zones).unwrap();
        let mut table = FrameTable::new(&layout);
        let mut regions = Regions::new(&layout, config);
        regions.boot(&mut table, &layout);
        regions.note_moves();
        let mut content = Content { tags: vec![None; FRAMES as usize] };
        let mut live: BTreeMap<Owner, Order> = BTreeMap::new();
        let mut next_owner: Owner = 0;
        for step in steps {
            let pick = |live: &BTreeMap<Owner, Order>, which: prop::sample::Index| {
                (!live.is_empty()).then(|| *live.keys().nth(which.index(live.len())).unwrap())
            };
            match step {
                Step::Allocate { order: of_order, movable, times } => {
                    let order = order(of_order);
                    let migrate_type = if movable { Movable } else { Unmovable };
                    for _ in 0..times {
                        let mobility = mobility_of(migrate_type);
                        let request = Request { order, migrate_type, mobility, ..Request::default() };
                        next_owner = next_owner.next_multiple_of(order.frames() as u32);
                        if u64::from(next_owner) + order.frames() > table.owners() {
                            break;
                        }
                        let Some(frame) = regions.allocate(&mut table, &request, next_owner) else {
                            prop_assert!(
                                movable || of_order > 0 || !could_have_grown(&regions, &table),
                                "a page was refused to the unmovable region, which could have grown"
                            );
                            break;
                        };
                        content.follow(&mut regions);
                        for at in 0..order.frames() as u32 {
                            let old = content.tags[(frame.0 + at) as usize].replace(next_owner + at);
                            prop_assert_eq!(old, None, "somebody's content");
                        }
                        live.insert(next_owner, order);
                        next_owner += order.frames() as u32;
                    }
                }
                Step::Free { which, times } => {
                    for _ in 0..times {
                        let Some(owner) = pick(&live, which) else { break };
                        let order = live.remove(&owner).unwrap();
                        for (_, frame, order) in model::pieces(&table, owner, order) {
                            content.tags[frame.index()..][..order.frames() as usize].fill(None);
                        }
                        model::free(&mut regions, &mut table, owner, order, 0);
                    }
                }
                Step::Pin { which } => {
                    if let Some(owner) = pick(&live, which) {
                        let pinned = regions.pin(&mut table, owner);
                        let home = |table: &FrameTable| {
                            let at = table.block_of(owner).unwrap();
                            (regions.region(at), table.mobility(at))
                        };
                        if pinned.is_ok() {
                            let expected = (Some(Region::Unmovable), Mobility::Unmovable);
                            prop_assert_eq!(home(&table), expected);
                        }
                    }
                }
                Step::Unpin { which } => {
                    if let Some(owner) = pick(&live, which) {
                        let back = regions.unpin(&mut table, owner);
                        let at = table.block_of(owner).unwrap();
                        prop_assert!(!back || regions.region(at) == Some(Region::Movable));
                    }
                }
                Step::Pressure { unmovable, movable } => {
                    regions.report_pressure(0, [unmovable, movable]);
                }
                Step::WakeUp => regions.maintain(&mut table),
            }
            content.follow(&mut regions);
            content.check(&table, &live);
            regions.validate(&table);
            let border = regions.border(0).unwrap();
            prop_assert!(border.0.is_multiple_of(512) && border.0 <= FRAMES, "{border:?} cuts a pageblock");
            let blocks: u64 = (0..2).flat_map(|zone| regions.pageblocks(zone).unwrap()).sum();
            prop_assert_eq!(blocks, u64::from(FRAMES / 512), "the regions add up");
            let free = Region::ALL.map(|region| regions.free_frames(0, region)).iter().sum::<u64>();
            let used: u64 = live.values().map(|order| order.frames()).sum();
            prop_assert_eq!(free + used, u64::from(FRAMES));
        }
    }
}

/// A demand that swings with every wake-up moves the border now and then, not with it; and neither
/// side starves.
#[test]
fn a_swinging_demand_does_not_shake_the_border() {
    let mut results = Vec::new();
    for (hold, weight) in [(0, 0), (8, 0), (8, 50)] {
        let mut m = machine(128, 16, |config| {
            config.low_per_1024 = 32;
            config.tuning.hold = hold;
            config.tuning.weight = [weight, weight];
        });
        // The movable region is nearly full, so that each side always wants what the other has.
        let room = (128 - 16 - 8) * PAGEBLOCK;
        let _pages: Vec<Owner> = (0..room).map(|_| m.allocate(SINGLE, Movable).unwrap()).collect();
        let mut swing: Vec<Owner> = Vec::new();
        let wake_ups = 400;
        for period in 0..wake_ups {
            if period % 2 == 0 {
                let wanted = 14 * PAGEBLOCK as usize;
                swing.extend((0..wanted).map(|_| m.allocate(SINGLE, Unmovable).expect("room")));
            } else {
                std::mem::take(&mut swing).into_iter().for_each(|owner| m.free_all(owner, SINGLE));
            }
            m.maintain();
        }
        m.validate();
        assert_eq!(m.counter("failed_unmovable") + m.counter("failed_movable"), 0);
        let (resizes, moved) = (m.counter("resizes"), m.counter("growths") + m.counter("shrinks"));
        results.push((resizes, moved));
    }
    let [(free, far), (held, near), (pressed, ..)] = results[..] else { panic!("three runs") };
    assert_eq!(free, 400, "without a hold it follows each swing");
    assert!(
        held * 4 <= free && near * 4 <= far,
        "{held} of {free} resizes, {near} of {far} blocks"
    );
    assert!(pressed <= held, "{pressed} with pressure, {held} without");
}

/// Pressure moves the border where free memory alone would not.
#[test]
fn pressure_moves_the_border_by_the_formula() {
    let mut m = machine(128, 32, |config| config.low_per_1024 = 16);
    let half = 20 * PAGEBLOCK;
    for _ in 0..half {
        m.allocate(SINGLE, Unmovable).unwrap();
    }
    // The surplus goes at once; turning round has to wait for eight wake-ups.
    (0..9).for_each(|_| m.maintain());
    let before = m.border();
    m.regions.report_pressure(0, [30, 0]);
    assert!(m.regions.is_resize_due(0));
    m.maintain();
    // At thrice the threshold, the target and 15 % of the region beyond.
    let size = before * PAGEBLOCK;
    let free = (m.border() - 20) * PAGEBLOCK;
    let target = 2 * 2 * PAGEBLOCK;
    assert!(m.border() > before && free >= target + size * 15 / 100, "{before} to {}", m.border());
    // Equal pressure on both sides moves nothing.
    m.regions.report_pressure(0, [500, 500]);
    let now = m.border();
    m.maintain();
    assert_eq!(m.border(), now);
    m.validate();
}

/// As between the memory below 4 GiB and that above. What pressure moves the border by is a share of
/// the region's memory, not of its addresses.
#[test]
fn a_hole_is_no_part_of_a_region() {
    let moved = |hole: u32| {
        let zones = vec![ZoneSpan {
            managed: u64::from(128 * PAGEBLOCK),
            watermarks: Watermarks { min: 600, low: 900, high: 1200 },
            ..zone(0, ZoneKind::Normal, 0, u64::from((128 + hole) * PAGEBLOCK))
        }];
        let border = u64::from((32 + hole) * PAGEBLOCK);
        let config = Config { initial_frames: vec![(0, border)], ..Config::default() };
        let hole = 16 * PAGEBLOCK..(16 + hole) * PAGEBLOCK;
        let mut m = Machine::bare(zones, config).started_with_hole(hole.clone());
        let border = |m: &Machine| m.border() - (hole.end - hole.start) / PAGEBLOCK;
        for _ in 0..20 * PAGEBLOCK {
            m.allocate(SINGLE, Unmovable).unwrap();
        }
        (0..9).for_each(|_| m.maintain());
        let calm = border(&m);
        m.regions.report_pressure(0, [30, 0]);
        m.maintain();
        m.validate();
        (calm, border(&m))
    };
    let whole = moved(0);
    assert!(whole.1 > whole.0, "{whole:?}");
    assert_eq!(moved(64), whole);
}

/// Where nobody measures stalls, requests that found their region low stand for them.
#[test]
fn a_burst_counts_as_pressure_and_moves_the_border_beyond_its_target() {
    let border_after = |weight: u32| {
        let mut m = machine(256, 16, |config| config.tuning.weight = [weight, weight]);
        for _ in 0..12 * PAGEBLOCK {
            m.allocate(SINGLE, Unmovable).unwrap();
        }
        m.maintain();
        // Twice what is left, between two wake-ups.
        for _ in 0..8 * PAGEBLOCK {
            m.allocate(SINGLE, Unmovable).unwrap();
        }
        m.maintain();
        m.validate();
        (m.border(), m.regions.pressure(0, Region::Unmovable), m.counter("grown_on_failure"))
    };
    let (calm, pressure, at_once) = border_after(0);
    assert!(pressure >= 10 && at_once >= 3, "{pressure} thousandths, {at_once} at once");
    let (pressed, ..) = border_after(50);
    assert!(pressed > calm, "{calm} without pressure and {pressed} with it");
}
