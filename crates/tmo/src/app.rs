//! Applications: how cold their memory is, what kind it is, how it compresses.
//!
//! The paper's Figures 2 and 4 are bars; its text gives numbers for three of the seven
//! applications and the range and mean of all. What it does not say is ours, and marked so: see
//! `docs/src/results/tmo.md`.

use serde::Serialize;

use super::access::{Rhythm, chance_of_touch};
use prairie_model::random::Random;

/// Shares of memory by when it was last touched (Figure 2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coldness {
    /// Within the last minute.
    pub one_minute: f64,
    /// Within the last two, but not within the last.
    pub two_minutes: f64,
    /// Within the last five, but not within the last two.
    pub five_minutes: f64,
}

impl Coldness {
    /// Memory not accessed for five minutes.
    pub fn cold(&self) -> f64 {
        1.0 - self.one_minute - self.two_minutes - self.five_minutes
    }
}

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct App {
    /// Its name in the paper.
    pub name: &'static str,
    /// Figure 2.
    pub coldness: Coldness,
    /// Share of anonymous memory; the rest is page cache (Figure 4).
    pub anonymous: f64,
    /// The compression ratio of its anonymous pages.
    pub compression: f64,
    /// Tasks that are busy at any time: one that waits for a page holds up this part of the whole.
    pub busy_tasks: u32,
    /// Memory in bytes.
    pub bytes: u64,
}

const GIB: u64 = 1 << 30;

const fn app(
    name: &'static str,
    minutes: [f64; 3],
    anonymous: f64,
    compression: f64,
    busy_tasks: u32,
) -> App {
    let [one_minute, two_minutes, five_minutes] = minutes;
    let coldness = Coldness { one_minute, two_minutes, five_minutes };
    App { name, coldness, anonymous, compression, busy_tasks, bytes: 32 * GIB }
}

/// The memory-bound Web server: 38 % active within five minutes, compresses by 4 (§2.2, §4.2).
pub const WEB: App = app("Web", [0.24, 0.06, 0.08], 0.6, 4.0, 16);

/// Seven applications whose coldness averages 35 % and ranges from 19 to 62 % (§2.2). Web, Feed
/// and Cache B are the paper's in that; Ads' compression is (§4.1).
pub const APPS: [App; 7] = [
    app("Ads A", [0.46, 0.08, 0.10], 0.75, 1.35, 16),
    app("Ads B", [0.50, 0.07, 0.10], 0.80, 1.3, 16),
    app("Analytics", [0.40, 0.10, 0.14], 0.70, 3.0, 16),
    app("Cache A", [0.54, 0.08, 0.09], 0.85, 2.5, 16),
    app("Cache B", [0.65, 0.07, 0.09], 0.90, 2.5, 16),
    app("Feed", [0.50, 0.08, 0.12], 0.65, 3.0, 16),
    WEB,
];

/// Memory that comes with every server: packages, profiling, logging (§2.3: 13 % of memory).
pub const DATACENTER_TAX: App = app("Datacenter tax", [0.10, 0.05, 0.10], 0.45, 3.0, 1);

/// Memory for being cut into microservices: routing, proxies (§2.3: 7 % of memory).
pub const MICROSERVICE_TAX: App = app("Microservice tax", [0.20, 0.06, 0.09], 0.75, 3.0, 2);

/// A class of pages: its share, the range over whose magnitudes the cells are spread, in seconds,
/// and whether touches come at random in them.
type Class = (f64, Cells);

/// Cells of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cells {
    least_s: f64,
    most_s: f64,
    random: bool,
}

const fn cells(least_s: f64, most_s: f64, random: bool) -> Cells {
    Cells { least_s, most_s, random }
}

/// Pages that are touched within one, two and five minutes for certain.
const WITHIN: [Cells; 3] =
    [cells(2.0, 30.0, true), cells(90.0, 120.0, false), cells(240.0, 300.0, false)];

/// The rest, spread evenly over magnitudes up to a day: ours. The paper says nothing about memory
/// beyond five minutes, and this decides how much of it stays away.
const BEYOND: Cells = cells(300.0, 86_400.0, true);

impl App {
    /// An application or a tax by its name.
    pub fn named(name: &str) -> Option<App> {
        let mut known = APPS.into_iter().chain([DATACENTER_TAX, MICROSERVICE_TAX]);
        known.find(|app| app.name == name)
    }

