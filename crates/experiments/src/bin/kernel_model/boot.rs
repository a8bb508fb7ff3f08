//! One boot: what the kernel did, and its model on the same demand.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::regions::resizer::Resize;
use prairie_frames::placement::regions::{Config, Regions};
use prairie_frames::{Order, Pfn, ZoneKind};
use prairie_host::Capture;
use prairie_host::texts::zoneinfo;
use prairie_model::sample::{BlocksBySize, Tally};
use prairie_replay::initial_state::{InitialState, Stretch, zone_spans};
use prairie_replay::replay::{Initial, Replay};
use prairie_trace::import::gfp_names::Renumbering;
use prairie_trace::{Columns, EventSource, Reader};

/// The time between two decisions of the kernel's thread (`PERIOD` in
/// `kernel/source/mm/contiguitas/thread.c`). If nothing happens it is longer, but then neither the
/// kernel nor the model moves anything.
const PERIOD_NS: u64 = 100_000_000;

/// One of the kernel's samples.
struct Sample {
    /// Nanoseconds since boot.
    at_ns: u64,
    words: HashMap<String, f64>,
}

/// What is compared, of the kernel or of its model.
#[derive(Default)]
pub struct Side {
    /// The unmovable region in MiB, at each of the kernel's samples.
    pub region: Vec<f64>,
    /// Pageblocks by which the border went up, and down.
    pub moves: [f64; 2],
    /// Pages that were migrated.
    pub pages_moved: f64,
    /// Requests that waited for the border.
    pub waits: f64,
    /// Contiguity at the end.
    pub potential: Potential,
}

/// Memory in MiB in large blocks that can be emptied. Page flags do not show what a frame in a pipe or
/// on a per-CPU list is, so there are two bounds: frames of unknown use are unmovable, or not.
#[derive(Clone, Copy, Default)]
pub struct Potential {
    /// In 2 MiB, 32 MiB, and 1 GiB blocks without an unmovable frame.
    pub blocks: [[f64; 2]; 3],
    /// Unmovable frames, with those of unknown use, and without.
    pub unmovable: [f64; 2],
}

impl Potential {
    /// From the blocks of both bounds.
    pub fn new(at_least: BlocksBySize, at_most: BlocksBySize, unmovable: [u64; 2]) -> Potential {
        let sizes = |blocks: BlocksBySize| {
            [blocks.mib_2 * 2, blocks.mib_32 * 32, blocks.gib_1 * 1024].map(|mib| mib as f64)
        };
        let (least, most) = (sizes(at_least), sizes(at_most));
        let blocks = [0, 1, 2].map(|size| [least[size], most[size]]);
        Potential { blocks, unmovable: unmovable.map(mib) }
    }
}

/// A boot's folder.
pub struct Boot {
    /// The machine as the recording began, with one zone where the kernel has two.
    pub found: InitialState,
    reader: Reader,
    samples: Vec<Sample>,
    end: InitialState,
}

impl Boot {
    /// Reads the recording, the samples, and the survey at the end.
    pub fn read(folder: &Path) -> Result<Boot> {
        let samples = read_samples(&folder.join("samples"))?;
        let reader = Reader::open(&folder.join("trace.parquet"))?;
        let metadata = reader.metadata();
        let before = metadata.before.as_ref().context("the recording has no first snapshot")?;
        let recording = metadata.recording.as_ref().context("not made by `prairie record`")?;
        let frames = reader.frame_runs().collect::<prairie_trace::Result<Vec<_>>>()?;
        let mut found = one_zone(&Capture { frames: Some(frames), ..before.clone() })?;
        found.gfp_numbers = Renumbering::of_recording(recording);
        let recorded = recording.started_ns..recording.ended_ns;
        let samples: Vec<Sample> =
            samples.into_iter().filter(|sample| recorded.contains(&sample.at_ns)).collect();
        anyhow::ensure!(!samples.is_empty(), "no sample lies within the recording");
        let end = one_zone(&prairie_trace::snapshot::load(&folder.join("end.parquet"))?)?;
        Ok(Boot { found, reader, samples, end })
    }

