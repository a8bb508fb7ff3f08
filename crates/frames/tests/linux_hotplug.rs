//! Memory blocks that change zones: frames are conserved, no unmovable frame lies in the movable
//! zone, and sizes, watermarks, and reserves follow.

use std::ops::Range;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::{Config, Linux};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

/// Frames of a memory block: 16 MiB.
const BLOCK: u32 = 4096;
/// Blocks of the Normal zone.
const BLOCKS: u32 = 8;

/// A DMA zone of 16 MiB that starts at frame 1, a DMA32 zone as large, and behind a hole eight blocks of Normal.
fn layout() -> Layout {
    let zone = |kind, start: u64, spanned: u64| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned,
        managed: spanned,
        watermarks: Watermarks { min: 64, low: 80, high: 96 },
        lowmem_reserve: [0; 6],
    };
    Layout::new(vec![
        zone(ZoneKind::Dma, 1, 4095),
        zone(ZoneKind::Dma32, 4096, 4096),
        zone(ZoneKind::Normal, 1 << 20, u64::from(BLOCK * BLOCKS)),
    ])
    .unwrap()
    .with_hotplug()
}

const NORMAL: usize = 2;
const MOVABLE: usize = 3;

struct Host {
    layout: Layout,
    table: FrameTable,
    linux: Linux,
    live: Vec<(Owner, Order)>,
    next: Owner,
}

impl Host {
    fn new(config: Config) -> Host {
        let layout = layout();
        let mut table = FrameTable::with_owners(layout.frames(), 1 << 24);
        let mut linux = Linux::new(&layout, config);
        linux.boot(&mut table, &layout);
        Host { layout, table, linux, live: Vec::new(), next: 0 }
    }

    /// A block of the Normal zone.
    fn block(&self, number: u32) -> Range<Frame> {
        let start = self.layout.zones()[NORMAL].start.offset(u64::from(number * BLOCK));
        start..start.offset(u64::from(BLOCK))
    }

    fn allocate(&mut self, order: u8, migrate_type: MigrateType, cpu: u16) -> Option<Frame> {
        let order = Order::new(order).unwrap();
        let movable = migrate_type == MigrateType::Movable;
        let request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            cpu,
            ..Request::default()
        };
        let owner = self.next.next_multiple_of(order.frames() as u32);
        let frame = self.linux.allocate(&mut self.table, &request, owner)?;
        self.next = owner + order.frames() as u32;
        self.live.push((owner, order));
        Some(frame)
    }

    fn free(&mut self, at: usize, cpu: u16) {
        let (owner, order) = self.live.swap_remove(at);
        let (mut at, end) = (owner, owner + order.frames() as u32);
        while at < end {
            let frame = self.table.block_of(at).expect("it lies somewhere");
            at += self.table.order(frame).frames() as u32;
            self.linux.free(&mut self.table, frame, cpu);
        }
    }

    /// Moves a block to a zone; whether that went.
    fn convert(&mut self, number: u32, to: usize) -> bool {
        let range = self.block(number);
        if self.linux.zone_at(range.start) == Some(to) {
            return false;
        }
        self.linux.isolate(&mut self.table, range.clone());
        self.linux.validate(&self.table);
        let mut at = range.start;
        while at < range.end {
            let order = match self.table.state(at) {
                State::Inside => Order::BASE,
                _ => self.table.order(at),
            };
            if self.table.state(at) == State::Allocated && !self.move_out(at) {
                self.linux.end_isolation(&mut self.table);
                return false;
            }
            at = at.offset(order.frames());
        }
        assert!(self.linux.is_offline(&self.table));
        self.linux.online(&mut self.table, to);
        true
    }

    fn move_out(&mut self, from: Frame) -> bool {
        let (order, owner) = (self.table.order(from), self.table.owner(from));
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            highest_zone: ZoneKind::Movable,
            ..Request::default()
        };
        let found = self.table.mobility(from) == Mobility::Movable
            && self.linux.attempt(&mut self.table, &request, owner, Depth::Min).is_some();
        if found {
            self.linux.free(&mut self.table, from, 0);
        }
        found
    }

    fn validate(&self) {
        self.linux.validate(&self.table);
        for (at, block) in self.table.blocks().iter().enumerate() {
            if block.unmovable > 0 {
                let zone = self.linux.zone_at(Frame((at << 9) as u32));
                assert_ne!(zone, Some(MOVABLE), "pageblock {at}");
            }
        }
        let used: u64 = self.live.iter().map(|(_, order)| order.frames()).sum();
        let free: u64 = (0..self.layout.zones().len())
            .flat_map(|zone| self.linux.free_blocks(zone))
            .flat_map(|(_, counts)| counts.into_iter().enumerate())
            .map(|(order, count)| count << order)
            .sum();
        let memory = u64::from(BLOCK * (BLOCKS + 2)) - 1;
        assert_eq!(used + free + self.linux.cached_frames(), memory, "frames lost or made up");
        let managed: u64 = self.linux.live_zones().map(|zone| zone.span.managed).sum();
        assert_eq!(managed, memory);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Allocate(u8, MigrateType, u16),
    Free(prop::sample::Index, u16),
    Pin(prop::sample::Index),
    Convert(u32, bool),
}

