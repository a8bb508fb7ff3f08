//! That counters which are not read change nothing of what is decided.
#![allow(missing_docs)]

use std::time::Duration;

use prairie_host::cgroup::MemoryStat;
use prairie_offload::ageing::{Means, Step};
use prairie_offload::signal::{io, memory};
use prairie_offload::{Controller, Counters, Guard, Idle, Observation, Profile, Room};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const COST: Duration = Duration::from_micros(27);

fn room() -> Room {
    Room { swap_bytes: 1 << 30, swap_free_bytes: 1 << 30, ..Room::default() }
}

/// A container of a real kernel, offloaded and read again.
fn recorded() -> Vec<Observation> {
    let text = include_str!("data/offloaded-and-read-again.txt");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut words = line.split(' ');
        let at = words.next().unwrap().parse().unwrap();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        let [
            current,
            swap,
            some,
            stalled,
            anon,
            zswap,
            zswapped,
            cached,
            refault,
            scan,
            steal,
            major,
            load,
        ] = numbers.try_into().unwrap();
        Observation {
            at: Duration::from_secs_f64(at),
            current_bytes: current,
            swap_bytes: swap,
            counters: Counters::of([(memory::SOME, some), (io::SOME, stalled)]),
            stat: MemoryStat {
                anon,
                zswap,
                zswapped,
                swapcached: cached,
                workingset_refault_anon: refault,
                pgscan: scan,
                pgsteal: steal,
                pgmajfault: major,
                zswpin: load,
                ..MemoryStat::default()
            },
            room: room(),
            ..Observation::default()
        }
    })
    .collect()
}

/// What is decided at each row; and how often counters are not read. With `rests`, only those are
/// read that have to be, and every other row is passed over while nothing can be taken.
///
/// Generations come of age when another is begun, and are taken within three periods.
fn decided(
    rows: &[Observation],
    profile: Profile,
    means: Means,
    rests: bool,
) -> (Vec<Option<String>>, usize) {
    let mut controller = Controller::new(profile, means, false, COST);
    let (mut counted, mut rested, mut pass_over) = (rows[0], 0, false);
    let mut marked = rows[0].at;
    let mut decisions = Vec::new();
    for (at, now) in rows.iter().enumerate() {
        let of_age = now.at - marked < profile.period * 3;
        let bytes = if of_age { now.stat.anon / 2 } else { 0 };
        let now = &Observation { idle: Idle::Bytes(bytes), ..*now };
        if std::mem::take(&mut pass_over) {
            decisions.push(None);
            rested += 1;
            continue;
        }
        let glimpse = Observation { stat: counted.stat, swap_bytes: counted.swap_bytes, ..*now };
        let rest = rests && controller.can_rest(&counted, &glimpse);
        if !rest {
            counted = *now;
        }
        rested += usize::from(rest);
        let decision = controller.decide(if rest { &glimpse } else { now });
        if decision.ageing == Step::Measure {
            controller.measured(now.at, now.stat.anon / 2);
        }
        if decision.ageing == Step::Mark {
            marked = now.at;
        }
        let settled = controller.settled_until(&glimpse).zip(rows.get(at + 2));
        pass_over = rest && settled.is_some_and(|(until, next)| next.at <= until);
        let guard = decision.guard.as_ref().map_or("", Guard::name);
        decisions.push(Some(format!("{:?} {:?} {guard}", decision.reclaim, decision.ageing)));
    }
    (decisions, rested)
}

#[test]
fn decisions_on_a_recorded_kernel_are_the_same() {
    let rows = recorded();
    let aggressive = Profile::named("aggressive").unwrap();
    let (bits, generations) = (Means::AccessedBits, Means::Generations);
    for (means, min_age) in [(bits, 20), (bits, 75), (generations, 20), (generations, 30)] {
        let min_age = Duration::from_secs(min_age);
        let (period, warm_up) = (Duration::from_secs(2), Duration::from_secs(6));
        let profile = Profile { period, warm_up, min_age, ..aggressive };
        let (all, _) = decided(&rows, profile, means, false);
        let (some, rested) = decided(&rows, profile, means, true);
        let all: Vec<String> = all.into_iter().map(Option::unwrap).collect();
        for (row, (all, some)) in rows.iter().zip(all.iter().zip(&some)) {
            match some {
                Some(some) => assert_eq!(all, some, "{means:?} at {:?}", row.at),
                None => assert!(all.starts_with("None Wait"), "{means:?} at {:?}: {all}", row.at),
            }
        }
        assert!(some.contains(&None));
        assert!(all.iter().any(|decision| decision.starts_with("Some(Reclaim")));
        println!("{rested} of {} periods without counters", rows.len());
        assert!(rested * 8 > rows.len(), "{rested} of {} periods rested", rows.len());
    }
}

fn stat() -> impl Strategy<Value = MemoryStat> {
    let page = || 0u64..200_000;
    (page(), page(), page(), page(), 0u64..1 << 30).prop_map(|(a, b, c, d, zswapped)| MemoryStat {
        anon: 400 * MIB,
        pgsteal: a,
        pgscan: b,
        zswpin: c,
        pgmajfault: d,
        zswapped,
        ..MemoryStat::default()
    })
}

proptest! {
    /// Where counters need not be read, nothing is taken whatever they say.
    #[test]
    fn at_rest_nothing_could_be_taken(
        periods in prop::collection::vec((stat(), 0u64..3, 0u64..80, prop::bool::ANY), 3..80),
        measured in 0u64..200,
        mib in prop::sample::select(vec![1, 5, 33, 400]),
        min_mib in prop::sample::select(vec![0, 32]),
        means in prop::sample::select(vec![Means::None, Means::AccessedBits, Means::Generations]),
    ) {
        let profile = Profile {
            warm_up: Duration::ZERO,
            min_size_bytes: min_mib * MIB,
            ..Profile::default()
        };
        let mut controller = Controller::new(profile, means, false, COST);
        let mut counted = Observation::default();
        for (period, (stat, stall, grown, idle)) in periods.into_iter().enumerate() {
            let glimpse = Observation {
                at: Duration::from_secs(6 * (period as u64 + 1)),
                current_bytes: mib * MIB + grown * 4096,
                counters: Counters::of([(memory::SOME, counted.counters[memory::SOME] + stall / 2)]),
                stat: counted.stat,
                room: room(),
                idle: if idle { Idle::Bytes(0) } else { Idle::Unknown },
                ..Observation::default()
            };
            let now = Observation { stat, ..glimpse };
            let seen = if controller.can_rest(&counted, &glimpse) {
                prop_assert_eq!(controller.clone().decide(&now).reclaim, None);
                prop_assert!(glimpse.at - counted.at < Duration::from_secs(60));
                glimpse
            } else {
                counted = now;
                now
            };
            if controller.decide(&seen).ageing == Step::Measure {
                controller.measured(seen.at, measured * 4096);
            }
        }
    }
}
