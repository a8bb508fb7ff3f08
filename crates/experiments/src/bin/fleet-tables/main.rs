//! Measures the tables of the results pages on simulated fleets.
//!
//! ```text
//! fleet-tables figures [SEEDS SERVERS DAYS]        Figures 2 and 5 of Contiguitas
//! fleet-tables pins [SEEDS SERVERS DAYS] [--svg FILE]
//!                                                  potential contiguity by share of pinned memory
//! fleet-tables ablation linux|contiguitas|freebsd [SEEDS SERVERS DAYS]
//! fleet-tables uptime [SERVERS DAYS...]            uptime and free blocks
//! fleet-tables hours [SEEDS SERVERS]               the first hours after boot
//! ```
//!
//! Prints table documents as JSON (`results/README.md`). Servers have 8 GiB, those of `uptime` 2 GiB.
//! All values are counted, and the same on every machine.

mod ablation;
mod figures;
mod fleets;
mod hours;
mod numbers;
mod picture;
mod pins;
mod uptime;

use std::error::Error;

use numbers::Numbers;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let svg = match arguments.iter().position(|argument| argument == "--svg") {
        Some(at) if at + 1 < arguments.len() => Some(arguments.drain(at..at + 2).nth(1)),
        Some(_) => return Err("--svg: expected a file".into()),
        None => None,
    };
    let mut numbers = Numbers(arguments.into_iter());
    let what = numbers.0.next().unwrap_or_default();
    let documents = match what.as_str() {
        "figures" => figures::measure(&mut numbers)?,
        "pins" => pins::measure(&mut numbers, svg.flatten().as_deref())?,
        "ablation" => ablation::measure(&mut numbers)?,
        "uptime" => uptime::measure(&mut numbers)?,
        "hours" => hours::measure(&mut numbers)?,
        other => {
            let expected = "figures, pins, ablation, uptime, or hours";
            return Err(format!("`{other}`: expected {expected}").into());
        }
    };
    println!("{}", serde_json::to_string_pretty(&documents)?);
    Ok(())
}
