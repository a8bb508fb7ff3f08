//! Random walks of a machine of 8 cores, 2 devices and four pages of 32 lines that migrate when
//! they like, with everything that a machine may do but give up, against a reference memory: each write puts
//! a new value there, and every read is compared with it.

use prairie_migrate::check::walk;
use prairie_migrate::protocol::at_random::ActionCounts;
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::machine::Machine;
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;

fn large(caching: Caching, variant: Option<Variant>) -> Machine<8, 2, 32, 4, 8> {
    Machine { design: Design::everything(caching, variant) }
}

const STEPS: u64 = 100_000;

#[test]
fn random_walks_of_a_large_machine_break_nothing() {
    for (seed, caching) in [(1, Caching::Cacheable), (2, Caching::Noncacheable)] {
        let walked = large(caching, None).walk(STEPS, seed, &mut ActionCounts::default());
        assert_eq!(walked.broken, None, "{caching:?}");
        assert_eq!(walked.steps, STEPS);
    }
}

/// Every kind of action of the walk is taken, and often.
#[test]
fn everything_that_is_named_is_done() {
    let done = |caching| walk(caching, None, 3 * STEPS, 5, &mut |_| true).done;
    for (name, times) in done(Caching::Cacheable).named() {
        assert!(times >= 50, "{name}: {times} times");
    }
    // Nothing is filled while a page migrates, which both do nearly always: private caches hold
    // little, and there is nothing to prefetch.
    let seldom =
        ["stores that hit", "locked instructions", "prefetches by the old name", "victims"];
    for (name, times) in done(Caching::Noncacheable).named() {
        assert!(times >= 50 || seldom.contains(&name), "{name}: {times} times");
    }
}

/// A walk that could not fail would show nothing: these injected bugs it finds.
#[test]
fn random_walks_find_mistakes() {
    for variant in [
        Variant::NoOppositeCheck,
        Variant::NoRedirection,
        Variant::WriteBackUnderOwnName,
        Variant::NoRecall,
    ] {
        let walked = large(Caching::Cacheable, Some(variant)).walk(
            20 * STEPS,
            3,
            &mut ActionCounts::default(),
        );
        assert!(walked.broken.is_some(), "{variant} in {} steps", walked.steps);
    }
}

/// The command's walk, of pages of 64 lines: the same for the same seed, in legs, ended early by
/// who watches.
#[test]
fn walks_of_one_name_differ_by_seed() {
    let of = |seed, variant| walk(Caching::Cacheable, variant, 30_000, seed, &mut |_| true);
    let held = of(1, None);
    assert_eq!((held.steps, held.stopped, &held.broken), (30_000, false, &None));
    let found = |seed| of(seed, Some(Variant::NoRedirection)).broken.expect("found");
    assert_eq!(found(1), found(1));
    assert_ne!(found(1), found(2));
    let stopped = walk(Caching::Noncacheable, None, 10, 1, &mut |_| false);
    assert_eq!((stopped.steps, stopped.stopped), (0, true));
}
