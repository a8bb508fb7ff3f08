//! Sizes and lifetimes of a program's objects, and the sizes of its spans, estimated from samples:
//! the paper's Figures 4 and 5 of one program, and the input of the [driver](crate::driver) that
//! stands for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::front::lifetimes::{Histogram, lifetime_cell, size_cell};
use crate::front::profile::stands_for;
use crate::front::size_class::{MAX_SMALL, SizeClass};
use crate::process::statistics::ClassStatistics;
use crate::units::Pages;

/// What the samples of a process show.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Lifetimes {
    /// How long objects were sampled.
    pub observed_ns: u64,
    /// Objects that were freed, by size and lifetime, rising.
    pub freed: Vec<Objects>,
    /// Objects that are live, by size and age, rising.
    pub live: Vec<Objects>,
    /// Spans, by size, rising. Large objects are estimated from samples.
    pub spans: Vec<SpansOfSize>,
}

/// Objects of about one size and about one lifetime, or age.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Objects {
    /// Samples that they are estimated from.
    pub samples: u64,
    /// Mean bytes of an object.
    pub object_bytes: f64,
    /// How many there are.
    pub objects: f64,
    /// Their bytes together.
    pub bytes: f64,
    /// Their mean lifetime.
    pub lifetime_ns: f64,
}

/// Spans of a size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpansOfSize {
    /// Bytes of a span; a mean for large objects.
    pub span_bytes: f64,
    /// How many there are.
    pub spans: f64,
}

/// All objects of about one size: a quarter of a doubling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Size {
    /// Mean bytes of an object.
    pub object_bytes: f64,
    /// Bytes that were allocated in the time observed.
    pub allocated_bytes: f64,
    /// Bytes that are live.
    pub live_bytes: f64,
    /// Bytes that were live on average over the time observed.
    pub mean_live_bytes: f64,
    /// Mean lifetime of those that were freed.
    pub freed_lifetime_ns: Option<f64>,
}

impl Objects {
    /// What samples stand for.
    fn of(samples: u64, bytes: u64, lifetime_ns: u64) -> Objects {
        let count = samples as f64;
        let object_bytes = bytes as f64 / count;
        let stand_for = stands_for(object_bytes as u64);
        Objects {
            samples,
            object_bytes,
            objects: count * stand_for,
            bytes: bytes as f64 * stand_for,
            lifetime_ns: lifetime_ns as f64 / count,
        }
    }
}

