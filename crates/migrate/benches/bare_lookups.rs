//! How fast this host looks up tags and does nothing else, on the streams that `migrate_rate` times:
//! what a simulator of the same caches and TLBs can at most be compared with.
//!
//! Written plainly, in Rust: tags of four bytes, least recently used by shifting. Nothing is
//! coherent, nothing waits, nothing has latency or state, nothing is written back or invalidated,
//! and no line that has to go is looked up anywhere else. Every access looks up the first-level TLB,
//! on a miss the second, then L1, L2 and the last-level cache as far as it misses; `reads` says
//! whether a page walk reads the lowest entry through the caches (the upper ones nearly always hit
//! a walk cache) or is only counted.
//!
//! `bare_lookups [--rounds N] [--cores N] [--stream NAME]`

use std::process::ExitCode;

use prairie_migrate::address::PageSize;
use prairie_migrate::workload::{Kind, Request};

/// Sets of tags, those of a set in order of use.
struct Sets {
    ways: usize,
    tags: Vec<u32>,
}

impl Sets {
    fn new(sets: usize, ways: usize) -> Sets {
        Sets { ways, tags: vec![u32::MAX; sets * ways] }
    }

    /// Looks a tag up, which is the first of its set from now on.
    #[inline]
    fn look_up(&mut self, set: usize, tag: u32) -> bool {
        let tags = &mut self.tags[set * self.ways..][..self.ways];
        let at = tags.iter().position(|other| *other == tag);
        tags.copy_within(..at.unwrap_or(self.ways - 1), 1);
        tags[0] = tag;
        at.is_some()
    }
}

/// The default machine's caches and TLBs for base pages.
struct Machine {
    slices: u64,
    l1: Sets,
    l2: Sets,
    llc: Sets,
    first_tlb: Sets,
    second_tlb: Sets,
}

impl Machine {
    fn new(cores: usize) -> Machine {
        Machine {
            slices: cores as u64,
            l1: Sets::new(cores * 64, 8),
            l2: Sets::new(cores * 1024, 16),
            llc: Sets::new(cores * 2048, 11),
            first_tlb: Sets::new(cores * 16, 4),
            second_tlb: Sets::new(cores * 128, 12),
        }
    }

    /// Whether a page's translation is there, which it is from now on.
    #[inline]
    fn is_translated(&mut self, core: usize, page: u32) -> bool {
        let set = |sets: usize| core * sets + page as usize % sets;
        self.first_tlb.look_up(set(16), page) || self.second_tlb.look_up(set(128), page)
    }

    /// Whether the L1 has a line; if not, who else does is asked as well.
    #[inline]
    fn is_in_l1(&mut self, core: usize, line: u32) -> bool {
        if self.l1.look_up(core * 64 + line as usize % 64, line) {
            return true;
        }
        if !self.l2.look_up(core * 1024 + line as usize % 1024, line) {
            let mixed = line.wrapping_mul(0x9E37_79B1);
            let slice = (u64::from(mixed ^ mixed >> 15) * self.slices) >> 32;
            self.llc.look_up(slice as usize * 2048 + line as usize % 2048, line);
        }
        false
    }
}

fn main() -> ExitCode {
    // `cargo bench` adds the option.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let (mut rounds, mut cores, mut streams) = (3, vec![16, 64], vec![Kind::Hot, Kind::Random]);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<usize>().ok().filter(|number| *number > 0);
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value);
        match (name.as_str(), number, kind) {
            ("--rounds", Some(number), _) => rounds = number,
            ("--cores", Some(number), _) => cores = vec![number],
            ("--stream", _, Some(kind)) => streams = vec![kind],
            _ => {
                eprintln!("usage: bare_lookups [--rounds N] [--cores N] [--stream NAME]");
                return ExitCode::from(2);
            }
        }
    }
    println!("cores  stream     walks  L1 hits  walks an access  CPU s  M accesses/s");
    for &cores in &cores {
        for &stream in &streams {
            for reads in [false, true] {
                let mut all: Vec<_> = (0..rounds).map(|_| round(cores, stream, reads)).collect();
                all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
                let Round { seconds, accesses, l1_hits, walks } = all[rounds / 2];
                let share = |of: u64| of as f64 / accesses as f64;
                println!(
                    "{cores:>5}  {:<9}  {:<5}  {:>6.1}%  {:>15.2}  {seconds:>5.2}  {:>12.1}",
                    stream.name(),
                    if reads { "read" } else { "count" },
                    100.0 * share(l1_hits),
                    share(walks),
                    accesses as f64 / seconds / 1e6,
                );
            }
        }
    }
    ExitCode::SUCCESS
}

/// The results of a round: accesses of the program alone, and their hits.
#[derive(Clone, Copy, Default)]
struct Round {
    seconds: f64,
    accesses: u64,
    l1_hits: u64,
    walks: u64,
}

/// 24 million accesses, after a third as many to fill caches; cores take turns, a request each.
fn round(cores: usize, stream: Kind, reads: bool) -> Round {
    let mut machine = Machine::new(cores);
    let mut stream = stream.stream(cores, 1, PageSize::Base).expect("a stream that is generated");
    // Tables lie after all else.
    let tables = (stream.bytes()[0] >> 6) as u32;
    let mut request = Request::default();
    let (mut round, mut began) = (Round::default(), None);
    let mut seen = 0;
    while round.accesses < 24_000_000 {
        let began = (seen >= 8_000_000).then(|| *began.get_or_insert_with(cpu_seconds));
        for core in 0..cores {
            request.clear();
            stream.request(core, &mut request);
            seen += request.accesses.len() as u64;
            let (mut hits, mut walks) = (0, 0);
            for access in &request.accesses {
                let address = access.address().0;
                let page = (address >> 12) as u32;
                if !machine.is_translated(core, page) {
                    walks += 1;
                    if reads {
                        machine.is_in_l1(core, tables + page / 8);
                    }
                }
                hits += u64::from(machine.is_in_l1(core, (address >> 6) as u32));
            }
            if began.is_some() {
                round.accesses += request.accesses.len() as u64;
                round.l1_hits += hits;
                round.walks += walks;
            }
        }
        if let Some(began) = began {
            round.seconds = cpu_seconds() - began;
        }
    }
    round
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let ns: u64 = stat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    ns as f64 / 1e9
}
