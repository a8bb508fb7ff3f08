//! Requests that are delayed until they can be distinguished from later ones: what the reduction
//! leaves is what it says it leaves, it hides no injected bug, and with it a larger machine is
//! visited whole.

use std::collections::HashSet;

use prairie_migrate::check::{Finding, Layer, Result, Shape, Unsupported, safety};
use prairie_migrate::checker::model::Model;
use prairie_migrate::checker::search::Limits;
use prairie_migrate::protocol::coarse::Coarse;
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::machine::Machine;
use prairie_migrate::protocol::message::Messages;
use prairie_migrate::protocol::message::state::{self as message, Phase};
use prairie_migrate::protocol::state::{self as plain, Invalidation, Request};
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::protocol::variant::Variant;

fn finding(layer: Layer, size: (u8, u8, u8), design: Design) -> Finding {
    let (cores, devices, lines) = size;
    let shape = Shape { cores, devices, lines };
    safety(layer, shape, design, Limits::default(), &mut |_| true).unwrap()
}

/// Every state that can be reached, itself and not its fingerprint.
fn reachable<M: Model>(model: &M) -> HashSet<M::State> {
    let mut seen = HashSet::new();
    let mut open: Vec<M::State> = model.initial().into_iter().map(|s| model.canonical(s)).collect();
    while let Some(state) = open.pop() {
        if seen.insert(state) {
            model.successors(&state, &mut |_, after| open.push(model.canonical(after)));
        }
    }
    seen
}

/// What a state may have more than one that is left.
trait Beside: Copy {
    /// Different things that it may have more.
    const THINGS: usize;
    /// Takes the `n`th away: a request that has not been taken up, and that its agent could still
    /// send, by the translation that it has; or the rest of an invalidation. False if it is not
    /// there.
    fn take_away(&mut self, n: usize) -> bool;
}

impl<const C: usize, const D: usize, const L: usize> Beside for plain::State<C, D, L> {
    const THINGS: usize = C + 2 * D;

    fn take_away(&mut self, n: usize) -> bool {
        let (request, tlb) = match n.checked_sub(C) {
            None => (&mut self.cores[n].request, self.cores[n].tlb),
            Some(n) => {
                let device = &mut self.devices[n / 2];
                let request =
                    if n.is_multiple_of(2) { &mut device.read } else { &mut device.posted };
                (request, device.tlb)
            }
        };
        let there = request.is_some() && tlb[usize::from(request.page)] == request.frame;
        if there {
            *request = Request::NONE;
        }
        there
    }
}

impl<const C: usize, const D: usize, const L: usize> Beside for message::State<C, D, L> {
    const THINGS: usize = C + 2 * D + C + D;

    fn take_away(&mut self, n: usize) -> bool {
        let phase = match n {
            n if n < C => self.wires[n].phase,
            n if n < C + 2 * D && (n - C).is_multiple_of(2) => self.devices[(n - C) / 2].read.phase,
            n if n < C + 2 * D => self.devices[(n - C) / 2].posted.phase,
            n => {
                let state = match (n - C - 2 * D).checked_sub(C) {
                    None => &mut self.plain.cores[n - C - 2 * D].invalidation[0],
                    Some(d) => &mut self.plain.devices[d].invalidation[0],
                };
                let draining = *state == Invalidation::Draining;
                *state = Invalidation::Done;
                return draining;
            }
        };
        phase == Phase::Sent && self.plain.take_away(n)
    }
}

