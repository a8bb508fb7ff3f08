//! How much of a container's memory is cold: the paper's Figure 2, from the best source at hand.
//!
//! Memory is classified by when it was last touched: within the last minute, the second, the
//! third to fifth, or not within five. One run of five minutes measures all of these:
//!
//! - by **generations**: there are four at most, one fewer than the classes and the youngest need.
//!   New ones begin at the start, after four, five and six minutes; the reading after five minutes
//!   shows what is cold, and the one after six minutes distinguishes the last two minutes;
//! - by **accessed bits**: cleared at the start, summed up after one, two and five minutes.

use std::time::Duration;

use serde::Serialize;

use prairie_host::cgroup::lru_gen::Node;

/// Memory by when it was last touched, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coldness {
    /// Within the last minute.
    pub one_minute_bytes: u64,
    /// Before that, within two minutes.
    pub two_minutes_bytes: u64,
    /// Before that, within five minutes.
    pub five_minutes_bytes: u64,
    /// Not within five minutes.
    pub cold_bytes: u64,
}

/// When a run by generations begins new ones. It reads them after the third and the fourth.
pub const GENERATIONS_AT: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(240), Duration::from_secs(300), Duration::from_secs(360)];

/// When a run by accessed bits sums up.
pub const MEASURED_AT: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(120), Duration::from_secs(300)];

impl Coldness {
    /// From the generations of a cgroup right after the third beginning and right after the
    /// fourth. Ageing puts what it finds accessed into the generation that was the youngest, then
    /// begins another: so each holds, of the time from its own beginning to the next, what has not
    /// been touched since.
    pub fn of_generations(after_five: &[Node], after_six: &[Node]) -> Coldness {
        // The youngest has just begun; what is in it was touched within the minute, as was what is
        // in the one before.
        let six = |from: usize| pages(after_six, from).saturating_mul(4096);
        let one = six(0).saturating_add(six(1));
        let two = six(2);
        // Oldest of four: not touched since the start.
        let older = six(3).saturating_add(six(4));
        let cold = pages(after_five, 3).saturating_mul(4096).min(older);
        Coldness {
            one_minute_bytes: one,
            two_minutes_bytes: two,
            five_minutes_bytes: older - cold,
            cold_bytes: cold,
        }
    }

    /// From the bytes referenced one, two and five minutes after the start, of `total_bytes`.
    pub fn of_referenced(total_bytes: u64, referenced_bytes: [u64; 3]) -> Coldness {
        let [one, two, five] = referenced_bytes.map(|bytes| bytes.min(total_bytes));
        let (two, five) = (two.max(one), five.max(two).max(one));
        Coldness {
            one_minute_bytes: one,
            two_minutes_bytes: two - one,
            five_minutes_bytes: five - two,
            cold_bytes: total_bytes - five,
        }
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        [self.one_minute_bytes, self.two_minutes_bytes, self.five_minutes_bytes, self.cold_bytes]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Pages in the generation at this distance from the youngest, on all nodes.
fn pages(nodes: &[Node], back: usize) -> u64 {
    let of = |node: &Node| {
        let generation = node.generations().iter().rev().nth(back)?;
        Some(generation.anon_pages + generation.file_pages)
    };
    nodes.iter().filter_map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::cgroup::lru_gen;

    fn nodes(generations: [u64; 4]) -> Vec<Node> {
        let mut text = "memcg 3 /w\n node 0\n".to_owned();
        for (at, pages) in generations.into_iter().enumerate() {
            text += &format!("{at} {} {pages} 0\n", 1_000 * (4 - at));
        }
        let mut found = Vec::new();
        lru_gen::parse(&text, &mut |_, node| found.push(*node)).unwrap();
        found
    }

    #[test]
    fn two_readings_distinguish_four_classes() {
        // 300 pages cold, 50 last touched in the first four minutes, 20 in the last but one, 100
        // in the last minute; at six minutes the two oldest have been merged.
        let coldness =
            Coldness::of_generations(&nodes([300, 50, 120, 1]), &nodes([350, 20, 100, 1]));
        let page = |bytes: u64| bytes / 4096;
        assert_eq!(page(coldness.one_minute_bytes), 101);
        assert_eq!(page(coldness.two_minutes_bytes), 20);
        assert_eq!(page(coldness.five_minutes_bytes), 50);
        assert_eq!(page(coldness.cold_bytes), 300);
        assert_eq!(page(coldness.total_bytes()), 471);
    }

    #[test]
    fn references_accumulate() {
        let coldness = Coldness::of_referenced(100, [50, 58, 70]);
        let feed = Coldness {
            one_minute_bytes: 50,
            two_minutes_bytes: 8,
            five_minutes_bytes: 12,
            cold_bytes: 30,
        };
        assert_eq!(coldness, feed, "the paper's Feed");
        assert_eq!(Coldness::of_referenced(10, [20, 5, 0]).total_bytes(), 10);
    }
}
