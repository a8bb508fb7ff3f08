//! The layout of memory: zones as the kernel describes them, and frames numbered without gaps.
//!
//! A table of all frames must not pay for the holes between nodes, so frames get a dense number,
//! [`Frame`], beside their physical one, [`Pfn`]. The dense number keeps alignment up to a
//! gigantic page, hence buddies and huge pages are the same blocks under both numbers.

use alloc::vec::Vec;
use core::fmt;

use crate::{Order, Pfn, ZoneKind};

/// The dense number of a frame within one [`Layout`]: 32 bits, so at most 16 TiB a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u32);

impl Frame {
    /// No frame. Never the number of one.
    pub const NONE: Frame = Frame(u32::MAX);

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The first frame of the block of `order` that contains this frame.
    pub const fn align_down(self, order: Order) -> Frame {
        Frame(self.0 & !((1u32 << order.get()) - 1))
    }

    /// The block of `order` that this block of `order` merges with.
    pub const fn buddy(self, order: Order) -> Frame {
        Frame(self.0 ^ (1 << order.get()))
    }

    /// The frame `frames` further on.
    pub const fn offset(self, frames: u64) -> Frame {
        Frame(self.0 + frames as u32)
    }

    /// The largest aligned block of at most order `most` that starts here and ends by `end`, which
    /// lies beyond.
    #[inline]
    pub const fn largest_block(self, end: Frame, most: Order) -> Order {
        let (fits, aligned) = ((end.0 - self.0).ilog2(), self.0.trailing_zeros());
        let order = if fits < aligned { fits } else { aligned };
        match Order::new(order as u8) {
            Some(order) if order.get() < most.get() => order,
            _ => most,
        }
    }

    /// The pageblock this frame lies in.
    pub const fn pageblock(self) -> usize {
        self.0 as usize >> Order::HUGE.get()
    }
}

/// One zone of one node, as in `/proc/zoneinfo`. All quantities are frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpan {
    /// NUMA node.
    pub node: u16,
    /// Which zone of the node.
    pub kind: ZoneKind,
    /// First frame.
    pub start: Pfn,
    /// Frames from the first to the last, holes included (`spanned`).
    pub spanned: u64,
    /// Frames that the allocator has (`managed`).
    pub managed: u64,
    /// The marks that decide whether a request may take from this zone.
    pub watermarks: Watermarks,
    /// Frames kept from requests that could have used a higher zone, by [`ZoneKind`] of the
    /// request (`protection`).
    pub lowmem_reserve: [u64; ZoneKind::ALL.len()],
}

/// A zone's watermarks in frames (`enum zone_watermarks`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Below this, only requests that free memory themselves may take.
    pub min: u64,
    /// Below this, kswapd is woken.
    pub low: u64,
    /// Up to this, kswapd frees.
    pub high: u64,
}

/// A zone under dense numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// As described.
    pub span: ZoneSpan,
    /// First frame.
    pub start: Frame,
    /// One past the last frame.
    pub end: Frame,
    /// Whether its frames lie among those of the node's other zones, memory block by memory block.
    /// Which ones it has changes; the placement knows.
    pub interleaved: bool,
}

impl Zone {
    /// Whether `frame` lies in this zone, or between two frames that do.
    pub fn contains(&self, frame: Frame) -> bool {
        self.start <= frame && frame < self.end
    }
}

/// A stretch of physical memory under dense numbers; all three are multiples of a gigantic page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    pfn: u64,
    frame: u32,
    frames: u32,
}

/// All zones of a machine, and the dense numbering of their frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    segments: Vec<Segment>,
    zones: Vec<Zone>,
}

/// Zones that no machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// No zone has a frame.
    Empty,
    /// Two zones claim the same frame, this one.
    Overlap(Pfn),
    /// More frames than 32 bits number.
    TooLarge(u64),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Empty => f.write_str("no zone has any memory"),
            LayoutError::Overlap(pfn) => write!(f, "two zones claim the frame {pfn}"),
            LayoutError::TooLarge(frames) => {
                write!(f, "the zones span {frames} frames; at most {} (16 TiB) fit", u32::MAX)
            }
        }
    }
}

impl core::error::Error for LayoutError {}

