//! How much may be offloaded before refaults slow a container down.
//!
//! Pressure is a share of wall time. A service that is busy for a hundredth of the time waits for its
//! refaults in that hundredth: stalls of 0.1 % of the time are a tenth of its work. Their cost is
//! therefore also compared with the CPU time that the container uses.
//!
//! Refaults come minutes after the reclaim that causes them, too late for a law that looks at one
//! period. So the expected number is limited: the hazard of an offloaded page, refaults per page and
//! second, is estimated from the pages that are offloaded, for how long, and how many came back. Pages
//! that are requested independently of each other (Zipf's law) leave at that rate, and pages that are
//! cold for good bring it down as they stay away.

use std::time::Duration;

use crate::observation::Observation;
use crate::returns::WINDOW;

/// Parts of the window.
const PARTS: usize = 10;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// What is believed before anything is observed (chosen): a page that has been idle for some time stays
/// idle for ten times as long ...
const PRIOR_AGES: f64 = 10.0;

/// ... as if one such page had come back. Weak, because a wrong belief costs a page.
const PRIOR_RETURNS: f64 = 1.0;

/// Pages that may always be offloaded, or nothing would ever be learned (chosen): 1 MiB.
const PROBE_PAGES: u64 = 256;

/// A container counts as using at least this share of a CPU (chosen): nobody waits for one that uses
/// less.
const MIN_CPU: f64 = 0.001;

/// What was observed within a part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    returned_pages: u64,
    page_seconds: f64,
    cpu_us: u64,
    wall_us: u64,
}

/// What is known of a container's offloaded pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regret {
    parts: [Part; PARTS],
    /// The part that is being filled, counted from the clock's zero.
    part: u64,
    /// Page cache that was reclaimed and has not come back.
    file_pages: u64,
    /// All pages that were reclaimed and have not come back.
    outstanding_pages: u64,
}

impl Regret {
    /// Counts a period, in which `taken_pages` were reclaimed and `returned_pages` came back.
    pub fn count(
        &mut self,
        before: &Observation,
        now: &Observation,
        taken_pages: u64,
        returned_pages: u64,
    ) {
        let part = now.at.as_secs() / (WINDOW.as_secs() / PARTS as u64);
        for old in self.part + 1..=part.min(self.part + PARTS as u64) {
            self.parts[old as usize % PARTS] = Part::default();
        }
        self.part = self.part.max(part);
        let wall = now.at.saturating_sub(before.at);
        let (b, n) = (&before.stat, &now.stat);
        let swapped_out = (n.zswpout.saturating_sub(b.zswpout))
            .saturating_add(n.pswpout.saturating_sub(b.pswpout));
        let file_back = n.workingset_refault_file.saturating_sub(b.workingset_refault_file);
        self.file_pages = (self.file_pages.saturating_add(taken_pages.saturating_sub(swapped_out)))
            .saturating_sub(file_back);
        // Pages that are back may keep their slots.
        let swapped = now.swap_bytes.saturating_sub(n.swapcached) / PAGE;
        self.outstanding_pages = swapped.saturating_add(self.file_pages);
        let into = &mut self.parts[self.part as usize % PARTS];
        into.returned_pages = into.returned_pages.saturating_add(returned_pages);
        into.page_seconds += self.outstanding_pages as f64 * wall.as_secs_f64();
        into.cpu_us = into.cpu_us.saturating_add(now.cpu_us.saturating_sub(before.cpu_us));
        into.wall_us = into.wall_us.saturating_add(wall.as_micros() as u64);
    }

    fn sum(&self) -> Part {
        self.parts.iter().fold(Part::default(), |sum, part| Part {
            returned_pages: sum.returned_pages.saturating_add(part.returned_pages),
            page_seconds: sum.page_seconds + part.page_seconds,
            cpu_us: sum.cpu_us.saturating_add(part.cpu_us),
            wall_us: sum.wall_us.saturating_add(part.wall_us),
        })
    }

    /// Pages that were reclaimed and have not come back.
    pub fn outstanding_pages(&self) -> u64 {
        self.outstanding_pages
    }

    /// Refaults to expect of one offloaded page, per second, if pages had to be idle for `min_age`.
    pub fn hazard(&self, min_age: Duration) -> f64 {
        let sum = self.sum();
        let prior_page_seconds = PRIOR_RETURNS * PRIOR_AGES * min_age.as_secs_f64().max(1.0);
        (sum.returned_pages as f64 + PRIOR_RETURNS) / (sum.page_seconds + prior_page_seconds)
    }

    /// The share of its CPU time by which refaults slowed the container down within ten minutes, at
    /// `cost` each; `None` where the kernel does not report CPU time.
    pub fn slowdown(&self, cost: Duration) -> Option<f64> {
        let sum = self.sum();
        let cpu_us = (sum.cpu_us as f64).max(sum.wall_us as f64 * MIN_CPU);
        let waited_us = sum.returned_pages as f64 * cost.as_secs_f64() * 1e6;
        (sum.cpu_us > 0).then(|| waited_us / cpu_us)
    }

