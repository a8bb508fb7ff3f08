//! The message layer: what holds of it, that it refines the transaction layer, and that injected bugs
//! in it are found.

use prairie_migrate::check::{Finding, Layer, Liveness, Result, Shape, liveness, safety};
use prairie_migrate::checker::model::Model;
use prairie_migrate::checker::search::{Limits, search};
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::message::Messages;
use prairie_migrate::protocol::property::Property;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;

const fn shape(cores: u8, devices: u8, lines: u8) -> Shape {
    Shape { cores, devices, lines }
}

fn finding(shape: Shape, design: Design) -> Finding {
    safety(Layer::Message, shape, design, Limits::default(), &mut |_| true).unwrap()
}

fn lives(shape: Shape, design: Design) -> Liveness {
    liveness(Layer::Message, shape, design, Limits::default()).unwrap().unwrap()
}

/// Every state of each, with each step between them compared with the transaction layer.
#[test]
fn the_messages_refine_the_transactions() {
    let base = Design::default();
    for (shape, design, states) in [
        (shape(1, 1, 1), base, 51_945),
        (shape(2, 0, 1), base, 33_773),
        (shape(1, 0, 2), base, 30_000),
        (shape(1, 0, 1), Design { aborts: true, again: true, ..base }, 1_000),
        (shape(1, 1, 1), Design { caching: Caching::Noncacheable, ..base }, 50_000),
        (shape(1, 1, 1), Design { partial: true, ..base }, 50_000),
        (shape(2, 0, 1), Design { again: true, ..base }, 50_000),
        (shape(1, 1, 1), Design { values: 2, ..base }, 100_000),
    ] {
        let found = finding(shape, design);
        assert_eq!(found.result, Result::Holds, "{shape:?} {design:?}");
        assert!(found.states >= states, "{} states of {shape:?} {design:?}", found.states);
    }
}

/// The reductions hide nothing here either.
#[test]
fn symmetry_halves_the_states() {
    let base = Design::default();
    let reduced = finding(shape(2, 0, 1), base).states;
    let full = finding(shape(2, 0, 1), Design { symmetry: false, ..base }).states;
    assert!(full <= 2 * reduced && full > 19 * reduced / 10, "{reduced} of {full}");
}

/// A message layer with an injected bug does what the transaction layer cannot.
#[test]
fn a_mistake_does_not_refine() {
    for variant in [Variant::GrantNotAwaited, Variant::VictimNotAwaited, Variant::RequesterSpared] {
        let design = Design { only: Some(Property::Refines), ..variant.design() };
        let outcome = search(&Messages::<2, 0, 1>::new(design), Limits::default(), &mut |_| true);
        let trace = outcome.trace().unwrap_or_else(|| panic!("{variant} refines"));
        assert_eq!(trace.property, Some(Property::Refines), "{variant}");
    }
}

#[test]
fn mistakes_are_found_message_by_message() {
    let safe = |variant: &&Variant| variant.shows_in_messages() && !variant.is_about_liveness();
    for variant in Variant::ALL.iter().filter(safe) {
        let (cores, devices, lines) = variant.shape_of_messages();
        match finding(shape(cores, devices, lines), variant.design()).result {
            Result::Broken(found) => {
                assert!((3..=24).contains(&found.steps.len()), "{variant}: {found:?}");
            }
            other => panic!("{variant} is not found: {other:?}"),
        }
    }
}

#[test]
fn nobody_waits_for_the_migration_and_it_ends() {
    let base = Design::default();
    for (shape, design) in [
        (shape(1, 1, 1), base),
        (shape(2, 0, 1), base),
        (shape(1, 0, 2), base),
        (shape(1, 1, 1), Design { caching: Caching::Noncacheable, ..base }),
        (shape(1, 0, 1), Design { aborts: true, ..base }),
    ] {
        let found = lives(shape, design);
        assert_eq!(found.waits_in_vain, None, "{shape:?} {design:?}");
        assert_eq!(found.never_ends, None, "{shape:?} {design:?}");
    }
}

#[test]
fn mistakes_of_liveness_are_found() {
    let found = |variant: Variant| {
        let (cores, devices, lines) = variant.shape_of_messages();
        lives(shape(cores, devices, lines), variant.design())
    };
    assert!(found(Variant::HeldLineWaits).waits_in_vain.is_some());
    assert!(found(Variant::PageWaits).waits_in_vain.is_some());
    assert!(found(Variant::VictimRefused).waits_in_vain.is_some());
    let starves = found(Variant::CopyAgain);
    assert!(starves.waits_in_vain.is_none() && starves.never_ends.is_some());
    assert!(found(Variant::CopyWaitsForOwner).never_ends.is_some());
}

/// What is on its way is part of a state: two that differ there alone have two fingerprints. The
/// counts without hashing are those of the search.
#[test]
fn fingerprints_distinguish_all_states() {
    let model = Messages::<1, 1, 1>::new(Design::default());
    let mut seen = std::collections::BTreeSet::new();
    let mut open = model.initial();
    while let Some(state) = open.pop() {
        if seen.insert(format!("{:?}", model.canonical(state))) {
            model.successors(&state, &mut |_, after| open.push(after));
        }
    }
    let states = search(&model, Limits::default(), &mut |_| true).states;
    assert_eq!(seen.len() as u64, states);
}
