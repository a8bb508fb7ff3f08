//! Whatever stands in a file, there is a survey or one error, and no panic.
#![allow(missing_docs)]

mod common;

use std::sync::LazyLock;

use common::{fixture, take};
use prairie_frames::Pfn;
use prairie_host::{BlockMap, Capture, FrameRun, PageFlags, Roots, Survey};
use proptest::prelude::*;

static CAPTURED: LazyLock<Capture> =
    LazyLock::new(|| take(&Roots::at(&fixture("linux-6.18/proc"))).unwrap());

/// How a real text is damaged.
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
fn damage_text(text: &str, damage: &Damage) -> String {
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

/// Surveys and maps the capture; the outcome is not checked but for its message.
fn use_up(capture: &Capture) {
    match Survey::of(capture) {
        Ok(survey) => drop(serde_json::to_string(&survey).unwrap()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
    let _ = BlockMap::of(capture, prairie_frames::Order::HUGE);
}

/// What the offloader reads again and again.
fn offload_texts(text: &str) {
    use prairie_host::cgroup::{limit, lru_gen, memory_stat, mounts, swaps};
    let _ = prairie_host::psi::parse("memory.pressure", text);
    let _ = limit::parse("memory.high", text);
    let _ = memory_stat::parse("memory.stat", text);
    let _ = swaps::parse(text);
    let _ = mounts::find(text, "cgroup2");
    let _ = lru_gen::parse(text, &mut |_, node| assert!(node.idle(0).len() <= 2));
}

/// Texts as the kernel writes them.
const OFFLOAD_TEXTS: [&str; 4] = [
    "some avg10=0.22 avg60=0.97 avg300=3.45 total=4668872930\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "anon 471859200\nfile 4096\nworkingset_refault_anon 729\npgscan 30000\npgsteal 20000\nzswpin 7\n",
    "Filename Type Size Used Priority\n/dev/vda partition 1048572 34816 -2\n",
    "memcg    14 /w\n node     0\n  5  180250  65606  0\n  6 120100 0 0\n  7 60050 49211 12\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_texts(which in any::<prop::sample::Index>(), damages in prop::collection::vec(damage(), 1..4)) {
        let mut capture = CAPTURED.clone();
        let name = which.get(&capture.files.keys().cloned().collect::<Vec<_>>()).clone();
        let mut text = capture.files[&name].clone();
        for damage in &damages {
            text = damage_text(&text, damage);
        }
        capture.files.insert(name, text);
        use_up(&capture);
    }

    #[test]
    fn damaged_texts_of_the_offloader(which in 0..OFFLOAD_TEXTS.len(), damages in prop::collection::vec(damage(), 1..4)) {
        let text = damages.iter().fold(OFFLOAD_TEXTS[which].to_owned(), |text, damage| damage_text(&text, damage));
        offload_texts(&text);
    }

    #[test]
    fn garbage_instead_of_a_text(which in any::<prop::sample::Index>(), text in "\\PC{0,200}|[0-9a-zN \n:,()>\\[\\]-]{0,400}") {
        let mut capture = CAPTURED.clone();
        let name = which.get(&capture.files.keys().cloned().collect::<Vec<_>>()).clone();
        capture.files.insert(name, text.clone());
        use_up(&capture);
        let _ = prairie_host::Kallsyms::parse(&text);
        let _ = prairie_host::texts::setting::parse("x", &text);
        let _ = prairie_host::texts::fields::sizes("x", &text);
        offload_texts(&text);
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
