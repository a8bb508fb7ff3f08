//! Rows of many hosts, summarized: groups, the worst hosts, distributions, change over days.
//!
//! A row takes about 120 bytes here, so that a million of them fit into the memory of a laptop.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::host_row::{HostRow, Measures};

/// What a host is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The name of the measure in a row.
    pub name: &'static str,
    /// Its name in reports.
    pub label: &'static str,
    /// Whether larger values are worse.
    pub larger_is_worse: bool,
}

const fn judged(name: &'static str, label: &'static str, larger_is_worse: bool) -> Judged {
    Judged { name, label, larger_is_worse }
}

/// The measures of reports. Where bounds are known it is the pessimistic one.
pub const JUDGED: [Judged; 4] = [
    judged("unusable_2_mib", "free memory in pieces smaller than 2 MiB", true),
    judged("polluted_max", "polluted pageblocks, at most", true),
    judged("potential_2_mib_min", "potential contiguity at 2 MiB, at least", false),
    judged("coverage", "anonymous memory on huge pages", false),
];

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400_000_000_000;

/// Rows of many hosts.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// What rows are grouped by: `kernel`, or names of labels.
    by: Vec<String>,
    /// The labels that any row has.
    labels: BTreeSet<String>,
    groups: Names,
    rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
struct Row {
    host: Box<str>,
    /// A hash of the host's id.
    id: u64,
    time_ns: u64,
    memory_bytes: u64,
    group: u32,
    /// NaN where there is none.
    values: [f32; JUDGED.len()],
}

/// Texts by number.
#[derive(Clone, Debug, Default)]
struct Names {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

/// The median of hosts and the value that the worst tenth of them reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Typical {
    /// The median.
    pub median: f64,
    /// A tenth of the hosts are worse than this.
    pub worst_tenth: f64,
}

/// One group of hosts, by the latest row of each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The values of what is grouped by, joined by spaces.
    pub name: String,
    /// Hosts.
    pub hosts: usize,
    /// Their memory.
    pub memory_bytes: u64,
    /// Each of [`JUDGED`]; null where no host has it.
    pub measures: BTreeMap<&'static str, Option<Typical>>,
}

/// One of the worst hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Its name.
    pub host: String,
    /// Its group.
    pub group: String,
    /// Its latest row's time.
    pub taken_at_unix_ns: u64,
    /// Each of [`JUDGED`].
    pub measures: BTreeMap<&'static str, Option<f64>>,
}

/// The hosts of one day, by the last row of each on that day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Day {
    /// Days since 1970.
    pub day: u64,
    /// Hosts with a row.
    pub hosts: usize,
    /// Each of [`JUDGED`].
    pub measures: BTreeMap<&'static str, Option<Typical>>,
}

impl Hosts {
    /// No rows yet; they will be grouped by `kernel` or names of labels.
    pub fn new(by: Vec<String>) -> Hosts {
        Hosts { by, ..Hosts::default() }
    }

    /// Rows, several of one host counted each.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row.
    pub fn push(&mut self, row: &HostRow) {
        let part = |name: &String| match name.as_str() {
            "kernel" => row.kernel.clone(),
            name => row.labels.get(name).cloned().unwrap_or_else(|| "-".to_owned()),
        };
        for name in row.labels.keys() {
            if !self.labels.contains(name) {
                self.labels.insert(name.clone());
            }
        }
        let group = self.by.iter().map(part).collect::<Vec<_>>().join(" ");
        let all = row.measures.values();
        let value = |judged: Judged| {
            let at = Measures::NAMES.iter().position(|name| *name == judged.name);
            at.and_then(|at| all[at]).map_or(f32::NAN, |value| value as f32)
        };
        self.rows.push(Row {
            host: row.host.as_str().into(),
            id: u64::from_str_radix(&row.machine_id, 16).unwrap_or_else(|_| id_of(&row.host)),
            time_ns: row.taken_at_unix_ns,
            memory_bytes: row.memory_bytes,
            group: self.groups.number(group),
            values: JUDGED.map(value),
        });
    }

    /// A name that rows are to be grouped by, though none has a label of this name.
    pub fn unknown_label(&self) -> Option<&str> {
        let is_known = |name: &&String| *name == "kernel" || self.labels.contains(*name);
        self.by.iter().find(|name| !is_known(name)).map(String::as_str)
    }

