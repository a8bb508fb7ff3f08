//! Who allocates unmovable memory: by source, by process, by call chain.

use std::collections::{BTreeMap, HashMap};

use prairie_frames::MigrateType;
use serde::Serialize;

use crate::attribution::Attribution;
use crate::held::{Block, Held};
use crate::{Column, Columns, Event, EventKind, EventSource, Reader, Result, StackId, Text};

/// How many call chains are named for each source and process.
const TOP: usize = 5;

/// Unmovable and reclaimable allocations of a recording by source.
///
/// Only memory allocated during the recording counts: older memory has no known origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sources {
    /// Nanoseconds from the first event to the last.
    pub duration_ns: u64,
    /// Whether any allocation has a call chain. Without, every one is of the source
    /// [`Sources::WITHOUT`].
    pub has_stacks: bool,
    /// Events lost while recording.
    pub lost_events: u64,
    /// Blocks that were allocated again without having been freed: their frees were lost.
    pub frees_missing: u64,
    /// Everything.
    pub total: Usage,
    /// By source; the largest holder of frames at the end first.
    pub by_source: Vec<Usage>,
    /// By the name of the process that ran. Interrupts run on behalf of no process, and count to
    /// the process that they interrupted.
    pub by_process: Vec<Usage>,
    /// Chains without a function in the table, largest first: [`Sources::UNKNOWN`].
    pub unknown: Vec<StackUsage>,
}

/// The allocations of one source or process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// The source or process.
    pub name: String,
    /// For sources that hand memory on, on whose behalf.
    pub behalf: Option<String>,
    /// Blocks allocated.
    pub allocations: u64,
    /// Frames in them.
    pub frames_allocated: u64,
    /// Of those, the ones that a shrinker can free (`__GFP_RECLAIMABLE`).
    pub frames_reclaimable: u64,
    /// Frames that were still in use at the end.
    pub frames_held: u64,
    /// Mean time from allocation to free, over the frames that were freed; `None` if none was.
    pub mean_lifetime_ns: Option<u64>,
    /// The call chains that held most frames at the end, then those that allocated most.
    pub top_stacks: Vec<StackUsage>,
}

/// The allocations of one call chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StackUsage {
    /// Its functions, outermost first, joined by `;`.
    pub folded: String,
    /// Blocks allocated.
    pub allocations: u64,
    /// Frames in them.
    pub frames_allocated: u64,
    /// Frames that were still in use at the end.
    pub frames_held: u64,
}

/// The origin of an allocation: process name, call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Origin {
    process: Text,
    chain: Text,
}

/// The allocations of an origin so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    allocations: u64,
    frames: u64,
    reclaimable: u64,
    held: u64,
    freed: u64,
    /// Sum of lifetimes over freed frames.
    frame_ns: u128,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.allocations += other.allocations;
        self.frames += other.frames;
        self.reclaimable += other.reclaimable;
        self.held += other.held;
        self.freed += other.freed;
        self.frame_ns += other.frame_ns;
    }

    fn usage(&self, name: String, behalf: Option<String>, top_stacks: Vec<StackUsage>) -> Usage {
        let mean = self.frame_ns.checked_div(self.freed.into());
        Usage {
            name,
            behalf,
            allocations: self.allocations,
            frames_allocated: self.frames,
            frames_reclaimable: self.reclaimable,
            frames_held: self.held,
            mean_lifetime_ns: mean.map(|ns| ns as u64),
            top_stacks,
        }
    }
}

/// Follows the allocations of a stream.
#[derive(Default)]
struct Ledger {
    held: Held<(Origin, u64)>,
    counts: HashMap<Origin, Counts>,
    names: HashMap<i32, Text>,
    chains: HashMap<StackId, Text>,
    first_ns: Option<u64>,
    last_ns: u64,
    frees_missing: u64,
}

