//! All agents on the workload of the real kernels' tests, in steady load and at a phase change.

use std::time::Duration;

use prairie_offload::Profile;
use prairie_offload::ageing::Means;
use prairie_offload::g_swap::GSwap;

use super::workload::{self, Sizes};
use crate::agent::{Agent, Driver};
use crate::backend::{Backend, Zswap};
use crate::findings::{Curves, Findings, Row, Unit, Value};
use crate::kernel::Kernel;

/// Seconds of a run, when its figures are taken, and when the cold memory turns warm.
const SECONDS: f64 = 700.0;
const TAKEN_S: [f64; 3] = [100.0, 280.0, 580.0];
const CHANGE_S: f64 = 420.0;

/// The cost of a refault from zswap, as the daemon measures it.
const RETURN_COST: Duration = Duration::from_micros(27);

/// An agent by its name; each run makes its own.
type Named = (&'static str, fn() -> Agent);

pub(super) const AGENTS: [Named; 7] = [
    ("nobody", || Agent::None),
    ("formula, 0.0005", || Agent::published(0.0005)),
    ("formula, 0.005", || Agent::published(0.005)),
    ("g-swap, 0.005", || Agent::GSwap(GSwap { reclaim_ratio: 0.005, ..GSwap::default() })),
    ("senpai.py", Agent::senpai_py),
    ("oomd senpai", Agent::oomd),
    ("prairie, aggressive", || {
        Agent::prairie(Profile::aggressive(), Means::AccessedBits, RETURN_COST)
    }),
];

/// The container's workload.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// Hot, warm and cold memory, whose truth is known.
    Steady,
    /// The same; the cold memory is read from [`CHANGE_S`] on.
    Change,
    /// Memory whose use has a long tail.
    Zipf,
}

/// Numbers measured on a real kernel are in one file, which a command writes.
pub(super) const MEASURED: &str = "nothing. The book's page on TMO has the same workload measured \
                                   on Linux 6.1 beside it (docs/src/results/tmo.md).";

pub fn run(seed: u64) -> Findings {
    let findings = each(Load::Steady, seed);
    Findings { title: "Agents in steady load".to_owned(), paper: MEASURED.to_owned(), ..findings }
}

pub fn run_change(seed: u64) -> Findings {
    let findings = each(Load::Change, seed);
    Findings {
        title: format!("Agents at a phase change: cold memory is read from {CHANGE_S} s on"),
        paper: MEASURED.to_owned(),
        ..findings
    }
}

pub fn run_zipf(seed: u64) -> Findings {
    Findings {
        title: "Agents on memory with Zipf-distributed accesses".to_owned(),
        notes: vec![format!(
            "{} pages; the k-th most popular is touched at random, every k/{} seconds on average; \
             zswap, pages that compress by two, Linux 6.1's lists.",
            Sizes::FULL.pages(),
            workload::ZIPF_RATE,
        )],
        ..each(Load::Zipf, seed)
    }
}

