//! Frames, pages and the placement between them: how a block comes into use and leaves it.

use prairie_frames::placement::Request;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::table::State;
use prairie_frames::{Frame, FrameTable, Layout, Mobility, Order};

use super::page::{PageId, Pages, Use};
use prairie_model::allocator::MachinePlacement;

/// Physical memory under one placement.
pub struct Memory {
    /// The zones.
    pub layout: Layout,
    /// The state of every frame.
    pub table: FrameTable,
    /// The placement policy.
    pub placement: MachinePlacement,
    /// The use of each allocated block.
    pub pages: Pages,
    /// The zone that the kernel lies in, and its frames there.
    pub reserved: (usize, u64),
}

impl Memory {
    /// All memory of `layout` handed to `placement`, but for the first `kernel` frames of the
    /// first zone large enough, where the kernel itself lies.
    pub fn new(layout: Layout, mut placement: MachinePlacement, kernel: u64) -> Memory {
        let frames = layout.frames();
        let mut table = FrameTable::with_owners(frames, Pages::owners(frames));
        let home = layout.zones().iter().position(|z| z.span.managed > 4 * kernel).unwrap_or(0);
        for (at, zone) in layout.zones().iter().enumerate().filter(|(_, zone)| !zone.interleaved) {
            let reserved = if at == home { kernel.min(zone.span.managed / 2) } else { 0 };
            for frame in 0..reserved {
                table.reserve(zone.start.offset(frame), Mobility::Unmovable);
            }
            let mut start = zone.start.offset(reserved);
            while start < zone.end {
                let order = start.largest_block(zone.end, Order::LARGEST_FREE);
                table.add_memory(start, order);
                placement.seed(&mut table, start, order);
                start = start.offset(order.frames());
            }
        }
        placement.start(&mut table);
        let reserved = layout.zones().get(home).map_or(0, |z| kernel.min(z.span.managed / 2));
        Memory { pages: Pages::new(frames), layout, table, placement, reserved: (home, reserved) }
    }

    /// One attempt to bring a block into use.
    #[inline]
    pub fn take(&mut self, request: &Request, depth: Depth) -> Option<PageId> {
        let whole = request.mobility != Mobility::Movable;
        let id = self.pages.begin(request.order, whole);
        let owner = self.pages.owner_of(id);
        match self.placement.attempt(&mut self.table, request, owner, depth) {
            Some(_) => Some(id),
            None => {
                self.pages.end(id);
                None
            }
        }
    }

    /// One attempt to bring `count` single movable frames into use as one batch; adds those that
    /// were found to `batch`.
    pub fn take_batch(
        &mut self,
        request: &Request,
        count: u32,
        depth: Depth,
        batch: &mut Vec<PageId>,
    ) {
        let ids: Vec<_> = (0..count).map(|_| self.pages.begin(Order::BASE, false)).collect();
        let owners: Vec<_> = ids.iter().map(|&id| self.pages.owner_of(id)).collect();
        let found = self.placement.attempt_singles(&mut self.table, request, &owners, depth);
        let (found, missing) = ids.split_at(found as usize);
        missing.iter().rev().for_each(|&id| self.pages.end(id));
        // The first frame of the batch is for the first page: taken from the end.
        batch.extend(found.iter().rev());
    }

    /// Ends the use of a block, which must be on no list.
    #[inline]
    pub fn give(&mut self, id: PageId, cpu: u16) {
        let owner = self.pages.owner_of(id);
        if self.pages.is_in_parts(id) {
            // A placement may have moved it in pieces.
            let mut part = 0;
            while part < Order::HUGE.frames() as u32 {
                let frame = self.table.block_of(owner + part).expect("a part in use");
                part += self.table.order(frame).frames() as u32;
                self.placement.free(&mut self.table, frame, cpu);
            }
        } else {
            let frame = self.table.block_of(owner).expect("a block in use");
            self.placement.free(&mut self.table, frame, cpu);
        }
        self.pages.end(id);
    }

    /// Whether pages are migrated to separate memory before they are pinned.
    pub fn migrates_on_pin(&self) -> bool {
        match &self.placement {
            MachinePlacement::Regions(_) => true,
            MachinePlacement::Linux(linux) => linux.has_hotplug(),
            _ => false,
        }
    }

    /// Where a page begins.
    pub fn frame(&self, id: PageId) -> Frame {
        self.table.block_of(self.pages.owner_of(id)).expect("a page in use lies somewhere")
    }

    /// The zone of a page.
    pub fn zone(&self, id: PageId) -> usize {
        let frame = self.frame(id);
        let zone = self.placement.zone_at(frame).or_else(|| self.layout.zone_of(frame));
        zone.expect("memory lies in zones")
    }

    /// The page at `frame`, if an allocated block begins there.
    pub fn page_at(&self, frame: Frame) -> Option<PageId> {
        let used = self.table.state(frame) == State::Allocated;
        used.then(|| self.pages.of_owner(self.table.owner(frame)))
    }

    /// Frames on the free lists of all zones.
    pub fn free_frames(&self) -> u64 {
        (0..self.layout.zones().len()).map(|zone| self.placement.free_frames(zone)).sum()
    }

    /// Compares pages with frames.
    ///
    /// # Panics
    /// If a block in use belongs to no page or to two, or the placement contradicts the table.
    pub fn validate(&self) {
        self.placement.validate(&self.table);
        let mut owned = 0;
        for id in self.pages.in_use() {
            let (page, owner) = (&self.pages[id], self.pages.owner_of(id));
            let mut part = 0;
            while u64::from(part) < page.frames() {
                let frame = self.table.block_of(owner + part);
                let frame = frame.unwrap_or_else(|| panic!("{id:?} {page:?} lies nowhere"));
                let here = self.table.order(frame).frames();
                assert!(here == page.frames() || self.pages.is_in_parts(id), "{id:?} in pieces");
                part += here as u32;
            }
            owned += page.frames();
        }
        let counted = self.table.blocks().iter();
        let used: u64 = counted.map(|b| u64::from(b.present() - b.free)).sum();
        let reserved = (0..self.table.frames() as u32)
            .filter(|&frame| self.table.state(Frame(frame)) == State::Reserved)
            .count() as u64;
        assert_eq!(owned + reserved, used, "frames in use that no page has");
        let by_use = |used_as| self.pages.frames_used_as(used_as);
        let uses = [
            Use::Anonymous,
            Use::File,
            Use::Slab,
            Use::PageTable,
            Use::Stack,
            Use::Kernel,
            Use::Pinned,
            Use::HugeTlb,
        ];
        assert_eq!(uses.into_iter().map(by_use).sum::<u64>(), owned, "frames by use");
    }
}
