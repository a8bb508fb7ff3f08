//! The balance of page cache and anonymous memory: which kind of idle memory a request takes.
//!
//! The kernel's generations do not show reads of files, and a buffer that its owner is about to
//! overwrite looks as idle as one that it has forgotten. So idle memory of one kind may be used much
//! more than that of the other. As TMO's kernel does, requests follow refaults: a kind's part is in
//! proportion to its idle pages, and in inverse proportion to the share of its reclaimed pages that
//! refault. All else equal, no kind is then taken from faster than the other.

use prairie_host::cgroup::MemoryStat;

use crate::observation::Observation;
use crate::returns::Returns;
use crate::signal::returned::{returned_anon, returned_files};

/// Pages of each kind that were reclaimed and that refaulted within the last ten minutes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    anon: Returns,
    files: Returns,
}

impl Balance {
    /// Counts a period.
    pub fn count(&mut self, before: &Observation, now: &Observation) {
        let (b, n) = (&before.stat, &now.stat);
        let taken = n.pgsteal.saturating_sub(b.pgsteal);
        // A page that zswap writes to its device counts twice.
        let anon = swapped_out(n).saturating_sub(swapped_out(b)).min(taken);
        self.anon.count(now.at, anon, returned_anon(before, now));
        self.files.count(now.at, taken - anon, returned_files(before, now));
    }

    /// The weight of an idle anonymous page, where one of the page cache weighs the rest of 1. A kind
    /// without evidence counts as refaulting as often as the profile allows.
    pub fn anon_weight(&self, return_limit: f64) -> f64 {
        let (anon, files) = (self.anon.share(return_limit), self.files.share(return_limit));
        if anon + files > 0.0 { files / (anon + files) } else { 0.5 }
    }
}

fn swapped_out(stat: &MemoryStat) -> u64 {
    stat.zswpout.saturating_add(stat.pswpout)
}

/// How many of `pages` are to be anonymous ones, out of `anon` and `files` idle pages. One kind makes
/// up for what the other does not have.
pub fn anon_pages(pages: u64, anon: u64, files: u64, anon_weight: f64) -> u64 {
    let (wanted_anon, wanted_files) =
        (anon as f64 * anon_weight, files as f64 * (1.0 - anon_weight));
    let share = wanted_anon / (wanted_anon + wanted_files).max(f64::MIN_POSITIVE);
    let least = pages.saturating_sub(files).min(anon);
    ((pages as f64 * share) as u64).clamp(least, anon)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// `pages` were reclaimed, of them `anon` swapped out, and these numbers of each kind refaulted.
    fn after(pages: u64, anon: u64, refaulted_anon: u64, refaulted_files: u64) -> Balance {
        let stat = MemoryStat {
            pgsteal: pages,
            zswpout: anon,
            workingset_refault_anon: refaulted_anon,
            workingset_refault_file: refaulted_files,
            ..MemoryStat::default()
        };
        let now = Observation { at: Duration::from_secs(6), stat, ..Observation::default() };
        let mut balance = Balance::default();
        balance.count(&Observation::default(), &now);
        balance
    }

    #[test]
    fn without_evidence_an_idle_page_is_an_idle_page() {
        assert_eq!(Balance::default().anon_weight(0.01), 0.5);
        assert_eq!(Balance::default().anon_weight(0.0), 0.5);
        assert_eq!(anon_pages(100, 300, 700, 0.5), 30);
    }

    #[test]
    fn the_kind_that_refaults_is_spared() {
        assert!(after(10_000, 1_000, 500, 90).anon_weight(0.01) < 0.03);
        assert!(after(10_000, 9_000, 90, 500).anon_weight(0.01) > 0.97);
        let equal = after(2_000, 1_000, 100, 100).anon_weight(0.01);
        assert!((equal - 0.5).abs() < 1e-9, "{equal}");
        // Refaults of pages that were reclaimed before the window.
        assert!(after(0, 0, 1_000, 0).anon_weight(0.01) < 0.001);
    }

    #[test]
    fn a_kind_that_was_hardly_reclaimed_is_tried() {
        let weight = after(50_000, 0, 0, 100).anon_weight(0.01);
        assert!((0.1..0.3).contains(&weight), "{weight}");
    }

    #[test]
    fn one_kind_makes_up_for_the_other() {
        assert_eq!(anon_pages(100, 1_000, 40, 0.01), 60);
        assert_eq!(anon_pages(100, 20, 1_000, 0.999), 20);
        assert_eq!(anon_pages(100, 20, 30, 0.5), 20, "all that there is");
        assert_eq!(anon_pages(100, 0, 0, 0.5), 0);
        assert_eq!(anon_pages(0, 10, 10, 0.5), 0);
    }

    #[test]
    fn pages_written_back_by_zswap_are_no_more_than_what_was_reclaimed() {
        let stat = MemoryStat { pgsteal: 100, zswpout: 90, pswpout: 90, ..MemoryStat::default() };
        let now = Observation { stat, ..Observation::default() };
        let mut balance = Balance::default();
        balance.count(&Observation::default(), &now);
        assert_eq!((balance.anon.totals(), balance.files.totals()), ((100, 0), (0, 0)));
    }
}