    /// What happened, for another replay.
    pub fn events(&self) -> prairie_trace::Events<'_> {
        self.reader.events(Columns::REPLAY)
    }

    /// The kernel, and its model.
    pub fn compare(&self) -> Result<[Side; 2]> {
        Ok([self.kernel(), self.model()?])
    }

    fn kernel(&self) -> Side {
        let regions = Regions::new(&self.end.layout, self.config());
        let end = Replay::new(&self.end, regions, Initial::AsFound);
        let (first, last) = (&self.samples[0], &self.samples[self.samples.len() - 1]);
        let grown = |name: &str| last.word(name) - first.word(name);
        let region = |sample: &Sample| self.region(self.border(sample));
        Side {
            region: self.samples.iter().map(region).collect(),
            moves: [grown("pageblocks_grown"), grown("pageblocks_shrunk")],
            pages_moved: grown("pgmigrate_success"),
            waits: grown("waits"),
            potential: potential_of(&end),
        }
    }

    fn model(&self) -> Result<Side> {
        let mut border = self.border(&self.samples[0]);
        let regions = Regions::new(&self.found.layout, self.config());
        let mut replay = Replay::new(&self.found, regions, Initial::AsFound);
        replay.placement_mut().note_decisions();
        replay.keep_up_every(PERIOD_NS);
        let mut side = Side::default();
        let mut due = self.samples.iter().peekable();
        let mut events = self.events();
        while let Some(batch) = events.next_batch()? {
            for event in batch {
                while due.next_if(|sample| sample.at_ns <= event.time_ns).is_some() {
                    side.region.push(self.region(border));
                }
                replay.apply(event);
                for decision in replay.placement_mut().take_decisions() {
                    border = u64::from(decision.border.0);
                    match decision.resize {
                        Resize::Grow { .. } => side.moves[0] += decision.steps as f64,
                        Resize::Stay => {}
                        _ => side.moves[1] += decision.steps as f64,
                    }
                    side.pages_moved += decision.pages_moved as f64;
                    side.waits += decision.waited as f64;
                }
            }
        }
        side.region.extend(due.map(|_| self.region(border)));
        replay.validate();
        Ok(Side { potential: potential_of(&replay), ..side })
    }

    /// The model begins with the kernel's border. All else are the defaults of both.
    fn config(&self) -> Config {
        let border = self.border(&self.samples[0]);
        Config { initial_frames: vec![(0, border)], ..Config::default() }
    }

    /// The first frame above the border at a sample.
    fn border(&self, sample: &Sample) -> u64 {
        let frame = self.found.layout.frame(Pfn(sample.word("border") as u64));
        frame.map_or(0, |frame| u64::from(frame.0))
    }

    /// Memory below a border, in MiB; holes of the address space are none.
    fn region(&self, border: u64) -> f64 {
        let part = |stretch: &Stretch| {
            stretch.frames.min(border.saturating_sub(u64::from(stretch.start.0)))
        };
        mib(self.found.stretches.iter().map(part).sum())
    }
}

fn read_samples(path: &Path) -> Result<Vec<Sample>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let sample = |line: &str| -> Result<Sample> {
        let words = line.split_whitespace().filter_map(|word| word.split_once('='));
        let words: HashMap<String, f64> =
            words.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect();
        let at = words.get("at").with_context(|| format!("no time in `{line}`"))?;
        Ok(Sample { at_ns: (at * 1e9) as u64, words })
    };
    text.lines().map(sample).collect()
}

impl Sample {
    fn word(&self, name: &str) -> f64 {
        self.words.get(name).copied().unwrap_or_default()
    }
}

/// A machine whose kernel has a border, without the zone above it: the model draws its own border in
/// one zone.
fn one_zone(capture: &Capture) -> Result<InitialState> {
    let text = capture.files.get(zoneinfo::FILE).context("no zones in the snapshot")?;
    let zones = zone_spans(&zoneinfo::parse(text)?);
    let (movable, mut others): (Vec<ZoneSpan>, Vec<ZoneSpan>) =
        zones.into_iter().partition(|zone| zone.kind == ZoneKind::Movable);
    let lower = others.iter_mut().rfind(|zone| zone.managed > 0).context("no zone")?;
    for zone in movable {
        lower.spanned = zone.start.0 + zone.spanned - lower.start.0;
        lower.managed += zone.managed;
        let (one, other) = (lower.watermarks, zone.watermarks);
        lower.watermarks = Watermarks {
            min: one.min + other.min,
            low: one.low + other.low,
            high: one.high + other.high,
        };
    }
    let spans = prairie_host::layout::Layout::of(capture)?;
    let runs = capture.frames.as_deref().context("no frames in the snapshot")?;
    Ok(InitialState::new(others, &spans, runs)?)
}

fn mib(frames: u64) -> f64 {
    (frames * Order::BASE.bytes()) as f64 / f64::from(1 << 20)
}

/// Contiguity where a replay stands.
fn potential_of(replay: &Replay<Regions>) -> Potential {
    let tally = Tally::of(replay.table().blocks());
    let [_, _, unmovable, unknown] = tally.frames;
    Potential::new(tally.potential_at_least, tally.potential, [unmovable + unknown, unmovable])
}