fn act() -> impl Strategy<Value = Act> {
    let types = prop::sample::select(&[
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ]);
    prop_oneof![
        8 => (0..10u8, types, 0..2u16).prop_map(|(order, kind, cpu)| Act::Allocate(order, kind, cpu)),
        4 => (any::<prop::sample::Index>(), 0..2u16).prop_map(|(which, cpu)| Act::Free(which, cpu)),
        1 => any::<prop::sample::Index>().prop_map(Act::Pin),
        3 => (0..BLOCKS, any::<bool>()).prop_map(|(block, movable)| Act::Convert(block, movable)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn frames_are_conserved_and_unmovable_ones_confined(
        acts in prop::collection::vec(act(), 1..250),
        hygiene in any::<bool>(),
    ) {
        let config = if hygiene { Config::linux_6_15() } else { Config::default() };
        let mut host = Host::new(config);
        for act in acts {
            match act {
                Act::Allocate(order, migrate_type, cpu) => {
                    host.allocate(order, migrate_type, cpu);
                }
                Act::Free(which, cpu) if !host.live.is_empty() => {
                    host.free(which.index(host.live.len()), cpu);
                }
                Act::Pin(which) if !host.live.is_empty() => {
                    let (owner, order) = host.live[which.index(host.live.len())];
                    host.linux.pin_block(&mut host.table, owner, order);
                }
                Act::Convert(block, movable) => {
                    host.convert(block, if movable { MOVABLE } else { NORMAL });
                }
                _ => {}
            }
            host.validate();
        }
        // Everything freed, every block can go home.
        while !host.live.is_empty() {
            host.free(0, 0);
        }
        for block in 0..BLOCKS {
            host.convert(block, NORMAL);
        }
        host.validate();
        prop_assert_eq!(host.linux.live_zones().nth(MOVABLE).unwrap().span.managed, 0);
    }
}

#[test]
fn sizes_watermarks_and_reserves_follow() {
    let mut host = Host::new(Config::default());
    for block in 2..BLOCKS {
        assert!(host.convert(block, MOVABLE));
    }
    host.validate();
    let spans: Vec<_> = host.linux.live_zones().map(|zone| zone.span.clone()).collect();
    assert_eq!([spans[NORMAL].managed, spans[MOVABLE].managed], [2 * 4096, 6 * 4096]);
    // The kernel zones share what min_free_kbytes was: 192 frames over 4 blocks.
    let min = spans.iter().map(|span| span.watermarks.min).collect::<Vec<_>>();
    assert_eq!(min, [47, 48, 96, 32]);
    assert_eq!(host.linux.zone_at(Frame(0)), Some(0), "a frame without a zone");
    let reserve = |zone: usize, highest| spans[zone].lowmem_reserve[highest as usize];
    assert_eq!(reserve(NORMAL, ZoneKind::Movable), 6 * 4096 / 32);
    assert_eq!(reserve(1, ZoneKind::Normal), 2 * 4096 / 256);
    assert_eq!(reserve(1, ZoneKind::Movable), 8 * 4096 / 256);
    host.linux.set_reserve_ratios([256, 8, 12]);
    let normal = host.linux.live_zones().nth(NORMAL).unwrap();
    assert_eq!(normal.span.lowmem_reserve[ZoneKind::Movable as usize], 6 * 4096 / 12);
}

#[test]
fn user_memory_borrows_up_to_the_reserve_and_the_kernel_never_does() {
    let mut host = Host::new(Config::default());
    for block in 4..BLOCKS {
        assert!(host.convert(block, MOVABLE));
    }
    let zone = |host: &Host, frame: Frame| host.linux.zone_at(frame).unwrap();
    for _ in 0..4 * 8 - 1 {
        let frame = host.allocate(9, MigrateType::Movable, 0).expect("free memory");
        assert_eq!(zone(&host, frame), MOVABLE);
    }
    let borrowed = (0..64).find_map(|_| {
        let frame = host.allocate(9, MigrateType::Movable, 0)?;
        (zone(&host, frame) != MOVABLE).then_some(frame)
    });
    assert!(borrowed.is_some(), "the movable zone is full");
    let mut kernel = Host::new(Config::default());
    for block in 1..BLOCKS {
        assert!(kernel.convert(block, MOVABLE));
    }
    while let Some(frame) = kernel.allocate(0, MigrateType::Unmovable, 0) {
        assert_ne!(zone(&kernel, frame), MOVABLE);
    }
    assert_eq!(kernel.free_in(MOVABLE), u64::from(7 * BLOCK), "free memory next to a full zone");
    kernel.validate();
}

impl Host {
    fn free_in(&self, zone: usize) -> u64 {
        self.linux.free_frames(zone)
    }
}

/// A request that cannot wait does not empty what a block on its way holds.
#[test]
fn what_is_freed_in_an_isolated_block_stays_isolated() {
    let mut host = Host::new(Config::default());
    assert!(host.convert(3, MOVABLE));
    let frame = host.allocate(0, MigrateType::Movable, 0).unwrap();
    assert_eq!(host.linux.zone_at(frame), Some(MOVABLE));
    let range = host.block(3);
    host.linux.isolate(&mut host.table, range.clone());
    assert!(!host.linux.is_offline(&host.table));
    assert_eq!(host.free_in(MOVABLE), 0, "isolated memory is not free");
    host.free(0, 0);
    assert!(host.linux.is_offline(&host.table));
    let request = Request {
        migrate_type: MigrateType::Movable,
        mobility: Mobility::Movable,
        highest_zone: ZoneKind::Movable,
        gfp_flags: gfp::ATOMIC_REQUEST,
        ..Request::default()
    };
    let other = host.linux.allocate(&mut host.table, &request, 9).unwrap();
    assert!(!range.contains(&other));
    host.linux.end_isolation(&mut host.table);
    assert_eq!(host.free_in(MOVABLE), u64::from(BLOCK));
    host.linux.validate(&host.table);
}