impl Lifetimes {
    /// Of a time, freed samples, sizes and ages of live ones, and the classes that have spans.
    pub(super) fn of(
        observed_ns: u64,
        freed: &Histogram,
        live: impl Iterator<Item = (u64, u64)>,
        classes: impl Iterator<Item = ClassStatistics>,
    ) -> Lifetimes {
        let cells = freed.cells.iter().flatten().filter(|cell| cell.objects > 0);
        let freed = cells.map(|cell| Objects::of(cell.objects, cell.bytes, cell.lifetime_ns));
        let mut by_cell: BTreeMap<_, (u64, u64, u64)> = BTreeMap::new();
        for (size, age_ns) in live {
            let sum = by_cell.entry((size_cell(size), lifetime_cell(age_ns))).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(size), sum.2.saturating_add(age_ns));
        }
        let live: Vec<Objects> =
            by_cell.values().map(|&(count, bytes, age)| Objects::of(count, bytes, age)).collect();
        let spans = spans(&live, classes);
        Lifetimes { observed_ns, freed: freed.collect(), live, spans }
    }

    /// Objects by size alone, rising.
    pub fn sizes(&self) -> Vec<Size> {
        let mut by_size: BTreeMap<usize, (Vec<&Objects>, Vec<&Objects>)> = BTreeMap::new();
        let cell = |objects: &&Objects| size_cell(objects.object_bytes as u64);
        for objects in &self.freed {
            by_size.entry(cell(&objects)).or_default().0.push(objects);
        }
        for objects in &self.live {
            by_size.entry(cell(&objects)).or_default().1.push(objects);
        }
        by_size.values().map(|(freed, live)| self.size(freed, live)).collect()
    }

    fn size(&self, freed: &[&Objects], live: &[&Objects]) -> Size {
        let sum = |all: &[&Objects], of: fn(&Objects) -> f64| -> f64 {
            all.iter().map(|it| of(it)).sum()
        };
        let both = |of: fn(&Objects) -> f64| sum(freed, of) + sum(live, of);
        let freed_objects = sum(freed, |it| it.objects);
        let lived = sum(freed, |it| it.objects * it.lifetime_ns);
        Size {
            object_bytes: both(|it| it.bytes) / both(|it| it.objects),
            allocated_bytes: both(|it| it.bytes),
            live_bytes: sum(live, |it| it.bytes),
            mean_live_bytes: both(|it| it.bytes * it.lifetime_ns) / self.observed_ns as f64,
            freed_lifetime_ns: (freed_objects > 0.0).then(|| lived / freed_objects),
        }
    }

    /// Settings of the driver that make it a program like this one: its sizes in TOML, its mean heap
    /// in bytes, and its turnover a second. By Little's law the driver's objects then have this
    /// program's mean lifetimes. `None` if nothing was sampled.
    pub fn driver(&self, name: &str) -> Option<DriverSettings> {
        let sizes = self.sizes();
        let heap_bytes: f64 = sizes.iter().map(|size| size.mean_live_bytes).sum();
        let allocated: f64 = sizes.iter().map(|size| size.allocated_bytes).sum();
        if heap_bytes <= 0.0 || allocated <= 0.0 {
            return None;
        }
        let mut toml = format!("name = {}\nspans = false\nsizes = [\n", quoted(name));
        for size in sizes.iter().filter(|size| size.mean_live_bytes > 0.0) {
            // The driver's smallest object has 8 bytes.
            let bytes = size.object_bytes.round().max(8.0);
            let share = |of: f64, all: f64| 100.0 * of / all;
            let (live, allocated) =
                (share(size.mean_live_bytes, heap_bytes), share(size.allocated_bytes, allocated));
            let entry = format_args!(
                "    {{ bytes = {bytes}, live = {live:e}, allocated = {allocated:e} }},\n"
            );
            toml.write_fmt(entry).expect("a text takes what is written");
        }
        toml.push_str("]\n");
        let seconds = self.observed_ns as f64 / 1e9;
        Some(DriverSettings { toml, heap_bytes, turnover: allocated / seconds / heap_bytes })
    }
}

/// Settings of `prairie heap driver`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DriverSettings {
    /// The sizes, as [`Sizes::parse`](crate::driver::Sizes::parse) reads them.
    pub toml: String,
    /// Live bytes.
    pub heap_bytes: f64,
    /// Bytes allocated a second, as a share of the live bytes.
    pub turnover: f64,
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let plain = |letter: char| !letter.is_control() && letter != '"' && letter != '\\';
    format!("\"{}\"", text.chars().filter(|&letter| plain(letter)).collect::<String>())
}

