//! Demands that are meant to break the border of Contiguitas: swings of every period, storms of
//! pins, bursts for either side.

mod regions_machine;

use std::collections::BTreeMap;

use prairie_frames::placement::regions::resizer::{Resize, Tuning};
use prairie_frames::placement::regions::{Config, Region};
use prairie_frames::table::Owner;
use prairie_frames::{Frame, MigrateType, Mobility, Order, ZoneKind};
use proptest::prelude::*;
use regions_machine::{Machine, PAGEBLOCK, Random, zone};

use MigrateType::{Movable, Unmovable};

const SINGLE: Order = Order::BASE;
/// Wake-ups of periodic reclaim in a minute, ten a second.
const A_MINUTE: u32 = 600;

fn machine(pageblocks: u32, unmovable: u32, change: impl Fn(&mut Config)) -> Machine {
    let mut config =
        Config { initial_frames: vec![(0, u64::from(unmovable * PAGEBLOCK))], ..Config::default() };
    change(&mut config);
    let frames = u64::from(pageblocks * PAGEBLOCK);
    Machine::bare(vec![zone(0, ZoneKind::Normal, 0, frames)], config).started()
}

/// What a minute of a demand that swings with a period came to.
struct Minute {
    turns: usize,
    moves: u64,
    pages_moved: u64,
}

/// Half of a period the kernel wants `blocks` pageblocks more, the other half it does not; the
/// movable region is nearly full all the time.
fn swing(period: u32, blocks: u32, tuning: Tuning) -> Minute {
    let mut m = machine(128, 16, |config| {
        config.low_per_1024 = 32;
        config.tuning = tuning;
    });
    let room = (128 - 16 - 8) * PAGEBLOCK;
    let _pages: Vec<Owner> = (0..room).map(|_| m.allocate(SINGLE, Movable).unwrap()).collect();
    m.regions.note_decisions();
    let mut held: Vec<Owner> = Vec::new();
    for now in 0..A_MINUTE {
        if now % period == 0 {
            let wanted = blocks * PAGEBLOCK;
            held.extend((0..wanted).map(|_| m.allocate(SINGLE, Unmovable).expect("room")));
        } else if now % period == period / 2 {
            std::mem::take(&mut held).into_iter().for_each(|owner| m.free_all(owner, SINGLE));
        }
        m.maintain();
    }
    m.validate();
    assert_eq!(m.counter("failed_unmovable") + m.counter("failed_movable"), 0, "period {period}");
    let up = |resize: &Resize| matches!(resize, Resize::Grow { .. });
    let decisions = m.regions.take_decisions();
    let moving: Vec<Resize> =
        decisions.iter().map(|d| d.resize).filter(|&resize| resize != Resize::Stay).collect();
    Minute {
        turns: moving.windows(2).filter(|pair| up(&pair[0]) != up(&pair[1])).count(),
        moves: m.counter("growths") + m.counter("shrinks"),
        pages_moved: m.counter("pages_moved"),
    }
}

/// A turn waits for `hold` wake-ups, unless a region is down to half of its low mark. One side is
/// at a time, so that at most every second turn is urgent: at the default of 8 the border turns at
/// most 133 times a minute, whatever the period; with neither hold nor pressure it follows the
/// demand.
#[test]
fn a_demand_of_any_period_turns_the_border_a_bounded_number_of_times() {
    let tuning = Tuning::default();
    let most = (2 * A_MINUTE / (tuning.hold + 1)) as usize;
    println!("period  turns  pageblocks  pages moved, in a minute");
    for period in [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 17, 18, 19, 20, 24, 32, 48, 64, 100] {
        let minute = swing(period, 14, tuning);
        let Minute { turns, moves, pages_moved } = minute;
        println!("{period:6} {turns:6} {moves:11} {pages_moved:12}");
        assert!(turns <= most, "period {period}: {turns} turns");
        // No more than the demand itself has, and each over no more than it swings by.
        let demand = 2 * A_MINUTE.div_ceil(period);
        assert!(turns <= demand as usize + 1, "period {period}: {turns} turns of {demand}");
        assert!(moves <= u64::from(demand + 2) * 28, "period {period}: {moves} pageblocks");
    }
    let free = swing(2, 14, Tuning { hold: 0, weight: [0, 0], ..tuning });
    assert!(free.turns > 2 * most, "with neither {} turns", free.turns);
}

/// Where every page lies, as the placement's own reports of its moves tell it.
struct Places(BTreeMap<Owner, Frame>);

impl Places {
    fn follow(&mut self, m: &mut Machine) {
        for moved in m.regions.take_moves() {
            assert_eq!(moved.order, SINGLE);
            let place = self.0.get_mut(&moved.owner).expect("somebody's page");
            assert_eq!(std::mem::replace(place, moved.to), moved.from, "not its content");
        }
    }

    fn check(&self, m: &Machine) {
        for (&owner, &frame) in &self.0 {
            assert_eq!(m.at(owner), frame.0, "page {owner} has another's content");
        }
    }
}

