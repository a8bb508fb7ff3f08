//! Changes of the limits of per-CPU lists and of the watermarks: when, and to which values.
//!
//! Probes and the steps of the kernel's boot report when ([`Resized`]). The values come from the
//! kernel's own numbers where the recording has them for that time: a snapshot, or a reading of the
//! lists ([`ListReading`](super::probes::ListReading)). Otherwise they are computed as the kernel
//! computes them.

use prairie_frames::layout::{Watermarks, Zone};
use prairie_frames::placement::linux::Pageset;
use prairie_frames::{KernelVersion, ZoneKind};

use super::act::{Action, Edge, Resized};
use super::onlined::{self, ZoneSize};
use super::recording::Recording;

/// The first release whose ZONE_MOVABLE has no share of `min_free_kbytes`. 6.1 gives it one, and 6.12
/// does not (*inferred*: the release between them).
const MOVABLE_MIN: KernelVersion = KernelVersion::new(6, 7);

/// One change of the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The act that reports the change.
    pub at: usize,
    /// The limits of each zone's lists.
    pub pagesets: Vec<Pageset>,
    /// The watermarks of each zone.
    pub watermarks: Vec<Watermarks>,
    /// The sizes of the zones, if memory comes online.
    pub sizes: Option<Vec<ZoneSize>>,
}

