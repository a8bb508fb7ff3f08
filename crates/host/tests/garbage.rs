//! Whatever stands in a file, there is a survey or one error, and no panic.
#![allow(missing_docs)]

mod common;

use std::sync::LazyLock;

use common::{fixture, take};
use frames::Pfn;
use host::{BlockMap, Capture, FrameRun, PageFlags, Roots, Survey};
use proptest::prelude::*;

static CAPTURED: LazyLock<Capture> =
    LazyLock::new(|| take(&Roots::at(&fixture("linux-6.18/proc"))).unwrap());

/// How a real text is spoilt.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Replace(usize, String),
    Repeat(usize, usize),
    Swap(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let digits = prop::sample::select(vec![
        "-1",
        "18446744073709551615",
        "99999999999999999999",
        "1099511627776",
        "[",
        "]",
        ":",
        "\n",
        " ",
        "é",
        "\0",
        ">100000",
        "Node 0, zone",
        "Node 4294967295, zone Movable\n",
        "x",
    ]);
    prop_oneof![
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), digits).prop_map(|(at, text)| Damage::Replace(at, text.to_owned())),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

/// Applies one damage to the characters or lines of a text.
fn spoil(text: &str, damage: &Damage) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.lines().collect();
    let (char_count, line_count) = (chars.len().max(1), lines.len().max(1));
    match damage {
        Damage::Cut(at) => chars.into_iter().take(at % char_count).collect(),
        Damage::Replace(at, with) => {
            let at = (at % char_count).min(chars.len());
            chars.splice(at..(at + 1).min(chars.len()), with.chars());
            chars.into_iter().collect()
        }
        Damage::Repeat(from, to) if !lines.is_empty() => {
            lines.insert(to % line_count, lines[from % line_count]);
            lines.join("\n")
        }
        Damage::Swap(a, b) if !lines.is_empty() => {
            lines.swap(a % line_count, b % line_count);
            lines.join("\n")
        }
        _ => text.to_owned(),
    }
}

/// Surveys and maps the capture; the outcome is not looked at but for its message.
fn use_up(capture: &Capture) {
    match Survey::of(capture) {
        Ok(survey) => drop(serde_json::to_string(&survey).unwrap()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    let _ = BlockMap::of(capture, frames::Order::HUGE);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_texts(which in any::<prop::sample::Index>(), damages in prop::collection::vec(damage(), 1..4)) {
        let mut capture = CAPTURED.clone();
        let name = which.get(&capture.files.keys().cloned().collect::<Vec<_>>()).clone();
        let mut text = capture.files[&name].clone();
        for damage in &damages {
            text = spoil(&text, damage);
        }
        capture.files.insert(name, text);
        use_up(&capture);
    }

    #[test]
    fn garbage_instead_of_a_text(which in any::<prop::sample::Index>(), text in "\\PC{0,200}|[0-9a-zN \n:,()>\\[\\]-]{0,400}") {
        let mut capture = CAPTURED.clone();
        let name = which.get(&capture.files.keys().cloned().collect::<Vec<_>>()).clone();
        capture.files.insert(name, text.clone());
        use_up(&capture);
        let _ = host::Kallsyms::parse(&text);
        let _ = host::texts::setting::parse("x", &text);
        let _ = host::texts::fields::sizes("x", &text);
    }

    #[test]
    fn frames_of_any_kind(
        runs in prop::collection::vec((0u64..1 << 22, 0u64..1 << 14, any::<u64>()), 0..50),
        absurd in prop::option::of((any::<u64>(), any::<u64>())),
    ) {
        let mut capture = CAPTURED.clone();
        let mut frames: Vec<FrameRun> = Vec::new();
        let mut at = 0;
        for (gap, length, flags) in runs {
            at += gap;
            frames.push(FrameRun { start: Pfn(at), frames: length, flags: PageFlags(flags), read_at_ns: 0 });
            at += length;
        }
        if let Some((start, length)) = absurd {
            frames.push(FrameRun { start: Pfn(start), frames: length, flags: PageFlags::BUDDY, read_at_ns: 0 });
        }
        capture.frames = Some(frames);
        use_up(&capture);
    }
}
