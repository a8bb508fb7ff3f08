//! An experiment across processes: the difference of each measure between two page heaps.

use std::collections::BTreeMap;

use prairie_compare::spread::{Interval, Spread};
use prairie_heap::experiment::{Measure, Subject};
use prairie_report::{Cell, Column, Table, Terminal, Tone, number};
use serde::Serialize;

/// The comparison of every program.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// By name.
    pub programs: Vec<Program>,
}

/// One program on its page heaps.
#[derive(Debug, Serialize)]
pub struct Program {
    /// Its name.
    pub program: String,
    /// The page heaps, and how many processes ran on each.
    pub arms: Vec<Arm>,
    /// What was measured of both.
    pub measures: Vec<Measured>,
}

/// One page heap.
#[derive(Debug, Serialize)]
pub struct Arm {
    /// Its name.
    pub page_heap: String,
    /// Processes on it.
    pub processes: usize,
}

/// One measure on the first two page heaps.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Which, as in the program's interface.
    pub measure: &'static str,
    /// Mean on each page heap.
    pub means: Vec<f64>,
    /// The change from the second page heap to the first, as a share of the second's mean.
    pub change: Option<f64>,
    /// Half the width of its 95 % confidence interval.
    pub half_width: Option<f64>,
    #[serde(skip)]
    kind: Measure,
    #[serde(skip)]
    significant: bool,
}

/// The page heap that others are compared with stands last.
const BASE: &str = "legacy";

impl Comparison {
    /// Of all processes.
    pub fn of(subjects: &[Subject]) -> Comparison {
        let mut programs: BTreeMap<&str, BTreeMap<(bool, &str), Vec<&Subject>>> = BTreeMap::new();
        for subject in subjects {
            let arms = programs.entry(&subject.program).or_default();
            arms.entry((subject.arm == BASE, &subject.arm)).or_default().push(subject);
        }
        Comparison {
            programs: programs.into_iter().map(|(name, arms)| program(name, arms)).collect(),
        }
    }
}

fn program(name: &str, arms: BTreeMap<(bool, &str), Vec<&Subject>>) -> Program {
    let groups: Vec<&[&Subject]> = arms.values().map(Vec::as_slice).collect();
    let measures = Measure::ALL.into_iter().filter_map(|measure| measured(measure, &groups));
    Program {
        program: name.to_owned(),
        measures: measures.collect(),
        arms: arms
            .iter()
            .map(|((_, arm), group)| Arm { page_heap: (*arm).to_owned(), processes: group.len() })
            .collect(),
    }
}

/// The means of a measure, if all groups have it.
fn measured(measure: Measure, groups: &[&[&Subject]]) -> Option<Measured> {
    let spread = |group: &&[&Subject]| {
        let values: Vec<f64> = group.iter().filter_map(|it| it.measure(measure)).collect();
        Spread::of(&values)
    };
    let spreads: Vec<Spread> = groups.iter().map(spread).collect::<Option<_>>()?;
    let (change, interval) = match spreads[..] {
        [new, base] if base.mean != 0.0 => {
            let interval = Interval::of_difference(&base, &new);
            (Some((new.mean - base.mean) / base.mean), interval)
        }
        _ => (None, None),
    };
    let base = spreads.last().map_or(f64::NAN, |base| base.mean);
    Some(Measured {
        measure: name(measure),
        means: spreads.iter().map(|spread| spread.mean).collect(),
        change,
        half_width: interval.map(|ends| (ends.high - ends.low) / 2.0 / base),
        kind: measure,
        significant: interval.is_some_and(|interval| interval.excludes_zero()),
    })
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::CpuSeconds => "cpu_seconds",
        Measure::Seconds => "seconds",
        Measure::PeakResident => "peak_resident_bytes",
        Measure::Resident => "mean_resident_bytes",
        Measure::Live => "mean_live_bytes",
        Measure::Overhead => "mean_overhead",
        Measure::Coverage => "mean_huge_page_coverage",
    }
}

