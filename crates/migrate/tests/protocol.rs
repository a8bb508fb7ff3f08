//! The protocol holds at every size that a test has time for, under every reduction and without;
//! and each injected bug is found.

use prairie_migrate::check::{Layer, Liveness, Result, Shape, liveness, safety};
use prairie_migrate::checker::search::Limits;
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::property::Property;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;

const SMALL: Shape = Shape { cores: 2, devices: 1, lines: 1 };

fn states(shape: Shape, design: Design) -> u64 {
    let finding =
        safety(Layer::Transaction, shape, design, Limits::default(), &mut |_| true).unwrap();
    assert_eq!(finding.result, Result::Holds, "{design:?}");
    finding.states
}

#[test]
fn the_protocol_holds_with_everything_that_a_machine_may_do() {
    let base = Design::default();
    for design in [
        base,
        Design { caching: Caching::Noncacheable, ..base },
        Design { again: true, ..base },
        Design { pages: 2, ..base },
        Design { prefetch: true, ..base },
        Design { partial: true, ..base },
        Design { locks: true, ..base },
        Design { ats: true, ..base },
        Design { llc: true, ..base },
        Design { dirty_destination: true, ..base },
        Design { recalls: true, slow_drain: true, ..base },
    ] {
        assert!(states(SMALL, design) > 10_000, "{design:?}");
    }
}

/// What is left of a finished page meets nobody: keeping it changes the number of states and
/// nothing else.
#[test]
fn reductions_change_the_number_of_states_and_no_verdict() {
    let base = Design::default();
    let reduced = states(SMALL, base);
    let full = states(SMALL, Design { symmetry: false, ..base });
    assert!(full <= 2 * reduced && full > 19 * reduced / 10, "two cores: nearly half");
    assert!(states(SMALL, Design { empty_tlb: true, ..base }) > reduced);
    assert!(states(SMALL, Design { values: 2, ..base }) > reduced);
    let tiny = Shape { cores: 1, devices: 1, lines: 1 };
    let turns = Design { pages: 2, ..base };
    assert!(states(tiny, Design { keep_finished: true, ..turns }) > states(tiny, turns));
}

/// Each injected bug is caught without any reduction too, at the same depth.
#[test]
fn reductions_hide_no_mistake() {
    let in_states = |variant: &&Variant| !variant.is_about_liveness() && !variant.is_of_messages();
    for variant in Variant::ALL.iter().filter(in_states) {
        let (cores, devices, lines) = variant.shape();
        let shape = Shape { cores, devices, lines };
        let depth = |design| {
            let finding =
                safety(Layer::Transaction, shape, design, Limits::default(), &mut |_| true)
                    .unwrap();
            match finding.result {
                Result::Broken(found) => found.steps.len(),
                other => panic!("{variant} is not found: {other:?}"),
            }
        };
        let reduced = depth(variant.design());
        assert!((3..=20).contains(&reduced), "{variant}: {reduced} steps");
        assert_eq!(reduced, depth(Design { symmetry: false, ..variant.design() }), "{variant}");
    }
}

fn lives(design: Design) -> Liveness {
    liveness(Layer::Transaction, SMALL, design, Limits::default()).unwrap().unwrap()
}

#[test]
fn nobody_waits_for_the_migration_and_it_ends() {
    let base = Design::default();
    for design in
        [base, Design { caching: Caching::Noncacheable, ..base }, Design { prefetch: true, ..base }]
    {
        let found = lives(design);
        assert_eq!(found.waits_in_vain, None, "{design:?}");
        assert_eq!(found.never_ends, None, "{design:?}");
        assert!(found.states > 70_000);
    }
    // With locked instructions a migration ends only if the cache serves in order of arrival,
    // which the model leaves open.
    assert_eq!(lives(Design { locks: true, ..base }).waits_in_vain, None);
}

#[test]
fn mistakes_of_liveness_are_found() {
    let vain = |variant: Variant| lives(variant.design()).waits_in_vain.is_some();
    let endless = |variant: Variant| lives(variant.design()).never_ends.is_some();
    assert!(vain(Variant::HeldLineWaits));
    assert!(vain(Variant::PageWaits));
    assert!(endless(Variant::CopyAgain));
    assert!(endless(Variant::CopyWaitsForOwner));
    assert!(!vain(Variant::CopyAgain) && !endless(Variant::HeldLineWaits));
}

/// The way that a victim's data is lost: by its data alone, without a look at names.
#[test]
fn a_single_property_can_be_asked_for() {
    let variant = Variant::NoOppositeCheck;
    let design = Design { only: Some(Property::LastValue), ..variant.design() };
    let finding =
        safety(Layer::Transaction, SMALL, design, Limits::default(), &mut |_| true).unwrap();
    let Result::Broken(found) = finding.result else { panic!("{:?}", finding.result) };
    assert_eq!(found.number, Some(1));
}
