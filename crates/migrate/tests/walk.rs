//! Random walks of a machine of 8 cores, 2 devices and two pages of 32 lines that migrate when
//! they like, with everything that a machine may do but give up, against a reference memory: each write puts
//! a new value there, and every read is compared with it.

use migrate::protocol::design::Design;
use migrate::protocol::machine::Machine;
use migrate::protocol::table::Caching;
use migrate::protocol::variant::Variant;

fn large(caching: Caching, variant: Option<Variant>) -> Machine<8, 2, 32> {
    let design = Design {
        caching,
        variant,
        pages: 2,
        together: true,
        again: true,
        // At random nearly every migration would be given up before it is copied.
        aborts: false,
        prefetch: true,
        partial: true,
        locks: true,
        split_walks: true,
        ats: true,
        llc: true,
        empty_tlb: true,
        values: 61,
        symmetry: false,
        ..Design::default()
    };
    Machine { design }
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

/// Two hundred million steps.
#[test]
#[ignore = "takes half an hour"]
fn long_random_walks() {
    for seed in 0..10 {
        let caching = [Caching::Cacheable, Caching::Noncacheable][seed as usize % 2];
        let walked = large(caching, None).walk(20_000_000, seed);
        assert_eq!(walked.broken, None, "{caching:?}, seed {seed}");
    }
}
