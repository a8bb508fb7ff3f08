//! How fragmented memory is at a snapshot: by the kernel's own account and in the replay.

use std::collections::BTreeMap;

use prairie_frames::contiguity::{Blocks, Unknown, potential_blocks};
use prairie_frames::indices::{FreeBlocks, unusable_free_space};
use prairie_frames::placement::Placement;
use prairie_frames::table::State;
use prairie_frames::{BlockCounts, Frame, Layout, MigrateType, Mobility, Order};
use prairie_host::{Classifier, FrameRun, PageFlags};
use serde::Serialize;

use super::machine::Machine;
use super::recording::Recording;
use super::snapshot::Snapshot;

/// What fragmentation is measured by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// Free blocks by order, over all zones and types.
    pub free_blocks: Vec<u64>,
    /// The unusable free space index F_u(9).
    pub unusable: f64,
    /// The share of memory that full compaction could turn into free pageblocks; nothing where the
    /// snapshot has no page flags. Frames of unknown class count as unmovable.
    pub potential: Option<f64>,
    /// Pageblocks with a frame in use that cannot be moved; nothing without page flags.
    pub polluted: Option<u64>,
    /// Pageblocks by type, in the order of [`MigrateType::ALL`].
    pub pageblocks: [u64; MigrateType::ALL.len()],
    /// Frames on each CPU's lists.
    pub per_cpu: Vec<u64>,
    /// Fallbacks to foreign lists since boot (`mm_page_alloc_extfrag`).
    pub fallbacks: u64,
}

/// The kernel's measures; `fallbacks` counts those in the record so far.
pub fn of_kernel(layout: &Layout, snapshot: &Snapshot, fallbacks: u64) -> Measures {
    let zones = 0..layout.zones().len();
    let mut free_blocks = Vec::new();
    let mut pageblocks = [0; MigrateType::ALL.len()];
    let mut per_cpu = Vec::new();
    for zone in zones {
        for (_, blocks) in snapshot.free_blocks(layout, zone) {
            add(&mut free_blocks, &blocks);
        }
        add(&mut per_cpu, &snapshot.per_cpu(layout, zone));
        let counts = snapshot.pageblocks(layout, zone);
        pageblocks.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let mobility = mobility_by_flags(layout, snapshot);
    let counts = mobility.map(|mobility| Counts::of(layout, |frame| mobility[frame.index()]));
    Measures {
        unusable: unusable(&free_blocks),
        free_blocks,
        potential: counts.as_ref().map(Counts::potential),
        polluted: counts.as_ref().map(Counts::polluted),
        pageblocks,
        per_cpu,
        fallbacks,
    }
}

/// The replay's measures. What the record never names is what the flags of the first snapshot say.
pub fn of_replay(recording: &Recording, machine: &Machine, fallbacks: u64) -> Measures {
    let layout = &recording.layout;
    let mut free_blocks = Vec::new();
    let mut pageblocks = [0; MigrateType::ALL.len()];
    let mut per_cpu = vec![0; recording.cpus.into()];
    for zone in 0..layout.zones().len() {
        for (_, blocks) in machine.linux.free_blocks(zone) {
            add(&mut free_blocks, &blocks);
        }
        for (cpu, count) in per_cpu.iter_mut().enumerate() {
            *count += machine.linux.cached_count(zone, cpu as u16);
        }
        let counts = machine.linux.pageblocks(zone).unwrap_or_default();
        pageblocks.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let early = recording.snapshots.first().and_then(|first| mobility_by_flags(layout, first));
    let counts = early.map(|early| {
        Counts::of(layout, |frame| match machine.head_of(frame) {
            Some((_, State::Free)) => Mobility::Free,
            // In the kernel's account these have no flags.
            Some((_, State::Cached)) => Mobility::Unknown,
            Some((head, State::Allocated | State::Reserved)) => machine.table.mobility(head),
            _ => early[frame.index()],
        })
    });
    Measures {
        unusable: unusable(&free_blocks),
        free_blocks,
        potential: counts.as_ref().map(Counts::potential),
        polluted: counts.as_ref().map(Counts::polluted),
        pageblocks,
        per_cpu,
        fallbacks,
    }
}

fn unusable(free_blocks: &[u64]) -> f64 {
    unusable_free_space(FreeBlocks { counts: free_blocks }, Order::HUGE)
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// The mobility of each frame of the layout by its flags; `None` without flags.
fn mobility_by_flags(layout: &Layout, snapshot: &Snapshot) -> Option<Vec<Mobility>> {
    let flags = snapshot.flags.as_ref()?;
    let mut mobility = vec![Mobility::Absent; layout.frames() as usize];
    let mut classifier = Classifier::new();
    let mut take = |run: prairie_host::ClassRun| {
        for pfn in run.start.0..run.end().0 {
            if let Some(frame) = layout.frame(prairie_frames::Pfn(pfn)) {
                mobility[frame.index()] = run.mobility();
            }
        }
    };
    for (pfn, &word) in flags.iter().enumerate() {
        let (start, flags) = (prairie_frames::Pfn(pfn as u64), PageFlags(word));
        classifier.push(FrameRun { start, frames: 1, flags, read_at_ns: 0 }, &mut take).ok()?;
    }
    classifier.finish(&mut take);
    Some(mobility)
}

/// Frames by mobility, for each pageblock that has memory.
struct Counts {
    /// By the pageblock's number among frame numbers, which are what is aligned.
    blocks: BTreeMap<u64, BlockCounts>,
}

impl Counts {
    fn of(layout: &Layout, mobility: impl Fn(Frame) -> Mobility) -> Counts {
        let mut blocks: BTreeMap<u64, BlockCounts> = BTreeMap::new();
        for zone in layout.zones() {
            for frame in zone.start.0..zone.end.0 {
                let block = layout.pfn(Frame(frame)).0 >> Order::HUGE.get();
                blocks.entry(block).or_default().add(mobility(Frame(frame)), 1);
            }
        }
        Counts { blocks }
    }

    fn potential(&self) -> f64 {
        let frames: u64 = self.blocks.values().map(|block| u64::from(block.present())).sum();
        let counts: Vec<BlockCounts> = self.blocks.values().copied().collect();
        let start = prairie_frames::Pfn(0);
        let blocks = Blocks { start, counts: &counts };
        let whole = potential_blocks(blocks, Order::HUGE, Unknown::AsUnmovable);
        (whole << Order::HUGE.get()) as f64 / frames.max(1) as f64
    }

    fn polluted(&self) -> u64 {
        self.blocks.values().filter(|block| block.unmovable > 0 || block.unknown > 0).count() as u64
    }
}
