//! Counts the pageblocks of a random sample, and estimates the figures of all.

use prairie_frames::{Mobility, Order};
use prairie_host::MapBuilder;
use prairie_host::layout::{Layout, ZoneRun};
use prairie_host::{ClassRun, FrameClass};

use crate::estimate::{Estimate, Sample};
use crate::figures::{Available, ClassFrames, Figures, Potential, Source, classes, unmovable};
use crate::population::Unit;

const CLASSES: usize = FrameClass::ALL.len();
const BLOCK: f64 = Order::HUGE.frames() as f64;

/// Counts sampled pageblocks. Values are shares of a block, so between 0 and 1.
pub struct SampleTally {
    layout: Layout,
    map: MapBuilder,
    blocks: u64,
    /// Sums and sums of squares of each class's share of a block.
    shares: [(f64, f64); CLASSES],
    whole: u64,
    free: u64,
    /// Blocks that could be emptied if unknown frames can be moved, and if they cannot.
    potential: [u64; 2],
    polluted: [u64; 2],
    by_source: [u64; CLASSES],
    by_source_alone: [u64; CLASSES],
}

/// The frames of one unit by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCounts([u16; CLASSES]);

impl SampleTally {
    /// A tally that has seen nothing.
    pub fn new(layout: Layout, frames: u64) -> SampleTally {
        SampleTally {
            map: MapBuilder::new(&layout, Figures::map_cell(frames)),
            layout,
            blocks: 0,
            shares: [(0.0, 0.0); CLASSES],
            whole: 0,
            free: 0,
            potential: [0; 2],
            polluted: [0; 2],
            by_source: [0; CLASSES],
            by_source_alone: [0; CLASSES],
        }
    }

    /// Counts one unit, whose pageblock has these classes. Units come in ascending order.
    pub fn add(&mut self, unit: Unit, runs: &[ClassRun]) {
        let mut counts = UnitCounts([0; CLASSES]);
        for run in runs {
            let mut cursor = 0;
            self.layout.split(*run, &mut cursor, &mut |part: ZoneRun| {
                if part.zone == unit.zone {
                    counts.0[part.run.class.index()] += part.run.frames as u16;
                    self.map.push(part);
                }
            });
        }
        self.count(counts);
    }

    fn count(&mut self, counts: UnitCounts) {
        self.blocks += 1;
        for (sum, frames) in self.shares.iter_mut().zip(counts.0) {
            let share = f64::from(frames) / BLOCK;
            sum.0 += share;
            sum.1 += share * share;
        }
        let of = |mobility| counts.of(mobility);
        if classes().map(|class| u64::from(counts.0[class.index()])).sum::<u64>()
            != Order::HUGE.frames()
        {
            return;
        }
        let (unmovable_frames, unknown) = (of(Mobility::Unmovable), of(Mobility::Unknown));
        self.whole += 1;
        self.free += u64::from(u64::from(of(Mobility::Free)) == Order::HUGE.frames());
        for (at, polluting) in [unmovable_frames, unmovable_frames + unknown].iter().enumerate() {
            self.potential[at] += u64::from(*polluting == 0);
            self.polluted[at] += u64::from(*polluting > 0);
        }
        let has = |class: &FrameClass| counts.0[class.index()] > 0;
        let sources: Vec<FrameClass> = unmovable().filter(has).collect();
        for source in &sources {
            self.by_source[source.index()] += 1;
            self.by_source_alone[source.index()] += u64::from(sources.len() == 1);
        }
    }

    /// Estimates the figures of all `pageblocks` from the counted ones, which are a random sample.
    /// Blocks larger than a pageblock are not in a sample.
    pub fn finish(self, pageblocks: u64) -> Figures {
        let (population, size) = (pageblocks, self.blocks);
        let total = |sum: f64, squares: f64| Sample { population, size, sum, squares }.total();
        let blocks = |count: u64| -> Estimate { total(count as f64, count as f64) };
        let class = |class: FrameClass| {
            let (sum, squares) = self.shares[class.index()];
            ClassFrames { class, frames: total(sum, squares).times(BLOCK) }
        };
        let source = |class: FrameClass| Source {
            class,
            blocks: blocks(self.by_source[class.index()]),
            blocks_alone: blocks(self.by_source_alone[class.index()]),
        };
        Figures {
            at_unix_ns: 0,
            cpu_seconds: 0.0,
            pageblocks,
            pageblocks_read: size,
            classes: classes().map(class).collect(),
            available: vec![Available { order: Order::HUGE, blocks: blocks(self.free) }],
            potential: vec![Potential {
                order: Order::HUGE,
                unknown_movable: blocks(self.potential[0]),
                unknown_unmovable: blocks(self.potential[1]),
            }],
            whole: blocks(self.whole),
            polluted: blocks(self.polluted[0]),
            polluted_if_unknown_unmovable: blocks(self.polluted[1]),
            sources: unmovable().map(source).collect(),
            map: self.map.finish(),
        }
    }
}

impl UnitCounts {
    fn of(&self, mobility: Mobility) -> u16 {
        let of = FrameClass::ALL.into_iter().filter(|class| class.mobility() == mobility);
        of.map(|class| self.0[class.index()]).sum()
    }
}
