//! Figure 9: what is saved of each application, by back end, under the formula as published.

use crate::agent::{Agent, Driver};
use crate::app::{APPS, App};
use crate::backend::{Backend, Ssd, Zswap};
use crate::container::Container;
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

/// How long the formula works, and the last part of it over which pressure is taken.
const HOURS: f64 = 8.0;
const LAST_S: f64 = 3_600.0;

/// The outcome of one application on one back end.
struct Outcome {
    saved: f64,
    pressure: f64,
    waited: f64,
    returns_a_second: f64,
}

pub fn run(seed: u64) -> Findings {
    let rows = APPS.into_iter().flat_map(|app| {
        [Backend::Zswap(Zswap::default()), Backend::Device(Ssd::fast())].map(|backend| {
            let name = format!("{}, {}", app.name, backend.name());
            let outcome = outcome(&app, backend, seed);
            let values = vec![
                Value::Share(app.coldness.cold()),
                Value::Rate(app.compression),
                Value::Share(outcome.saved),
                Value::Share(outcome.pressure),
                Value::Share(outcome.waited),
                Value::Rate(outcome.returns_a_second),
            ];
            Row { name, values }
        })
    });
    Findings {
        title: "Figure 9: savings of applications".to_owned(),
        paper: "7 to 12 % of resident memory with compressed memory, 10 to 19 % with an SSD where \
                data compresses by 1.3 to 1.4."
            .to_owned(),
        rows_are: "application, back end",
        columns: ["cold", "compression", "saved", "pressure", "waited", "refaults / s"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        notes: vec![
            format!("After {HOURS} hours of the published formula with the paper's constants."),
            "Pressure: the larger of memory and IO `some`, over the last hour. Waited: the share \
             of time that a task waited for pages, whether PSI sees it or not."
                .to_owned(),
        ],
        ..Findings::default()
    }
}

fn outcome(app: &App, backend: Backend, seed: u64) -> Outcome {
    let mut container = super::container(app, backend, Kernel::LINUX_6_12, seed);
    let mut driver = Driver::new(Agent::published(0.0005), &container);
    let start = container.host_bytes() as f64;
    driver.run(&mut container, HOURS * 3_600.0 - LAST_S);
    let before = *container.counters();
    driver.run(&mut container, HOURS * 3_600.0);
    let now = container.counters();
    let share = |at: usize| (now.some_us[at] - before.some_us[at]) / LAST_S / 1e6;
    let tasks = f64::from(app.busy_tasks);
    Outcome {
        saved: 1.0 - container.host_bytes() as f64 / start,
        pressure: share(0).max(share(1)),
        waited: (now.waited_us - before.waited_us) / LAST_S / 1e6 / tasks,
        returns_a_second: returns(&container, &before) as f64 / LAST_S,
    }
}

/// Pages that refaulted since `before`.
fn returns(container: &Container, before: &crate::container::Counters) -> u64 {
    container.counters().major_faults - before.major_faults
}
