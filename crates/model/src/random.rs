//! Chance, reproducible: one seed, one run.

use std::fmt;
use std::marker::PhantomData;

use rand_distr::Distribution;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number below `bound`, which must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the product is below 2^-32 for every bound that counts pages.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to but not including 1.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// How many of the events of a Poisson process came, if `mean` were expected.
    pub fn poisson(&mut self, mean: f64) -> u64 {
        match rand_distr::Poisson::new(mean) {
            Ok(poisson) => poisson.sample(&mut self.0) as u64,
            Err(_) => 0,
        }
    }
}

/// How values of a kind of quantity are written, and kept in base units.
pub trait Quantity: Copy {
    /// The base unit's plural.
    const UNIT: &'static str;
    /// Reads a value in the units that people write.
    ///
    /// # Errors
    /// What would be right.
    fn parse(text: &str) -> Result<f64, String>;
}

/// Sizes in bytes: `12M`, `4KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size;

impl Quantity for Size {
    const UNIT: &'static str = "bytes";

    fn parse(text: &str) -> Result<f64, String> {
        let config = parse_size::Config::new().with_binary();
        let bytes =
            config.parse_size(text).map_err(|_| format!("`{text}` is no size such as 12M"))?;
        Ok(bytes as f64)
    }
}

/// Times in nanoseconds: `1500ms`, `2min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time;

impl Quantity for Time {
    const UNIT: &'static str = "nanoseconds";

    fn parse(text: &str) -> Result<f64, String> {
        let time = humantime::parse_duration(text);
        let time = time.map_err(|_| format!("`{text}` is no time such as 250ms or 2min"))?;
        Ok(time.as_nanos() as f64)
    }
}

/// A quantity that varies from one instance to the next, in base units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread<Q> {
    /// Always the same.
    Fixed(f64, PhantomData<Q>),
    /// Everything from the first to the second equally often.
    Uniform(f64, f64),
    /// Lognormal: the median, and the standard deviation of the logarithm.
    Lognormal(f64, f64),
    /// Exponential, by its mean.
    Exponential(f64),
}

impl<Q> Spread<Q> {
    /// Always `value`.
    pub const fn fixed(value: f64) -> Spread<Q> {
        Spread::Fixed(value, PhantomData)
    }

    /// One instance.
    pub fn sample(&self, random: &mut Random) -> f64 {
        match *self {
            Spread::Fixed(value, _) => value,
            Spread::Uniform(low, high) => low + (high - low) * random.share(),
            Spread::Lognormal(median, sigma) => rand_distr::LogNormal::new(median.ln(), sigma)
                .map_or(median, |lognormal| lognormal.sample(&mut random.0)),
            Spread::Exponential(mean) => rand_distr::Exp::new(1.0 / mean)
                .map_or(mean, |exponential| exponential.sample(&mut random.0)),
        }
    }

    /// The mean over many instances.
    pub fn mean(&self) -> f64 {
        match *self {
            Spread::Fixed(value, _) => value,
            Spread::Uniform(low, high) => (low + high) / 2.0,
            Spread::Lognormal(median, sigma) => median * (sigma * sigma / 2.0).exp(),
            Spread::Exponential(mean) => mean,
        }
    }
}

impl<Q> Default for Spread<Q> {
    fn default() -> Self {
        Spread::fixed(0.0)
    }
}

impl<Q> Serialize for Spread<Q> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Spread::Fixed(value, _) => value.serialize(serializer),
            Spread::Uniform(low, high) => serializer.collect_map([("from", low), ("to", high)]),
            Spread::Lognormal(median, sigma) => {
                serializer.collect_map([("median", median), ("sigma", sigma)])
            }
            Spread::Exponential(mean) => serializer.collect_map([("mean", mean)]),
        }
    }
}

impl<'de, Q: Quantity> Deserialize<'de> for Spread<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpreadVisitor(PhantomData))
    }
}

struct SpreadVisitor<Q>(PhantomData<Q>);

impl<'de, Q: Quantity> Visitor<'de> for SpreadVisitor<Q> {
    type Value = Spread<Q>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value in {}, or {{ from, to }}, {{ median, sigma }} or {{ mean }}", Q::UNIT)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Spread<Q>, E> {
        Q::parse(text).map(Spread::fixed).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Spread<Q>, A::Error> {
        let quantity = |text: String| Q::parse(&text).map_err(de::Error::custom);
        let (mut from, mut to, mut median, mut sigma, mut mean) = (None, None, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "from" => from = Some(quantity(map.next_value()?)?),
                "to" => to = Some(quantity(map.next_value()?)?),
                "median" => median = Some(quantity(map.next_value()?)?),
                "mean" => mean = Some(quantity(map.next_value()?)?),
                "sigma" => sigma = Some(map.next_value::<f64>()?),
                other => {
                    let known = &["from", "to", "median", "sigma", "mean"];
                    return Err(de::Error::unknown_field(other, known));
                }
            }
        }
        match (from, to, median, sigma, mean) {
            (Some(from), Some(to), None, None, None) if from <= to => Ok(Spread::Uniform(from, to)),
            (None, None, Some(median), Some(sigma), None)
                if median > 0.0 && (0.0..=4.0).contains(&sigma) =>
            {
                Ok(Spread::Lognormal(median, sigma))
            }
            (None, None, None, None, Some(mean)) if mean > 0.0 => Ok(Spread::Exponential(mean)),
            _ => Err(de::Error::custom(
                "a spread is { from, to } with from <= to, { median, sigma } with sigma from 0 to 4, or { mean }",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|&n| n < 1000));
    }

    #[test]
    fn samples_have_the_mean_they_promise() {
        let mut random = Random::new(7);
        for spread in [
            Spread::<Size>::fixed(5.0),
            Spread::Uniform(2.0, 6.0),
            Spread::Lognormal(3.0, 0.5),
            Spread::Exponential(4.0),
        ] {
            let n = 40_000;
            let mean = (0..n).map(|_| spread.sample(&mut random)).sum::<f64>() / f64::from(n);
            assert!((mean / spread.mean() - 1.0).abs() < 0.03, "{spread:?}: {mean}");
        }
        let events: u64 = (0..10_000).map(|_| random.poisson(2.5)).sum();
        assert!((24_000..26_000).contains(&events), "{events}");
        assert_eq!(random.poisson(0.0), 0);
    }
}
