//! Figure 2: how cold applications are, measured by accessed bits, as `prairie offload profile` does.

use crate::app::APPS;
use crate::backend::Backend;
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

/// When bits are cleared: long after the start, so that no page's first cell is still running.
const CLEARED_S: f64 = 172_800.0;

pub fn run(seed: u64) -> Findings {
    let mut rows = Vec::new();
    for app in APPS {
        let mut container = super::container(&app, Backend::None, Kernel::LINUX_6_1, seed);
        let all = container.current_bytes() as f64;
        container.advance(CLEARED_S);
        container.clear_accessed();
        let touched: Vec<f64> = [60.0, 120.0, 300.0]
            .into_iter()
            .map(|passed| {
                container.advance(CLEARED_S + passed);
                1.0 - container.untouched_bytes() as f64 / all
            })
            .collect();
        let shares =
            [touched[0], touched[1] - touched[0], touched[2] - touched[1], 1.0 - touched[2]];
        let mut values: Vec<Value> = shares.into_iter().map(Value::Share).collect();
        values.push(Value::Share(app.coldness.cold()));
        rows.push(Row { name: app.name.to_owned(), values });
    }
    Findings {
        title: "Figure 2: coldness of applications".to_owned(),
        paper: "Feed 50, 8, 12 and 30 %; of Cache B 81 % and of Web 38 % are active within five \
                minutes; the mean of seven is 35 % cold, from 19 to 62 %. The other bars are not \
                given as numbers and are ours."
            .to_owned(),
        rows_are: "application",
        columns: ["1 min", "2 min", "5 min", "cold", "cold, as set"].map(str::to_owned).to_vec(),
        rows,
        ..Findings::default()
    }
}
