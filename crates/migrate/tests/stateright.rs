//! Stateright, given the same models, counts the same states and finds the same depth of a
//! injected bug.

#[path = "common/stateright.rs"]
mod adapted;

use adapted::Adapted;
use prairie_migrate::checker::german::German;
use prairie_migrate::checker::search::{Limits, search};
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::machine::Machine;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;
use stateright::{Checker, Model as _};

fn counts<M>(model: M) -> (u64, u64)
where
    M: prairie_migrate::checker::model::Model + Copy + Send + Sync + 'static,
    M::State: Send + Sync,
{
    let ours = search(&model, Limits::default(), &mut |_| true);
    assert!(ours.holds());
    assert!(model.initial().len() == 1);
    let theirs = Adapted(model).checker().threads(1).spawn_bfs().join();
    theirs.assert_properties();
    (ours.states, theirs.unique_state_count() as u64)
}

#[test]
fn both_count_the_same() {
    let (ours, theirs) = counts(German::<3>::default());
    assert_eq!((ours, theirs), (58_077, 58_077));
    let base = Design::default();
    for design in [base, Design { caching: Caching::Noncacheable, ..base }] {
        let (ours, theirs) = counts(Machine::<2, 1, 1> { design });
        assert_eq!(ours, theirs, "{design:?}");
    }
}

#[test]
fn both_find_a_mistake_at_the_same_depth() {
    let design = Variant::WriteBackUnderOwnName.design();
    let model = Machine::<2, 1, 1> { design };
    let ours = search(&model, Limits::default(), &mut |_| true);
    let theirs = Adapted(model).checker().threads(1).spawn_bfs().join();
    let path = theirs.discovery("all of them").expect("it finds one");
    assert_eq!(ours.trace().map(|trace| trace.steps.len()), Some(path.into_actions().len()));
}
