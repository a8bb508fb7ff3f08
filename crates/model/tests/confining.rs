//! The regions daemon on a simulated Linux: it sets the regions up, lets the kernel region grow and
//! shrink, and leaves everything whole.
#![allow(missing_docs)]

use std::time::Duration;

use prairie_frames::placement::linux::{Config, Linux};
use prairie_frames::placement::{Counter, Placement, Request, Surroundings};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{FrameTable, Layout, MigrateType, Order, ZoneKind};
use prairie_model::compacting::Compacting;
use prairie_model::confining::{AroundLinux, Confining};
use prairie_model::zones::{Architecture, Marks, Shape, layout};
use proptest::prelude::*;

/// Frames of a MiB.
const MIB: u64 = 256;
/// Frames of a memory block: 128 MiB.
const BLOCK: u64 = 1 << 15;

/// 2 GiB, 256 MiB of it below 4 GiB.
fn machine() -> Layout {
    let shape = Shape {
        frames: 2048 * MIB,
        nodes: 1,
        architecture: Architecture::X86_64,
        kernelcore: None,
        marks: Marks::Linux6 { scale_factor: 10, huge_pages: true },
        low: Some(256 * MIB),
        min_free: None,
    };
    layout(&shape).unwrap()
}

struct Host<P> {
    table: FrameTable,
    confining: Confining<P>,
    live: Vec<(Owner, Order)>,
    next: Owner,
    now: Duration,
}

fn host() -> Host<Linux> {
    with(|layout| Linux::new(layout, Config::default()))
}

fn with<P: AroundLinux>(build: impl Fn(&Layout) -> P) -> Host<P> {
    let (plain, hotplug) = (machine(), machine().with_hotplug());
    let mut table = FrameTable::with_owners(plain.frames(), 1 << 26);
    let mut confining = Confining::new(&hotplug, build(&hotplug), BLOCK, true);
    confining.boot(&mut table, &plain);
    Host { table, confining, live: Vec::new(), next: 0, now: Duration::ZERO }
}

impl<P: AroundLinux> Host<P> {
    fn allocate(&mut self, mib: u64, migrate_type: MigrateType) -> u64 {
        let movable = migrate_type == MigrateType::Movable;
        let order = Order::new(if movable { 0 } else { 2 }).unwrap();
        let request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            ..Request::default()
        };
        let mut came = 0;
        while came < mib * MIB {
            let owner = self.next.next_multiple_of(4);
            if self.confining.allocate(&mut self.table, &request, owner).is_none() {
                break;
            }
            self.next = owner + order.frames() as Owner;
            self.live.push((owner, order));
            came += order.frames();
        }
        came / MIB
    }

    fn free(&mut self, at: usize) {
        let (mut owner, order) = self.live.swap_remove(at);
        let end = owner + order.frames() as Owner;
        while owner < end {
            let frame = self.table.block_of(owner).expect("it lies somewhere");
            owner += self.table.order(frame).frames() as Owner;
            self.confining.free(&mut self.table, frame, 0);
        }
    }

    /// Lets time pass, with page cache among the movable memory.
    fn pass(&mut self, time: Duration, cache_mib: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(250);
            let now_ns = self.now.as_nanos() as u64;
            self.confining.observe(Surroundings { now_ns, cache: cache_mib * MIB });
            self.confining.maintain(&mut self.table);
        }
    }

    fn count(&self, name: &str) -> u64 {
        let counters: Vec<Counter> = self.confining.counters();
        counters.iter().find(|counter| counter.name == name).expect("a counter").value
    }

    fn movable_mib(&self) -> u64 {
        self.count("movable_zone_frames") / MIB
    }
}

#[test]
fn the_regions_are_set_up_before_anything_else() {
    let host = host();
    host.confining.validate(&host.table);
    // A fifth of 2 GiB stays the kernel's, in whole blocks of 128 MiB.
    assert_eq!(host.movable_mib(), 12 * 128);
    assert_eq!(host.count("blocks_to_movable"), 12);
    assert_eq!(host.count("blocks_refused"), 0);
    assert!(!host.confining.daemon().is_busy());
    // Zones count as on a machine without the daemon.
    let free: u64 = (0..3).map(|zone| host.confining.free_frames(zone)).sum();
    assert_eq!(free + host.confining.cached_frames(), 2048 * MIB);
}