impl Layout {
    /// The layout of `zones`. Zones without frames are dropped; the rest are sorted by address.
    ///
    /// # Errors
    /// If no zone has a frame, two overlap, or together they span more than 2^32 − 1 frames.
    pub fn new(mut zones: Vec<ZoneSpan>) -> Result<Layout, LayoutError> {
        zones.retain(|zone| zone.spanned > 0);
        zones.sort_by_key(|zone| zone.start);
        if zones.is_empty() {
            return Err(LayoutError::Empty);
        }
        let mut layout = Layout { segments: Vec::new(), zones: Vec::with_capacity(zones.len()) };
        let mut end = 0;
        for span in zones {
            if span.start.0 < end {
                return Err(LayoutError::Overlap(span.start));
            }
            end = span.start.0.saturating_add(span.spanned);
            layout.cover(span.start.0, end)?;
            let start = layout.frame(span.start).ok_or(LayoutError::TooLarge(span.spanned))?;
            let end = start.offset(span.spanned);
            layout.zones.push(Zone { span, start, end, interleaved: false });
        }
        Ok(layout)
    }

    /// The same layout with a movable zone on each node, to which memory blocks of its DMA32 and
    /// Normal zones may move (`online_movable`). It has no frame yet. A layout with a movable zone
    /// stays as it is.
    pub fn with_hotplug(&self) -> Layout {
        let mut layout = self.clone();
        if self.zones.iter().any(|zone| zone.span.kind == ZoneKind::Movable) {
            return layout;
        }
        let may_move = |zone: &&Zone| matches!(zone.span.kind, ZoneKind::Dma32 | ZoneKind::Normal);
        let mut nodes: Vec<u16> = self.zones.iter().map(|zone| zone.span.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let mut own = self.zones.iter().filter(may_move).filter(|z| z.span.node == node);
            let Some(first) = own.next() else { continue };
            let last = own.next_back().unwrap_or(first);
            let pfns = first.span.start.0..last.span.start.0 + last.span.spanned;
            layout.zones.push(Zone {
                span: ZoneSpan {
                    node,
                    kind: ZoneKind::Movable,
                    start: Pfn(pfns.start),
                    spanned: pfns.end - pfns.start,
                    managed: 0,
                    watermarks: Watermarks::default(),
                    lowmem_reserve: [0; ZoneKind::ALL.len()],
                },
                start: first.start,
                end: last.end,
                interleaved: true,
            });
        }
        layout
    }

    /// Takes over the size, the watermarks, and the reserves of a zone, as they are after memory has
    /// moved between zones.
    pub fn update(&mut self, zone: usize, span: &ZoneSpan) {
        self.zones[zone].span = span.clone();
    }

    /// Extends the numbering to `start..end`, in whole gigantic pages.
    fn cover(&mut self, start: u64, end: u64) -> Result<(), LayoutError> {
        let gigantic = Order::GIGANTIC.frames();
        let start = Pfn(start).align_down(Order::GIGANTIC).0;
        let end = end.checked_next_multiple_of(gigantic).ok_or(LayoutError::TooLarge(end))?;
        let numbered = self.frames();
        let (from, joins) = match self.segments.last() {
            Some(last) if start <= last.pfn + u64::from(last.frames) => {
                (last.pfn + u64::from(last.frames), true)
            }
            _ => (start, false),
        };
        let more = end.saturating_sub(from);
        // One number is kept back for `Frame::NONE`.
        if numbered + more >= u64::from(u32::MAX) {
            return Err(LayoutError::TooLarge(numbered + more));
        }
        match self.segments.last_mut() {
            Some(last) if joins => last.frames += more as u32,
            _ => self.segments.push(Segment {
                pfn: from,
                frame: numbered as u32,
                frames: more as u32,
            }),
        }
        Ok(())
    }

    /// Number of dense frame numbers: every [`Frame`] below it may be used as an index.
    pub fn frames(&self) -> u64 {
        self.segments.last().map_or(0, |last| u64::from(last.frame) + u64::from(last.frames))
    }

    /// The zones, by ascending address; those that lie among others come last.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The dense number of `pfn`, if it lies within a gigantic page of some zone's span.
    #[inline]
    pub fn frame(&self, pfn: Pfn) -> Option<Frame> {
        let after = self.segments.partition_point(|segment| segment.pfn <= pfn.0);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        let offset = pfn.0 - segment.pfn;
        (offset < u64::from(segment.frames)).then(|| Frame(segment.frame + offset as u32))
    }

    /// The physical number of `frame`.
    ///
    /// # Panics
    /// If `frame` is not of this layout.
    pub fn pfn(&self, frame: Frame) -> Pfn {
        assert!(u64::from(frame.0) < self.frames(), "{frame:?} is outside the layout");
        let after = self.segments.partition_point(|segment| segment.frame <= frame.0);
        let segment = self.segments[after - 1];
        Pfn(segment.pfn + u64::from(frame.0 - segment.frame))
    }

    /// The zone that `frame` lies in, as an index into [`zones`](Layout::zones); of a frame that
    /// may be in an interleaved zone, the zone that it was in at boot.
    #[inline]
    pub fn zone_of(&self, frame: Frame) -> Option<usize> {
        self.zones.iter().position(|zone| zone.contains(frame))
    }