fn each(load: Load, seed: u64) -> Findings {
    let change_s = (load == Load::Change).then_some(CHANGE_S);
    let make = if load == Load::Zipf { workload::zipf } else { workload::container };
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for (name, agent) in AGENTS {
        let zswap = Backend::Zswap(Zswap::default());
        let mut container = make(Sizes::FULL, zswap, Kernel::LINUX_6_1, seed);
        let mut driver = Driver::new(agent(), &container);
        let start = container.current_bytes() as i64;
        let mut saved = vec![(0.0, 0.0)];
        let mut values = Vec::new();
        let mut taken_later = 0;
        while container.now_s() < SECONDS {
            let now = container.now_s();
            if change_s == Some(now) {
                workload::change(&mut container, Sizes::FULL);
            }
            let taken = container.counters().taken[0];
            driver.run(&mut container, now + 2.0);
            // From two periods after the change on: one to see it, one to stop.
            if change_s.is_some_and(|change| now >= change + 12.0 && now < change + 60.0) {
                taken_later += container.counters().taken[0] - taken;
            }
            saved.push((now + 2.0, (start - container.current_bytes() as i64) as f64));
            if TAKEN_S.contains(&(now + 2.0)) {
                values.push(Value::Bytes(start - container.current_bytes() as i64));
            }
        }
        let end = start - container.current_bytes() as i64;
        let counters = container.counters();
        values.extend([
            Value::Bytes(end),
            Value::Count(counters.taken[0]),
            Value::Count(counters.refaults[0]),
            Value::Milliseconds(counters.some_us[0] / 1e3),
            Value::Milliseconds(counters.waited_us / 1e3),
            Value::Milliseconds(counters.reclaim_us / 1e3),
        ]);
        if change_s.is_some() {
            values.push(Value::Count(taken_later));
        }
        rows.push(Row { name: name.to_owned(), values });
        curves.push((name.to_owned(), saved));
    }
    let mut columns: Vec<String> =
        TAKEN_S.iter().map(|second| format!("saved at {second} s")).collect();
    columns.push(format!("at {SECONDS} s"));
    columns.extend(
        ["pages reclaimed", "refaulted", "stall, by PSI", "waited", "reclaiming"]
            .map(str::to_owned),
    );
    if change_s.is_some() {
        columns.push("reclaimed 12 to 60 s after the change".to_owned());
    }
    Findings {
        rows_are: "agent",
        columns,
        rows,
        curves: vec![Curves {
            title: "Saved of `memory.current`".to_owned(),
            quantity: "saved",
            unit: Unit::Bytes,
            series: curves,
        }],
        notes: vec![
            "128 MiB touched every second, 64 MiB every minute, 256 MiB written once; zswap, pages \
             that compress by two, Linux 6.1's lists."
                .to_owned(),
        ],
        ..Findings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(findings: &'a Findings, name: &str) -> &'a [Value] {
        &findings.rows.iter().find(|row| row.name == name).unwrap().values
    }

    fn count(value: &Value) -> f64 {
        match value {
            Value::Bytes(bytes) => *bytes as f64,
            Value::Count(count) => *count as f64,
            Value::Milliseconds(ms) => *ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ours_takes_cold_pages_and_nothing_else() {
        let findings = run(1);
        let ours = row(&findings, "prairie, aggressive");
        let (taken, returned) = (count(&ours[4]), count(&ours[5]));
        assert!(taken > 0.8 * 65_536.0, "{taken} taken");
        assert!(returned < 0.01 * taken, "{returned} came back");
        let formula = row(&findings, "formula, 0.005");
        assert!(count(&formula[5]) > 10.0 * returned.max(1.0), "the first bite is blind");
        assert!(count(&ours[2]) > count(&formula[2]), "more saved at 580 s");
        let nobody = row(&findings, "nobody");
        assert!(nobody[..6].iter().all(|value| count(value) == 0.0));
    }

    #[test]
    fn a_phase_change_stops_ours_and_not_the_formula() {
        let findings = run_change(1);
        let last = |name: &str| count(row(&findings, name).last().unwrap());
        assert_eq!(last("prairie, aggressive"), 0.0);
        assert!(last("formula, 0.005") > 0.0);
    }

    #[test]
    fn ours_saves_most_of_a_long_tail_and_holds_it_up_for_less_than_its_threshold() {
        let findings = run_zipf(1);
        let value = |name: &str, column: usize| count(&row(&findings, name)[column]);
        let ours = "prairie, aggressive";
        for other in ["formula, 0.0005", "formula, 0.005", "g-swap, 0.005", "senpai.py"] {
            for (saved, when) in [(2, "at 580 s"), (3, "at the end")] {
                assert!(value(ours, saved) > value(other, saved).max(0.0), "{other} {when}");
            }
        }
        assert!(value(ours, 5) < value("formula, 0.005", 5), "refaults");
        let waited_seconds = value(ours, 7) / 1e3;
        let threshold = prairie_offload::Profile::aggressive().senpai.threshold;
        assert!(waited_seconds < 700.0 * threshold / 2.0, "{waited_seconds} s");
    }

    #[test]
    fn one_seed_one_result() {
        assert_eq!(run_change(3), run_change(3));
    }
}
