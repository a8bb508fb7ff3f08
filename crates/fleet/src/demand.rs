//! Owner numbers, and populations of blocks with lifetimes.

use prairie_frames::table::Owner;
use prairie_frames::{MigrateType, Order};

use prairie_model::random::{Random, Spread, Time};
use prairie_sim::workload::Kernel;

/// Gives numbers to blocks: of a block of `2^j` frames, `2^j` in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    fresh: Owner,
    bound: Owner,
    returned: [Vec<Owner>; 13],
}

impl Owners {
    /// Numbers from `first` up and below `bound`.
    pub(super) fn new(first: u64, bound: u64) -> Owners {
        Owners { fresh: first as Owner, bound: bound as Owner, ..Owners::default() }
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

/// Single pages with numbers in a row, which came one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) owner: Owner,
    pub(super) count: u32,
}

/// Numbers single pages so that pages allocated together have consecutive numbers, whose locations
/// are adjacent when they are freed.
#[derive(Clone, Debug)]
pub(super) struct PageOwners {
    /// A bit for each number: whether it is free.
    free: Vec<u64>,
    /// The word where the search starts.
    at: usize,
}

/// Words that are searched for a long enough run of numbers.
const SEARCH_WORDS: usize = 8;

impl PageOwners {
    /// The longest run of numbers.
    pub(super) const MAX_RUN: u32 = u64::BITS;

    /// Numbers below `bound`, rounded down to 64.
    pub(super) fn new(bound: u64) -> PageOwners {
        PageOwners { free: vec![u64::MAX; (bound / 64) as usize], at: 0 }
    }

    /// Up to `wanted` numbers; `None` if there are no more.
    pub(super) fn take(&mut self, wanted: u32) -> Option<Pages> {
        let mut looks = 0;
        for _ in 0..=self.free.len() {
            let word = self.free[self.at];
            if word != 0 {
                let (start, count) = longest(word, wanted.clamp(1, PageOwners::MAX_RUN));
                looks += 1;
                if count >= wanted || looks >= SEARCH_WORDS || count == PageOwners::MAX_RUN {
                    self.free[self.at] &= !mask(start, count);
                    return Some(Pages { owner: self.at as Owner * 64 + start, count });
                }
            }
            self.at = (self.at + 1) % self.free.len();
        }
        // A shorter run, if any.
        let at = self.free.iter().position(|&word| word != 0)?;
        let (start, count) = longest(self.free[at], wanted.clamp(1, PageOwners::MAX_RUN));
        self.free[at] &= !mask(start, count);
        Some(Pages { owner: at as Owner * 64 + start, count })
    }

    /// Gives numbers back that came in one.
    pub(super) fn give(&mut self, pages: Pages) {
        let word = &mut self.free[pages.owner as usize / 64];
        debug_assert_eq!(*word & mask(pages.owner % 64, pages.count), 0, "{pages:?}");
        *word |= mask(pages.owner % 64, pages.count);
    }
}

/// `count` bits from `start` up.
fn mask(start: u32, count: u32) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - count) << start }
}

/// The first run of `wanted` set bits in `word`, or its longest run if all are shorter. At least
/// one bit is set.
fn longest(word: u64, wanted: u32) -> (u32, u32) {
    // A bit stays as long as `count` bits from it on are set.
    let (mut starts, mut count) = (word, 1);
    while count < wanted {
        let step = count.min(wanted - count);
        let longer = starts & starts >> step;
        if longer == 0 {
            break;
        }
        (starts, count) = (longer, count + step);
    }
    let start = starts.trailing_zeros();
    (start, (word >> start).trailing_ones().min(wanted))
}

/// Blocks that end within this many seconds are freed together.
const SLOT: f64 = 30.0;
/// A lifetime of more than a year exceeds that of a server.
const LAST_SLOT: usize = 367 * 86_400 / 30;

