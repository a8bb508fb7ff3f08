//! The target heap size over time.

use serde::Deserialize;

/// A target over time: straight lines between points.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// (share of the whole time, share of the heap size), by rising time, from 0 to 1.
    points: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    points: Vec<(f64, f64)>,
}

/// The loads that have a name.
pub const NAMES: [&str; 6] = ["steady", "diurnal", "spikes", "start-up", "drop", "saw-tooth"];

impl Load {
    /// A load by its name, for a run of `seconds`. `None` for a name that is not in [`NAMES`].
    ///
    /// - `steady`: the heap size all the time.
    /// - `diurnal`: two days, from two fifths at night to all at noon.
    /// - `spikes`: half, with eight spikes to all of it that last a fortieth of the time each.
    /// - `start-up`: all of it for the first tenth, then a third.
    /// - `drop`: all of it, then, in a hundredth of the time, two fifths: Figure 11's one-time drop.
    /// - `saw-tooth`: from a half to all of it and back once a second: Figure 10.
    pub fn named(name: &str, seconds: f64) -> Option<Load> {
        let points = match name {
            "steady" => vec![(0.0, 1.0), (1.0, 1.0)],
            "diurnal" => (0..=96)
                .map(|i| {
                    let at = f64::from(i) / 96.0;
                    (at, 0.7 - 0.3 * (at * 2.0 * std::f64::consts::TAU).cos())
                })
                .collect(),
            "spikes" => spikes(),
            "start-up" => vec![(0.0, 1.0), (0.1, 1.0), (0.12, 0.33), (1.0, 0.33)],
            "drop" => vec![(0.0, 1.0), (0.4, 1.0), (0.41, 0.4), (1.0, 0.4)],
            "saw-tooth" => saw_tooth(seconds),
            _ => return None,
        };
        Some(Load { points })
    }

    /// A load in TOML: `points = [[0, 1], [0.5, 0.4], [1, 1]]`, each a share of the whole time and
    /// a share of the heap size.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Load, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        Load::of_points(document.points)
    }

    /// A load of points: share of the whole time, share of the heap size.
    ///
    /// # Errors
    /// What is wrong with them: they must go from time 0 to time 1, rising, and be numbers from 0
    /// to 1,000.
    pub fn of_points(points: Vec<(f64, f64)>) -> Result<Load, String> {
        let times = || points.iter().map(|point| point.0);
        if times().next() != Some(0.0) || times().next_back() != Some(1.0) {
            return Err("the points of a load go from time 0 to time 1".to_owned());
        }
        if !times().zip(times().skip(1)).all(|(one, next)| one < next) {
            return Err("the times of a load's points rise".to_owned());
        }
        if !points.iter().all(|point| (0.0..=1_000.0).contains(&point.1)) {
            return Err("a load is a share of the heap size, from 0 to 1000".to_owned());
        }
        Ok(Load { points })
    }

    /// The load at a share of the whole time, and how much it changes over the whole time at that
    /// rate.
    pub fn at(&self, time: f64) -> (f64, f64) {
        let next = self.points.partition_point(|point| point.0 <= time);
        let next = next.clamp(1, self.points.len() - 1);
        let [(from, low), (to, high)] = [self.points[next - 1], self.points[next]];
        let slope = (high - low) / (to - from);
        (low + slope * (time.clamp(from, to) - from), slope)
    }
}

fn spikes() -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, 0.5)];
    for spike in 0..8 {
        let start = (f64::from(spike) + 0.5) / 8.0;
        points.extend([
            (start, 0.5),
            (start + 0.005, 1.0),
            (start + 0.025, 1.0),
            (start + 0.03, 0.5),
        ]);
    }
    points.push((1.0, 0.5));
    points
}

/// Four seconds at the top first, so that the first drop follows a steady state.
fn saw_tooth(seconds: f64) -> Vec<(f64, f64)> {
    let seconds = seconds.max(6.0);
    let mut points = vec![(0.0, 1.0)];
    let mut at = 4.0;
    while at + 1.0 < seconds {
        points.extend([(at / seconds, 1.0), ((at + 0.1) / seconds, 0.5)]);
        at += 1.0;
    }
    points.push((1.0, 1.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_load_is_sound() {
        for name in NAMES {
            let load = Load::named(name, 60.0).unwrap();
            assert_eq!(Load::of_points(load.points.clone()), Ok(load), "{name}");
        }
        assert_eq!(Load::named("tidal", 60.0), None);
    }

    #[test]
    fn a_load_is_straight_between_its_points() {
        let load = Load::of_points(vec![(0.0, 1.0), (0.5, 3.0), (1.0, 0.0)]).unwrap();
        assert_eq!(load.at(0.0), (1.0, 4.0));
        assert_eq!(load.at(0.25), (2.0, 4.0));
        assert_eq!(load.at(0.75), (1.5, -6.0));
        assert_eq!(load.at(1.0), (0.0, -6.0));
    }

    #[test]
    fn a_load_may_be_written_in_toml() {
        let load = Load::parse("points = [[0, 1], [0.5, 0.4], [1, 1]]").unwrap();
        assert_eq!(load.at(0.5).0, 0.4);
        assert!(Load::parse("point = [[0, 1]]").unwrap_err().contains("point"));
    }

    #[test]
    fn points_that_make_no_load_are_refused() {
        for points in [
            vec![],
            vec![(0.0, 1.0)],
            vec![(0.1, 1.0), (1.0, 1.0)],
            vec![(0.0, 1.0), (0.5, 1.0), (0.5, 2.0), (1.0, 1.0)],
            vec![(0.0, -1.0), (1.0, 1.0)],
            vec![(0.0, f64::NAN), (1.0, 1.0)],
        ] {
            assert!(Load::of_points(points.clone()).is_err(), "{points:?}");
        }
    }
}
