//! `zones`: a zone for easily reclaimed pages, after the 2006 paper's section 6.
//!
//! ```text
//! without kernelcore=   |  DMA  |      Normal      |          HighMem            |
//! with kernelcore=      |  DMA  |      Normal      | HighMem |    EASYRCLM       |   (Figure 3)
//!                       <------- kernelcore ----------------->
//! ```
//!
//! - `kernelcore=` bounds the memory of the standard zones; all above is ZONE_EASYRCLM. Without it
//!   ZONE_EASYRCLM has no pages, and the strategy changes nothing.
//! - Easily reclaimed pages go to ZONE_EASYRCLM first and fall back on the regular zones; other
//!   requests never enter it. Fallback has this one direction: it is the crucial difference from
//!   [`lists`](super::lists).
//! - Within a zone, the allocator is the standard one ([`Buddy`]).
//!
//! Requests of today are easily reclaimed if they are movable and no address below 4 GiB is asked
//! for: `GFP_RCLMUSER` of the patches is `GFP_HIGHUSER` with another zone.

mod kernelcore;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

pub use self::kernelcore::Kernelcore;
use self::kernelcore::{DividedLayout, divide};
use super::buddy::Buddy;
use super::lists::Reclaimability;
use super::stepwise::Stepwise;
use super::zonelist::Depth;
use super::{Counter, Placement, Request};
use crate::free_area::ORDERS;
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order, ZoneKind};

/// The zone-based anti-fragmentation allocator.
#[derive(Clone, Debug)]
pub struct Zones {
    /// Of the divided layout.
    buddy: Buddy,
    divided: DividedLayout,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    easy: u64,
    fell_back: u64,
    moved_for_pins: u64,
}

impl Zones {
    /// An allocator for `layout` that has no memory yet. Blocks are at most of order `largest`.
    pub fn new(layout: &Layout, largest: Order, kernelcore: Option<Kernelcore>) -> Zones {
        let divided = divide(layout, kernelcore);
        let buddy = Buddy::new(&divided.layout, largest);
        Zones { buddy, divided, counts: Counts::default() }
    }

    /// The zones as `kernelcore=` divides them. ZONE_EASYRCLM appears as [`ZoneKind::Movable`].
    pub fn layout(&self) -> &Layout {
        &self.divided.layout
    }

    /// Whether `frame` lies in ZONE_EASYRCLM.
    pub fn is_easyrclm(&self, frame: Frame) -> bool {
        let zone = self.divided.layout.zone_of(frame);
        zone.is_some_and(|zone| self.kind(zone) == ZoneKind::Movable)
    }

    fn kind(&self, zone: usize) -> ZoneKind {
        self.divided.layout.zones()[zone].span.kind
    }

    /// A request with the highest zone that it may use (`highest_zone`, as the patches extend it).
    fn translated(request: &Request) -> Request {
        let easy = Reclaimability::of(request.migrate_type) == Reclaimability::EasyRclm;
        let highest_zone = match request.highest_zone {
            ZoneKind::Dma | ZoneKind::Dma32 => request.highest_zone,
            _ if easy => ZoneKind::Movable,
            highest => highest.min(ZoneKind::HighMem),
        };
        Request { highest_zone, ..*request }
    }

    fn count(&mut self, translated: &Request, frame: Frame) {
        if translated.highest_zone == ZoneKind::Movable {
            self.counts.easy += 1;
            self.counts.fell_back += u64::from(!self.is_easyrclm(frame));
        }
    }

    /// The request for the memory that the block at `from` moves to before it is pinned.
    fn request_for_pin(&self, from: Frame, order: Order) -> Request {
        let zone = self.divided.layout.zone_of(from).expect("a frame outside every zone");
        Request {
            order,
            migrate_type: MigrateType::Unmovable,
            mobility: Mobility::Unmovable,
            highest_zone: ZoneKind::HighMem,
            node: self.divided.layout.zones()[zone].span.node,
            ..Request::default()
        }
    }

    /// The parts of a zone of the layout.
    fn parts(&self, zone: usize) -> Range<usize> {
        self.divided.parts[zone].clone()
    }
}