/// Spans of the classes as they are counted, and of large objects as they are estimated.
fn spans(live: &[Objects], classes: impl Iterator<Item = ClassStatistics>) -> Vec<SpansOfSize> {
    let mut by_size: BTreeMap<u64, SpansOfSize> = BTreeMap::new();
    for class in classes {
        let Some(size_class) = SizeClass::of_size(class.size) else { continue };
        let bytes = Pages(size_class.info().pages.into()).bytes();
        let entry = by_size.entry(bytes).or_default();
        entry.span_bytes = bytes as f64;
        entry.spans += class.spans as f64;
    }
    let large = live.iter().filter(|objects| objects.object_bytes > MAX_SMALL as f64);
    for objects in large {
        let bytes = Pages::holding(objects.object_bytes as u64).bytes();
        let entry = by_size.entry(bytes).or_default();
        entry.span_bytes = bytes as f64;
        entry.spans += objects.objects;
    }
    by_size.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::lifetimes::{Freed, LIFETIMES, SIZES};
    use crate::front::profile::MEAN;

    const SECOND: u64 = 1_000_000_000;

    fn histogram(samples: &[(u64, u64, u64)]) -> Box<Histogram> {
        let mut histogram = Box::new(Histogram { cells: [[Freed::default(); LIFETIMES]; SIZES] });
        for &(count, size, lifetime_ns) in samples {
            (0..count).for_each(|_| histogram.count(size, lifetime_ns));
        }
        histogram
    }

    /// 100 MB/s of objects of 4,000 bytes that live for a tenth of a second, and 1 MB/s of objects of
    /// 400,000 bytes that live for two seconds, for ten seconds.
    fn two_kinds() -> Lifetimes {
        let chance = |size: u64| 1.0 / stands_for(size);
        let small = (10.0 * 100e6 / 4e3 * chance(4000)) as u64;
        let large = (10.0 * 1e6 / 4e5 * chance(400_000)) as u64;
        let freed = histogram(&[(small, 4000, SECOND / 10), (large, 400_000, 2 * SECOND)]);
        let live = [(4000, SECOND / 20); 20].into_iter().chain([(400_000, SECOND); 3]);
        let class = ClassStatistics { size: 4096, spans: 7, ..Default::default() };
        Lifetimes::of(10 * SECOND, &freed, live, [class].into_iter())
    }

    #[test]
    fn samples_stand_for_what_was_allocated() {
        let sizes = two_kinds().sizes();
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.2;
        assert_eq!(sizes.len(), 2);
        assert_eq!(
            sizes.iter().map(|size| size.object_bytes as u64).collect::<Vec<_>>(),
            [4000, 400_000]
        );
        assert!(near(sizes[0].allocated_bytes, 1e9), "{sizes:?}");
        assert!(near(sizes[1].allocated_bytes, 1e7), "{sizes:?}");
        assert!(near(sizes[0].live_bytes, 20.0 * MEAN as f64), "{sizes:?}");
        // Little's law: 100 MB/s for 0.1 s, and 1 MB/s for 2 s.
        assert!(near(sizes[0].mean_live_bytes, 1e7), "{sizes:?}");
        assert!(near(sizes[1].mean_live_bytes, 2e6), "{sizes:?}");
        assert_eq!(sizes[0].freed_lifetime_ns, Some(1e8));
        assert_eq!(sizes[1].freed_lifetime_ns, Some(2e9));
    }

    #[test]
    fn spans_are_those_of_classes_and_of_large_objects() {
        let spans = two_kinds().spans;
        let small = SizeClass::of_size(4096).unwrap().info().pages;
        assert_eq!(spans[0].span_bytes, f64::from(small) * Pages::SIZE as f64);
        assert_eq!(spans[0].spans, 7.0);
        assert_eq!(spans[1].span_bytes, 49.0 * 8192.0);
        assert!((spans[1].spans / (3.0 * stands_for(400_000)) - 1.0).abs() < 1e-9);
    }

    /// The driver's objects live as long as those of the program.
    #[cfg(feature = "tools")]
    #[test]
    fn the_driver_takes_the_settings_and_lives_up_to_them() {
        use crate::driver::{Driver, Load, Settings, Sizes};

        let settings = two_kinds().driver("redis \"x\"\\").unwrap();
        let sizes = Sizes::parse(&settings.toml).unwrap();
        assert_eq!(sizes.name(), "redis x");
        let heap_bytes = settings.heap_bytes;
        let mean_lifetime = |at: usize| {
            let entry = sizes.entries()[at];
            entry.live / (settings.turnover * entry.allocated)
        };
        assert!((mean_lifetime(0) / 0.1 - 1.0).abs() < 0.02, "{}", mean_lifetime(0));
        assert!((mean_lifetime(1) / 2.0 - 1.0).abs() < 0.25, "{}", mean_lifetime(1));
        let load = Load::named("steady", 5.0).unwrap();
        let mut driver = Driver::new(Settings {
            sizes: sizes.clone(),
            heap_bytes,
            load,
            turnover: settings.turnover,
            seconds: 5.0,
            seed: 1,
        });
        driver.by_ref().for_each(drop);
        let live = driver.live_objects();
        let wanted = sizes.entries()[0].live * heap_bytes / 4000.0;
        assert!((live[0] as f64 / wanted - 1.0).abs() < 0.1, "{live:?} {wanted}");
        assert!((driver.objects_born() as f64 / (5.0 * 100e6 / 4000.0) - 1.0).abs() < 0.2);
    }

    #[test]
    fn nothing_sampled_drives_nothing() {
        let nothing = histogram(&[]);
        let empty = Lifetimes::of(1, &nothing, std::iter::empty(), std::iter::empty());
        assert!(empty.sizes().is_empty() && empty.spans.is_empty());
        assert_eq!(empty.driver("x"), None);
    }
}
