//! Section 3.4: anonymous memory and page cache balanced by refaults, by rotation as before, and by
//! generations.

use crate::agent::{Agent, Driver};
use crate::app::{APPS, App};
use crate::backend::{Backend, Ssd};
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

const HOURS: f64 = 6.0;

pub fn run(seed: u64) -> Findings {
    let kernels = [
        ("by rotation (before 5.9)", Kernel::OLD),
        ("by refaults (5.9 on)", Kernel::LINUX_6_1),
        ("by generations (MGLRU)", Kernel::MGLRU),
    ];
    // As much page cache as anonymous memory.
    let app = App { anonymous: 0.5, bytes: 8 << 30, ..APPS[5] };
    let rows = kernels.into_iter().map(|(name, kernel)| {
        let mut container = super::container(&app, Backend::Device(Ssd::fast()), kernel, seed);
        let start = container.resident_bytes();
        let mut driver = Driver::new(Agent::published(0.0005), &container);
        driver.run(&mut container, HOURS * 3_600.0);
        let saved = |kind: usize| {
            Value::Share(1.0 - container.resident_bytes()[kind] as f64 / start[kind] as f64)
        };
        let counters = container.counters();
        let values = vec![
            saved(0),
            saved(1),
            Value::Count(counters.refaults[0]),
            Value::Count(counters.refaults[1]),
            Value::Milliseconds(counters.waited_us / 1e3),
        ];
        Row { name: name.to_owned(), values }
    });
    Findings {
        title: "Balance between anonymous memory and page cache".to_owned(),
        paper: "The old heuristic thrashed the page cache while cold anonymous memory lay idle; \
                balanced by refaults, more is offloaded."
            .to_owned(),
        rows_are: "kernel",
        columns: ["anonymous away", "cache away", "swap-ins", "cache refaults", "waited"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        notes: vec![format!(
            "Feed with half anonymous memory and half page cache, 8 GiB, {HOURS} hours of the \
             published formula."
        )],
        ..Findings::default()
    }
}
