//! Random numbers from a seed: the same seed gives the same numbers everywhere.

/// SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed` for part `part` of a simulation, such as a core.
    pub fn new(seed: u64, part: u64) -> Random {
        let mut mixed = Random(seed ^ part.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Random(mixed.next())
    }

    /// 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not 0. (By multiplication; for bounds of this program the
    /// bias is below 2⁻³⁰.)
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, not including, 1.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks from 0 by Zipf's law: rank r with a frequency proportional to 1 / (r + 1)^θ.
///
/// After Gray et al., *Quickly generating billion-record synthetic databases*, SIGMOD 1994, as
/// YCSB has it.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over `ranks` ranks, at least 2, with skew `theta` between 0 and 1.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        let n = ranks as f64;
        let (zeta, two) = (harmonic(ranks, theta), harmonic(2, theta));
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { ranks: n, theta, zeta, eta }
    }

    /// The next rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let share = random.share();
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.ranks * (self.eta * share - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as u64).min(self.ranks as u64 - 1)
    }
}

/// The sum of 1 / i^θ for i from 1 to n: the first terms as they are, the rest by the formula of
/// Euler and Maclaurin.
fn harmonic(n: u64, theta: f64) -> f64 {
    let head = n.min(1000);
    let sum: f64 = (1..=head).map(|i| (i as f64).powf(-theta)).sum();
    let (a, b) = (head as f64, n as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    sum + integral + (b.powf(-theta) - a.powf(-theta)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harmonic_sum_is_the_sum() {
        let plain: f64 = (1..=50_000u64).map(|i| (i as f64).powf(-0.99)).sum();
        assert!((harmonic(50_000, 0.99) - plain).abs() < 1e-6 * plain);
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let zipf = Zipf::new(1000, 0.99);
        let mut random = Random::new(7, 0);
        let mut seen = vec![0u64; 1000];
        for _ in 0..1_000_000 {
            seen[zipf.rank(&mut random) as usize] += 1;
        }
        let expected = |rank: f64| 1e6 / (rank + 1.0).powf(0.99) / zipf.zeta;
        for rank in [0, 1, 9] {
            let ratio = seen[rank] as f64 / expected(rank as f64);
            assert!((0.85..1.15).contains(&ratio), "rank {rank}: {ratio}");
        }
        let tail: u64 = seen[500..].iter().sum();
        let ratio = tail as f64 / (500..1000).map(|rank| expected(rank as f64)).sum::<f64>();
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn parts_of_a_seed_differ_and_repeat() {
        let numbers =
            |part| (0..4).map(move |_| part).scan(Random::new(1, part), |r, _| Some(r.next()));
        assert!(numbers(0).eq(numbers(0)));
        assert!(!numbers(0).eq(numbers(1)));
        let mut random = Random::new(3, 3);
        assert!((0..1000).all(|_| random.below(7) < 7 && random.share() < 1.0));
    }
}
