//! Blocks in the order of their age, linked through their owners: a block is on one list at most and
//! leaves it in constant time.

use prairie_frames::Order;
use prairie_frames::table::Owner;
use prairie_hostmem::Array;

/// The neighbors of every owner, by number plus one; zero for none.
#[derive(Clone, Debug)]
pub(super) struct Links {
    older: Array<u32>,
    younger: Array<u32>,
    /// The order, plus one, of the block that begins here; zero for an owner on no list.
    orders: Array<u8>,
}

/// Blocks, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ages {
    oldest: u32,
    youngest: u32,
    frames: u64,
}

impl Links {
    /// Of owners below `owners`, which are on no list.
    pub(super) fn new(owners: u64) -> Links {
        let none = || Array::zeroed(owners as usize);
        Links { older: none(), younger: none(), orders: Array::zeroed(owners as usize) }
    }

    /// The order of the block that begins with this owner; `None` if it is on no list.
    pub(super) fn order(&self, owner: Owner) -> Option<Order> {
        self.orders[owner as usize].checked_sub(1).and_then(Order::new)
    }
}

impl Ages {
    /// The frames of all blocks.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// The oldest block.
    pub(super) fn oldest(&self) -> Option<Owner> {
        self.oldest.checked_sub(1)
    }

    /// Adds a block that is on no list as the youngest.
    pub(super) fn push(&mut self, links: &mut Links, owner: Owner, order: Order) {
        debug_assert!(links.order(owner).is_none(), "{owner} is on a list");
        let at = owner as usize;
        links.orders[at] = order.get() + 1;
        (links.older[at], links.younger[at]) = (self.youngest, 0);
        match self.youngest.checked_sub(1) {
            Some(before) => links.younger[before as usize] = owner + 1,
            None => self.oldest = owner + 1,
        }
        self.youngest = owner + 1;
        self.frames += order.frames();
    }

    /// Removes a block and returns its order.
    ///
    /// # Panics
    /// If it is on no list.
    pub(super) fn remove(&mut self, links: &mut Links, owner: Owner) -> Order {
        let order = links.order(owner).expect("the block is on this list");
        let at = owner as usize;
        links.orders[at] = 0;
        let (older, younger) = (links.older[at], links.younger[at]);
        match older.checked_sub(1) {
            Some(older) => links.younger[older as usize] = younger,
            None => self.oldest = younger,
        }
        match younger.checked_sub(1) {
            Some(younger) => links.older[younger as usize] = older,
            None => self.youngest = older,
        }
        self.frames -= order.frames();
        order
    }

    /// The blocks, oldest first.
    pub(super) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = Owner> + 'a {
        let after = |owner: &Owner| links.younger[*owner as usize].checked_sub(1);
        std::iter::successors(self.oldest(), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_queue(
            steps in prop::collection::vec((0..16u32, 0..3u8, 0..=9u8), 1..80)
        ) {
            let mut links = Links::new(16);
            let mut ages = Ages::default();
            let mut queue: Vec<(Owner, Order)> = Vec::new();
            for (owner, step, order) in steps {
                let order = Order::new(order).unwrap();
                match (step, queue.iter().position(|&(queued, _)| queued == owner)) {
                    (0 | 1, None) => {
                        ages.push(&mut links, owner, order);
                        queue.push((owner, order));
                    }
                    (2, Some(at)) => {
                        prop_assert_eq!(ages.remove(&mut links, owner), queue.remove(at).1);
                    }
                    _ => {}
                }
                let owners: Vec<Owner> = queue.iter().map(|queued| queued.0).collect();
                prop_assert_eq!(ages.iter(&links).collect::<Vec<_>>(), owners);
                prop_assert_eq!(ages.oldest(), queue.first().map(|queued| queued.0));
                prop_assert_eq!(ages.frames(), queue.iter().map(|q| q.1.frames()).sum::<u64>());
                let order = |owner| queue.iter().find(|q| q.0 == owner).map(|queued| queued.1);
                prop_assert!((0..16).all(|owner| links.order(owner) == order(owner)));
            }
        }
    }
}
