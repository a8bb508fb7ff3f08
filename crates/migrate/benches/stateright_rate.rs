//! Times Stateright's breadth-first search on the same model of German's protocol, one thread.

#[path = "../tests/common/stateright.rs"]
mod adapted;

use adapted::Adapted;
use prairie_migrate::checker::german::German;
use stateright::{Checker, Model};

fn main() {
    let checker = Adapted(German::<4>::default()).checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    println!("{} states {} transitions", checker.unique_state_count(), checker.state_count());
}
