//! What migration changes, measured on pairs of runs of one seed.

use serde::Serialize;

use crate::random::Random;
use crate::sim::Outcome;

/// A relative change, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Mean over cores of the relative change of the time for the same requests: 0.01 is 1 % more
    /// time.
    pub change: f64,
    /// Twice the standard error of that mean: the change is within, 19 times of 20.
    pub error: f64,
}

impl Effect {
    /// Of one run against another of the same seed.
    pub fn of(with: &Outcome, without: &Outcome) -> Effect {
        let sum = |core: &Vec<u64>| core.iter().sum::<u64>() as f64;
        let pairs = with.latencies_ps.iter().zip(&without.latencies_ps);
        let changes = pairs.map(|(with, without)| sum(with) / sum(without).max(1.0) - 1.0);
        Effect::over(&changes.collect::<Vec<_>>())
    }

    /// The mean of changes that were seen independently of each other, and its error.
    pub fn over(changes: &[f64]) -> Effect {
        let n = changes.len().max(1) as f64;
        let mean = changes.iter().sum::<f64>() / n;
        let variance =
            changes.iter().map(|change| (change - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Effect { change: mean, error: 2.0 * (variance / n).sqrt() }
    }

    /// The most that the change may be, either way.
    pub fn bound(&self) -> f64 {
        self.change.abs() + self.error
    }

    /// The gain of throughput that the change of time means: 0.07 is 7 % more requests.
    pub fn throughput(&self) -> f64 {
        1.0 / (1.0 + self.change) - 1.0
    }
}

/// Latencies of requests that come at random, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// Half of all are quicker.
    pub median_ns: f64,
    /// 99 of 100 are quicker.
    pub p99_ns: f64,
    /// 999 of 1,000 are quicker.
    pub p999_ns: f64,
}

/// Share of its time for which a core of the run without migrations is busy.
const LOAD: f64 = 0.7;

impl Tail {
    /// Of the requests of one run, arriving at the same moments as those of the run without
    /// migrations, which they load to 70 %.
    pub fn of(with: &Outcome, without: &Outcome, seed: u64) -> Tail {
        let mut all = Vec::new();
        for (number, (served, base)) in
            with.latencies_ps.iter().zip(&without.latencies_ps).enumerate()
        {
            let mean_ps = base.iter().sum::<u64>() as f64 / base.len().max(1) as f64 / LOAD;
            all.extend(queueing(served, mean_ps, &mut Random::new(seed ^ 0xA11, number as u64)));
        }
        let quantile = |share: f64, all: &mut Vec<f64>| queueing_quantile(all, share) / 1e3;
        Tail {
            median_ns: quantile(0.5, &mut all),
            p99_ns: quantile(0.99, &mut all),
            p999_ns: quantile(0.999, &mut all),
        }
    }
}

/// Picoseconds from arrival to completion of requests that take `service_ps` each on one core and
/// arrive as a Poisson process with `mean_ps` in between: Lindley's recursion.
fn queueing(service_ps: &[u64], mean_ps: f64, random: &mut Random) -> Vec<f64> {
    let mut wait = 0.0;
    let sojourn = service_ps.iter().map(|&service| {
        let whole = wait + service as f64;
        wait = (whole + mean_ps * (1.0 - random.share()).ln()).max(0.0);
        whole
    });
    sojourn.collect()
}

/// The quantile of all values; 0 of none.
pub fn queueing_quantile(all: &mut [f64], share: f64) -> f64 {
    if all.is_empty() {
        return 0.0;
    }
    let at = ((all.len() - 1) as f64 * share) as usize;
    *all.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: changes of 1, 2 and 3 %; variance 1, error of the mean 1 / sqrt 3.
    #[test]
    fn an_effect_is_a_mean_with_twice_its_error() {
        let effect = Effect::over(&[0.01, 0.02, 0.03]);
        assert!((effect.change - 0.02).abs() < 1e-12);
        assert!((effect.error - 0.02 / 3f64.sqrt()).abs() < 1e-12);
        assert!((effect.bound() - effect.change - effect.error).abs() < 1e-12);
        let faster = Effect { change: -0.1, error: 0.0 };
        assert!((faster.throughput() - 1.0 / 9.0).abs() < 1e-12);
    }

    /// With constant service the mean wait at load ρ is ρ s / (2 (1 - ρ)): the M/D/1 queue.
    #[test]
    fn the_queue_waits_as_the_formula_says() {
        let service = vec![1000u64; 400_000];
        let all = queueing(&service, 1000.0 / 0.7, &mut Random::new(5, 5));
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let expected = 1000.0 + 0.7 * 1000.0 / (2.0 * 0.3);
        assert!((mean / expected - 1.0).abs() < 0.03, "{mean} {expected}");
        assert_eq!(queueing_quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
    }
}
