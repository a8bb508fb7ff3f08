//! Pages as bits: which are set, where the runs between them lie, and which run fits best.

/// The pages from `start` on, `len` of them, all clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub start: usize,
    /// How many there are.
    pub len: usize,
}

impl Run {
    /// Where `len` pages can start in the run at a multiple of `align`, if they fit.
    #[inline]
    fn place(self, len: usize, align: usize) -> Option<usize> {
        let start = self.start.next_multiple_of(align);
        (start + len <= self.start + self.len).then_some(start)
    }
}

/// Sets the bits of `len` pages from `start` on.
#[inline]
pub fn set(words: &mut [u64], start: usize, len: usize) {
    for_each_word(start, len, |word, mask| words[word] |= mask);
}

/// Clears the bits of `len` pages from `start` on.
#[inline]
pub fn clear(words: &mut [u64], start: usize, len: usize) {
    for_each_word(start, len, |word, mask| words[word] &= !mask);
}

/// How many of `len` pages from `start` on are set.
#[inline]
pub fn count(words: &[u64], start: usize, len: usize) -> usize {
    let mut total = 0;
    for_each_word(start, len, |word, mask| total += (words[word] & mask).count_ones() as usize);
    total
}

/// The runs of clear bits, in order.
#[inline]
pub fn clear_runs(words: &[u64]) -> impl Iterator<Item = Run> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let start = next(words, at, false)?;
        let end = next(words, start, true).unwrap_or(words.len() * 64);
        at = end;
        Some(Run { start, len: end - start })
    })
}

/// Length of the longest run of clear bits.
#[inline]
pub fn longest_clear_run(words: &[u64]) -> usize {
    clear_runs(words).map(|run| run.len).max().unwrap_or(0)
}

/// Where `len` pages start in the shortest run that holds them at a multiple of `align`: best fit,
/// lowest first.
#[inline]
pub fn best_fit(words: &[u64], len: usize, align: usize) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for run in clear_runs(words) {
        if best.is_some_and(|(shortest, _)| shortest <= run.len) {
            continue;
        }
        if let Some(start) = run.place(len, align) {
            best = Some((run.len, start));
            if run.len == len {
                break;
            }
        }
    }
    best.map(|(_, start)| start)
}

/// The first bit at `from` or after it that is `wanted`.
#[inline]
fn next(words: &[u64], from: usize, wanted: bool) -> Option<usize> {
    let (mut word, mut keep) = (from / 64, u64::MAX << (from % 64));
    while let Some(&bits) = words.get(word) {
        let found = (if wanted { bits } else { !bits }) & keep;
        if found != 0 {
            return Some(word * 64 + found.trailing_zeros() as usize);
        }
        (word, keep) = (word + 1, u64::MAX);
    }
    None
}

/// Calls `act` with each word that holds some of the bits, and their mask in it.
#[inline]
fn for_each_word(start: usize, len: usize, mut act: impl FnMut(usize, u64)) {
    let (mut at, end) = (start, start + len);
    while at < end {
        let bits = (64 - at % 64).min(end - at);
        act(at / 64, (u64::MAX >> (64 - bits)) << (at % 64));
        at += bits;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn best_fit_takes_the_shortest_run_that_holds_the_pages() {
        let mut words = [u64::MAX; 4];
        clear(&mut words, 10, 10);
        clear(&mut words, 62, 5);
        clear(&mut words, 200, 3);
        assert_eq!(longest_clear_run(&words), 10);
        assert_eq!(best_fit(&words, 3, 1), Some(200));
        assert_eq!(best_fit(&words, 4, 1), Some(62));
        assert_eq!(best_fit(&words, 6, 1), Some(10));
        assert_eq!(best_fit(&words, 3, 16), Some(64));
        assert_eq!(best_fit(&words, 11, 1), None);
    }

    proptest! {
        #[test]
        fn behaves_like_an_array_of_flags(
            steps in prop::collection::vec((any::<bool>(), 0usize..256, 0usize..256), 0..40),
            (len, align) in (1usize..40, 0u32..6)
        ) {
            let mut words = [0; 4];
            let mut model = [false; 256];
            for (on, from, to) in steps {
                let (start, end) = (from.min(to), from.max(to));
                if on { set(&mut words, start, end - start) } else { clear(&mut words, start, end - start) }
                model[start..end].fill(on);
                let set = model[start..].iter().filter(|&&bit| bit).count();
                prop_assert_eq!(count(&words, start, 256 - start), set);
            }
            let runs: Vec<Run> = clear_runs(&words).collect();
            let mut rebuilt = [true; 256];
            for run in &runs {
                prop_assert!(run.len > 0);
                rebuilt[run.start..run.start + run.len].fill(false);
            }
            prop_assert_eq!(rebuilt, model);
            let align = 1usize << align;
            let wanted = runs.iter().filter_map(|run| {
                let start = run.start.next_multiple_of(align);
                (start + len <= run.start + run.len).then_some((run.len, start))
            });
            prop_assert_eq!(best_fit(&words, len, align), wanted.min().map(|(_, start)| start));
        }
    }
}