    /// The zones that a request may take from, best first: the preferred node's from the highest
    /// permitted kind down, then the other nodes' by distance in number
    /// (`build_zonelists`, `mm/page_alloc.c`; the kernel's distances are not recorded).
    pub fn zonelist(&self, node: u16, highest: ZoneKind) -> Vec<usize> {
        let mut list: Vec<usize> =
            (0..self.zones.len()).filter(|&zone| self.zones[zone].span.kind <= highest).collect();
        list.sort_by_key(|&zone| {
            let span = &self.zones[zone].span;
            (span.node.abs_diff(node), span.node, core::cmp::Reverse(span.kind))
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn zone(node: u16, kind: ZoneKind, start: u64, spanned: u64) -> ZoneSpan {
        ZoneSpan {
            node,
            kind,
            start: Pfn(start),
            spanned,
            managed: spanned,
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        }
    }

    /// Two nodes with a hole of 63 GiB between them, and a PC's zones on the first.
    fn two_nodes() -> Layout {
        Layout::new(vec![
            zone(1, ZoneKind::Normal, 64 << 18, 1 << 18),
            zone(0, ZoneKind::Dma, 1, 4095),
            zone(0, ZoneKind::Dma32, 4096, (1 << 18) - 4096),
        ])
        .unwrap()
    }

    #[test]
    fn holes_cost_no_numbers_and_alignment_is_kept() {
        let layout = two_nodes();
        assert_eq!(layout.frames(), 2 << 18);
        for pfn in [1, 4096, (1 << 18) - 1, 64 << 18, (65 << 18) - 1] {
            let frame = layout.frame(Pfn(pfn)).unwrap();
            assert_eq!(layout.pfn(frame), Pfn(pfn));
            assert_eq!(u64::from(frame.0) % (1 << 18), pfn % (1 << 18));
        }
        assert_eq!(layout.frame(Pfn(1 << 18)), None);
        assert_eq!(layout.frame(Pfn(65 << 18)), None);
    }

    #[test]
    fn a_zonelist_goes_down_the_node_first() {
        let layout = two_nodes();
        let kinds = |node, highest| -> Vec<_> {
            let kind_of = |zone: usize| {
                let span = &layout.zones()[zone].span;
                (span.node, span.kind)
            };
            layout.zonelist(node, highest).into_iter().map(kind_of).collect()
        };
        let (dma, dma32) = ((0, ZoneKind::Dma), (0, ZoneKind::Dma32));
        assert_eq!(kinds(0, ZoneKind::Normal), [dma32, dma, (1, ZoneKind::Normal)]);
        assert_eq!(kinds(1, ZoneKind::Normal), [(1, ZoneKind::Normal), dma32, dma]);
        assert_eq!(kinds(1, ZoneKind::Dma), [dma]);
    }

    #[test]
    fn a_zone_for_memory_blocks_spans_what_may_move() {
        let layout = two_nodes().with_hotplug();
        let movable: Vec<_> =
            layout.zones()[3..].iter().map(|z| (z.span.node, z.start.0)).collect();
        assert_eq!(movable, [(0, 4096), (1, 1 << 18)]);
        assert!(layout.zones()[3..].iter().all(|zone| zone.interleaved && zone.span.managed == 0));
        assert_eq!(layout.zone_of(Frame(1 << 18)), Some(2), "the zone that it was in at boot");
        assert_eq!(layout.zonelist(0, ZoneKind::Movable)[0], 3);
        assert_eq!(layout.with_hotplug(), layout);
    }

    #[test]
    fn a_stretch_is_cut_into_the_largest_aligned_blocks() {
        let (mut at, end) = (Frame(3), Frame(1029));
        let mut orders = Vec::new();
        while at < end {
            let order = at.largest_block(end, Order::HUGE);
            orders.push(order.get());
            at = at.offset(order.frames());
        }
        assert_eq!(orders, [0, 2, 3, 4, 5, 6, 7, 8, 9, 2, 0]);
        assert_eq!(Frame(0).largest_block(end, Order::HUGE), Order::HUGE);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert_eq!(Layout::new(vec![]), Err(LayoutError::Empty));
        assert_eq!(
            Layout::new(vec![zone(0, ZoneKind::Dma, 0, 10), zone(0, ZoneKind::Normal, 9, 10)]),
            Err(LayoutError::Overlap(Pfn(9)))
        );
        let huge = zone(0, ZoneKind::Normal, 0, 1 << 33);
        assert!(matches!(Layout::new(vec![huge]), Err(LayoutError::TooLarge(_))));
        let last = zone(0, ZoneKind::Normal, u64::MAX - 5, 100);
        assert!(matches!(Layout::new(vec![last]), Err(LayoutError::TooLarge(_))));
    }
}