    /// Classes of pages that show this coldness at any instant.
    ///
    /// Of each class the share touched within a minute, two and five is known; those equations are
    /// triangular, from the coldest class to the hottest.
    fn classes(&self) -> [Class; 4] {
        let unseen = |cells: Cells, window_s: f64| 1.0 - cells.mean_chance(window_s);
        let [hot, second, third] = WITHIN;
        let Coldness { one_minute: one, two_minutes: two, .. } = self.coldness;
        let beyond = self.coldness.cold() / unseen(BEYOND, 300.0);
        let of_third = (1.0 - one - two - beyond * unseen(BEYOND, 120.0)) / unseen(third, 120.0);
        let of_second =
            (1.0 - one - beyond * unseen(BEYOND, 60.0) - of_third * unseen(third, 60.0))
                / unseen(second, 60.0);
        let of_hot = 1.0 - of_second - of_third - beyond;
        [(of_hot, hot), (of_second, second), (of_third, third), (beyond, BEYOND)]
    }

    /// The rhythm of each of `pages` pages, in no order.
    pub fn rhythms(&self, pages: usize, random: &mut Random) -> Vec<Rhythm> {
        let classes = self.classes();
        let draw = |random: &mut Random| {
            let mut rest = random.share();
            let class = classes.iter().find(|(share, _)| {
                rest -= share;
                rest < 0.0
            });
            class.unwrap_or(&classes[3]).1.draw(random)
        };
        (0..pages).map(|_| draw(random)).collect()
    }

    /// The rhythm of each of `count` pages, and whether it is of a file.
    pub fn pages(&self, count: usize, random: &mut Random) -> Vec<(Rhythm, bool)> {
        let rhythms = self.rhythms(count, random);
        rhythms.into_iter().map(|rhythm| (rhythm, random.share() >= self.anonymous)).collect()
    }
}

impl Cells {
    /// The cell at that place of the range.
    fn at(&self, place: f64) -> f64 {
        self.least_s * (self.most_s / self.least_s).powf(place)
    }

    fn draw(&self, random: &mut Random) -> Rhythm {
        Rhythm { cell_s: self.at(random.share()) as f32, random: self.random }
    }

    /// The mean chance that a page was touched within the last `window_s`.
    fn mean_chance(&self, window_s: f64) -> f64 {
        const STEPS: u32 = 4_000;
        let chance = |step: u32| {
            let cells = window_s / self.at((f64::from(step) + 0.5) / f64::from(STEPS));
            if self.random { chance_of_touch(cells) } else { cells.min(1.0) }
        };
        (0..STEPS).map(chance).sum::<f64>() / f64::from(STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 2: at any instant, that much of each application was touched within one, two and
    /// five minutes.
    #[test]
    fn pages_show_the_coldness_of_figure_2() {
        for app in APPS.into_iter().chain([DATACENTER_TAX, MICROSERVICE_TAX]) {
            let rhythms = app.rhythms(60_000, &mut Random::new(1));
            let mut before = 0.0;
            let wanted = &app.coldness;
            for (window_s, share) in [
                (60.0, wanted.one_minute),
                (120.0, wanted.two_minutes),
                (300.0, wanted.five_minutes),
            ] {
                // Far from zero, where the first cells of all pages would begin together.
                let now = 1e6;
                let touched = rhythms
                    .iter()
                    .enumerate()
                    .filter(|(page, rhythm)| rhythm.touched(*page as u32, now - window_s, now))
                    .count() as f64
                    / rhythms.len() as f64;
                let found = touched - before;
                assert!((found - share).abs() < 0.01, "{}, {window_s} s: {found}", app.name);
                before = touched;
            }
        }
    }

    #[test]
    fn no_class_is_negative() {
        for app in APPS.into_iter().chain([DATACENTER_TAX, MICROSERVICE_TAX]) {
            let classes = app.classes();
            assert!(classes.iter().all(|(share, _)| *share >= 0.0), "{}: {classes:?}", app.name);
            let sum: f64 = classes.iter().map(|(share, _)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
    }

    /// Statements of section 2.2 about all of them.
    #[test]
    fn the_seven_are_the_papers_in_mean_and_range() {
        let cold = APPS.map(|app| app.coldness.cold());
        let mean = cold.iter().sum::<f64>() / cold.len() as f64;
        assert!((mean - 0.35).abs() < 0.005, "{mean}");
        let (least, most) = cold.iter().fold((1.0f64, 0.0f64), |(l, m), c| (l.min(*c), m.max(*c)));
        assert!((least - 0.19).abs() < 1e-9 && (most - 0.62).abs() < 1e-9);
    }
}
