//! The pictures of `docs/src/internals/contiguitas-hw.md`, drawn from the protocol itself: each step of a
//! sequence is one that the model can take there, and the states of an entry are those that the
//! table's functions lead to.

use std::collections::BTreeSet;

use prairie_migrate::check::{
    Counterexample, Layer, Line, Result, Shape, agents, line, liveness, safety,
};
use prairie_migrate::checker::model::Model;
use prairie_migrate::checker::search::Limits;
use prairie_migrate::protocol::action::{Action, Verb};
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::machine::Machine;
use prairie_migrate::protocol::message::Messages;
use prairie_migrate::protocol::table::{Caching, Entry, Phase, Table};
use prairie_migrate::protocol::variant::Variant;
use prairie_report::{SequenceChart, SequenceStep, StateChart, StateEdge, Theme};

/// Every picture: the name of its file, and the SVG.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("contiguitas-hw-migration.svg", migration()),
        ("contiguitas-hw-messages.svg", messages()),
        ("contiguitas-hw-entry.svg", entry()),
        ("contiguitas-hw-lost-victim.svg", lost_victim()),
        ("contiguitas-hw-starved.svg", starved()),
    ]
}

fn chart(title: &str, steps: &[Line], ending: &str, repeats_from: Option<usize>) -> String {
    let agents = agents(steps);
    let place = |name: &String| agents.iter().position(|agent| agent == name).unwrap_or_default();
    let step = |line: &Line| SequenceStep {
        from: place(&line.from),
        to: place(&line.to),
        text: line.words.clone(),
    };
    let (title, ending) = (title.to_owned(), ending.to_owned());
    let steps = steps.iter().map(step).collect();
    SequenceChart { title, steps, repeats_from, ending, agents }.svg(Theme::Auto)
}

/// The next action: the verb, the core or device, and the line.
type Cue = (Verb, u8, u8);

/// Takes the steps of a script. Each must be possible.
fn play<M: Model<Action = Action>>(model: &M, script: &[Cue]) -> Vec<Line> {
    let mut state = model.initial()[0];
    let mut lines = Vec::new();
    for &(verb, agent, at) in script {
        let mut found = None;
        model.successors(&state, &mut |action, after| {
            if (action.verb, action.agent, action.line) == (verb, agent, at) {
                found = found.or(Some((action, after)));
            }
        });
        let (action, after) =
            found.unwrap_or_else(|| panic!("{verb:?} is not possible after {lines:#?}"));
        assert!(model.violated(&after).is_none(), "{action}");
        lines.push(line(&action));
        state = after;
    }
    lines
}

/// A page of two lines moves while a core and a device use it.
fn migration() -> String {
    use Verb::*;
    let model = Machine::<2, 1, 2> { design: Design { symmetry: false, ..Design::default() } };
    let script = [
        (StoreMiss, 0, 0),
        (Serve, 0, 0),
        (Migrate, 0, 0),
        (SetTable, 0, 0),
        (SetIoTable, 0, 0),
        (Invalidate, 1, 0),
        (LoadMiss, 1, 0),
        (Serve, 1, 0),
        (DmaWrite, 0, 1),
        (InvalidateIo, 0, 0),
        (Invalidate, 0, 0),
        (ServePosted, 0, 1),
        (DrainedIo, 0, 0),
        (Notify, 0, 0),
        (CopyRead, 0, 0),
        (CopyWrite, 0, 0),
        (CopyRead, 0, 1),
        (StoreMiss, 0, 1),
        (Serve, 0, 1),
        (Clear, 0, 0),
    ];
    let title = "Page X of two lines moves from frame A to B while two cores and a device use it";
    let ending = "Step 8 takes A.0 from core 0; step 19 finishes the copy of the line first.";
    chart(title, &play(&model, &script), ending, None)
}

