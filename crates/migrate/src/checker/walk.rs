//! Random walks, for machines with far more states than can be visited.

/// SplitMix64: small, and the same everywhere for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that belong to a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `end`, which is not 0; uneven by less than 2⁻³².
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// How a walk went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkResult<A, P> {
    /// Steps taken.
    pub steps: u64,
    /// The violation, if any, and the last steps before it.
    pub broken: Option<(P, Vec<A>)>,
}

/// How many of the last steps a walk remembers.
const LAST_STEPS: usize = 64;

/// Takes `steps` random steps from `state`. `offers` gives some of the steps that are possible,
/// chosen at random: all of them would be thousands, each a state of its own. `look` is shown each
/// step with the state after it, and says what that breaks.
pub fn walk<S: Copy, A: Copy, P>(
    start: S,
    steps: u64,
    random: &mut Random,
    mut offers: impl FnMut(&S, &mut Random, &mut dyn FnMut(A, S)),
    mut look: impl FnMut(&A, &S) -> Option<P>,
) -> WalkResult<A, P> {
    let mut last = std::collections::VecDeque::with_capacity(LAST_STEPS);
    let mut taken = 0;
    // Large states stay where they are: the two change places.
    let (mut state, mut chosen) = (Box::new(start), Box::new(start));
    // Nothing may be offered at one place; nothing for so long is the end.
    let mut idle = 0;
    while taken < steps && idle < 1_000_000 {
        let mut step = None;
        let mut seen = 0;
        // One of those offered, each with the same chance, without keeping them all.
        let mut choice = *random;
        random.below(2);
        offers(&state, random, &mut |action, after| {
            seen += 1;
            if choice.below(seen) == 0 {
                step = Some(action);
                *chosen = after;
            }
        });
        let Some(action) = step else {
            idle += 1;
            continue;
        };
        idle = 0;
        taken += 1;
        std::mem::swap(&mut state, &mut chosen);
        if last.len() == LAST_STEPS {
            last.pop_front();
        }
        last.push_back(action);
        if let Some(property) = look(&action, &state) {
            return WalkResult { steps: taken, broken: Some((property, last.into())) };
        }
    }
    WalkResult { steps: taken, broken: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_walk_and_a_break_is_seen() {
        let run = |seed| {
            let mut random = Random::new(seed);
            let offers = |state: &u64, _: &mut Random, emit: &mut dyn FnMut(u8, u64)| {
                emit(0, state + 1);
                emit(1, state * 2);
            };
            walk(1, 1000, &mut random, offers, |_, &state| (state > 1 << 40).then_some(state))
        };
        assert_eq!(run(1), run(1));
        let broken = run(1).broken.expect("doubling comes to it");
        assert!(broken.0 > 1 << 40 && broken.1.len() <= LAST_STEPS);
        assert_ne!(run(1), run(2));
    }
}
