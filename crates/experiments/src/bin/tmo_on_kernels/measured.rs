//! What a guest of `vm/tmo/guest.sh` left behind.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::outcome::{LAST_S, Outcome};

/// The settings of a run, as the guest was told.
#[derive(Clone, Debug)]
pub struct Setting {
    pub application: String,
    pub mib: u64,
    pub seconds: f64,
    pub seed: u64,
    pub backend: String,
    pub agent: String,
    pub ratio: f64,
    pub threshold: f64,
}

/// Sums at a time in seconds, by name.
type Sample = HashMap<String, f64>;

/// A run.
pub struct Run {
    pub setting: Setting,
    /// Mean wait for an anonymous page and for a file page, in microseconds.
    pub waits: [Option<f64>; 2],
    samples: Vec<Sample>,
    touches: Vec<Sample>,
}

impl Run {
    pub fn read(folder: &Path) -> Result<Run> {
        let read = |name: &str| {
            fs::read_to_string(folder.join(name)).with_context(|| folder.display().to_string())
        };
        let samples = read("samples")?.lines().map(sample).collect::<Result<Vec<_>>>()?;
        let touches = table(&read("touches")?)?;
        let last = touches.last().context("no touches")?;
        let wait = |count: &str, us: &str| (last[count] > 0.0).then(|| last[us] / last[count]);
        let waits = [wait("anon", "anon_us"), wait("file", "file_us")];
        Ok(Run { setting: setting(&read("setting")?)?, waits, samples, touches })
    }

    /// What was found, in the simulation's terms.
    pub fn outcome(&self) -> Result<Outcome> {
        let (first, last) = (&self.samples[0], self.samples.last().context("no samples")?);
        ensure!(self.setting.seconds > LAST_S, "a run of less than an hour");
        let begins_s = first["at"] + self.setting.seconds - LAST_S;
        let hour = nearest(&self.samples, begins_s);
        let passed_s = last["at"] - hour["at"];
        let grown = |key: &str| last[key] - hour[key];
        let touches = self.touches.last().context("no touches")?;
        let late = |row: &&Sample| row["s"] > touches["s"] - LAST_S;
        let rates: Vec<f64> = self.touches.iter().filter(late).map(|row| row["rate"]).collect();
        let saved = |sample: &Sample| 1.0 - host_bytes(sample) / self.filled(sample);
        let filled = self.filled(last);
        // A server fills memory; what it has filled is known only as a whole.
        let away = match self.is_server() {
            true => [(last["swap"] - last["swapcached"]) / filled, f64::NAN],
            false => ["anon", "file"].map(|key| (first[key] - last[key]) / filled),
        };
        let least_rate = self.touches.iter().map(|row| row["rate"]).fold(1.0, f64::min);
        Ok(Outcome {
            saved: saved(last),
            most_saved: self.samples.iter().map(saved).fold(0.0, f64::max),
            away,
            pressure: ["stall", "io"].map(|key| grown(key) / passed_s / 1e6),
            returns_a_second: grown("pgmajfault") / passed_s,
            // Of the long touches of anonymous pages some only waited for the CPU.
            swap_ins_a_second: grown("workingset_refault_anon") / passed_s,
            // What has come back keeps its slot until it is freed.
            swapped_bytes: last["swap"] - last["swapcached"],
            least_rate,
            rate: rates.iter().sum::<f64>() / rates.len() as f64,
        })
    }

    fn is_server(&self) -> bool {
        self.setting.application == "server"
    }

    /// Bytes of all pages filled until a sample: what would be resident without offloading.
    fn filled(&self, sample: &Sample) -> f64 {
        let first = &self.samples[0];
        if !self.is_server() {
            return host_bytes(first);
        }
        let passed_s = sample["at"] - first["at"];
        let then = self.touches.iter().rfind(|row| row["s"] <= passed_s);
        then.map_or(host_bytes(first), |row| row["filled"] * 4096.0)
    }
}

/// The sample taken nearest to a time.
fn nearest(samples: &[Sample], at_s: f64) -> &Sample {
    let distance = |sample: &&Sample| (sample["at"] - at_s).abs();
    let order = |a: &&Sample, b: &&Sample| distance(a).total_cmp(&distance(b));
    samples.iter().min_by(order).expect("a run has samples")
}

/// Memory that the container takes of the machine.
fn host_bytes(sample: &Sample) -> f64 {
    sample["anon"] + sample["file"] + sample["pool"] * 1024.0
}

fn sample(line: &str) -> Result<Sample> {
    let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    // A limit that is not set is a word.
    let number = |(key, value): (&str, &str)| {
        (key.to_owned(), value.parse::<f64>().unwrap_or(f64::INFINITY))
    };
    Ok(pairs.map(number).collect())
}

fn table(text: &str) -> Result<Vec<Sample>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().context("an empty table")?.split('\t').collect();
    let row = |line: &str| {
        let values = line.split('\t').map(str::parse::<f64>);
        names.iter().zip(values).map(|(name, value)| Ok(((*name).to_owned(), value?))).collect()
    };
    lines.map(row).collect()
}

/// Settings that the guest was not told are the defaults of `vm/tmo/guest.sh`.
fn setting(text: &str) -> Result<Setting> {
    let words: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let word = |key: &str, default: &'static str| words.get(key).copied().unwrap_or(default);
    Ok(Setting {
        application: word("APPLICATION", "Feed").to_owned(),
        mib: word("MIB", "512").parse()?,
        seconds: word("SECONDS", "3600").parse()?,
        seed: word("SEED", "1").parse()?,
        backend: word("BACKEND", "zswap").to_owned(),
        agent: word("AGENT", "published").to_owned(),
        ratio: word("RATIO", "0.0005").parse()?,
        threshold: word("THRESHOLD", "0.001").parse()?,
    })
}
