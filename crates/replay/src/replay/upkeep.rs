//! When the policy's own upkeep is due.

/// Events between two wake-ups, which stand for those of periodic reclaim: a hundredth of a second
/// of a busy machine.
const EVENTS: u32 = 1024;

/// Tells when the policy does its own upkeep next.
#[derive(Clone, Copy, Debug)]
pub enum Upkeep {
    /// After this many events; [`EVENTS`] follow.
    After(u32),
    /// At the first event of this time or later, and again a period after that event.
    At {
        /// The time.
        due_ns: u64,
        /// The period.
        period_ns: u64,
    },
}

impl Default for Upkeep {
    fn default() -> Upkeep {
        Upkeep::After(EVENTS)
    }
}

impl Upkeep {
    /// Counts an event. Whether upkeep is due at it.
    #[inline]
    pub fn is_due(&mut self, time_ns: u64) -> bool {
        match self {
            Upkeep::After(left) => {
                *left -= 1;
                let due = *left == 0;
                if due {
                    *left = EVENTS;
                }
                due
            }
            Upkeep::At { due_ns, period_ns } => {
                let due = time_ns >= *due_ns;
                if due {
                    *due_ns = time_ns.saturating_add(*period_ns);
                }
                due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(upkeep: &mut Upkeep, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        times.into_iter().filter(|&time| upkeep.is_due(time)).collect()
    }

    #[test]
    fn by_events_every_thousandth_is_due() {
        assert_eq!(due(&mut Upkeep::default(), 1..=3000), [1024, 2048]);
    }

    #[test]
    fn by_time_the_first_event_after_a_period_is_due() {
        let mut upkeep = Upkeep::At { due_ns: 0, period_ns: 100 };
        assert_eq!(due(&mut upkeep, [5, 6, 104, 105, 150, 204, 900, 901, 999]), [5, 105, 900]);
        let mut last = Upkeep::At { due_ns: u64::MAX, period_ns: 100 };
        assert_eq!(due(&mut last, [u64::MAX - 1, u64::MAX, u64::MAX]), [u64::MAX, u64::MAX]);
    }
}
