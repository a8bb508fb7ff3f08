//! `classes`: trees of pageblocks kept by class and reserved by CPUs, after LLFree ("LLFree:
//! Scalable and Optionally-Persistent Page-Frame Allocation", 2023, and its classes since).
//!
//! Memory is divided into *trees* of some pageblocks. A tree serves one *class* of requests at a
//! time; what is wholly free again has none.
//!
//! ```text
//! class       Unmovable   kernel memory, reclaimable or not
//!             Movable     pages of programs and files
//!             Huge        movable blocks of 2 MiB and more
//! ```
//!
//! - Each CPU *reserves* a tree for each class and takes from it until it has no block left.
//! - Then it reserves another of the class: of three near the last one, or else of eight anywhere,
//!   the one that suits best. A tree that is more than half full suits better than an emptier one,
//!   and both better than one that is nearly full. Without any, a wholly free tree joins the class.
//! - If there is none either, the request goes to trees that others have reserved for its class, and
//!   then to other classes: it *steals* from a lower class, whose tree stays what it is, or
//!   *demotes* a tree of a higher class to its own, the freest.
//! - Nothing is ever moved, and there are no pageblock types, so that a demoted tree keeps pages of
//!   both classes until it is empty.
//!
//! What is ours: the first search starts at the lowest tree, whichever CPU asks, which keeps classes
//! together; and within a tree the buddy system of this crate stands for LLFree's counters and bit
//! fields, so that the smallest sufficient block is taken instead of the lowest. That all of it is
//! done without locks there has no counterpart here.

mod stepwise;
mod tree;
mod zone;

use alloc::vec;
use alloc::vec::Vec;

use self::zone::ClassZone;
use super::reached::{Reached, reach};
use super::zonelist::Zonelists;
use super::{Counter, Placement, Request};
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order};

/// The class of a request, and of the tree that serves it. The order is that of LLFree: a request
/// steals from lower classes and demotes higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Memory of the kernel.
    Unmovable = 0,
    /// Pages that can be moved, of less than 2 MiB.
    Movable = 1,
    /// The same of 2 MiB and more.
    Huge = 2,
}

impl Class {
    /// All of them, lowest first.
    pub const ALL: [Class; 3] = [Class::Unmovable, Class::Movable, Class::Huge];

    /// The class of a request.
    pub fn of(migrate_type: MigrateType, order: Order) -> Class {
        match migrate_type {
            MigrateType::Movable | MigrateType::Cma if order >= Order::HUGE => Class::Huge,
            MigrateType::Movable | MigrateType::Cma => Class::Movable,
            _ => Class::Unmovable,
        }
    }
}

/// The tunable part of [`Classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of a tree, from 4 MiB (order 10) to 1 GiB (order 18). The default of 14 is 32
    /// pageblocks, 64 MiB; LLFree can be built with 1 to 512 and has had 4, 8 and 32 as its default.
    pub tree: Order,
}

impl Default for Config {
    fn default() -> Config {
        Config { tree: Order::new(14).expect("64 MiB") }
    }
}

/// The allocator by classes.
#[derive(Clone, Debug)]
pub struct Classes {
    zones: Vec<ClassZone>,
    zonelists: Zonelists,
    counts: Counts,
    started: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reached: Reached,
    searches: u64,
    searched: u64,
    stolen: u64,
    demoted: u64,
}

impl Classes {
    /// An allocator for `layout` that has no memory yet.
    ///
    /// # Panics
    /// If a tree would not hold the largest free block, or be larger than 1 GiB.
    pub fn new(layout: &Layout, config: Config) -> Classes {
        let sizes = Order::LARGEST_FREE..=Order::GIGANTIC;
        assert!(sizes.contains(&config.tree), "a tree of order {}", config.tree);
        Classes {
            zones: layout.zones().iter().map(|zone| ClassZone::new(zone, config.tree)).collect(),
            zonelists: Zonelists::new(layout),
            counts: Counts::default(),
            started: false,
        }
    }

    /// Trees of each class, lowest first, and wholly free ones.
    pub fn trees(&self) -> [u64; Class::ALL.len() + 1] {
        let mut counts = [0; Class::ALL.len() + 1];
        for tree in self.zones.iter().flat_map(|zone| &zone.trees) {
            counts[tree.class.map_or(Class::ALL.len(), |class| class as usize)] += 1;
        }
        counts
    }

    fn zone_of(&self, frame: Frame) -> usize {
        let zone = self.zones.iter().position(|zone| zone.zone.contains(frame));
        zone.expect("a frame outside every zone")
    }
}

impl Placement for Classes {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame);
        let zone = &mut self.zones[zone];
        if self.started {
            zone.add(frame, order);
        }
        zone.give(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        self.started = true;
        self.zones.iter_mut().for_each(|zone| zone.start(table));
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        reach(self, table, request, owner, |classes| &mut classes.counts.reached)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, _cpu: u16) {
        let order = table.release(frame);
        let zone = self.zone_of(frame);
        self.zones[zone].give(table, frame, order);
    }

    /// By the class of the tree: huge ones and wholly free ones count as movable.
    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let count = |is_unmovable: bool| {
            let trees = self.zones[zone].trees.iter();
            let mine = trees.filter(|tree| (tree.class == Some(Class::Unmovable)) == is_unmovable);
            let mut counts = vec![0; Order::LARGEST_FREE.index() + 1];
            for tree in mine {
                counts.iter_mut().zip(tree.area.counts()).for_each(|(sum, blocks)| *sum += blocks);
            }
            counts
        };
        vec![(MigrateType::Unmovable, count(true)), (MigrateType::Movable, count(false))]
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.zones[zone].free_frames
    }

    /// Trees that CPUs have reserved are free memory like any other here.
    fn cached_frames(&self) -> u64 {
        0
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let [unmovable, movable, huge, free] = self.trees();
        let c = &self.counts;
        let mut all = vec![
            counter("trees_unmovable", "trees that serve kernel memory", unmovable),
            counter("trees_movable", "trees that serve movable pages", movable),
            counter("trees_huge", "trees that serve huge pages", huge),
            counter("trees_free", "wholly free trees", free),
            counter("searches", "times that a tree was looked for", c.searches),
            counter("searched", "trees looked at in those searches", c.searched),
            counter("stolen", "times that a CPU went over to a tree of a lower class", c.stolen),
            counter("demoted", "trees that passed to a lower class while in use", c.demoted),
        ];
        all.extend(c.reached.counters());
        all
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        self.zones.iter().for_each(|zone| zone.validate(table));
    }
}