impl Ledger {
    fn take(&mut self, event: &Event) {
        match event.what {
            EventKind::Process { name } => drop(self.names.insert(event.pid, name)),
            EventKind::Stack { id, folded } => drop(self.chains.insert(id, folded)),
            EventKind::Alloc { pfn, order, migrate_type, stack, .. } => {
                self.see(event.time_ns);
                let block = Block { pfn, order };
                self.frees_missing += self.forget(block);
                if migrate_type == MigrateType::Movable {
                    return;
                }
                let origin = Origin {
                    process: self.names.get(&event.pid).copied().unwrap_or(Text::EMPTY),
                    chain: self.chains.get(&stack).copied().unwrap_or(Text::EMPTY),
                };
                let counts = self.counts.entry(origin).or_default();
                let frames = order.frames();
                counts.allocations += 1;
                counts.frames += frames;
                counts.held += frames;
                if migrate_type == MigrateType::Reclaimable {
                    counts.reclaimable += frames;
                }
                self.held.insert(block, (origin, event.time_ns));
            }
            EventKind::Free { pfn, order } => {
                self.see(event.time_ns);
                for (block, (origin, since)) in self.held.remove(Block { pfn, order }) {
                    let counts = self.counts.entry(origin).or_default();
                    let frames = block.order.frames();
                    counts.held -= frames;
                    counts.freed += frames;
                    let lifetime = event.time_ns.saturating_sub(since);
                    counts.frame_ns += u128::from(lifetime) * u128::from(frames);
                }
            }
            _ => {}
        }
    }

    fn see(&mut self, time_ns: u64) {
        self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// Drops blocks that are allocated again without a recorded free.
    fn forget(&mut self, block: Block) -> u64 {
        let stale = self.held.remove(block);
        for (part, (origin, _)) in &stale {
            self.counts.entry(*origin).or_default().held -= part.order.frames();
        }
        stale.len() as u64
    }
}

impl Sources {
    /// The name of the source of chains that the table does not know.
    pub const UNKNOWN: &str = "unknown";
    /// The name of the source of allocations without a call chain.
    pub const WITHOUT: &str = "no call chain";

    /// Reads a recording's events and says who made its unmovable and reclaimable allocations.
    ///
    /// Memory grows with the blocks held at one time and the distinct call chains, not with the
    /// length of the recording.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn of(reader: &Reader) -> Result<Sources> {
        let columns = Columns::REPLAY.with(Column::Stack).with(Column::Text);
        let mut events = reader.events(columns);
        Sources::of_events(&mut events, reader.metadata().lost_events())
    }

    /// The same for any stream of events.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn of_events(events: &mut dyn EventSource, lost_events: u64) -> Result<Sources> {
        let mut ledger = Ledger::default();
        while let Some(batch) = events.next_batch()? {
            batch.iter().for_each(|event| ledger.take(event));
        }
        let texts = events.texts();
        let mut total = Counts::default();
        let mut by_source: BTreeMap<(&str, Option<&str>), Group> = BTreeMap::new();
        let mut by_process: BTreeMap<&str, Group> = BTreeMap::new();
        let mut attributions: HashMap<Text, (&str, Option<&str>)> = HashMap::new();
        for (origin, counts) in &ledger.counts {
            total.add(counts);
            let chain = texts.get(origin.chain);
            let source = *attributions.entry(origin.chain).or_insert_with(|| attribute(chain));
            by_source.entry(source).or_default().add(origin.chain, counts);
            by_process.entry(texts.get(origin.process)).or_default().add(origin.chain, counts);
        }
        let fold = |chain| texts.get(chain).to_owned();
        let unknown = by_source.get(&(Sources::UNKNOWN, None));
        Ok(Sources {
            duration_ns: ledger.last_ns - ledger.first_ns.unwrap_or(0).min(ledger.last_ns),
            has_stacks: ledger.counts.keys().any(|origin| origin.chain != Text::EMPTY),
            lost_events,
            frees_missing: ledger.frees_missing,
            total: total.usage("all".into(), None, Vec::new()),
            unknown: unknown.map_or(Vec::new(), |group| group.stacks(usize::MAX, &fold)),
            by_source: ranked(by_source.into_iter().map(|((name, behalf), group)| {
                let behalf = behalf.map(str::to_owned);
                group.counts.usage(name.to_owned(), behalf, group.stacks(TOP, &fold))
            })),
            by_process: ranked(by_process.into_iter().map(|(name, group)| {
                let name = if name.is_empty() { "?" } else { name };
                group.counts.usage(name.to_owned(), None, group.stacks(TOP, &fold))
            })),
        })
    }
}

fn attribute(chain: &str) -> (&'static str, Option<&'static str>) {
    if chain.is_empty() {
        return (Sources::WITHOUT, None);
    }
    let found = Attribution::of(chain);
    (found.source.unwrap_or(Sources::UNKNOWN), found.behalf)
}

