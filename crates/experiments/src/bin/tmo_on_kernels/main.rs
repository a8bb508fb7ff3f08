//! Figures 9 to 12 of TMO: what `bench/tmo-vm.sh FOLDER` measured on a real kernel, beside
//! simulations of the same settings.
//!
//! ```text
//! tmo_on_kernels FOLDER
//! ```
//!
//! A simulated page stands for one real page, and has the same touches. Reads take as long as the
//! process in the guest waited on average. Prints a table document for `experiments` of each figure
//! that has runs.

mod measured;
mod outcome;
mod simulated;

use std::path::Path;

use anyhow::Result;
use experiments::document::Document;
use measured::Run;
use outcome::Outcome;
use simulated::simulate;

/// A run, and its simulation.
struct Pair {
    run: Run,
    kernel: Outcome,
    simulation: Outcome,
}

impl Pair {
    /// The run of that name; `None` if it was not made.
    fn read(folder: &Path, name: &str) -> Result<Option<Pair>> {
        let folder = folder.join(name);
        if !folder.join("vmstat").exists() {
            return Ok(None);
        }
        let run = Run::read(&folder)?;
        let (kernel, simulation) = (run.outcome()?, simulate(&run.setting, run.waits));
        Ok(Some(Pair { run, kernel, simulation }))
    }

    /// A value of the simulation, of the kernel, and their difference in percent of the kernel's.
    fn both(&self, digits: usize, value: impl Fn(&Outcome) -> f64) -> [String; 3] {
        let (simulation, kernel) = (value(&self.simulation), value(&self.kernel));
        let difference = match kernel == 0.0 {
            true => String::new(),
            false => format!("{:+.0}", 100.0 * (simulation / kernel - 1.0)),
        };
        [format!("{simulation:.digits$}"), format!("{kernel:.digits$}"), difference]
    }

    /// The first two of [`Pair::both`].
    fn two(&self, digits: usize, value: impl Fn(&Outcome) -> f64) -> [String; 2] {
        let [simulation, kernel, _] = self.both(digits, value);
        [simulation, kernel]
    }

    fn waits(&self) -> [String; 2] {
        self.run.waits.map(|wait_us| wait_us.map_or(String::new(), |us| format!("{us:.0}")))
    }
}

const ROUNDS: &str = "1, in counted time; simulation with the same seed";

/// Figure 9.
fn savings(folder: &Path) -> Result<Document> {
    let columns = [
        "application, back end",
        "saved in simulation, %",
        "saved on Linux, %",
        "difference, %",
        "anonymous memory away in simulation, %",
        "on Linux, %",
        "page cache away in simulation, %",
        "page cache away on Linux, %",
        "pressure in simulation, %",
        "pressure on Linux, %",
        "pages refaulted per second in simulation",
        "pages refaulted per second on Linux",
        "wait for an anonymous page, µs",
        "wait for a file page, µs",
    ];
    let mut document = Document::new("tmo-vm-savings", &columns, ROUNDS.to_owned());
    for application in ["ads-b", "feed", "web"] {
        for (backend, shown) in [("zswap", "zswap"), ("470us", "device of 470 µs")] {
            let name = format!("savings-{application}-{backend}");
            let Some(pair) = Pair::read(folder, &name)? else { continue };
            let mut cells = pair.both(1, |outcome| 100.0 * outcome.saved).to_vec();
            cells.extend(pair.two(1, |outcome| 100.0 * outcome.away[0]));
            cells.extend(pair.two(1, |outcome| 100.0 * outcome.away[1]));
            cells.extend(pair.two(3, |o| 100.0 * o.pressure[0].max(o.pressure[1])));
            cells.extend(pair.two(2, |outcome| outcome.returns_a_second));
            cells.extend(pair.waits());
            document.row(format!("{}, {shown}", pair.run.setting.application), cells);
        }
    }
    Ok(document)
}

