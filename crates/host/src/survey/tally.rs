//! Counts frames as they pass: what is kept is a few words a pageblock, however fragmented the
//! memory.

use prairie_frames::{BlockCounts, Mobility, Order, Pfn};

use crate::block_map::{BlockMap, MapBuilder};
use crate::layout::{Layout, ZoneRun, ZoneSpan};
use crate::{ClassRun, Classifier, Error, FrameClass, FrameRun, ZoneId};

/// Takes frame runs in ascending order and counts them.
pub struct FrameTally {
    layout: Layout,
    classifier: Classifier,
    counts: Counts,
}

/// The counters, separate from the classifier that calls them.
struct Counts {
    zones: Vec<ZoneTally>,
    map: MapBuilder,
    cursor: usize,
}

/// The frames of one zone, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneTally {
    /// The zone.
    pub id: ZoneId,
    /// First frame of the first pageblock; the zone may start within it.
    pub start: Pfn,
    /// Frames by mobility of each pageblock, ascending without gap, to the last that has a frame.
    pub blocks: Vec<BlockCounts>,
    /// For each of them the classes of its unmovable frames: bit `i` is set if a frame has class
    /// `i` and is unmovable.
    pub unmovable_classes: Vec<u32>,
    /// Frames of each class, by [`FrameClass::index`].
    pub frames_by_class: [u64; FrameClass::ALL.len()],
    /// Movable frames that are unevictable or mlocked.
    pub unevictable_frames: u64,
    /// Pageblocks that the kernel has not initialized, whole ones. It initializes memory by sections
    /// of 128 MiB, so that only blocks at a zone's ends are missing here.
    pub uninitialized_blocks: u64,
}

/// All frames of a host, counted.
#[non_exhaustive]
pub struct FrameCounts {
    /// The zones with memory, ascending by their first frame.
    pub zones: Vec<ZoneTally>,
    /// The map, in cells of the size requested.
    pub map: BlockMap,
}

impl FrameTally {
    /// A tally that has seen nothing; its map will have cells of `cell`.
    pub fn new(layout: Layout, cell: Order) -> FrameTally {
        let zones = layout.zones().iter().map(ZoneTally::new).collect();
        let map = MapBuilder::new(&layout, cell);
        FrameTally {
            layout,
            classifier: Classifier::new(),
            counts: Counts { zones, map, cursor: 0 },
        }
    }

    /// Counts the next run.
    ///
    /// # Errors
    /// As [`Classifier::push`].
    pub fn push(&mut self, run: FrameRun) -> Result<(), Error> {
        let FrameTally { layout, classifier, counts } = self;
        classifier.push(run, &mut |run| counts.take(layout, run))
    }

    /// The counts.
    pub fn finish(mut self) -> FrameCounts {
        let FrameTally { layout, classifier, counts } = &mut self;
        classifier.finish(&mut |run| counts.take(layout, run));
        FrameCounts { zones: self.counts.zones, map: self.counts.map.finish() }
    }
}

impl Counts {
    fn take(&mut self, layout: &Layout, run: ClassRun) {
        let Counts { zones, map, cursor } = self;
        layout.split(run, cursor, &mut |part: ZoneRun| {
            zones[part.zone].add(part.run);
            map.push(part);
        });
    }
}

impl ZoneTally {
    fn new(span: &ZoneSpan) -> ZoneTally {
        ZoneTally {
            id: span.id,
            start: span.start.align_down(Order::HUGE),
            blocks: Vec::new(),
            unmovable_classes: Vec::new(),
            frames_by_class: [0; FrameClass::ALL.len()],
            unevictable_frames: 0,
            uninitialized_blocks: 0,
        }
    }

    /// Counts frames of this zone.
    fn add(&mut self, run: ClassRun) {
        let mobility = run.mobility();
        self.frames_by_class[run.class.index()] += run.frames;
        if mobility == Mobility::Movable && run.unevictable {
            self.unevictable_frames += run.frames;
        }
        let size = Order::HUGE.frames();
        let last = ((run.end().0 - 1 - self.start.0) / size) as usize;
        if self.blocks.len() <= last {
            self.blocks.resize(last + 1, BlockCounts::default());
            self.unmovable_classes.resize(last + 1, 0);
        }
        let mut at = run.start.0;
        while at < run.end().0 {
            let index = ((at - self.start.0) / size) as usize;
            let stop = run.end().0.min(self.start.0 + (index as u64 + 1) * size);
            self.blocks[index].add(mobility, (stop - at) as u16);
            if run.class == FrameClass::Uninitialized && stop - at == size {
                self.uninitialized_blocks += 1;
            }
            if mobility == Mobility::Unmovable {
                self.unmovable_classes[index] |= 1 << run.class.index();
            }
            at = stop;
        }
    }

    /// The pageblocks as the measures of contiguity take them.
    pub(crate) fn contiguity_blocks(&self) -> prairie_frames::contiguity::Blocks<'_> {
        prairie_frames::contiguity::Blocks { start: self.start, counts: &self.blocks }
    }

    /// Frames that exist.
    pub fn present_frames(&self) -> u64 {
        self.frames_by_class.iter().sum()
    }

    /// Frames of one mobility.
    pub fn frames_of(&self, mobility: Mobility) -> u64 {
        let of = |class: &FrameClass| class.mobility() == mobility;
        FrameClass::ALL.iter().filter(|c| of(c)).map(|c| self.frames_by_class[c.index()]).sum()
    }
}