/// The counts of a source or process, and of its call chains.
#[derive(Default)]
struct Group {
    counts: Counts,
    chains: BTreeMap<Text, Counts>,
}

impl Group {
    fn add(&mut self, chain: Text, counts: &Counts) {
        self.counts.add(counts);
        if chain != Text::EMPTY {
            self.chains.entry(chain).or_default().add(counts);
        }
    }

    fn stacks(&self, most: usize, fold: &dyn Fn(Text) -> String) -> Vec<StackUsage> {
        let mut stacks: Vec<StackUsage> = self
            .chains
            .iter()
            .map(|(&chain, counts)| StackUsage {
                folded: fold(chain),
                allocations: counts.allocations,
                frames_allocated: counts.frames,
                frames_held: counts.held,
            })
            .collect();
        stacks.sort_by(|a, b| {
            let rank = |s: &StackUsage| std::cmp::Reverse((s.frames_held, s.frames_allocated));
            rank(a).cmp(&rank(b)).then_with(|| a.folded.cmp(&b.folded))
        });
        stacks.truncate(most);
        stacks
    }
}

/// Largest holders first, then largest allocators; names decide between equals.
fn ranked(usages: impl Iterator<Item = Usage>) -> Vec<Usage> {
    let mut usages: Vec<Usage> = usages.collect();
    usages.sort_by_key(|u| std::cmp::Reverse((u.frames_held, u.frames_allocated)));
    usages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Batches;
    use crate::{GfpFlags, Texts};
    use prairie_frames::{Order, Pfn};

    #[test]
    fn a_history_worked_by_hand() {
        let mut texts = Texts::default();
        let slab = texts.intern("do_syscall_64;path_openat;allocate_slab;alloc_pages_noprof");
        let odd = texts.intern("do_syscall_64;frobnicate;alloc_pages_noprof");
        let name = texts.intern("tar");
        let order = |j| Order::new(j).unwrap();
        let alloc = |pfn, j, migrate_type, stack| EventKind::Alloc {
            pfn: Pfn(pfn),
            order: order(j),
            migrate_type,
            gfp: GfpFlags(0),
            stack: StackId(stack),
        };
        let free = |pfn, j| EventKind::Free { pfn: Pfn(pfn), order: order(j) };
        use MigrateType::{Movable, Reclaimable, Unmovable};
        let history = [
            (0, EventKind::Process { name }),
            (0, EventKind::Stack { id: StackId(1), folded: slab }),
            (0, EventKind::Stack { id: StackId(2), folded: odd }),
            (100, alloc(0, 2, Reclaimable, 1)),
            (110, alloc(8, 0, Unmovable, 2)),
            (120, alloc(16, 9, Movable, 0)),
            (130, free(1, 0)),   // one frame of the first block: it lived 30 ns
            (150, free(0, 0)),   // another: 50 ns
            (160, free(999, 0)), // never seen
            (170, alloc(8, 0, Unmovable, 0)), // its free was lost
            (200, alloc(32, 1, Unmovable, 1)),
        ];
        let events = history.map(|(time_ns, what)| Event { time_ns, pid: 5, cpu: 0, what });
        let mut source = Batches::new(events.into_iter(), texts);
        let found = Sources::of_events(&mut source, 3).unwrap();
        let brief = |u: &Usage| {
            let behalf = u.behalf.clone().unwrap_or_default();
            let (name, mean) = (u.name.clone(), u.mean_lifetime_ns);
            (name, behalf, u.allocations, u.frames_allocated, u.frames_held, mean)
        };
        let text = str::to_owned;
        assert_eq!(brief(&found.total), (text("all"), text(""), 4, 8, 5, Some(40)));
        assert_eq!(
            found.by_source.iter().map(brief).collect::<Vec<_>>(),
            [
                (text("slab"), text("file system"), 2, 6, 4, Some(40)),
                (text("no call chain"), text(""), 1, 1, 1, None),
                (text("unknown"), text(""), 1, 1, 0, None),
            ]
        );
        assert_eq!(found.by_process.len(), 1);
        assert_eq!(brief(&found.by_process[0]), (text("tar"), text(""), 4, 8, 5, Some(40)));
        assert_eq!(found.unknown.len(), 1);
        assert_eq!(found.by_source[0].frames_reclaimable, 4);
        assert_eq!((found.duration_ns, found.frees_missing, found.lost_events), (100, 1, 3));
        assert!(found.has_stacks);
    }
}
