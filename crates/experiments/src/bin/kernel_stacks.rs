//! What kernel stacks leave of memory when many threads have come and gone, with a page of the
//! object behind each guard and without (FreeBSD, "Reworking kernel stack allocations").
//!
//! ```text
//! cargo run --release -p experiments --bin kernel_stacks -- [THREADS] [SEED]
//! ```
//!
//! Threads are started up to THREADS; then twenty times as many end and begin, any of them as likely
//! as any other; then all but one in eight end, by chance. Both layouts see the same threads. Counts,
//! no times.

use prairie_frames::kstack::{Arena, Indexing, StackMemory, Stacks};

/// A small generator without pattern (xorshift64*): the same threads for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((value * bound as u64) >> 32) as usize
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (threads, seed) = (number(16_384).max(8), number(1).max(1));
    println!(
        "| stacks | layout | threads | superpages held | at least needed | frames in no use | of them single | largest hole |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for stacks in [Stacks::AMD64, Stacks { pages: 2, guards: 1 }] {
        for indexing in [Indexing::Linear, Indexing::Packed] {
            let mut chance = Chance(seed);
            let mut arena = Arena::new(stacks, indexing);
            let mut living: Vec<u64> = (0..threads).map(|_| arena.take()).collect();
            row(stacks, indexing, &arena.held());
            for _ in 0..20 * threads {
                let which = chance.below(living.len());
                arena.give(living.swap_remove(which));
                if chance.below(2) == 0 || living.len() < threads as usize / 2 {
                    living.push(arena.take());
                }
                while living.len() < threads as usize * 3 / 4 {
                    living.push(arena.take());
                }
            }
            row(stacks, indexing, &arena.held());
            while living.len() > threads as usize / 8 {
                let which = chance.below(living.len());
                arena.give(living.swap_remove(which));
            }
            row(stacks, indexing, &arena.held());
        }
    }
}

fn row(stacks: Stacks, indexing: Indexing, held: &StackMemory) {
    let largest = held.holes.iter().rposition(|&blocks| blocks > 0);
    println!(
        "| {} + {} | {} | {} | {} | {} | {} | {} | {} |",
        stacks.pages,
        stacks.guards,
        match indexing {
            Indexing::Linear => "linear",
            Indexing::Packed => "packed",
        },
        held.stacks,
        held.superpages,
        (held.stacks * stacks.pages).div_ceil(512),
        held.unused_frames(),
        held.holes[0],
        largest.map_or("none".to_owned(), |order| format!("order {order}")),
    );
}