impl Placement for Zones {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        // A block over the end of the standard zones comes in parts.
        let last = frame.offset(order.frames() - 1);
        if self.divided.layout.zone_of(frame) != self.divided.layout.zone_of(last) {
            let half = order.halved();
            self.seed(table, frame, half);
            return self.seed(table, frame.offset(half.frames()), half);
        }
        self.buddy.seed(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        self.buddy.start(table);
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        let request = Zones::translated(request);
        let frame = self.buddy.allocate(table, &request, owner)?;
        self.count(&request, frame);
        Some(frame)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        self.buddy.free(table, frame, cpu);
    }

    /// Moves what lies in ZONE_EASYRCLM out of it first, as Linux does with pages of ZONE_MOVABLE
    /// that are to be pinned long-term (`check_and_migrate_movable_pages`, `mm/gup.c`), and refuses
    /// where the kernel's zones have no room. The paper's patches have no word on pins.
    fn pin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) -> bool {
        let (mut at, end) = (owner, owner + order.frames() as Owner);
        while at < end {
            let from = table.block_of(at).expect("what is pinned lies somewhere");
            let order = table.order(from);
            if self.is_easyrclm(from) {
                let request = self.request_for_pin(from, order);
                if self.buddy.allocate(table, &request, at).is_none() {
                    return false;
                }
                self.buddy.free(table, from, 0);
                self.counts.moved_for_pins += order.frames();
            } else {
                table.release(from);
                table.allocate(from, order, Mobility::Unmovable, at);
            }
            at += order.frames() as Owner;
        }
        true
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let blocks = |part: usize| {
            let migrate_type = match self.kind(part) {
                ZoneKind::Movable => MigrateType::Movable,
                _ => MigrateType::Unmovable,
            };
            self.buddy.free_blocks(part).into_iter().map(move |(_, counts)| (migrate_type, counts))
        };
        self.parts(zone).flat_map(blocks).collect()
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.parts(zone).map(|part| self.buddy.free_frames(part)).sum()
    }

    fn cached_frames(&self) -> u64 {
        self.buddy.cached_frames()
    }

    fn counters(&self) -> Vec<Counter> {
        let zones = self.divided.layout.zones().iter();
        let easyrclm = zones.filter(|zone| zone.span.kind == ZoneKind::Movable);
        let frames = easyrclm.map(|zone| u64::from(zone.end.0 - zone.start.0)).sum();
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut counters = vec![
            counter("easyrclm_frames", "frames of ZONE_EASYRCLM", frames),
            counter(
                "easyrclm_allocations",
                "allocations that may use ZONE_EASYRCLM",
                self.counts.easy,
            ),
            counter(
                "easyrclm_fallbacks",
                "of those, allocations that fell back on the regular zones",
                self.counts.fell_back,
            ),
            counter(
                "easyrclm_moved_for_pins",
                "frames that left ZONE_EASYRCLM to be pinned",
                self.counts.moved_for_pins,
            ),
        ];
        counters.extend(self.buddy.counters());
        counters
    }

    fn validate(&self, table: &FrameTable) {
        self.buddy.validate(table);
    }
}

impl Stepwise for Zones {
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        let request = Zones::translated(request);
        let frame = self.buddy.attempt(table, &request, owner, depth)?;
        self.count(&request, frame);
        Some(frame)
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        let parts = self.parts(zone).map(|part| self.buddy.free_counts(part));
        parts.fold([0; ORDERS], |sum, counts| core::array::from_fn(|j| sum[j] + counts[j]))
    }

    /// Whether one of the zone's parts would: the standard one, or ZONE_EASYRCLM where `highest`
    /// reaches it.
    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        let frames = |part: usize| {
            let zone = &self.divided.layout.zones()[part];
            u64::from(zone.end.0 - zone.start.0)
        };
        let total: u64 = self.parts(zone).map(frames).sum();
        self.parts(zone).filter(|&part| self.kind(part) <= highest).any(|part| {
            let share = (u128::from(mark) * u128::from(frames(part)) / u128::from(total)) as u64;
            self.buddy.watermark_ok(part, order, share, highest)
        })
    }

    fn drain(&mut self, table: &mut FrameTable) {
        self.buddy.drain(table);
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        self.buddy.take_block(table, frame)
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.seed(table, frame, order);
    }
}
