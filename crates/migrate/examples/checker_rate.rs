//! Times the checker on German's protocol for four caches: CPU time, states a second, bytes a
//! state.
//!
//! Usage: `checker_rate [ROUNDS]`

use migrate::check::german;
use migrate::checker::search::Limits;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    for _ in 0..rounds {
        let found = german(4, false, Limits::default(), &mut |_| true).expect("four caches");
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
