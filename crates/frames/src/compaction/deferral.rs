//! Backing off after failures (`defer_compaction`, `compaction_deferred`).

use crate::Order;

/// At most every `2^6`th request is compacted for (`COMPACT_MAX_DEFER_SHIFT`).
pub(crate) const MAX_SHIFT: u32 = 6;

/// How a zone backs off: after the n-th failure in a row, `2^n` requests of the order that failed,
/// or of a higher one, go by before the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    considered: u32,
    shift: u32,
    /// The lowest order that failed; orders below are never deferred. It begins at 0, as the
    /// kernel's does: until some order has succeeded, a failure holds back all of them.
    order_failed: u8,
}

impl Deferral {
    /// Compaction for `order` failed (`defer_compaction`).
    pub fn defer(&mut self, order: Order) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(MAX_SHIFT);
        self.order_failed = self.order_failed.min(order.get());
    }

    /// Whether to skip compaction for `order` this time. Counts the request
    /// (`compaction_deferred`).
    pub(crate) fn is_deferred(&mut self, order: Order) -> bool {
        if order.get() < self.order_failed {
            return false;
        }
        self.considered += 1;
        if self.considered >= 1 << self.shift {
            self.considered = 1 << self.shift;
            return false;
        }
        true
    }

    /// Compaction for `order` succeeded, or the allocation did (`compaction_defer_reset`).
    pub fn reset(&mut self, order: Order, allocated: bool) {
        if allocated {
            (self.considered, self.shift) = (0, 0);
        }
        if order.get() >= self.order_failed {
            self.order_failed = order.get() + 1;
        }
    }

    /// Whether this attempt is the first after the longest wait: then the skip bits are stale too
    /// (`compaction_restarting`).
    pub(crate) fn is_restarting(&self, order: Order) -> bool {
        order.get() >= self.order_failed
            && self.shift == MAX_SHIFT
            && self.considered >= 1 << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_failure_doubles_the_requests_that_go_by() {
        let order = Order::HUGE;
        let mut deferral = Deferral::default();
        let mut skipped = Vec::new();
        for _ in 0..8 {
            deferral.defer(order);
            skipped.push((0..1000).take_while(|_| deferral.is_deferred(order)).count());
        }
        assert_eq!(skipped, [1, 3, 7, 15, 31, 63, 63, 63]);
        assert!(deferral.is_restarting(order));
    }

    #[test]
    fn lower_orders_are_not_deferred_once_one_succeeded() {
        let (small, huge) = (Order::new(4).unwrap(), Order::HUGE);
        let mut deferral = Deferral::default();
        deferral.reset(small, false);
        deferral.defer(huge);
        assert!(!deferral.is_deferred(small), "order 4 worked");
        assert!(deferral.is_deferred(huge));
        // A failure at a lower order takes that one along.
        deferral.defer(small);
        assert!(deferral.is_deferred(small));
        deferral.reset(huge, true);
        assert!(!deferral.is_deferred(huge) && !deferral.is_restarting(huge));
    }
}