/// A core requests by the new name a line whose victim is in flight under the old one.
fn messages() -> String {
    use Verb::*;
    let design = Design { symmetry: false, ..Design::default() };
    let model = Messages::<2, 0, 1>::new(design);
    let script = [
        (StoreMiss, 0, 0),
        (Take, 0, 0),
        (Receive, 0, 0),
        (Told, 0, 0),
        (Migrate, 0, 0),
        (SetTable, 0, 0),
        (Invalidate, 1, 0),
        (Acknowledge, 1, 0),
        (LoadMiss, 1, 0),
        (Take, 1, 0),
        (Evict, 0, 0),
        (Snooped, 0, 0),
        (Gather, 0, 0),
        (ServeVictim, 0, 0),
        (Receive, 1, 0),
        (Told, 1, 0),
    ];
    let title = "Message by message: a request meets a victim under the old name";
    let ending = "Taken up at 10, the request is granted at 14, when the victim has arrived.";
    chart(title, &play(&model, &script), ending, None)
}

fn drawn(variant: Variant, found: &Counterexample) -> String {
    let number = found.number.map_or(String::new(), |number| format!("property {number}: "));
    let ending = format!("Breaks {number}{}.", found.ending);
    chart(variant.words(), &found.steps, &ending, found.repeats_from)
}

/// An injected bug that costs a write, as the checker finds it.
fn lost_victim() -> String {
    let variant = Variant::WriteBackUnderOwnName;
    let shape = Shape { cores: 1, devices: 0, lines: 1 };
    let found =
        safety(Layer::Transaction, shape, variant.design(), Limits::default(), &mut |_| true);
    match found.map(|found| found.result) {
        Ok(Result::Broken(found)) => drawn(variant, &found),
        other => panic!("{variant} is not found: {other:?}"),
    }
}

/// An injected bug of liveness: a writer that never stops keeps the copy from ending.
fn starved() -> String {
    let variant = Variant::CopyAgain;
    let shape = Shape { cores: 1, devices: 0, lines: 1 };
    let found = liveness(Layer::Transaction, shape, variant.design(), Limits::default());
    match found.map(|found| found.and_then(|found| found.never_ends)) {
        Ok(Some(found)) => drawn(variant, &found),
        other => panic!("{variant} is not found: {other:?}"),
    }
}

/// Something that is done to a page's entry: its name, and whether the table accepts it.
type Operation = (&'static str, fn(&mut Table<u8, 1>) -> bool);

const OPERATIONS: [Operation; 5] = [
    ("Migrate", |table| table.migrate(0, 1, 2, Caching::Cacheable).is_ok()),
    ("the copy may begin", |table| {
        let aliased = table.entry(0).is_some_and(|entry| entry.phase() == Phase::Aliased);
        aliased && table.start_copy(0).is_ok()
    }),
    ("a line is copied", |table| {
        let copies = table.entry(0).is_some_and(|entry| entry.to_copy().is_some());
        if let Some(entry) = table.entry_mut(0).filter(|_| copies) {
            entry.copied();
        }
        copies
    }),
    ("Clear: the source is free", |table| table.clear(0).is_ok()),
    ("given up: the destination is free", |table| table.abort(0).is_ok()),
];

/// The states of an entry that the table's functions lead to.
fn entry() -> String {
    let place = |table: &Table<u8, 1>| match table.entry(0).map(Entry::phase) {
        None => 0,
        Some(Phase::Aliased) => 1,
        Some(Phase::Copying) => 2,
        Some(Phase::Copied) => 3,
    };
    let mut open = vec![Table::<u8, 1>::new(1)];
    let mut seen: Vec<Table<u8, 1>> = Vec::new();
    let mut edges = BTreeSet::new();
    while let Some(table) = open.pop() {
        if seen.contains(&table) {
            continue;
        }
        seen.push(table);
        for (name, apply) in OPERATIONS {
            let mut after = table;
            if apply(&mut after) {
                edges.insert((place(&table), place(&after), name));
                open.push(after);
            }
        }
    }
    let state = |name: &str, words: &str| (name.to_owned(), words.to_owned());
    let edge = |(from, to, text): (usize, usize, &str)| StateEdge { from, to, text: text.into() };
    StateChart {
        title: "An entry's life".to_owned(),
        states: vec![
            state("free", "one name for each frame"),
            state("Aliased", "both names; data at the source"),
            state("Copying", "below Ptr at the destination"),
            state("Copied", "all at the destination"),
        ],
        edges: edges.into_iter().map(edge).collect(),
    }
    .svg(Theme::Auto)
}
