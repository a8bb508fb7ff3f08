//! Translates the recorded accesses of a program with the model of `sim::translation`, and prints a
//! line of JSON: what its loads and stores cost, and of how many instructions.
//!
//! ```text
//! heap_translations WARM-UP TRACE…
//! ```
//!
//! Each trace is a thread of the program, recorded in windows by `crates/migrate/plugin/accesses.c`;
//! each thread has a core of its own. Of each window the first WARM-UP accesses are not counted.

use std::fs::{self, File};

use anyhow::{Context, Result, bail};
use prairie_migrate::access_trace::{Record, Records};
use prairie_migrate::access_windows;
use prairie_sim::translation::hardware::Hardware;
use prairie_sim::translation::recorded::{Access, Core, HugeRanges};
use prairie_sim::translation::tlb::Cost;
use serde_json::json;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let warm_up = arguments.next().and_then(|text| text.parse().ok());
    let warm_up = warm_up.context("usage: heap_translations WARM-UP TRACE...")?;
    let hardware = Hardware::default();
    let (mut instructions, mut to_huge, mut windows) = (0, 0, 0);
    let (mut loads, mut stores) = (Sum::default(), Sum::default());
    for trace in arguments {
        let mut core = Core::new(&hardware, warm_up);
        windows += translate(&trace, &mut core).with_context(|| trace.clone())?;
        instructions += core.counted.instructions;
        to_huge += core.counted.to_huge;
        loads.add(&core.counted.loads, &hardware);
        stores.add(&core.counted.stores, &hardware);
    }
    if loads.translations == 0 {
        bail!("no load was counted: expected windows longer than the warm-up of {warm_up}");
    }
    let line = json!({
        "instructions": instructions,
        "windows": windows,
        "to huge": to_huge,
        "loads": loads.document(),
        "stores": stores.document(),
    });
    println!("{line}");
    Ok(())
}

/// Translates the whole windows of a thread; their number.
fn translate(trace: &str, core: &mut Core) -> Result<usize> {
    let beside = format!("{trace}.huge");
    let text = fs::read_to_string(&beside).with_context(|| beside.clone())?;
    let windows = access_windows::parse(&text).with_context(|| beside)?;
    let mut records = Records::new(File::open(trace)?)?;
    let mut whole = 0;
    for window in windows {
        // The last one may have been cut short, and the records of a whole one may not have been
        // written when the program was killed.
        let Some(end) = window.end else { break };
        let huge: HugeRanges = window.huge.into_iter().collect();
        let length = (end - window.first) as usize;
        let accesses = records.by_ref().take(length).collect::<Result<Vec<_>, _>>()?;
        if accesses.len() < length {
            break;
        }
        let access = |record: Record| Access {
            address: record.address,
            store: record.store,
            instructions: record.instructions,
        };
        core.run(accesses.into_iter().map(access), &huge);
        whole += 1;
    }
    Ok(whole)
}

/// The costs of all threads.
#[derive(Default)]
struct Sum {
    translations: u64,
    l2_hits: u64,
    walks: u64,
    walk_cycles: f64,
}

impl Sum {
    fn add(&mut self, cost: &Cost, hardware: &Hardware) {
        self.translations += cost.translations;
        self.l2_hits += cost.l2_hits;
        self.walks += cost.walks;
        self.walk_cycles += cost.walk_cycles(hardware);
    }

    fn document(&self) -> serde_json::Value {
        json!({
            "translations": self.translations,
            "L2 hits": self.l2_hits,
            "walks": self.walks,
            "walk cycles": self.walk_cycles,
        })
    }
}