/// The argument of [`prairie_migrate::protocol::coarse`] itself: every state that is left can be reached
/// without the reduction, and every state that can be reached, once it has settled, is one that is
/// left with requests sent beside, by translations that their agents still have; or one in which an
/// invalidation has not been completed that has nothing left to wait for.
fn puts_off_requests_and_nothing_else<M>(model: M)
where
    M: prairie_migrate::protocol::coarse::Layer + Copy,
    M::State: Beside,
{
    let all = reachable(&model);
    let left = reachable(&Coarse { layer: model, delays: true });
    assert!(left.is_subset(&all));
    assert!(left.len() * 2 < all.len(), "{} of {}", left.len(), all.len());
    for state in &all {
        let mut settled = *state;
        model.settle(&mut settled, &mut |_| {});
        let with_fewer = |which: usize| {
            let mut fewer = settled;
            let mut chosen = (0..M::State::THINGS).filter(|n| which >> n & 1 == 1);
            chosen.all(|n| fewer.take_away(n)) && left.contains(&model.canonical(fewer))
        };
        assert!((0..1 << M::State::THINGS).any(with_fewer), "{state:?}");
    }
}

#[test]
fn what_is_left_out_are_requests_that_could_be_sent_later() {
    let base = Design::default();
    for design in [
        base,
        Design { caching: Caching::Noncacheable, ..base },
        Design { again: true, ..base },
        Design { partial: true, symmetry: false, ..base },
    ] {
        puts_off_requests_and_nothing_else(Machine::<2, 0, 1> { design });
        puts_off_requests_and_nothing_else(Machine::<1, 1, 1> { design });
        puts_off_requests_and_nothing_else(Messages::<1, 1, 1>::new(design));
    }
    puts_off_requests_and_nothing_else(Machine::<2, 1, 1> { design: base });
    let turns = Design { pages: 2, aborts: true, recalls: true, slow_drain: true, ..base };
    puts_off_requests_and_nothing_else(Machine::<1, 1, 1> { design: turns });
    puts_off_requests_and_nothing_else(Messages::<2, 0, 1>::new(base));
    let given_up = Design { aborts: true, again: true, ..base };
    puts_off_requests_and_nothing_else(Messages::<1, 0, 1>::new(given_up));
}

/// Every injected bug that shows in a state is found; in no fewer steps than without the reduction, and
/// in not many more: the fewest compound steps need not be the fewest of all, and what settles is
/// counted.
#[test]
fn no_mistake_is_hidden() {
    for layer in [Layer::Transaction, Layer::Message] {
        let shows = |variant: &Variant| match layer {
            Layer::Transaction => !variant.is_of_messages(),
            Layer::Message => variant.shows_in_messages(),
        };
        for variant in Variant::ALL.iter().filter(|v| shows(v) && !v.is_about_liveness()) {
            let size = match layer {
                Layer::Transaction => variant.shape(),
                Layer::Message => variant.shape_of_messages(),
            };
            let design = variant.design();
            if !design.can_be_coarse() {
                assert_eq!(*variant, Variant::PrefetchServed);
                continue;
            }
            let steps = |design| match finding(layer, size, design).result {
                Result::Broken(found) => (found.number, found.steps.len()),
                other => panic!("{variant} in {layer:?} is not found: {other:?}"),
            };
            let (_, shortest) = steps(design);
            let (_, coarse) = steps(Design { coarse: true, ..design });
            assert!((shortest..=2 * shortest).contains(&coarse), "{variant}: {shortest}, {coarse}");
        }
    }
}

#[test]
fn two_lines_are_visited_whole() {
    let coarse = Design { coarse: true, ..Design::default() };
    let found = finding(Layer::Transaction, (2, 1, 2), coarse);
    assert_eq!((found.result, found.states), (Result::Holds, 107_385));
    let found = finding(Layer::Transaction, (3, 1, 1), coarse);
    assert_eq!((found.result, found.states), (Result::Holds, 15_214));
    let found = finding(Layer::Message, (1, 0, 2), coarse);
    assert_eq!((found.result, found.states), (Result::Holds, 8_586));
}

#[test]
fn where_it_is_not_sound_it_is_refused() {
    let shape = Shape { cores: 1, devices: 0, lines: 1 };
    let coarse = Design { coarse: true, ..Design::default() };
    for design in [Design { prefetch: true, ..coarse }, Design { keep_finished: true, ..coarse }] {
        let refused =
            safety(Layer::Transaction, shape, design, Limits::default(), &mut |_| true).err();
        assert_eq!(refused, Some(Unsupported::Coarse));
    }
}