fn heading(measure: Measure) -> &'static str {
    match measure {
        Measure::CpuSeconds => "CPU time, s",
        Measure::Seconds => "observed, s",
        Measure::PeakResident => "peak resident",
        Measure::Resident => "mean resident",
        Measure::Live => "mean live",
        Measure::Overhead => "mean free over live",
        Measure::Coverage => "mean on huge pages",
    }
}

fn value(measure: Measure, value: f64) -> String {
    match measure {
        Measure::CpuSeconds | Measure::Seconds => format!("{value:.3}"),
        Measure::PeakResident | Measure::Resident | Measure::Live => number::bytes(value as u64),
        Measure::Overhead | Measure::Coverage => number::percent(value),
    }
}

/// The comparison as tables, one for each program.
pub fn text(comparison: &Comparison) -> String {
    let tables = comparison.programs.iter().map(|it| table(it).terminal(Terminal::of_stdout()));
    tables.collect::<Vec<_>>().join("\n")
}

fn table(program: &Program) -> Table {
    let mut columns = vec![Column::text("")];
    for Arm { page_heap, processes } in &program.arms {
        columns.push(Column::number(format!("{page_heap} ({processes})")));
    }
    let mut notes = Vec::new();
    match &program.arms[..] {
        [new, base] => {
            columns.push(Column::number("change"));
            columns.push(Column::number("95 % interval"));
            notes.push(format!(
                "Change: {} against {}. In brackets: processes.",
                new.page_heap, base.page_heap
            ));
        }
        _ => notes.push("One page heap only: nothing to compare.".to_owned()),
    }
    Table {
        title: program.program.clone(),
        columns,
        rows: program.measures.iter().map(row).collect(),
        notes,
    }
}

fn row(measured: &Measured) -> Vec<Cell> {
    let mut cells = vec![Cell::from(heading(measured.kind))];
    cells.extend(measured.means.iter().map(|&mean| Cell::from(value(measured.kind, mean))));
    if let Some(change) = measured.change {
        let tone = if measured.significant { Tone::Strong } else { Tone::Plain };
        cells.push(Cell::toned(number::change(change, 1), tone));
        let half = measured
            .half_width
            .map_or(number::NONE.to_owned(), |half| format!("±{}", number::percent(half)));
        cells.push(Cell::from(half));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(arm: &str, cpu_seconds: f64) -> Subject {
        Subject {
            program: "gcc".into(),
            arm: arm.into(),
            observations: Vec::new(),
            seconds: 1.0,
            cpu_seconds,
            peak_resident_bytes: Some(1 << 20),
        }
    }

    #[test]
    fn the_change_is_against_the_legacy_page_heap() {
        let runs = [
            subject("legacy", 2.0),
            subject("temeraire", 1.0),
            subject("legacy", 2.0),
            subject("temeraire", 1.0),
        ];
        let comparison = Comparison::of(&runs);
        let [program] = &comparison.programs[..] else { panic!("{comparison:?}") };
        assert_eq!(program.arms[0].page_heap, "temeraire");
        let cpu = &program.measures[0];
        assert_eq!((cpu.measure, &cpu.means[..]), ("cpu_seconds", &[1.0, 2.0][..]));
        assert_eq!((cpu.change, cpu.half_width), (Some(-0.5), Some(0.0)));
        // Nothing was published: no means over time.
        assert_eq!(program.measures.len(), 3);
        let text = text(&comparison);
        assert!(text.contains("temeraire (2)") && text.contains("50.0"), "{text}");
    }

    #[test]
    fn one_arm_is_compared_with_nothing() {
        let comparison = Comparison::of(&[subject("legacy", 2.0)]);
        assert_eq!(comparison.programs[0].measures[0].change, None);
        assert!(text(&comparison).contains("nothing to compare"));
    }
}