#[test]
fn the_kernel_region_grows_before_it_is_used_up_and_shrinks_after() {
    let mut host = host();
    for _ in 0..60 {
        assert_eq!(host.allocate(16, MigrateType::Unmovable), 16);
        host.pass(Duration::from_millis(250), 0);
        host.confining.validate(&host.table);
    }
    let grown = host.count("blocks_to_kernel");
    assert!(grown >= 5, "{grown} blocks for 960 MiB");
    assert_eq!(host.count("below_min"), 0, "no request found the kernel zones low");
    while !host.live.is_empty() {
        host.free(host.live.len() - 1);
    }
    // For ten minutes after a shortage nothing shrinks; there was none.
    host.pass(Duration::from_secs(900), 0);
    assert!(!host.confining.daemon().is_busy());
    assert_eq!(host.movable_mib(), 12 * 128, "all blocks are back");
    host.confining.validate(&host.table);
}

#[test]
fn user_memory_uses_the_movable_zone_first_and_borrows() {
    let mut host = host();
    assert_eq!(host.allocate(1500, MigrateType::Movable), 1500);
    let [kernel, movable] = host.free_mib();
    assert!(kernel > 450 && movable < 60, "{kernel} {movable}");
    assert!(host.allocate(300, MigrateType::Movable) > 200, "it borrows");
    host.pass(Duration::from_secs(5), 0);
    host.confining.validate(&host.table);
}

impl<P: AroundLinux> Host<P> {
    fn free_mib(&self) -> [u64; 2] {
        let linux = self.confining.placement().linux();
        let mut free = [0; 2];
        for (at, zone) in linux.live_zones().enumerate() {
            free[usize::from(zone.interleaved)] += linux.free_frames(at);
        }
        free.map(|frames| frames / MIB)
    }
}

/// Full of page cache, a block can be emptied only when reclaim has made room.
#[test]
fn reclaim_is_asked_for_room() {
    let mut host = host();
    host.allocate(1500, MigrateType::Movable);
    let mut asked = 0;
    for _ in 0..60 {
        host.allocate(8, MigrateType::Unmovable);
        host.pass(Duration::from_millis(250), 1400);
        let wanted = host.confining.take_boost();
        // Reclaim frees what was used first.
        (0..wanted).for_each(|_| host.free(0));
        asked += wanted;
    }
    assert!(asked > 0, "no room, and nobody was asked for any");
    host.pass(Duration::from_secs(5), 1000);
    assert!(host.count("blocks_to_kernel") > 0);
    assert!(host.count("blocks_frames_moved") > 0);
    host.confining.validate(&host.table);
}

#[derive(Clone, Debug)]
enum Act {
    Allocate(u64, MigrateType),
    Free(u64, bool),
    Pin(prop::sample::Index),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let types = prop::sample::select(&[
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ]);
    prop_oneof![
        4 => (1..300u64, types).prop_map(|(mib, migrate_type)| Act::Allocate(mib, migrate_type)),
        3 => (1..60_000u64, any::<bool>()).prop_map(|(blocks, first)| Act::Free(blocks, first)),
        2 => any::<prop::sample::Index>().prop_map(Act::Pin),
        4 => (1..120u64).prop_map(Act::Pass),
    ]
}

/// What a run comes to: counters, and where everything lies.
fn lived<P: AroundLinux>(mut host: Host<P>, acts: &[Act]) -> (Vec<Counter>, Vec<[u16; 4]>) {
    for act in acts {
        match *act {
            Act::Allocate(mib, migrate_type) => {
                host.allocate(mib, migrate_type);
            }
            Act::Free(blocks, first) => {
                for _ in 0..blocks.min(host.live.len() as u64) {
                    host.free(if first { 0 } else { host.live.len() / 2 });
                }
            }
            Act::Pin(which) if !host.live.is_empty() => {
                let (owner, order) = host.live[which.index(host.live.len())];
                host.confining.pin_block(&mut host.table, owner, order);
            }
            Act::Pin(_) => {}
            Act::Pass(seconds) => host.pass(Duration::from_secs(seconds), 0),
        }
        // Every frame is somewhere, and no unmovable one in the movable zone.
        host.confining.validate(&host.table);
    }
    host.pass(Duration::from_secs(20), 0);
    let linux = host.confining.placement().linux();
    let managed: u64 = linux.live_zones().map(|zone| zone.span.managed).sum();
    assert_eq!(managed, 2048 * MIB);
    assert!(!host.confining.daemon().is_busy(), "a block is offline");
    let blocks = host.table.blocks().iter().map(|b| [b.free, b.movable, b.unmovable, b.unknown]);
    (host.confining.counters(), blocks.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn nothing_is_lost_and_runs_repeat(acts in prop::collection::vec(act(), 1..16)) {
        let once = lived(host(), &acts);
        prop_assert!(once == lived(host(), &acts), "two runs differ");
        let compacting = |layout: &Layout| {
            let linux = Linux::new(layout, Config::default());
            Compacting::new(layout, linux, false).without_reclaim()
        };
        lived(with(compacting), &acts);
    }
}