    /// The labels that any row has.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str)
    }

    /// Adds the rows of another, which was grouped alike.
    pub fn append(&mut self, other: Hosts) {
        self.labels.extend(other.labels);
        let numbers: Vec<u32> =
            other.groups.names.into_iter().map(|name| self.groups.number(name)).collect();
        self.rows.extend(
            other.rows.into_iter().map(|row| Row { group: numbers[row.group as usize], ..row }),
        );
    }

    /// The latest row of each host.
    fn latest(&self) -> Vec<&Row> {
        latest(self.rows.iter())
    }

    /// Hosts with at least one row.
    pub fn hosts(&self) -> usize {
        self.latest().len()
    }

    /// All groups, the largest first.
    pub fn groups(&self) -> Vec<Group> {
        let mut by_group: Vec<Vec<&Row>> = vec![Vec::new(); self.groups.names.len()];
        for row in self.latest() {
            by_group[row.group as usize].push(row);
        }
        let group = |(name, rows): (&String, &Vec<&Row>)| Group {
            name: name.clone(),
            hosts: rows.len(),
            memory_bytes: rows.iter().map(|row| row.memory_bytes).sum(),
            measures: measures(rows),
        };
        let mut groups: Vec<Group> = self.groups.names.iter().zip(&by_group).map(group).collect();
        groups.retain(|group| group.hosts > 0);
        groups.sort_by(|a, b| b.hosts.cmp(&a.hosts).then_with(|| a.name.cmp(&b.name)));
        groups
    }

    /// The `count` worst hosts by one of [`JUDGED`], the worst first.
    pub fn worst(&self, by: &Judged, count: usize) -> Vec<Worst> {
        let at = JUDGED.iter().position(|judged| judged == by).unwrap_or_default();
        let mut rows = self.latest();
        rows.retain(|row| !row.values[at].is_nan());
        let order = |a: &&Row, b: &&Row| {
            let order = a.values[at].total_cmp(&b.values[at]);
            let order = if by.larger_is_worse { order.reverse() } else { order };
            order.then_with(|| a.host.cmp(&b.host))
        };
        if rows.len() > count && count > 0 {
            rows.select_nth_unstable_by(count - 1, order);
            rows.truncate(count);
        }
        rows.sort_by(order);
        let worst = |row: &Row| Worst {
            host: row.host.to_string(),
            group: self.groups.names[row.group as usize].clone(),
            taken_at_unix_ns: row.time_ns,
            measures: JUDGED
                .iter()
                .zip(row.values)
                .map(|(judged, value)| (judged.name, (!value.is_nan()).then_some(value.into())))
                .collect(),
        };
        rows.into_iter().take(count).map(worst).collect()
    }

    /// The days on which there are rows, in order.
    pub fn days(&self) -> Vec<Day> {
        let mut by_day: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            by_day.entry(row.time_ns / DAY_NS).or_default().push(row);
        }
        let day = |(day, rows): (u64, Vec<&Row>)| {
            let rows = latest(rows.into_iter());
            Day { day, hosts: rows.len(), measures: measures(&rows) }
        };
        by_day.into_iter().map(day).collect()
    }

    /// The distribution of one of [`JUDGED`] over the hosts: `points + 1` quantiles from the smallest
    /// value to the largest; empty where no host has it.
    pub fn quantiles(&self, of: &Judged, points: usize) -> Vec<f64> {
        let at = JUDGED.iter().position(|judged| judged == of).unwrap_or_default();
        let values = sorted(&self.latest(), at);
        if values.is_empty() {
            return Vec::new();
        }
        (0..=points).map(|point| quantile(&values, point as f64 / points as f64)).collect()
    }
}

/// The latest row of each host.
fn latest<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let mut latest: HashMap<u64, &Row> = HashMap::new();
    for row in rows {
        let newest = latest.entry(row.id).or_insert(row);
        if row.time_ns >= newest.time_ns {
            *newest = row;
        }
    }
    let mut rows: Vec<&Row> = latest.into_values().collect();
    rows.sort_unstable_by_key(|row| row.id);
    rows
}