/// All changes from the first watermarks on; none if the recording does not report them.
pub fn changes(recording: &Recording) -> Vec<Change> {
    if !recording.names_limits {
        return Vec::new();
    }
    let reported: Vec<(usize, Resized)> = recording
        .acts
        .iter()
        .enumerate()
        .filter_map(|(at, act)| match act.action {
            Action::Resized(resized) => Some((at, resized)),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    let mut state = State::of(recording);
    let grows = recording.grows();
    for (place, &(at, resized)) in reported.iter().enumerate() {
        let managed = recording.managed(at);
        match resized {
            Resized::Caches => state.keeps_batch = recording.keeps_batch(),
            Resized::Watermarks { min_free_kib, scale_factor } => {
                state.written = Some((min_free_kib, scale_factor));
            }
            Resized::Fraction(fraction) => state.fraction = fraction,
            Resized::Online => state.came_online(&managed),
            Resized::Disabled(zone) => state.disabled = Some(zone),
            Resized::Boot | Resized::HugePages | Resized::Enabled => {}
        }
        if !matches!(resized, Resized::Disabled(_)) {
            state.disabled = None;
        }
        let sets = |&&(_, later): &&(usize, Resized)| later != Resized::Caches;
        let until =
            reported[place + 1..].iter().find(sets).map_or(recording.acts.len(), |next| next.0);
        let watermarks = match resized {
            Resized::Disabled(_) | Resized::Enabled => state.marks.clone(),
            _ => state.watermarks(at, resized, &managed),
        };
        let pagesets = state.pagesets(at..until, &watermarks, &managed);
        let sizes = grows.then(|| state.sizes(at, &managed));
        state.marks.clone_from(&watermarks);
        found.push(Change { at, pagesets, watermarks, sizes });
    }
    found
}

struct State<'a> {
    recording: &'a Recording,
    written: Option<(u64, u64)>,
    fraction: u64,
    keeps_batch: bool,
    /// The watermarks of each zone.
    marks: Vec<Watermarks>,
    /// The zone whose lists hold nothing now.
    disabled: Option<usize>,
}

impl<'a> State<'a> {
    fn of(recording: &'a Recording) -> State<'a> {
        let marks = vec![Watermarks::default(); recording.layout.zones().len()];
        State { recording, written: None, fraction: 0, keeps_batch: false, marks, disabled: None }
    }

    /// Memory came online: `min_free_kbytes` follows what lies above the high watermarks of the zones
    /// that kernel requests may use (`calculate_min_free_kbytes`).
    fn came_online(&mut self, managed: &[u64]) {
        let zones = self.recording.layout.zones().iter().zip(managed.iter().zip(&self.marks));
        let kernel_zones = zones.filter(|(zone, _)| zone.span.kind < ZoneKind::Movable);
        let above: u64 =
            kernel_zones.map(|(_, (size, marks))| size.saturating_sub(marks.high)).sum();
        let scale_factor = self.written.map_or(10, |(_, scale_factor)| scale_factor);
        self.written = Some((min_free_kib(above), scale_factor));
    }

    /// The watermarks from an act on: those of the next snapshot, unless they are written before it
    /// or were raised after boot set them.
    fn watermarks(&self, at: usize, resized: Resized, managed: &[u64]) -> Vec<Watermarks> {
        let computed = self.computed_watermarks(managed);
        let seen = self
            .next_snapshot(at)
            .map(|place| self.recording.snapshots[place].watermarks(&self.recording.layout));
        let Some(seen) = seen else { return computed };
        let low = |marks: &[Watermarks]| marks.iter().map(|marks| marks.low).sum::<u64>();
        let raised = low(&seen) > low(&computed) + low(&computed) / 20;
        if resized == Resized::Boot && raised { computed } else { seen }
    }

    /// The next snapshot, if no watermarks are written before.
    fn next_snapshot(&self, at: usize) -> Option<usize> {
        self.recording.acts[at + 1..].iter().find_map(|act| match act.action {
            Action::Snapshot(place, Edge::End) => Some(Some(place)),
            Action::Resized(Resized::Watermarks { .. } | Resized::Online) => Some(None),
            _ => None,
        })?
    }

    /// `__setup_per_zone_wmarks`, with `min_free_kbytes` as `calculate_min_free_kbytes` has it unless
    /// it was written.
    fn computed_watermarks(&self, managed: &[u64]) -> Vec<Watermarks> {
        let zones = self.recording.layout.zones();
        let small_min = self.recording.version >= MOVABLE_MIN;
        let is_kernel = |zone: &Zone| !small_min || zone.span.kind < ZoneKind::Movable;
        let kernel_zones = zones.iter().zip(managed).filter(|(zone, _)| is_kernel(zone));
        let low_memory: u64 = kernel_zones.map(|(_, managed)| managed).sum();
        let (kib, scale) = self.written.unwrap_or((min_free_kib(low_memory), 10));
        let of = |(zone, &managed): (&Zone, &u64)| {
            let share = kib / 4 * managed / low_memory.max(1);
            let step = (share / 4).max(managed * scale / 10_000);
            let min = if is_kernel(zone) { share } else { (managed / 1024).clamp(32, 128) };
            Watermarks { min, low: min + step, high: min + 2 * step }
        };
        zones.iter().zip(managed).map(of).collect()
    }

    /// The sizes of the zones, with the reserves of the next snapshot unless the zones change before it.
    fn sizes(&self, at: usize, managed: &[u64]) -> Vec<ZoneSize> {
        let layout = &self.recording.layout;
        let reserves = match self.next_snapshot(at) {
            Some(place) => self.recording.snapshots[place].reserves(layout),
            None => onlined::reserves(layout, managed),
        };
        let size = |(&managed, lowmem_reserve)| ZoneSize { managed, lowmem_reserve };
        managed.iter().zip(reserves).map(size).collect()
    }

    fn pagesets(
        &self,
        acts: std::ops::Range<usize>,
        marks: &[Watermarks],
        managed: &[u64],
    ) -> Vec<Pageset> {
        let recording = self.recording;
        let zones = recording.layout.zones().iter().enumerate();
        let batches = recording.snapshots[0].pagesets(&recording.layout);
        zones
            .map(|(zone, Zone { span, .. })| {
                let frames = managed[zone];
                let read = recording.reading_of(zone, acts.clone());
                let cpus = recording.sharing_cpus(zone);
                let parts = match self.fraction {
                    0 => Pageset::of_size(frames, marks[zone].low, cpus),
                    part => {
                        let each = Pageset::of_size(frames, frames / part, cpus);
                        Pageset { high_max: each.high, ..each }
                    }
                };
                let batch = match frames == span.managed {
                    true => batches[zone].batch,
                    false => parts.batch,
                };
                let computed = Pageset { batch, ..parts };
                let limits = match self.disabled == Some(zone) {
                    true => Pageset::BOOT,
                    false => read.unwrap_or(computed),
                };
                Pageset { keeps_batch: self.keeps_batch, ..limits }
            })
            .collect()
    }
}

/// `vm.min_free_kbytes` of a machine with as many frames of low memory.
fn min_free_kib(low_memory: u64) -> u64 {
    (low_memory * 4 * 16).isqrt().clamp(128, 262_144)
}

impl Recording {
    /// CPUs that share what lies below a zone's low watermark: those of its node (`zone_highsize`).
    /// The high mark of the first snapshot shows how many; where it has adapted, all do. If the zone has
    /// no memory then, another one of its node shows it.
    pub(super) fn sharing_cpus(&self, zone: usize) -> u16 {
        let first = &self.snapshots[0];
        let zones = self.layout.zones();
        let of_node = (0..zones.len()).filter(|&at| zones[at].span.node == zones[zone].span.node);
        let zone = match zones[zone].span.managed {
            0 => of_node.max_by_key(|&at| zones[at].span.managed).unwrap_or(zone),
            _ => zone,
        };
        let (cpus, managed) = (first.cpus(), zones[zone].span.managed);
        let low = first.watermarks(&self.layout)[zone].low;
        let high = first.pagesets(&self.layout)[zone].high;
        let shows = |&cpus: &u16| Pageset::of_size(managed, low, cpus).high == high;
        (1..=cpus).rev().find(shows).unwrap_or(cpus)
    }

    /// The limits that the kernel's own numbers show for a zone among some acts.
    fn reading_of(&self, zone: usize, acts: std::ops::Range<usize>) -> Option<Pageset> {
        self.acts[acts].iter().find_map(|act| {
            let Action::Decay(place) = act.action else { return None };
            let (about, lists) = self.readings.get(place)?;
            (*about == zone && lists.limits.high_max > 0).then_some(lists.limits)
        })
    }

    /// Whether the recorded machine's lists keep a batch while larger blocks are freed in a row.
    fn keeps_batch(&self) -> bool {
        self.readings.iter().any(|(_, lists)| lists.limits.keeps_batch)
    }
}

#[cfg(test)]
mod tests {
    use prairie_frames::layout::ZoneSpan;
    use prairie_frames::{Layout, Pfn};

    use super::super::act::Act;
    use super::super::snapshot::Snapshot;
    use super::*;

    /// A machine whose Movable zone is a quarter of 1 GiB.
    fn recording(version: KernelVersion) -> Recording {
        let zone = |kind, start, frames| ZoneSpan {
            node: 0,
            kind,
            start: Pfn(start),
            spanned: frames,
            managed: frames,
            watermarks: Watermarks::default(),
            lowmem_reserve: Default::default(),
        };
        let zones =
            vec![zone(ZoneKind::Dma32, 0, 196_608), zone(ZoneKind::Movable, 262_144, 65_536)];
        Recording::empty(Layout::new(zones).unwrap(), version)
    }

    #[test]
    fn a_movable_zone_has_a_share_of_the_least_free_memory_in_6_1_only() {
        let marks = |version| {
            let recording = recording(version);
            let state = State { written: Some((4096, 10)), ..State::of(&recording) };
            let computed = state.computed_watermarks(&[196_608, 65_536]);
            computed.iter().map(|marks| [marks.min, marks.low]).collect::<Vec<_>>()
        };
        assert_eq!(marks(KernelVersion::V6_1), [[768, 964], [256, 321]]);
        assert_eq!(marks(KernelVersion::new(6, 12)), [[1024, 1280], [64, 149]]);
    }

    #[test]
    fn lists_of_a_zone_hold_nothing_while_its_memory_goes_offline() {
        let mut recording = recording(KernelVersion::V6_1);
        let resized = [
            Resized::Boot,
            Resized::Disabled(1),
            Resized::Watermarks { min_free_kib: 4096, scale_factor: 10 },
            Resized::Disabled(0),
            Resized::Enabled,
        ];
        let text = ["Page block order: 9\nPages per block:  512\n", ""];
        recording.snapshots = vec![Snapshot::new("none", text, None).unwrap()];
        recording.names_limits = true;
        recording.acts = resized.map(|resized| Act::aside(Action::Resized(resized), 0)).to_vec();
        let changes = changes(&recording);
        let highs = |change: &Change| [0, 1].map(|zone| change.pagesets[zone].high);
        assert_eq!(highs(&changes[1])[1], 0);
        assert_eq!(highs(&changes[1])[0], highs(&changes[0])[0]);
        assert_eq!((highs(&changes[2]), highs(&changes[3])), ([964, 321], [0, 321]));
        assert_eq!(changes[4].pagesets, changes[2].pagesets);
        assert_eq!(changes[4].watermarks, changes[2].watermarks);
    }

    /// One of two CPUs is on the node: the lists of DMA32 hold as much as its low watermark. The Movable
    /// zone has no memory at first.
    #[test]
    fn a_zone_that_gets_memory_later_is_shared_by_the_cpus_of_its_node() {
        let mut recording = recording(KernelVersion::V6_1);
        let mut spans: Vec<ZoneSpan> =
            recording.layout.zones().iter().map(|zone| zone.span.clone()).collect();
        spans[1].managed = 0;
        recording.layout = Layout::new(spans).unwrap();
        let lists =
            |cpu| format!("    cpu: {cpu}\n      count: 0\n      high: 1000\n      batch: 63\n");
        let zones = format!(
            "Node 0, zone DMA32\n  pages free 1\n        min 800\n        low 1000\n        high 1200\n\
             \x20       spanned 196608\n        present 196608\n        managed 196608\n        \
             protection: (0, 0)\n  pagesets\n{}{}  start_pfn: 0\n",
            lists(0),
            lists(1)
        );
        let text = ["Page block order: 9\nPages per block:  512\n", &zones];
        recording.snapshots = vec![Snapshot::new("first", text, None).unwrap()];
        assert_eq!([0, 1].map(|zone| recording.sharing_cpus(zone)), [1, 1]);
    }

    #[test]
    fn the_least_free_memory_follows_what_lies_above_the_high_watermarks() {
        let recording = recording(KernelVersion::new(6, 12));
        let mut state = State::of(&recording);
        state.marks[0].high = 1608;
        state.came_online(&[196_608, 65_536]);
        assert_eq!(state.written, Some((3532, 10)), "the square root of 64 × 195,000");
    }
}