/// Blocks of one kind of kernel memory.
#[derive(Clone, Debug)]
pub(super) struct Population {
    pub(super) migrate_type: MigrateType,
    /// Whether it is programs' memory that is pinned.
    pub(super) pinned: bool,
    /// Whether blocks are kernel stacks.
    pub(super) stacks: bool,
    /// Whether blocks are never freed.
    pub(super) permanent: bool,
    lifetime: Spread<Time>,
    orders: Vec<(Order, u64)>,
    /// Frames that it has at mean load.
    pub(super) target: f64,
    pub(super) frames: u64,
    /// Blocks by slot of their end since boot; slots before `first` are empty.
    due: Vec<Vec<(Owner, Order)>>,
    first: usize,
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
            stacks: kind.stacks,
            permanent: kind.permanent,
            lifetime: kind.lifetime,
            orders: kind.orders.iter().map(order).collect(),
            target: kind.share * memory as f64,
            frames: 0,
            due: Vec::new(),
            first: 0,
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
        self.frames += order.frames();
        if self.permanent {
            return;
        }
        let until = now + self.lifetime.sample(random) / 1e9;
        let slot = ((until / SLOT) as usize).min(LAST_SLOT);
        self.first = self.first.min(slot);
        if slot >= self.due.len() {
            self.due.resize_with(slot + 1, Vec::new);
        }
        self.due[slot].push((owner, order));
    }

    /// A block whose lifetime has ended by `now`.
    pub(super) fn due(&mut self, now: f64) -> Option<(Owner, Order)> {
        self.give_before((now / SLOT) as usize)
    }

    /// The block that ends next, now.
    pub(super) fn give_one(&mut self) -> Option<(Owner, Order)> {
        self.give_before(usize::MAX)
    }

    /// The block freed after `n` others if they all end together.
    pub(super) fn ahead(&self, others: usize) -> Option<Owner> {
        let slot = self.due.get(self.first)?;
        Some(slot[slot.len().checked_sub(others + 1)?].0)
    }

    /// A block of the first slot that has any, if that is before `end`.
    fn give_before(&mut self, end: usize) -> Option<(Owner, Order)> {
        while self.first < end.min(self.due.len()) {
            if let Some((owner, order)) = self.due[self.first].pop() {
                self.frames -= order.frames();
                return Some((owner, order));
            }
            // Nothing comes here any more.
            self.due[self.first] = Vec::new();
            self.first += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_while_held() {
        let mut owners = Owners::new(100, 124);
        let eight = Order::new(3).unwrap();
        assert_eq!([owners.take(eight), owners.take(Order::BASE)], [Some(100), Some(108)]);
        assert_eq!([owners.take(eight), owners.take(eight)], [Some(109), None]);
        owners.give(100, eight);
        assert_eq!([owners.take(Order::BASE), owners.take(eight)], [Some(117), Some(100)]);
        // Where nothing fresh is left, a larger block's numbers are cut.
        owners.give(100, eight);
        let singles: Vec<_> = (0..).map_while(|_| owners.take(Order::BASE)).collect();
        let expected: Vec<_> = (118..124).chain(100..108).collect();
        assert_eq!(singles, expected);
    }

    #[test]
    fn pages_get_numbers_in_a_row_where_there_are_any() {
        let mut owners = PageOwners::new(128);
        let pages = |owner, count| Some(Pages { owner, count });
        assert_eq!([owners.take(40), owners.take(40)], [pages(0, 40), pages(64, 40)]);
        assert_eq!([owners.take(24), owners.take(90)], [pages(104, 24), pages(40, 24)]);
        assert_eq!(owners.take(1), None);
        owners.give(Pages { owner: 70, count: 3 });
        owners.give(Pages { owner: 80, count: 5 });
        assert_eq!([owners.take(5), owners.take(5)], [pages(80, 5), pages(70, 3)]);
        assert_eq!(owners.take(64), None);
    }

    proptest::proptest! {
        /// No number is assigned twice; every number is either assigned or free.
        #[test]
        fn numbers_of_pages_are_unique(
            steps in proptest::collection::vec((1..80u32, 0..3u8, proptest::prelude::any::<u16>()), 1..300),
        ) {
            let mut owners = PageOwners::new(1024);
            let (mut held, mut taken) = (Vec::<Pages>::new(), std::collections::BTreeSet::new());
            for (wanted, what, which) in steps {
                if what == 0 && !held.is_empty() {
                    let mut pages = held.swap_remove(usize::from(which) % held.len());
                    let gone = 1 + u32::from(which) % pages.count;
                    let part = Pages { owner: pages.owner, count: gone };
                    owners.give(part);
                    (part.owner..part.owner + gone).for_each(|owner| assert!(taken.remove(&owner)));
                    (pages.owner, pages.count) = (pages.owner + gone, pages.count - gone);
                    held.extend((pages.count > 0).then_some(pages));
                } else if let Some(pages) = owners.take(wanted) {
                    assert!((1..=wanted).contains(&pages.count) && pages.owner + pages.count <= 1024);
                    assert!((pages.owner..pages.owner + pages.count).all(|owner| taken.insert(owner)));
                    held.push(pages);
                } else {
                    assert_eq!(taken.len(), 1024);
                }
            }
        }
    }

    #[test]
    fn blocks_leave_in_the_order_of_their_times() {
        let kind = Kernel {
            name: "slab".into(),
            share: 0.1,
            orders: vec![(0, 1)],
            lifetime: Spread::Uniform(1e9, 120e9),
            reclaimable: false,
            stacks: false,
            permanent: false,
        };
        let (mut random, mut population) = (Random::new(1), Population::new(&kind, 1000, false));
        (0..100).for_each(|owner| population.hold(owner, Order::BASE, 0.0, &mut random));
        assert_eq!(population.frames, 100);
        assert_eq!(population.due(29.0), None);
        let half = (0..).map_while(|_| population.due(60.0)).count();
        assert!((35..65).contains(&half), "{half}");
        // One that would go now takes the place of those that have gone.
        population.hold(7, Order::BASE, 40.0 - 120.0, &mut random);
        assert_eq!(population.due(60.0), Some((7, Order::BASE)));
        assert!(population.give_one().is_some(), "before its time");
        assert_eq!((0..).map_while(|_| population.due(150.0)).count(), 99 - half);
        assert_eq!((population.frames, population.give_one()), (0, None));
    }
}
