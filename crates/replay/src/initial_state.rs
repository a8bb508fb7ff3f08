//! The initial state of the machine: its zones, and the use of memory at the start of the
//! recording.

use std::collections::BTreeSet;

use prairie_frames::layout::{LayoutError, Watermarks, Zone, ZoneSpan};
use prairie_frames::placement::linux::Pageset;
use prairie_frames::{Frame, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use prairie_host::texts::zoneinfo::ZoneInfo;
use prairie_host::texts::{pagetypeinfo, zoneinfo};
use prairie_host::{Capture, ClassRun, Classifier, FrameClass, FrameRun, PageFlags, ZoneId};
use prairie_trace::import::gfp_names::Renumbering;

/// The use of a run of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// On the free lists.
    Free,
    /// In use, by something of this mobility.
    Held(Mobility),
    /// Present, and never the allocator's: firmware, the kernel's image, broken frames.
    Fixed(Mobility),
    /// Memory that the kernel had not initialized yet. It joins when a recorded event first names
    /// one of its frames.
    Untouched,
}

/// Frames with equal content, within one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first frame.
    pub start: Frame,
    /// How many.
    pub frames: u64,
    /// What they were used for.
    pub content: Content,
    /// Whether they hold slab objects, which distinguishes reclaimable blocks from unmovable ones.
    pub slab: bool,
}

/// A machine at the moment from which a replay starts.
#[derive(Clone, Debug)]
pub struct InitialState {
    /// Its zones.
    pub layout: Layout,
    /// What lay where, ascending; frames of no stretch are absent.
    pub stretches: Vec<Stretch>,
    /// Compound pages in use: first frame and order, ascending.
    pub compounds: Vec<(Frame, Order)>,
    /// For each zone of the layout, pageblocks by type, if the host reported them.
    pub pageblocks: Vec<Option<[u64; MigrateType::ALL.len()]>>,
    /// For each zone of the layout, the size of its per-CPU lists, if the host reported them.
    pub pagesets: Vec<Option<Pageset>>,
    /// CPUs with per-CPU lists.
    pub cpus: u16,
    /// How the recorded kernel numbers the flags of a request, if the trace has it; else as Linux
    /// 6.1 does.
    pub gfp_numbers: Option<Renumbering>,
}

