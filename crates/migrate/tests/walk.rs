//! Random walks of a machine of 8 cores, 2 devices and two pages of 32 lines that migrate when
//! they like, with everything that a machine may do but give up, against a reference memory: each write puts
//! a new value there, and every read is compared with it.

use migrate::check::walk;
use migrate::protocol::design::Design;
use migrate::protocol::machine::Machine;
use migrate::protocol::table::Caching;
use migrate::protocol::variant::Variant;

fn large(caching: Caching, variant: Option<Variant>) -> Machine<8, 2, 32> {
    Machine { design: Design::everything(caching, variant) }
}

const STEPS: u64 = 100_000;

#[test]
fn random_walks_of_a_large_machine_break_nothing() {
    for (seed, caching) in [(1, Caching::Cacheable), (2, Caching::Noncacheable)] {
        let walked = large(caching, None).walk(STEPS, seed);
        assert_eq!(walked.broken, None, "{caching:?}");
        assert_eq!(walked.steps, STEPS);
    }
}

/// A walk that could not fail would show nothing: these mistakes it finds.
#[test]
fn random_walks_find_mistakes() {
    for variant in [
        Variant::NoOppositeCheck,
        Variant::NoRedirection,
        Variant::WriteBackUnderOwnName,
        Variant::NoRecall,
    ] {
        let walked = large(Caching::Cacheable, Some(variant)).walk(10 * STEPS, 3);
        assert!(walked.broken.is_some(), "{variant} in {} steps", walked.steps);
    }
}

/// The command's walk, of pages of 64 lines: the same for the same seed, in legs, ended early by
/// who watches.
#[test]
fn walks_by_name_are_told_apart_by_their_seed() {
    let of = |seed, variant| walk(Caching::Cacheable, variant, 30_000, seed, &mut |_| true);
    let held = of(1, None);
    assert_eq!((held.steps, held.stopped, &held.broken), (30_000, false, &None));
    let found = |seed| of(seed, Some(Variant::NoRedirection)).broken.expect("found");
    assert_eq!(found(1), found(1));
    assert_ne!(found(1), found(2));
    let stopped = walk(Caching::Noncacheable, None, 10, 1, &mut |_| false);
    assert_eq!((stopped.steps, stopped.stopped), (0, true));
}

/// Two hundred million steps.
#[test]
#[ignore = "takes half an hour"]
fn long_random_walks() {
    for caching in [Caching::Cacheable, Caching::Noncacheable] {
        let walked = walk(caching, None, 100_000_000, 1, &mut |_| true);
        assert_eq!(walked.broken, None, "{caching:?}");
    }
}