/// Figure 10.
fn tax(folder: &Path) -> Result<Document> {
    let columns = [
        "tax",
        "share of memory, %",
        "saved in simulation, %",
        "saved on Linux, %",
        "difference, %",
        "pressure in simulation, %",
        "pressure on Linux, %",
    ];
    let mut document = Document::new("tmo-vm-tax", &columns, ROUNDS.to_owned());
    let mut sums = [0.0; 3];
    for (name, share) in [("tax-datacenter", 0.13), ("tax-microservice", 0.07)] {
        let Some(pair) = Pair::read(folder, name)? else { continue };
        let of_all = |outcome: &Outcome| 100.0 * share * outcome.saved;
        let values = [100.0 * share, of_all(&pair.simulation), of_all(&pair.kernel)];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        let mut cells = vec![format!("{:.0}", 100.0 * share)];
        cells.extend(pair.both(1, of_all));
        cells.extend(pair.two(3, |o| 100.0 * o.pressure[0].max(o.pressure[1])));
        document.row(&pair.run.setting.application, cells);
    }
    let [share, simulation, kernel] = sums;
    if document.is_empty() {
        return Ok(document);
    }
    let difference = format!("{:+.0}", 100.0 * (simulation / kernel - 1.0));
    let both = [format!("{share:.0}"), format!("{simulation:.1}"), format!("{kernel:.1}")];
    document.row("both", both.into_iter().chain([difference, String::new(), String::new()]));
    Ok(document)
}

/// Figure 11.
fn bound(folder: &Path) -> Result<Document> {
    let columns = [
        "tier",
        "largest drop in requests in simulation, %",
        "on Linux, %",
        "most saved in simulation, %",
        "most saved on Linux, %",
        "difference, %",
    ];
    let mut document = Document::new("tmo-vm-memory-bound", &columns, ROUNDS.to_owned());
    for (backend, shown) in
        [("none", "no offloading"), ("470us", "device of 470 µs"), ("zswap", "zswap")]
    {
        let Some(pair) = Pair::read(folder, &format!("bound-{backend}"))? else { continue };
        let mut cells = pair.two(2, |outcome| 100.0 * (1.0 - outcome.least_rate)).to_vec();
        cells.extend(match backend {
            "none" => Default::default(),
            _ => pair.both(1, |outcome| 100.0 * outcome.most_saved),
        });
        document.row(shown, cells);
    }
    Ok(document)
}

/// Figure 12.
fn devices(folder: &Path) -> Result<Document> {
    let columns = [
        "control signal, device",
        "swapped out in simulation, MiB",
        "swapped out on Linux, MiB",
        "difference, %",
        "saved in simulation, %",
        "saved on Linux, %",
        "swap-ins a second in simulation",
        "swap-ins a second on Linux",
        "memory pressure in simulation, %",
        "memory pressure on Linux, %",
        "IO pressure in simulation, %",
        "IO pressure on Linux, %",
        "requests served in simulation, %",
        "requests served on Linux, %",
    ];
    let mut document = Document::new("tmo-vm-devices", &columns, ROUNDS.to_owned());
    for (agent, signal) in [("published", "PSI"), ("promotions", "promotion rate")] {
        for (backend, device) in [("470us", "470 µs"), ("9300us", "9.3 ms")] {
            let name = format!("devices-{agent}-{backend}");
            let Some(pair) = Pair::read(folder, &name)? else { continue };
            let mut cells = pair.both(1, |o| o.swapped_bytes / f64::from(1 << 20)).to_vec();
            cells.extend(pair.two(1, |outcome| 100.0 * outcome.saved));
            cells.extend(pair.two(2, |outcome| outcome.swap_ins_a_second));
            cells.extend(pair.two(3, |outcome| 100.0 * outcome.pressure[0]));
            cells.extend(pair.two(3, |outcome| 100.0 * outcome.pressure[1]));
            cells.extend(pair.two(1, |outcome| 100.0 * outcome.rate));
            document.row(format!("{signal}, {device}"), cells);
        }
    }
    Ok(document)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = &words[..] else { anyhow::bail!("expected FOLDER") };
    let folder = Path::new(folder);
    let mut documents = vec![savings(folder)?, tax(folder)?, bound(folder)?, devices(folder)?];
    documents.retain(|document| !document.is_empty());
    println!("{}", serde_json::to_string_pretty(&documents)?);
    Ok(())
}