/// Whether the unmovable region could have grown by the next pageblock.
fn could_have_grown(m: &Machine, frames: u32) -> bool {
    let border = m.regions.border(0).unwrap();
    if border.0 >= frames {
        return false;
    }
    let block = m.table.block(border);
    let room = m.regions.free_frames(0, Region::Movable) - u64::from(block.free);
    block.free + block.movable > 0 && u64::from(block.movable) <= room
}

/// Whether it could have given back its last pageblock and kept its low mark, one pageblock.
fn could_have_shrunk(m: &Machine) -> bool {
    let border = m.regions.border(0).unwrap();
    border.0 >= PAGEBLOCK
        && u32::from(m.table.block(Frame(border.0 - PAGEBLOCK)).free) == PAGEBLOCK
        && m.regions.free_frames(0, Region::Unmovable) >= u64::from(2 * PAGEBLOCK)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Most of a machine's pages are pinned and unpinned in storms.
    #[test]
    fn storms_of_pins(
        storms in prop::collection::vec((1..3000usize, 0..3000usize, 0..4u8), 1..8),
        fill in 40..98u32,
        seed in any::<u64>(),
    ) {
        const PAGEBLOCKS: u32 = 16;
        let mut m = machine(PAGEBLOCKS, 2, |_| {});
        let mut random = Random::new(seed);
        let pages = (PAGEBLOCKS - 2) * PAGEBLOCK * fill / 100;
        let mut user: Vec<Owner> =
            (0..pages).map(|_| m.allocate(SINGLE, Movable).unwrap()).collect();
        let mut places = Places(user.iter().map(|&owner| (owner, Frame(m.at(owner)))).collect());
        m.regions.note_moves();
        let mut pinned: Vec<Owner> = Vec::new();
        for (pins, unpins, wake_ups) in storms {
            for _ in 0..pins.min(user.len()) {
                let owner = user.swap_remove(random.below(user.len() as u64) as usize);
                let granted = m.regions.pin(&mut m.table, owner).is_ok();
                places.follow(&mut m);
                if granted {
                    prop_assert_eq!(m.regions.region(Frame(m.at(owner))), Some(Region::Unmovable));
                    pinned.push(owner);
                } else {
                    prop_assert!(!could_have_grown(&m, PAGEBLOCKS * PAGEBLOCK), "a pin refused");
                    prop_assert_eq!(m.table.mobility(Frame(m.at(owner))), Mobility::Movable);
                    user.push(owner);
                    break;
                }
            }
            for _ in 0..unpins.min(pinned.len()) {
                let owner = pinned.swap_remove(random.below(pinned.len() as u64) as usize);
                let back = m.regions.unpin(&mut m.table, owner);
                places.follow(&mut m);
                if back { user.push(owner) } else {
                    places.0.remove(&owner);
                    m.free_all(owner, SINGLE);
                }
            }
            for _ in 0..wake_ups {
                m.maintain();
                places.follow(&mut m);
            }
            places.check(&m);
            m.validate();
        }
    }

    /// Bursts for either side in turn, each as large as memory allows: a page is refused to one
    /// only where the other has nothing to give.
    #[test]
    fn bursts_starve_no_side(
        bursts in prop::collection::vec((any::<bool>(), 1..9000u32, 0..=100u8, 0..4u8), 1..16),
        initial in 0..16u32,
        seed in any::<u64>(),
    ) {
        const PAGEBLOCKS: u32 = 16;
        let mut m = machine(PAGEBLOCKS, initial, |config| config.low_per_1024 = 0);
        let mut random = Random::new(seed);
        let mut held: [Vec<Owner>; 2] = [Vec::new(), Vec::new()];
        for (movable, pages, kept, wake_ups) in bursts {
            let kind = if movable { Movable } else { Unmovable };
            for _ in 0..pages {
                let Some(owner) = m.allocate(SINGLE, kind) else {
                    let could = if movable { could_have_shrunk(&m) } else {
                        could_have_grown(&m, PAGEBLOCKS * PAGEBLOCK)
                    };
                    prop_assert!(!could, "{kind:?} refused, border at {}", m.border());
                    break;
                };
                held[usize::from(movable)].push(owner);
            }
            let own = &mut held[usize::from(movable)];
            for _ in 0..own.len() * usize::from(100 - kept) / 100 {
                let owner = own.swap_remove(random.below(own.len() as u64) as usize);
                m.free_all(owner, SINGLE);
            }
            (0..wake_ups).for_each(|_| m.maintain());
            m.validate();
            let border = m.border();
            prop_assert!(border <= PAGEBLOCKS);
            let free: u64 = Region::ALL.iter().map(|&side| m.regions.free_frames(0, side)).sum();
            let used = held.iter().map(|side| side.len() as u64).sum::<u64>();
            prop_assert_eq!(free + used, u64::from(PAGEBLOCKS * PAGEBLOCK));
        }
    }
}
