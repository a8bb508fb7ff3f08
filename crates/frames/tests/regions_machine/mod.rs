//! A small machine under the placement with two regions, for cases worked by hand.

// Each test program uses its own part of this module.
#![allow(dead_code)]

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::regions::{Config, Regions};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order, Pfn, ZoneKind};

pub const PAGEBLOCK: u32 = 512;

pub fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// A zone without marks.
pub fn zone(node: u16, kind: ZoneKind, start: u64, end: u64) -> ZoneSpan {
    ZoneSpan {
        node,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    }
}

pub struct Machine {
    pub layout: Layout,
    pub table: FrameTable,
    pub regions: Regions,
    next_owner: Owner,
    /// Owners that hold nothing, by order.
    retired: [Vec<Owner>; 13],
}

impl Machine {
    /// A machine whose memory is not yet handed over.
    pub fn bare(zones: Vec<ZoneSpan>, config: Config) -> Machine {
        let layout = Layout::new(zones).unwrap();
        let table = FrameTable::new(&layout);
        let regions = Regions::new(&layout, config);
        Machine { layout, table, regions, next_owner: 0, retired: Default::default() }
    }

    /// One Normal zone of `pageblocks`, of which the first `unmovable` are the unmovable region.
    pub fn simple(pageblocks: u32, unmovable: u32) -> Machine {
        let frames = u64::from(pageblocks * PAGEBLOCK);
        let config = Config {
            initial_frames: vec![(0, u64::from(unmovable * PAGEBLOCK))],
            ..Config::default()
        };
        Machine::bare(vec![zone(0, ZoneKind::Normal, 0, frames)], config).started()
    }

    /// Empties the per-CPU lists.
    pub fn drain(&mut self) {
        self.regions.drain(&mut self.table);
        assert_eq!(self.regions.cached_frames(), 0);
    }

    /// Hands over all absent memory of every zone, in blocks as large as can be, and starts.
    pub fn started(self) -> Machine {
        self.started_with_hole(0..0)
    }

    /// The same, but for the addresses where there is no memory.
    pub fn started_with_hole(mut self, hole: std::ops::Range<u32>) -> Machine {
        for zone in self.layout.zones().to_vec() {
            let mut at = zone.start;
            while at < zone.end {
                let fits = |&order: &Order| {
                    let end = at.offset(order.frames());
                    let absent = |frame| {
                        self.table.state(Frame(frame)) == State::Absent && !hole.contains(&frame)
                    };
                    at.align_down(order) == at && end <= zone.end && (at.0..end.0).all(absent)
                };
                let Some(order) = Order::up_to(Order::LARGEST_FREE).rev().find(fits) else {
                    at = at.offset(1);
                    continue;
                };
                self.table.add_memory(at, order);
                self.regions.seed(&mut self.table, at, order);
                at = at.offset(order.frames());
            }
        }
        self.regions.start(&mut self.table);
        self.validate();
        self
    }

    /// A block that was in use before the machine was handed over.
    pub fn inherit(&mut self, frame: u32, order: Order, migrate_type: MigrateType) -> Owner {
        let (frame, owner) = (Frame(frame), self.owner(order));
        self.table.add_memory(frame, order);
        self.table.allocate(frame, order, mobility_of(migrate_type), owner);
        owner
    }

    fn owner(&mut self, order: Order) -> Owner {
        if let Some(owner) = self.retired[order.index()].pop() {
            return owner;
        }
        if order < Order::HUGE {
            let owner = self.owner(Order::new(order.get() + 1).unwrap());
            self.retired[order.index()].push(owner + order.frames() as u32);
            return owner;
        }
        let owner = self.next_owner.next_multiple_of(order.frames() as u32);
        self.next_owner = owner + order.frames() as u32;
        owner
    }

    pub fn request(
        &mut self,
        order: Order,
        migrate_type: MigrateType,
        change: impl Fn(&mut Request),
    ) -> Option<Owner> {
        let mut request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            gfp_flags: gfp::KERNEL,
            ..Request::default()
        };
        change(&mut request);
        let owner = self.owner(order);
        let frame = self.regions.allocate(&mut self.table, &request, owner);
        match frame {
            Some(frame) => assert_eq!(self.at(owner), frame.0),
            None => self.retired[order.index()].push(owner),
        }
        frame.map(|_| owner)
    }

    /// An owner with a new block of the given size.
    pub fn allocate(&mut self, order: Order, migrate_type: MigrateType) -> Option<Owner> {
        self.request(order, migrate_type, |_| {})
    }

    pub fn free(&mut self, owner: Owner) {
        let frame = self.table.block_of(owner).expect("a live block");
        self.regions.free(&mut self.table, frame, 0);
    }

    /// Frees what an owner was given, in however many pieces it is now.
    pub fn free_all(&mut self, owner: Owner, order: Order) {
        let (mut at, end) = (owner, owner + order.frames() as u32);
        while at < end {
            let frame = self.table.block_of(at).expect("a live block");
            at += self.table.order(frame).frames() as u32;
            self.regions.free(&mut self.table, frame, 0);
        }
        self.retired[order.index()].push(owner);
    }

    pub fn maintain(&mut self) {
        self.regions.maintain(&mut self.table);
    }

    /// Where an owner's block is now.
    pub fn at(&self, owner: Owner) -> u32 {
        self.table.block_of(owner).expect("a live block").0
    }

    /// The border of node 0, in pageblocks.
    pub fn border(&self) -> u32 {
        let border = self.regions.border(0).unwrap().0;
        assert_eq!(border % PAGEBLOCK, 0);
        border / PAGEBLOCK
    }

    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.regions.counters();
        counters.iter().find(|counter| counter.name == name).expect("a counter").value
    }

    pub fn validate(&self) {
        self.regions.validate(&self.table);
    }
}

/// Numbers that look random, the same for the same seed (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }
}
