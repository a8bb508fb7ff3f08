//! Section 3.3: sensitivity to the formula's two parameters.

use prairie_offload::senpai::Senpai;

use crate::agent::{Agent, Driver};
use crate::app::{App, WEB};
use crate::backend::{Backend, Zswap};
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

const RATIOS: [f64; 4] = [0.0001, 0.0005, 0.0025, 0.01];
const THRESHOLDS: [f64; 4] = [0.0002, 0.001, 0.005, 0.02];
const HOURS: f64 = 4.0;

pub fn run(seed: u64) -> Findings {
    let app = App { bytes: 8 << 30, ..WEB };
    let rows = RATIOS.into_iter().flat_map(|reclaim_ratio| {
        let app = &app;
        THRESHOLDS.map(|threshold| {
            let zswap = Backend::Zswap(Zswap::default());
            let mut container = super::container(app, zswap, Kernel::LINUX_6_12, seed);
            let start = container.host_bytes() as f64;
            let law = Senpai { reclaim_ratio, threshold, ..Senpai::default() };
            let mut driver = Driver::new(Agent::Published(law), &container);
            driver.run(&mut container, HOURS * 3_600.0);
            let counters = container.counters();
            let wall_us = HOURS * 3_600.0 * 1e6 * f64::from(app.busy_tasks);
            Row {
                name: format!("{reclaim_ratio}, {} %", threshold * 100.0),
                values: vec![
                    Value::Share(1.0 - container.host_bytes() as f64 / start),
                    Value::Share(counters.waited_us / wall_us),
                    Value::Count(counters.refaults.iter().sum()),
                ],
            }
        })
    });
    Findings {
        title: "Sensitivity to the formula's parameters".to_owned(),
        paper: "Largely insensitive to variations of the parameters (§3.3).".to_owned(),
        rows_are: "reclaim_ratio, threshold",
        columns: ["saved", "waited", "refaulted"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        notes: vec![format!("Web with 8 GiB on zswap, {HOURS} hours.")],
        ..Findings::default()
    }
}
