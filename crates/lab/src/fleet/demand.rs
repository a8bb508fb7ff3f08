//! Who holds what: owners' numbers, and populations of blocks that come and go.

use std::collections::BinaryHeap;

use frames::table::Owner;
use frames::{MigrateType, Order};

use super::workload::Kernel;
use crate::machine::random::{Random, Spread, Time};

/// Gives numbers to blocks: of a block of `2^j` frames, `2^j` in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    fresh: Owner,
    bound: Owner,
    returned: [Vec<Owner>; 13],
}

impl Owners {
    /// Numbers below `bound`.
    pub(super) fn new(bound: u64) -> Owners {
        Owners { bound: bound as Owner, ..Owners::default() }
    }

    /// Numbers for a block; `None` if too few are left in a row.
    pub(super) fn take(&mut self, order: Order) -> Option<Owner> {
        if let Some(owner) = self.returned[order.index()].pop() {
            return Some(owner);
        }
        let (owner, end) = (self.fresh, self.fresh + order.frames() as Owner);
        if end <= self.bound {
            self.fresh = end;
            return Some(owner);
        }
        let larger = (order.index() + 1..self.returned.len()).find_map(|at| {
            let owner = self.returned[at].pop()?;
            Some((owner, at))
        });
        let (owner, found) = larger?;
        for half in (order.index()..found).rev() {
            self.returned[half].push(owner + (1 << half));
        }
        Some(owner)
    }

    pub(super) fn give(&mut self, owner: Owner, order: Order) {
        self.returned[order.index()].push(owner);
    }
}

/// A block and when it is given back, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    /// Negated, for the heap has its greatest element first.
    at: i64,
    owner: Owner,
    order: Order,
}

/// Blocks of one kind of kernel memory.
#[derive(Clone, Debug)]
pub(super) struct Population {
    pub(super) migrate_type: MigrateType,
    /// Whether it is programs' memory that is pinned.
    pub(super) pinned: bool,
    lifetime: Spread<Time>,
    orders: Vec<(Order, u64)>,
    /// Frames that it has at mean load.
    pub(super) target: f64,
    pub(super) frames: u64,
    blocks: BinaryHeap<Due>,
}

impl Population {
    pub(super) fn new(kind: &Kernel, memory: u64, pinned: bool) -> Population {
        let order = |&(order, weight): &(u8, u32)| {
            (Order::new(order).expect("orders were checked"), u64::from(weight))
        };
        Population {
            migrate_type: match (pinned, kind.reclaimable) {
                (true, _) => MigrateType::Movable,
                (false, true) => MigrateType::Reclaimable,
                (false, false) => MigrateType::Unmovable,
            },
            pinned,
            lifetime: kind.lifetime,
            orders: kind.orders.iter().map(order).collect(),
            target: kind.share * memory as f64,
            frames: 0,
            blocks: BinaryHeap::new(),
        }
    }

    /// The size of the next block.
    pub(super) fn next_order(&self, random: &mut Random) -> Order {
        let all: u64 = self.orders.iter().map(|&(_, weight)| weight).sum();
        let mut at = random.below(all);
        for &(order, weight) in &self.orders {
            if at < weight {
                return order;
            }
            at -= weight;
        }
        Order::BASE
    }

    /// Holds a block that came at `now`.
    pub(super) fn hold(&mut self, owner: Owner, order: Order, now: f64, random: &mut Random) {
        let until = now + self.lifetime.sample(random) / 1e9;
        self.frames += order.frames();
        self.blocks.push(Due { at: -(until as i64), owner, order });
    }

    /// The next block that is given back by `now`.
    pub(super) fn due(&mut self, now: f64) -> Option<(Owner, Order)> {
        let first = self.blocks.peek()?;
        if -first.at > now as i64 {
            return None;
        }
        self.give_one()
    }

    /// The block that would be given back next, now.
    pub(super) fn give_one(&mut self) -> Option<(Owner, Order)> {
        let Due { owner, order, .. } = self.blocks.pop()?;
        self.frames -= order.frames();
        Some((owner, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_while_held() {
        let mut owners = Owners::new(24);
        let eight = Order::new(3).unwrap();
        assert_eq!([owners.take(eight), owners.take(Order::BASE)], [Some(0), Some(8)]);
        assert_eq!([owners.take(eight), owners.take(eight)], [Some(9), None]);
        owners.give(0, eight);
        assert_eq!([owners.take(Order::BASE), owners.take(eight)], [Some(17), Some(0)]);
        // Where nothing fresh is left, a larger block's numbers are cut.
        owners.give(0, eight);
        let singles: Vec<_> = (0..).map_while(|_| owners.take(Order::BASE)).collect();
        assert_eq!(singles, [18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn blocks_leave_in_the_order_of_their_times() {
        let kind = Kernel {
            name: "slab".into(),
            share: 0.1,
            orders: vec![(0, 1)],
            lifetime: Spread::Uniform(1e9, 100e9),
            reclaimable: false,
        };
        let (mut random, mut population) = (Random::new(1), Population::new(&kind, 1000, false));
        (0..100).for_each(|owner| population.hold(owner, Order::BASE, 0.0, &mut random));
        assert_eq!(population.frames, 100);
        assert_eq!(population.due(0.5), None);
        let half = (0..).map_while(|_| population.due(50.0)).count();
        assert!((35..65).contains(&half), "{half}");
        assert_eq!((0..).map_while(|_| population.due(101.0)).count(), 100 - half);
    }
}