/// FNV-1a of a name, for rows without an id.
fn id_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn measures(rows: &[&Row]) -> BTreeMap<&'static str, Option<Typical>> {
    let typical = |(at, judged): (usize, &Judged)| {
        let values = sorted(rows, at);
        let tail = if judged.larger_is_worse { 0.9 } else { 0.1 };
        let typical = (!values.is_empty()).then(|| Typical {
            median: quantile(&values, 0.5),
            worst_tenth: quantile(&values, tail),
        });
        (judged.name, typical)
    };
    JUDGED.iter().enumerate().map(typical).collect()
}

/// The values that rows have, in order.
fn sorted(rows: &[&Row], at: usize) -> Vec<f32> {
    let mut values: Vec<f32> =
        rows.iter().map(|row| row.values[at]).filter(|value| !value.is_nan()).collect();
    values.sort_unstable_by(f32::total_cmp);
    values
}

/// A quantile of sorted values, between neighbors in proportion.
fn quantile(values: &[f32], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    f64::from(below) + (f64::from(above) - f64::from(below)) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_row::hashed_id;

    fn row(host: &str, day: u64, rack: &str, polluted: Option<f64>) -> HostRow {
        HostRow {
            host: host.to_owned(),
            machine_id: hashed_id(host),
            kernel: "6.12".to_owned(),
            taken_at_unix_ns: day * DAY_NS + 5,
            memory_bytes: 1 << 30,
            labels: [("rack".to_owned(), rack.to_owned())].into(),
            measures: Measures { polluted_max: polluted, ..Measures::default() },
            ..HostRow::default()
        }
    }

    fn fleet() -> Hosts {
        let mut one = Hosts::new(vec!["kernel".into(), "rack".into()]);
        one.push(&row("a", 1, "r1", Some(0.9)));
        one.push(&row("a", 2, "r1", Some(0.1)));
        one.push(&row("b", 2, "r1", Some(0.3)));
        let mut two = Hosts::new(vec!["kernel".into(), "rack".into()]);
        two.push(&row("c", 2, "r2", Some(0.5)));
        two.push(&row("d", 2, "r2", None));
        two.push(&row("e", 1, "r1", Some(0.2)));
        one.append(two);
        one
    }

    #[test]
    fn groups_count_the_latest_row_of_each_host() {
        let fleet = fleet();
        assert_eq!((fleet.len(), fleet.hosts()), (6, 5));
        let groups = fleet.groups();
        let shown: Vec<(&str, usize, f64)> = groups
            .iter()
            .map(|g| (g.name.as_str(), g.hosts, g.measures["polluted_max"].unwrap().median))
            .collect();
        assert_eq!(shown[0].0, "6.12 r1");
        assert_eq!((shown[0].1, shown[1].1), (3, 2));
        assert!((shown[0].2 - 0.2).abs() < 1e-6 && (shown[1].2 - 0.5).abs() < 1e-6);
        assert_eq!(groups[0].measures["coverage"], None);
    }

    #[test]
    fn the_worst_come_first() {
        let worst = fleet().worst(&JUDGED[1], 2);
        let names: Vec<&str> = worst.iter().map(|w| w.host.as_str()).collect();
        assert_eq!(names, ["c", "b"]);
        assert_eq!(fleet().worst(&JUDGED[1], 20).len(), 4);
        assert_eq!(fleet().worst(&JUDGED[3], 20), []);
    }

    #[test]
    fn days_follow_each_other() {
        let days = fleet().days();
        let shown: Vec<(u64, usize)> = days.iter().map(|day| (day.day, day.hosts)).collect();
        assert_eq!(shown, [(1, 2), (2, 4)]);
        let median = days[1].measures["polluted_max"].unwrap().median;
        assert!((median - 0.3).abs() < 1e-6, "{median}");
    }

    #[test]
    fn quantiles_lie_between_neighbors() {
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[3.0], 0.9), 3.0);
        let quantiles = fleet().quantiles(&JUDGED[1], 4);
        assert_eq!(quantiles.len(), 5);
        assert!((quantiles[0] - 0.1).abs() < 1e-6 && (quantiles[4] - 0.5).abs() < 1e-6);
    }
}
