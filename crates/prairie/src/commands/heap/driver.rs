//! `prairie heap driver`: a synthetic program for page heaps.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use prairie_heap::driver::{Driver, Load, Settings, Sizes, load, sizes};
use prairie_heap::playback::{Playback, Results};
use prairie_report::{ascii, number};
use prairie_trace::page_heap::{Event, Writer};

use super::playback::EXIT_CODES;
use super::played::{PAGE_HEAPS, PlayedArgs, Rate, answer, document};
use crate::commands::seeds::{self, Seeds};
use crate::commands::value;
use crate::files::Files;
use crate::usage_error::refuse;
use crate::{output, progress};

/// Drive page heaps with a synthetic program
///
/// Objects of a given size distribution are allocated and freed by Poisson processes around a
/// target heap size that changes over time. Their page-heap calls are played back on page heaps
/// without memory behind them, and written as a trace with --out. Time is simulated.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{LOADS}\n\n{PAGE_HEAPS}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// Sizes: figure-4, -5, -10, -11, many-sizes, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "figure-4")]
    sizes: String,

    /// Target heap size at load 1, such as 256M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = value::size)]
    heap: u64,

    /// Target over time: a name from the list below or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "steady")]
    load: String,

    /// Share of the heap allocated per second
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = positive)]
    turnover: f64,

    /// Simulated time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    time: humantime::Duration,

    /// Random seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// Memory released per second in the background, such as 10M, or `off`
    #[arg(long, value_name = "RATE", default_value = "off")]
    release: Rate,

    /// Write the calls of the page heap as a trace
    #[arg(short, long, value_name = "FILE.parquet")]
    out: Option<PathBuf>,

    #[command(flatten)]
    played: PlayedArgs,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap driver                                       256 MiB of objects for a minute
  prairie heap driver --load diurnal --release 10M --html day.html
  prairie heap driver --sizes figure-5 --heap 64G --time 20s --out large.parquet
  prairie heap driver --load drop --page-heap temeraire,temeraire:fullness,temeraire:best-fit";

const LOADS: &str = "\
Loads:
  steady     constant at the heap size
  diurnal    two days, from two fifths at night to full size at noon
  spikes     half of it, with eight short spikes to full size
  start-up   full size for the first tenth of the time, then a third
  drop       full size, then at once two fifths of it
  saw-tooth  from half to full and back once a second";

/// Events that are played back at once.
const BATCH: usize = 1 << 13;

/// Drives, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(seeds) = args.seeds.from(args.seed) {
        if args.out.is_some() {
            refuse!("--out: a trace is that of one run, expected no --seeds");
        }
        return seeds::repeat(seeds, args.played.wanted(), |seed| {
            let settings = args.settings(seed)?;
            let source = args.source(&settings);
            let results = drive(args, settings, None, interrupted)?;
            let whole = !interrupted.load(Ordering::Relaxed);
            Ok(whole.then(|| serde_json::to_value(document(source, results))).transpose()?)
        });
    }
    let settings = args.settings(args.seed)?;
    let source = args.source(&settings);
    let mut writer = args.out.as_deref().map(Writer::create).transpose()?;
    let results = drive(args, settings, writer.as_mut(), interrupted)?;
    let stopped = interrupted.load(Ordering::Relaxed);
    answer(source.clone(), results, stopped).finish(&args.played.wanted(), |_| {
        if let (Some(writer), Some(path)) = (writer, &args.out) {
            writer.finish(&source)?;
            output::wrote(path);
        }
        Ok(())
    })
}

/// Plays the calls of one program on all page heaps, and writes them.
fn drive(
    args: &Args,
    settings: Settings,
    mut writer: Option<&mut Writer>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Results> {
    let options = args.played.options(args.release.0)?;
    let bar = progress::bar(Some(args.time.as_millis() as u64), "Driving (ms)");
    let mut driver = Driver::new(settings);
    let mut playback = Playback::new(&options);
    let mut batch: Vec<Event> = Vec::with_capacity(BATCH);
    while !interrupted.load(Ordering::Relaxed) {
        batch.clear();
        batch.extend(driver.by_ref().take(BATCH));
        let Some(last) = batch.last() else { break };
        bar.set_position(last.time_ns / 1_000_000);
        playback.play(&batch);
        if let Some(writer) = &mut writer {
            batch.iter().try_for_each(|event| writer.event(event))?;
        }
    }
    bar.finish_and_clear();
    playback.finish().map_err(|e| anyhow!(e)).context("a page heap is inconsistent")
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        let files = Files::default()
            .input("--sizes", [&self.sizes])
            .input("--load", [&self.load])
            .output("--out", &self.out);
        self.played.files(files)
    }

    fn settings(&self, seed: u64) -> anyhow::Result<Settings> {
        let seconds = Duration::from(self.time).as_secs_f64();
        if seconds < 0.001 {
            refuse!("--time {}: too short, expected at least 1ms", self.time);
        }
        Ok(Settings {
            sizes: self.sizes()?,
            heap_bytes: self.heap as f64,
            load: self.load(seconds)?,
            turnover: self.turnover,
            seconds,
            seed,
        })
    }

    fn sizes(&self) -> anyhow::Result<Sizes> {
        match Sizes::named(&self.sizes) {
            Some(sizes) => Ok(sizes),
            None => {
                let text = read(&self.sizes, &sizes::NAMES)?;
                Sizes::parse(&text).map_err(|error| anyhow!("{}: {error}", self.sizes))
            }
        }
    }

    fn load(&self, seconds: f64) -> anyhow::Result<Load> {
        match Load::named(&self.load, seconds) {
            Some(load) => Ok(load),
            None => {
                let text = read(&self.load, &load::NAMES)?;
                Load::parse(&text).map_err(|error| anyhow!("{}: {error}", self.load))
            }
        }
    }

    /// The settings in one line, for the trace and the report.
    fn source(&self, settings: &Settings) -> String {
        format!(
            "driver: sizes {}, heap {}, load {}, turnover {} a second, {}, seed {}",
            settings.sizes.name(),
            ascii(&number::bytes(self.heap)),
            self.load,
            self.turnover,
            self.time,
            settings.seed
        )
    }
}

/// The text of a file that was given instead of a name.
fn read(path: &str, names: &[&str]) -> anyhow::Result<String> {
    std::fs::read_to_string(Path::new(path)).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("{path}: no such file or preset, expected a TOML file or {}", names.join(", "))
        }
        _ => anyhow::Error::new(error).context(path.to_owned()),
    })
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number above 0".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("a number above 0".to_owned()) }
}