    /// How many more pages may be offloaded so that refaults are expected to slow the container down
    /// by at most `limit`, at `cost` each; `None` without a limit.
    pub fn room_pages(&self, limit: f64, cost: Duration, min_age: Duration) -> Option<u64> {
        let sum = self.sum();
        if sum.cpu_us == 0 || cost.is_zero() {
            return None;
        }
        let cpu = (sum.cpu_us as f64 / sum.wall_us.max(1) as f64).max(MIN_CPU);
        let affordable_per_s = limit * cpu / cost.as_secs_f64();
        let pages = (affordable_per_s / self.hazard(min_age)) as u64;
        Some(pages.max(PROBE_PAGES).saturating_sub(self.outstanding_pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::cgroup::MemoryStat;

    const COST: Duration = Duration::from_micros(20);
    const AGE: Duration = Duration::from_secs(120);
    /// A tenth of the limit of the profile `default`.
    const LIMIT: f64 = 0.0005;

    /// A container with a hundredth of a CPU, after `seconds`.
    fn at(seconds: u64, swapped_pages: u64) -> Observation {
        Observation {
            at: Duration::from_secs(seconds),
            cpu_us: seconds * 10_000,
            swap_bytes: swapped_pages * PAGE,
            ..Observation::default()
        }
    }

    #[test]
    fn by_hand() {
        let mut regret = Regret::default();
        assert_eq!(regret.room_pages(LIMIT, COST, AGE), None, "no CPU time is known");
        regret.count(&at(0, 0), &at(6, 0), 0, 0);
        // One refault per 1,200 page seconds is believed; 0.05 % of 10 ms are a quarter of a page.
        assert!((regret.hazard(AGE) - 1.0 / 1_200.0).abs() < 1e-12);
        assert_eq!(regret.room_pages(LIMIT, COST, AGE), Some(300));
        // 300 pages out for 100 s, and 29 came back: 30 in 31,200 page seconds, so 260 may be out.
        let mut now = at(106, 300);
        now.stat.zswpout = 300;
        regret.count(&at(6, 0), &now, 300, 29);
        assert_eq!(regret.outstanding_pages(), 300);
        assert!((regret.hazard(AGE) - 30.0 / 31_200.0).abs() < 1e-12);
        assert_eq!(regret.room_pages(LIMIT, COST, AGE), Some(0));
        // 29 x 20 us of 1.06 s.
        assert!((regret.slowdown(COST).unwrap() - 580.0 / 1_060_000.0).abs() < 1e-12);
        // They are forgotten after ten minutes.
        regret.count(&now, &Observation { stat: now.stat, ..at(800, 300) }, 0, 0);
        assert!(regret.room_pages(LIMIT, COST, AGE).unwrap() > 10_000);
    }

    #[test]
    fn page_cache_is_counted_by_what_left_and_what_came_back() {
        let mut regret = Regret::default();
        let mut now = at(6, 100);
        now.stat = MemoryStat { zswpout: 100, workingset_refault_file: 50, ..now.stat };
        regret.count(&at(0, 0), &now, 1_000, 50);
        assert_eq!(regret.outstanding_pages(), 100 + 850);
    }

    #[test]
    fn an_idle_container_is_offloaded_all_the_same() {
        let mut regret = Regret::default();
        let still = |seconds, pages| Observation { cpu_us: 1, ..at(seconds, pages) };
        regret.count(&Observation { cpu_us: 0, ..at(0, 0) }, &still(6, 0), 0, 0);
        let (mut now, mut out) = (6, 0);
        while out < 100_000 && now < 3_600 {
            out += regret.room_pages(LIMIT, COST, AGE).unwrap_or(1_000).min(1_000);
            regret.count(&still(now, out), &still(now + 6, out), 0, 0);
            now += 6;
        }
        assert!(now < 1_200, "400 MiB after {now} s");
    }

    /// A tenth of all pages is requested by Zipf's law, the rest is cold. Idle pages are offloaded in
    /// no order. Refaults stay within the limit, and the cold pages do leave.
    #[test]
    fn refaults_stay_within_the_limit_however_popular_pages_are() {
        for (requested, per_second, expected) in [(2_000, 100.0, 12_000), (20_000, 100.0, 250)] {
            let mut noise = 0x9e37_79b9_7f4a_7c15u64;
            let mut random = move || {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                (noise >> 11) as f64 / (1u64 << 53) as f64
            };
            let mut sums = vec![0.0];
            for rank in 1..=requested {
                sums.push(sums[rank - 1] + 1.0 / rank as f64);
            }
            let pages = 20_000;
            let (mut touched, mut is_out) = (vec![0u64; pages], vec![false; pages]);
            let (mut regret, mut out, mut before) = (Regret::default(), 0, at(0, 0));
            let (mut late, mut late_s) = (0, 0);
            for period in 1..=600u64 {
                let (now_s, mut returned) = (period * 6, 0);
                for _ in 0..(per_second * 6.0) as u64 {
                    let chance = random() * sums[requested];
                    let page = sums.partition_point(|sum| *sum < chance) - 1;
                    touched[page] = now_s;
                    returned += u64::from(std::mem::replace(&mut is_out[page], false));
                }
                out -= returned;
                let now = at(now_s, out);
                regret.count(&before, &now, 0, returned);
                before = now;
                if period > 300 {
                    late += returned;
                    late_s += 6;
                }
                let mut room = regret.room_pages(LIMIT, COST, AGE).unwrap().min(100);
                let mut tries = 0;
                while room > 0 && tries < 2_000 {
                    let page = (random() * pages as f64) as usize;
                    if !is_out[page] && now_s > touched[page] + 120 {
                        is_out[page] = true;
                        (room, out) = (room - 1, out + 1);
                    }
                    tries += 1;
                }
            }
            let slowdown = late as f64 * 20e-6 / (late_s as f64 * 0.01);
            assert!(slowdown < 1.5 * LIMIT, "{requested} requested: slowed down by {slowdown}");
            assert!(out >= expected, "{requested} requested: {out} pages offloaded");
        }
    }
}
