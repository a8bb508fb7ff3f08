//! The kernel's decisions about the border (`kernel/source/mm/contiguitas/sizing.c`) are the
//! simulator's: one table of observations through the C function and the Rust value, row by row.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prairie_frames::placement::regions::resizer::{Both, Resize, Resizer, Tuning, View};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Resizers, and wake-ups of each: 120,000 rows.
const RESIZERS: usize = 1200;
const WAKE_UPS: usize = 100;

/// The C program, compiled as strictly as the kernel compiles its files. Nothing without a compiler.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contiguitas-sizing");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root.join("kernel/tests/sizing.c"))
        .arg(root.join("kernel/source/mm/contiguitas/sizing.c"))
        .status();
    let Ok(status) = compiled else {
        prairie_testing::skip_without("cc");
        return None;
    };
    assert!(status.success(), "the C files compile");
    Some(program)
}

/// What the program answers, a line for each row.
fn answers(program: &Path, rows: &str) -> Vec<String> {
    let rows_file = program.with_extension("rows");
    std::fs::write(&rows_file, rows).unwrap();
    let output = Command::new(program)
        .stdin(std::fs::File::open(&rows_file).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the program understands every row");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn tunings() -> impl Strategy<Value = Tuning> {
    let threshold = prop::array::uniform2(0..=1000u32);
    let weight = prop::array::uniform2(0..=1000u32);
    let any = (threshold, weight, 0..=1000u32, 0..=20u32);
    let any = any.prop_map(|(threshold, weight, largest_step, hold)| Tuning {
        threshold,
        weight,
        largest_step,
        hold,
    });
    prop_oneof![3 => Just(Tuning::default()), 1 => any]
}

/// Views of machines up to 64 TiB. Most have all their amounts near each other, where decisions
/// change, and pressures near the threshold.
fn views() -> impl Strategy<Value = View> {
    (0..=34u32).prop_flat_map(|bits| {
        let near = move || 0..=1u64 << bits;
        let pressure = || prop_oneof![2 => 0..=40u32, 1 => 0..=1000u32];
        (
            prop_oneof![near().boxed(), (0..=1u64 << 34).boxed()],
            [near(), near()],
            [near(), near()],
            near(),
            [pressure(), pressure()],
        )
            .prop_map(|(size, available, low, high, pressure)| View {
                size,
                available,
                low,
                high,
                pressure,
            })
    })
}

/// Values of a strategy, the same at every run.
struct Values<S>(S, TestRunner);

impl<S: Strategy> Iterator for Values<S> {
    type Item = S::Value;

    fn next(&mut self) -> Option<S::Value> {
        Some(self.0.new_tree(&mut self.1).expect("no value is rejected").current())
    }
}

fn values<S: Strategy>(strategy: S) -> Values<S> {
    Values(strategy, TestRunner::deterministic())
}

/// The kernel's number for a decision, and its amount.
fn number(resize: Resize) -> (u32, u64) {
    match resize {
        Resize::Stay => (0, 0),
        Resize::Grow { beyond } => (1, beyond),
        Resize::Shrink => (2, 0),
        Resize::Yield { beyond } => (3, beyond),
    }
}

fn words<T: ToString>(both: Both<T>) -> String {
    both.map(|value| value.to_string()).join(" ")
}

#[test]
fn the_kernel_decides_as_the_simulator_does() {
    let Some(program) = program() else { return };
    let (mut rows, mut expected) = (String::new(), Vec::new());
    let mut views = values(views());
    let mut moves = values(any::<bool>());
    let mut seen = [0u32; 4];
    for tuning in values(tunings()).take(RESIZERS) {
        let Tuning { threshold, weight, largest_step, hold } = tuning;
        let (threshold, weight) = (words(threshold), words(weight));
        writeln!(rows, "n {threshold} {weight} {largest_step} {hold}").unwrap();
        let mut resizer = Resizer::new(tuning);
        for view in views.by_ref().take(WAKE_UPS) {
            let View { size, available, low, high, pressure } = view;
            let (available, low, pressure) = (words(available), words(low), words(pressure));
            writeln!(rows, "v {size} {available} {low} {high} {pressure}").unwrap();
            let due = u32::from(resizer.is_due(&view));
            let decision = resizer.decide(&view);
            let (resize, beyond) = number(decision);
            seen[resize as usize] += 1;
            expected.push(format!("{due} {resize} {beyond} {}", resizer.turns_refused()));
            if moves.next() == Some(true) {
                rows.push_str("m\n");
                resizer.moved(decision);
            }
        }
    }
    assert!(expected.len() >= 100_000);
    assert!(seen.iter().all(|&count| count > 1000), "every decision occurs often: {seen:?}");
    let answers = answers(&program, &rows);
    assert_eq!(answers.len(), expected.len());
    let wakes_up = rows.lines().filter(|row| row.starts_with('v'));
    for ((row, answer), expected) in wakes_up.zip(answers).zip(expected) {
        assert_eq!(answer, expected, "{row}");
    }
}
