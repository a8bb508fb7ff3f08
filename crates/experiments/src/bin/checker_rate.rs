//! Times the checker on German's protocol for four caches: states a second, bytes a state.
//!
//! Usage: `checker_rate [ROUNDS [THREADS [CACHES]]]`

use std::num::NonZeroUsize;

use prairie_migrate::check::german;
use prairie_migrate::checker::search::Limits;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = |otherwise: usize| args.next().and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    let (rounds, threads, caches) = (next(3), next(1), next(4));
    let threads = NonZeroUsize::new(threads).expect("at least one thread");
    let limits = Limits { threads, ..Limits::default() };
    for _ in 0..rounds {
        let found = german(caches as u8, false, limits, &mut |_| true).expect("2 to 5 caches");
        let seconds = found.elapsed.as_secs_f64();
        println!(
            "{} states {} transitions {seconds:.3} s {:.3} M states/s {:.1} bytes a state",
            found.states,
            found.transitions,
            found.states as f64 / seconds / 1e6,
            found.bytes as f64 / found.states as f64,
        );
    }
}
