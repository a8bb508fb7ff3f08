//! A container whose truth is known: hot memory (each page once a second), warm memory (each page
//! once a minute) and cold memory (written once), and how long each touch took.
//!
//! ```text
//! paced HOT WARM COLD SECONDS [CHANGE_AT]
//! ```
//!
//! Sizes in MiB. At CHANGE_AT seconds the cold memory turns warm: a phase change. Every ten seconds
//! a line is printed: the time, then the 50th, 99th, 99.9th percentile and the maximum in
//! nanoseconds of the hot and of the warm touches, and how many of either took more than 20 µs.
//! Half of each page is noise and half is zeros, so that it compresses by two.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use experiments::load::{Noise, Times, gcd};

const PAGE: usize = 4096;
const PAGES_IN_MIB: usize = 256;

/// Length of a tick of touches, in milliseconds.
const TICK_MS: u64 = 20;

/// Ticks of a second, a minute, and a line of the report.
const SECOND: u64 = 1_000 / TICK_MS;
const MINUTE: u64 = 60 * SECOND;
const LINE: u64 = 10 * SECOND;

/// Memory that is walked once in `ticks`, some pages at each, in an order that no readahead helps.
struct Walked {
    bytes: Vec<u8>,
    stride: usize,
    next: usize,
}

impl Walked {
    fn new(mib: usize, noise: &mut Noise) -> Walked {
        let pages = mib * PAGES_IN_MIB;
        let mut bytes = vec![0; pages * PAGE];
        bytes.chunks_mut(PAGE).for_each(|page| noise.fill(&mut page[..PAGE / 2]));
        // Odd and near the golden section: a permutation of a power of two, far apart.
        let stride = (pages as f64 * 0.618) as usize | 1;
        let stride = (stride..).find(|stride| gcd(*stride, pages.max(1)) == 1).unwrap_or(1);
        Walked { bytes, stride, next: 0 }
    }

    fn pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// Touches the share of one tick.
    fn touch(&mut self, tick: u64, ticks: u64, times: &mut Times) {
        let pages = self.pages() as u64;
        let until = |tick: u64| pages * tick / ticks;
        let count = until(tick % ticks + 1) - until(tick % ticks);
        for _ in 0..count {
            let started = Instant::now();
            black_box(self.bytes[self.next * PAGE]);
            times.add(started.elapsed());
            self.next = (self.next + self.stride) % self.pages();
        }
    }
}

fn main() {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let [hot, warm, cold, seconds, rest @ ..] = &numbers[..] else {
        eprintln!("paced HOT WARM COLD SECONDS [CHANGE_AT]");
        std::process::exit(2);
    };
    let change_at = rest.first().copied().unwrap_or(u64::MAX);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut walked = [*hot, *warm, *cold].map(|mib| Walked::new(mib as usize, &mut noise));
    let (mut hot_times, mut warm_times) = (Times::new(), Times::new());
    println!(
        "s\thot50\thot99\thot999\thotmax\thot20us\twarm50\twarm99\twarm999\twarmmax\twarm20us"
    );
    let started = Instant::now();
    for tick in 0..seconds * SECOND {
        walked[0].touch(tick, SECOND, &mut hot_times);
        walked[1].touch(tick, MINUTE, &mut warm_times);
        if tick / SECOND >= change_at {
            walked[2].touch(tick, MINUTE, &mut warm_times);
        }
        if (tick + 1) % LINE == 0 {
            let second = (tick + 1) / SECOND;
            let (hot, warm) = (hot_times.print_and_clear(), warm_times.print_and_clear());
            println!("{second}\t{hot}\t{warm}");
        }
        let due = started + Duration::from_millis(TICK_MS) * (tick as u32 + 1);
        sleep(due.saturating_duration_since(Instant::now()));
    }
}
