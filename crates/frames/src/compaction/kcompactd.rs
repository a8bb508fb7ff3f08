//! The daemon of a node: its requests and its next action (`kcompactd`).

use crate::{Order, ZoneKind};

/// The requests to kcompactd since it last slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kcompactd {
    order: Option<Order>,
    highest_zone: ZoneKind,
    /// The node's highest zone.
    last_zone: ZoneKind,
}

impl Kcompactd {
    /// A daemon without requests.
    pub const fn new(last_zone: ZoneKind) -> Kcompactd {
        Kcompactd { order: None, highest_zone: last_zone, last_zone }
    }

    /// Asks for blocks of `order` in the zones up to `highest_zone` (`wakeup_kcompactd`). Whether
    /// it is woken depends on whether a zone is suitable: ask
    /// [`suitable`](super::suitable::suitable) for each.
    pub fn ask(&mut self, order: Order, highest_zone: ZoneKind) {
        if order == Order::BASE {
            return;
        }
        self.order = self.order.max(Some(order));
        self.highest_zone = self.highest_zone.min(highest_zone);
    }

    /// The work that waits: the order, and the highest zone to compact.
    pub fn work(&self) -> Option<(Order, ZoneKind)> {
        self.order.map(|order| (order, self.highest_zone))
    }

    /// Work for `order` up to `highest_zone` is done, whatever its result. Larger requests since
    /// then stay (the end of `kcompactd_do_work`).
    pub fn done(&mut self, order: Order, highest_zone: ZoneKind) {
        if self.order <= Some(order) {
            self.order = None;
        }
        if self.highest_zone >= highest_zone {
            self.highest_zone = self.last_zone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_order_and_the_tightest_zone_are_remembered() {
        let mut daemon = Kcompactd::new(ZoneKind::Normal);
        daemon.ask(Order::BASE, ZoneKind::Dma);
        assert_eq!(daemon.work(), None, "single frames need no compaction");
        daemon.ask(Order::HUGE, ZoneKind::Normal);
        daemon.ask(Order::new(4).unwrap(), ZoneKind::Dma32);
        assert_eq!(daemon.work(), Some((Order::HUGE, ZoneKind::Dma32)));
        // Asked for more while it worked.
        daemon.ask(Order::LARGEST_FREE, ZoneKind::Normal);
        daemon.done(Order::HUGE, ZoneKind::Dma32);
        assert_eq!(daemon.work(), Some((Order::LARGEST_FREE, ZoneKind::Normal)));
        daemon.done(Order::LARGEST_FREE, ZoneKind::Normal);
        assert_eq!(daemon.work(), None);
    }
}