/// Why a capture cannot be the initial state.
#[derive(Debug, thiserror::Error)]
pub enum InitialStateError {
    /// It was made without rights to read page flags.
    #[error("the snapshot has no frames; record it as root, so that /proc/kpageflags can be read")]
    NoFrames,
    /// It has no zones.
    #[error("the snapshot has no proc/zoneinfo, so the machine's zones are not known")]
    NoZones,
    /// One of its texts is not understood.
    #[error(transparent)]
    Text(#[from] prairie_host::Error),
    /// Its zones are those of no machine.
    #[error("the zones in proc/zoneinfo: {0}")]
    Layout(#[from] LayoutError),
}

impl InitialState {
    /// A machine of these zones with all of its memory free, as after a boot that took nothing:
    /// what traces without a snapshot start from.
    ///
    /// # Errors
    /// If no machine has such zones.
    pub fn empty(zones: Vec<ZoneSpan>) -> Result<InitialState, LayoutError> {
        let layout = Layout::new(zones)?;
        let all_free = |zone: &Zone| Stretch {
            start: zone.start,
            frames: u64::from(zone.end.0 - zone.start.0),
            content: Content::Free,
            slab: false,
        };
        let stretches = layout.zones().iter().map(all_free).collect();
        Ok(InitialState::with(layout, stretches, Vec::new()))
    }

    /// CPUs of a node, which share what the per-CPU lists of its zones may hold. Which CPU is of which
    /// node is not recorded: each node is taken to have as many.
    pub fn cpus_per_node(&self) -> u16 {
        let zones = self.layout.zones().iter().filter(|zone| zone.span.managed > 0);
        let nodes: BTreeSet<u16> = zones.map(|zone| zone.span.node).collect();
        self.cpus.div_ceil(nodes.len().max(1) as u16)
    }

    /// The machine of a capture that has frames and zones.
    ///
    /// # Errors
    /// [`InitialStateError`] where it has not, where a text is not understood, or where no machine has
    /// such zones.
    pub fn of(capture: &Capture) -> Result<InitialState, InitialStateError> {
        let runs = capture.frames.as_deref().ok_or(InitialStateError::NoFrames)?;
        let text = |file| capture.files.get(file).map(String::as_str);
        let zoneinfo = text(zoneinfo::FILE).ok_or(InitialStateError::NoZones)?;
        let zones = zoneinfo::parse(zoneinfo).map_err(prairie_host::Error::from)?;
        let spans = prairie_host::layout::Layout::of(capture)?;
        let mut found = InitialState::new(zone_spans(&zones), &spans, runs)?;
        found.note_per_cpu_lists(&zones);
        if let Some(text) = text(pagetypeinfo::FILE) {
            let types = pagetypeinfo::parse(text).map_err(prairie_host::Error::from)?;
            for (zone, counts) in found.layout.zones().iter().zip(&mut found.pageblocks) {
                let id = id_of(&zone.span);
                let known = types.pageblocks.iter().find(|zone| zone.id == id);
                *counts = known.map(|known| {
                    let mut by_type = [0; MigrateType::ALL.len()];
                    known.blocks.iter().for_each(|(t, blocks)| by_type[t.index()] += blocks);
                    by_type
                });
            }
        }
        Ok(found)
    }

    /// The machine whose zones and frames were read. `runs` ascend; `spans` says which zone has
    /// which of them.
    ///
    /// # Errors
    /// If no machine has such zones, or the runs do not ascend.
    pub fn new(
        zones: Vec<ZoneSpan>,
        spans: &prairie_host::layout::Layout,
        runs: &[FrameRun],
    ) -> Result<InitialState, InitialStateError> {
        let layout = Layout::new(zones)?;
        let mut stretches = Vec::new();
        let mut cursor = 0;
        let mut take = |run: ClassRun| {
            spans.split(run, &mut cursor, &mut |part| {
                let run = part.run;
                if let (Some(content), Some(start)) =
                    (content_of(run.class), layout.frame(run.start))
                {
                    let slab = run.class == FrameClass::Slab;
                    stretches.push(Stretch { start, frames: run.frames, content, slab });
                }
            });
        };
        let mut classifier = Classifier::new();
        for run in runs {
            classifier.push(*run, &mut take)?;
        }
        classifier.finish(&mut take);
        let compounds = compounds(&layout, runs);
        Ok(InitialState::with(layout, stretches, compounds))
    }

    fn with(
        layout: Layout,
        stretches: Vec<Stretch>,
        compounds: Vec<(Frame, Order)>,
    ) -> InitialState {
        let zones = layout.zones().len();
        let (pageblocks, pagesets) = (vec![None; zones], vec![None; zones]);
        InitialState {
            layout,
            stretches,
            compounds,
            pageblocks,
            pagesets,
            cpus: 1,
            gfp_numbers: None,
        }
    }

    /// Takes over how the host sized its per-CPU lists.
    fn note_per_cpu_lists(&mut self, infos: &[ZoneInfo]) {
        for (zone, pageset) in self.layout.zones().iter().zip(&mut self.pagesets) {
            let lists = infos.iter().find(|info| info.id == id_of(&zone.span));
            let lists = lists.map_or(&[][..], |info| &info.per_cpu_lists);
            self.cpus = self.cpus.max(lists.len() as u16);
            *pageset = lists
                .first()
                .map(|list| Pageset::fixed(list.batch.max(1) as u32, list.high as u32));
        }
    }

    /// The order of the compound page that starts at `frame`, or a single frame. `cursor` is the
    /// place in [`compounds`](InitialState::compounds) that a walk in ascending order has reached.
    pub fn block_at(&self, frame: Frame, cursor: &mut usize) -> Order {
        while self.compounds.get(*cursor).is_some_and(|&(start, _)| start < frame) {
            *cursor += 1;
        }
        match self.compounds.get(*cursor) {
            Some(&(start, order)) if start == frame => order,
            _ => Order::BASE,
        }
    }

    /// A type for each pageblock, by pageblock number.
    ///
    /// `/proc/pagetypeinfo` has the number of blocks of each type in a zone, but not which they
    /// are. The blocks with the most unmovable frames count as the unmovable and reclaimable ones,
    /// up to the zone's number, and those among them with the most slab as the reclaimable ones.
    /// Without these numbers, blocks with more unmovable than movable frames are unmovable.
    pub fn pageblock_types(&self) -> Vec<(usize, MigrateType)> {
        let mut types = Vec::new();
        for (index, zone) in self.layout.zones().iter().enumerate() {
            let mut blocks = self.unmovable_by_pageblock(zone.start, zone.end);
            match &self.pageblocks[index] {
                Some(counts) => {
                    let reclaimable = counts[MigrateType::Reclaimable.index()] as usize;
                    let marked = counts[MigrateType::Unmovable.index()] as usize + reclaimable;
                    blocks.sort_by_key(|b| (std::cmp::Reverse(b.unmovable), b.pageblock));
                    blocks.truncate(marked);
                    blocks.sort_by_key(|b| (std::cmp::Reverse(b.slab), b.pageblock));
                    types.extend(blocks.iter().enumerate().map(|(rank, block)| {
                        let slab_like = rank < reclaimable && block.slab > 0;
                        let kind = [MigrateType::Unmovable, MigrateType::Reclaimable];
                        (block.pageblock, kind[usize::from(slab_like)])
                    }));
                }
                None => {
                    blocks.retain(|block| block.unmovable > block.movable);
                    types.extend(blocks.iter().map(|b| (b.pageblock, MigrateType::Unmovable)));
                }
            }
        }
        types
    }

    fn unmovable_by_pageblock(&self, start: Frame, end: Frame) -> Vec<PageblockUse> {
        let mut blocks: Vec<PageblockUse> = Vec::new();
        for stretch in self.stretches.iter().filter(|s| s.start >= start && s.start < end) {
            let (mut at, stretch_end) = (stretch.start.0, stretch.start.0 + stretch.frames as u32);
            while at < stretch_end {
                let pageblock = Frame(at).pageblock();
                let next = ((pageblock as u32 + 1) << Order::HUGE.get()).min(stretch_end);
                if blocks.last().is_none_or(|last| last.pageblock != pageblock) {
                    blocks.push(PageblockUse { pageblock, unmovable: 0, movable: 0, slab: 0 });
                }
                let block = blocks.last_mut().expect("just pushed");
                match stretch.content {
                    Content::Held(Mobility::Movable) => block.movable += next - at,
                    Content::Held(_) => block.unmovable += next - at,
                    _ => {}
                }
                block.slab += if stretch.slab { next - at } else { 0 };
                at = next;
            }
        }
        blocks.retain(|block| block.unmovable > 0);
        blocks
    }
}

/// What held a pageblock, in frames.
struct PageblockUse {
    pageblock: usize,
    unmovable: u32,
    movable: u32,
    slab: u32,
}

fn content_of(class: FrameClass) -> Option<Content> {
    match class {
        FrameClass::Absent => None,
        FrameClass::Free => Some(Content::Free),
        FrameClass::Uninitialized => Some(Content::Untouched),
        FrameClass::Reserved
        | FrameClass::ZeroPage
        | FrameClass::Offline
        | FrameClass::HwPoison => Some(Content::Fixed(class.mobility())),
        _ => Some(Content::Held(class.mobility())),
    }
}

/// The zone's name in the host's texts.
pub fn id_of(span: &ZoneSpan) -> ZoneId {
    ZoneId { node: span.node.into(), kind: span.kind }
}

/// The zones of `/proc/zoneinfo`.
pub fn zone_spans(zones: &[ZoneInfo]) -> Vec<ZoneSpan> {
    let span = |zone: &ZoneInfo| ZoneSpan {
        node: u16::try_from(zone.id.node).unwrap_or(u16::MAX),
        kind: zone.id.kind,
        start: zone.start,
        spanned: zone.spanned_frames,
        managed: zone.managed_frames,
        watermarks: Watermarks {
            min: zone.watermarks.min,
            low: zone.watermarks.low,
            high: zone.watermarks.high,
        },
        // The kernel lists a reserve for each kind of zone that it was built with, in ascending
        // order; those it was built without are missing from zoneinfo altogether.
        lowmem_reserve: by_kind(zones, zone),
    };
    zones.iter().map(span).collect()
}

/// A zone's lowmem reserves by the kind of zone that a request could have used.
fn by_kind(zones: &[ZoneInfo], zone: &ZoneInfo) -> [u64; ZoneKind::ALL.len()] {
    let mut kinds: Vec<ZoneKind> =
        zones.iter().filter(|z| z.id.node == zone.id.node).map(|z| z.id.kind).collect();
    kinds.sort_unstable();
    let mut reserve = [0; ZoneKind::ALL.len()];
    let mut last = 0;
    for kind in ZoneKind::ALL {
        if let Some(at) = kinds.iter().position(|&k| k == kind) {
            last = zone.lowmem_reserve_frames.get(at).copied().unwrap_or(last);
        }
        reserve[kind as usize] = last;
    }
    reserve
}

/// Compound pages in use, from heads and the tails that follow them. What is no whole aligned
/// power of two (a page that changed while it was read) is left as single frames.
fn compounds(layout: &Layout, runs: &[FrameRun]) -> Vec<(Frame, Order)> {
    let mut compounds = Vec::new();
    for pair in runs.windows(2) {
        let [head, tails] = pair else { continue };
        let last = Pfn(head.start.0 + head.frames - 1);
        let is_pair = head.flags.contains(PageFlags::COMPOUND_HEAD)
            && tails.flags.contains(PageFlags::COMPOUND_TAIL)
            && tails.start.0 == last.0 + 1;
        let size = tails.frames + 1;
        if !is_pair || !size.is_power_of_two() {
            continue;
        }
        let order = Order::new(size.trailing_zeros() as u8).expect("a page of this machine");
        if let Some(frame) = layout.frame(last).filter(|_| last.is_aligned(order)) {
            compounds.push((frame, order));
        }
    }
    compounds
}
