//! The effect of the third term of pressure and of aging.

use std::time::Duration;

use prairie_offload::Profile;
use prairie_offload::ageing::Means;

use super::workload::{self, Sizes};
use crate::agent::{Agent, Driver};
use crate::backend::{Backend, Zswap};
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

const CHANGE_S: f64 = 420.0;
const SECONDS: f64 = 700.0;

/// The cost of a refault; 0 disables the third term.
const RETURN_COST: Duration = Duration::from_micros(27);

pub fn run(seed: u64) -> Findings {
    let mut rows = Vec::new();
    for (age, means) in [("no aging", Means::None), ("aging", Means::AccessedBits)] {
        for (term, cost) in [("two terms", Duration::ZERO), ("three terms", RETURN_COST)] {
            rows.push(Row { name: format!("{age}, {term}"), values: outcome(means, cost, seed) });
        }
    }
    Findings {
        title: "The effect of aging and of the third term".to_owned(),
        paper: super::judges::MEASURED.to_owned(),
        rows_are: "controller",
        columns: [
            "saved at 420 s",
            "refaulted by 420 s",
            "reclaimed after the change",
            "refaulted, total",
            "waited",
            "saved at 700 s",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        notes: vec![
            "The workload of `phase-change`, the profile `aggressive` without its limit on \
             returns, which is a brake of its own."
                .to_owned(),
        ],
        ..Findings::default()
    }
}

fn outcome(means: Means, cost: Duration, seed: u64) -> Vec<Value> {
    let zswap = Backend::Zswap(Zswap::default());
    let mut container = workload::container(Sizes::FULL, zswap, Kernel::LINUX_6_1, seed);
    let start = container.current_bytes() as i64;
    let profile = Profile {
        return_limit: f64::INFINITY,
        return_maximum: f64::INFINITY,
        ..Profile::aggressive()
    };
    let mut driver = Driver::new(Agent::prairie(profile, means, cost), &container);
    driver.run(&mut container, CHANGE_S);
    let saved = start - container.current_bytes() as i64;
    let before = *container.counters();
    workload::change(&mut container, Sizes::FULL);
    driver.run(&mut container, SECONDS);
    let now = container.counters();
    vec![
        Value::Bytes(saved),
        Value::Count(before.refaults[0]),
        Value::Count(now.taken[0] - before.taken[0]),
        Value::Count(now.refaults[0]),
        Value::Milliseconds(now.waited_us / 1e3),
        Value::Bytes(start - container.current_bytes() as i64),
    ]
}
