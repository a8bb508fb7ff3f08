//! The law of oomd's senpai plugin with immediate back-off, for comparison.
//!
//! It keeps no limit. Each interval it asks for 1 % of what lies above a floor, if the kernel's
//! running averages of pressure are below a gate. Since those averages cannot show less than 1 %
//! (see [`crate::pressure`]), a gate of 0.1 % in effect asks whether any recent sample of two
//! seconds had reached 1 %. Facts from its source; this implementation is our own.

use serde::Serialize;

use prairie_host::psi::Stall;

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Oomd {
    /// Bytes that stay, above what cannot be reclaimed.
    pub min_bytes: u64,
    /// Share of the rest that is requested.
    pub max_probe: f64,
    /// Gate for memory and for IO, in hundredths of a percent.
    pub gate: u32,
    /// Share of swap from which on nothing is taken.
    pub swap_threshold: f64,
}

impl Default for Oomd {
    fn default() -> Oomd {
        Oomd { min_bytes: 100 << 20, max_probe: 0.01, gate: 10, swap_threshold: 0.8 }
    }
}

/// Its observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OomdObservation {
    /// `memory.current`.
    pub current_bytes: u64,
    /// Page cache on both lists.
    pub file_bytes: u64,
    /// Anonymous memory.
    pub anon_bytes: u64,
    /// Swap that the container and all above it could have, and what of it is free.
    pub swap: (u64, u64),
    /// `memory.pressure`, `some`.
    pub memory: Stall,
    /// `io.pressure`, `some`.
    pub io: Stall,
}

impl Oomd {
    /// Bytes to reclaim in this interval.
    pub fn reclaim_bytes(&self, seen: &OomdObservation) -> u64 {
        let average = |stall: Stall| stall.avg10.max(stall.avg60);
        if average(seen.memory) >= self.gate || average(seen.io) >= self.gate {
            return 0;
        }
        let (swap, free) = seen.swap;
        let swappable = match swap {
            0 => 0,
            _ if (swap - free.min(swap)) as f64 >= self.swap_threshold * swap as f64 => 0,
            _ => free.min(seen.anon_bytes),
        };
        let reclaimable = seen.file_bytes.saturating_add(swappable);
        let floor = seen.current_bytes.saturating_sub(reclaimable).saturating_add(self.min_bytes);
        (seen.current_bytes.saturating_sub(floor) as f64 * self.max_probe) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn seen() -> OomdObservation {
        OomdObservation {
            current_bytes: 500 * MIB,
            file_bytes: 100 * MIB,
            anon_bytes: 400 * MIB,
            swap: (1024 * MIB, 1024 * MIB),
            ..OomdObservation::default()
        }
    }

    #[test]
    fn one_per_cent_above_the_floor() {
        let law = Oomd::default();
        assert_eq!(law.reclaim_bytes(&seen()), 4 * MIB);
        let without_swap = OomdObservation { swap: (0, 0), ..seen() };
        assert_eq!(law.reclaim_bytes(&without_swap), 0, "100 MiB of file is the floor's own");
        let nearly_full = OomdObservation { swap: (1000 * MIB, 200 * MIB), ..seen() };
        assert_eq!(law.reclaim_bytes(&nearly_full), 0);
    }

    #[test]
    fn the_gate_is_blind_below_one_per_cent() {
        let law = Oomd::default();
        // 0.9 % of every sample: the kernel shows 0.00.
        let blind = Stall { total_us: 54_000, ..Stall::default() };
        assert_eq!(law.reclaim_bytes(&OomdObservation { memory: blind, ..seen() }), 4 * MIB);
        let stalled = Stall { avg60: 10, ..Stall::default() };
        assert_eq!(law.reclaim_bytes(&OomdObservation { memory: stalled, ..seen() }), 0);
        assert_eq!(law.reclaim_bytes(&OomdObservation { io: stalled, ..seen() }), 0);
    }
}
