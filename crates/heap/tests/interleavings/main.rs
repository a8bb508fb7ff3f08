//! The heap's lock-free protocols under loom: every interleaving of a few threads, and every value
//! that the memory model lets a load return, as the orderings are and with them weakened.
//!
//! The files of `src/front/protocol/` are compiled here again, with [`atomic`] in the place of the
//! machine's atomics. Each model is run three times. As it is it must hold; without what acquires,
//! and without what releases, loom or the model itself must find the mistake: a model that holds
//! all the same could not fail, and says so.

#![allow(dead_code, reason = "no model uses all of a protocol, nor all that atomics can do")]

mod atomic;
mod models;

#[path = "../../src/front/protocol/deferred.rs"]
mod deferred;
#[path = "../../src/front/protocol/entry.rs"]
mod entry;
#[path = "../../src/front/protocol/flag.rs"]
mod flag;
#[path = "../../src/front/protocol/lock_word.rs"]
mod lock_word;
#[path = "../../src/front/protocol/once.rs"]
mod once;
#[path = "../../src/front/protocol/place.rs"]
mod place;
#[path = "../../src/front/protocol/sequence.rs"]
mod sequence;
#[path = "../../src/front/protocol/slot.rs"]
mod slot;
#[path = "../../src/front/protocol/window.rs"]
mod window;

use std::process::Command;

use atomic::{Weakened, weaken};

/// Tells a test that runs in a process of its own what its operations are to be robbed of.
const WITHOUT: &str = "PRAIRIE_INTERLEAVINGS_WITHOUT";

/// Tries all that can happen in a model, weakened if the process is to.
fn explore(model: fn()) {
    explore_to(None, model);
}

/// The same, but only executions with a bounded number of switches from threads that could go on.
fn explore_to(preemptions: Option<usize>, model: fn()) {
    weaken(match std::env::var(WITHOUT).as_deref() {
        Ok("acquire") => Weakened::Acquire,
        Ok("release") => Weakened::Release,
        _ => Weakened::Not,
    });
    let mut explorer = loom::model::Builder::new();
    explorer.preemption_bound = preemptions;
    explorer.check(model);
}

/// Runs a test in a process of its own, as loom may end it when it finds a mistake, and gives what
/// it says when it fails.
fn failure_of(test: &str, without: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("a test knows its own file"))
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(WITHOUT, without)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("a test can be run again");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.concat();
    assert!(said.contains("running 1 test"), "{test} is no test: {said}");
    assert!(!output.status.success(), "{test} holds without {without}: it could not fail");
    said
}

macro_rules! models {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn holds() {
                explore(models::$name);
            }

            #[test]
            fn fails_if_nothing_acquires() {
                failure_of(concat!(stringify!($name), "::holds"), "acquire");
            }

            #[test]
            fn fails_if_nothing_releases() {
                failure_of(concat!(stringify!($name), "::holds"), "release");
            }
        }
    )*};
}

models! {
    a_lock_excludes
    what_is_done_once_is_seen
    a_flag_excludes
    a_place_is_filled_once_and_whole
    deferred_objects_come_back_once
    a_sequence_shows_torn_reads
    a_slot_that_is_used_again_is_another_objects
    a_page_is_found_with_its_class_or_not_at_all
    an_emptied_cache_is_nobodys_meanwhile
    a_new_cache_is_seen_whole
}

/// No thread that sleeps is forgotten: loom ends a model in which all threads wait. Two of the
/// three may be interrupted; all that could happen would take minutes.
#[test]
fn a_lock_wakes_who_sleeps() {
    explore_to(Some(2), || models::three_sleep_in_turn(models::Futex::Compares));
}

#[test]
#[ignore = "fails by intent, for the test below"]
fn sleeps_without_a_look() {
    explore_to(Some(2), || models::three_sleep_in_turn(models::Futex::SleepsAtOnce));
}

/// Whom a futex sends to sleep that does not compare the word, nobody wakes.
#[test]
fn who_sleeps_without_a_look_is_not_woken() {
    let said = failure_of("sleeps_without_a_look", "a comparison");
    assert!(said.contains("deadlock"), "{said}");
}

#[test]
#[ignore = "fails by intent, for the test below"]
fn emptied_without_a_barrier() {
    explore(|| models::emptied_cache(models::Barrier::Missing));
}

/// Without the barrier a sequence that has read the entry goes on beside who empties the cache.
#[test]
fn an_emptied_cache_needs_the_barrier() {
    failure_of("emptied_without_a_barrier", "the barrier");
}
