//! The trees of one zone, and which one serves a request.

use alloc::vec::Vec;

use super::tree::Tree;
use super::{Class, Counts};
use crate::Order;
use crate::free_area::End;
use crate::layout::{Frame, Zone};
use crate::placement::Request;
use crate::placement::zonelist::Depth;
use crate::table::FrameTable;

/// Trees of the class that are compared near the last one, and anywhere.
const BEST_OF_NEAR: usize = 3;
const BEST_OF_ALL: usize = 8;
/// Blocks that a CPU takes from a tree that it fell back on before it looks again whether there is a
/// better one. A search over all trees for each block would cost more than the block.
const STAY: u32 = 32;
/// Near are this many of all trees (a sixteenth).
const NEAR: usize = 16;

/// A zone's trees.
#[derive(Clone, Debug)]
pub(super) struct ClassZone {
    pub(super) zone: Zone,
    pub(super) trees: Vec<Tree>,
    pub(super) free_frames: u64,
    size: Order,
    /// By CPU and class, the tree that it has reserved.
    slots: Vec<[Option<usize>; Class::ALL.len()]>,
    /// The same of trees that were fallen back on, and how many blocks more may come from there.
    fallen: Vec<[(usize, u32); Class::ALL.len()]>,
}

impl ClassZone {
    pub(super) fn new(zone: &Zone, size: Order) -> ClassZone {
        let first = zone.start.align_down(size).0;
        let starts = (u64::from(first)..u64::from(zone.end.0)).step_by(size.frames() as usize);
        let trees = starts.map(|start| {
            let end = (start + size.frames()).min(u64::from(zone.end.0));
            Tree::new(Frame(zone.start.0.max(start as u32))..Frame(end as u32))
        });
        let (zone, trees) = (zone.clone(), trees.collect());
        ClassZone { zone, trees, free_frames: 0, size, slots: Vec::new(), fallen: Vec::new() }
    }

    pub(super) fn tree_of(&self, frame: Frame) -> usize {
        ((frame.0 >> self.size.get()) - (self.zone.start.0 >> self.size.get())) as usize
    }

    /// Memory that came after the start.
    pub(super) fn add(&mut self, frame: Frame, order: Order) {
        let at = self.tree_of(frame);
        self.trees[at].capacity += order.frames();
    }

    pub(super) fn start(&mut self, table: &FrameTable) {
        self.trees.iter_mut().for_each(|tree| tree.start(table));
    }

    /// Frees a block that is on no list.
    pub(super) fn give(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.free_frames += order.frames();
        let at = self.tree_of(frame);
        let tree = &mut self.trees[at];
        let (frame, order) = tree.area.merge(table, frame, order, |_, _, _| true);
        tree.area.insert(table, frame, order, 0, End::Head);
        tree.settle();
    }

    /// Takes a free block off its list, at any position.
    pub(super) fn remove(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let at = self.tree_of(frame);
        let tree = &mut self.trees[at];
        let order = tree.area.remove(table, frame);
        // The caller fills a block that it takes this way with movable pages.
        tree.class.get_or_insert(Class::Movable);
        self.free_frames -= order.frames();
        order
    }

    pub(super) fn allows(&self, request: &Request, depth: Depth) -> bool {
        let mark = match depth {
            Depth::Low => self.zone.span.watermarks.low,
            Depth::Min => self.zone.span.watermarks.min,
            Depth::All => return true,
        };
        let kept = mark + self.zone.span.lowmem_reserve[request.highest_zone as usize];
        self.free_frames > kept + request.order.frames() - 1
    }

    /// A block for a request of `class` on `cpu`.
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        class: Class,
        cpu: u16,
        counts: &mut Counts,
    ) -> Option<Frame> {
        let cpu = usize::from(cpu);
        if self.slots.len() <= cpu {
            self.slots.resize(cpu + 1, [None; Class::ALL.len()]);
            self.fallen.resize(cpu + 1, [(0, 0); Class::ALL.len()]);
        }
        let reserved = self.slots[cpu][class as usize];
        let at = match reserved.filter(|&at| self.trees[at].serves(order, class)) {
            Some(at) => at,
            None => self.go_on(order, class, cpu).or_else(|| {
                counts.searches += 1;
                let found = self.reserve(order, class, cpu, counts);
                found.or_else(|| self.fall_back(order, class, cpu, counts))
            })?,
        };
        let frame = self.trees[at].area.take_smallest(table, order, 0)?;
        self.free_frames -= order.frames();
        Some(frame)
    }

    /// The tree that the CPU fell back on last, while it may stay there.
    fn go_on(&mut self, order: Order, class: Class, cpu: usize) -> Option<usize> {
        let (at, left) = &mut self.fallen[cpu][class as usize];
        let tree = &self.trees[*at];
        // One that came free meanwhile is to be reserved, and not used in passing.
        let stays = *left > 0 && tree.class.is_some() && tree.area.has_block(order);
        *left = if stays { *left - 1 } else { 0 };
        stays.then_some(*at)
    }

    /// Reserves another tree of the class for a CPU, or an unassigned one. What it had stays its
    /// own if there is none.
    fn reserve(
        &mut self,
        order: Order,
        class: Class,
        cpu: usize,
        counts: &mut Counts,
    ) -> Option<usize> {
        let last = self.slots[cpu][class as usize];
        let near = (self.trees.len() / NEAR).max(1);
        let start = last.unwrap_or(0).saturating_sub(near / 2);
        let own = |tree: &Tree| !tree.reserved && tree.serves(order, class);
        let free = |tree: &Tree| tree.class.is_none() && tree.area.has_block(order);
        let at = self
            .best(start, near, BEST_OF_NEAR, own, counts)
            .or_else(|| self.best(start, self.trees.len(), BEST_OF_ALL, own, counts))
            .or_else(|| self.best(start, self.trees.len(), 1, free, counts))?;
        if let Some(last) = last {
            self.trees[last].reserved = false;
            self.trees[last].settle();
        }
        let tree = &mut self.trees[at];
        (tree.reserved, tree.class) = (true, Some(class));
        self.slots[cpu][class as usize] = Some(at);
        Some(at)
    }

    /// The fittest of the first `of` trees that will do, among `trees` from `start` on.
    fn best(
        &self,
        start: usize,
        trees: usize,
        of: usize,
        will_do: impl Fn(&Tree) -> bool,
        counts: &mut Counts,
    ) -> Option<usize> {
        let all = (start..self.trees.len()).chain(0..start).take(trees);
        let looked_at = all.inspect(|_| counts.searched += 1);
        let candidates = looked_at.filter(|&at| will_do(&self.trees[at])).take(of);
        candidates.min_by_key(|&at| self.trees[at].fit())
    }

    /// A tree that is not the CPU's to have: reserved by others for the class; reserved for a lower
    /// class, to steal from; of a higher class, to demote; of a lower one. Each time the freest.
    fn fall_back(
        &mut self,
        order: Order,
        class: Class,
        cpu: usize,
        counts: &mut Counts,
    ) -> Option<usize> {
        let rank = |tree: &Tree| {
            let other = tree.class?;
            tree.area.has_block(order).then(|| match other.cmp(&class) {
                core::cmp::Ordering::Equal => 0,
                core::cmp::Ordering::Less if tree.reserved => 1,
                core::cmp::Ordering::Greater => 2,
                core::cmp::Ordering::Less => 3,
            })
        };
        counts.searched += self.trees.len() as u64;
        let ranked = self.trees.iter().enumerate().filter_map(|(at, tree)| {
            let used = tree.capacity.saturating_sub(tree.area.free_frames());
            Some(((rank(tree)?, used), at))
        });
        let ((rank, _), at) = ranked.min()?;
        match rank {
            1 | 3 => counts.stolen += 1,
            2 => {
                counts.demoted += 1;
                self.demote(at, class);
            }
            _ => {}
        }
        self.fallen[cpu][class as usize] = (at, STAY);
        Some(at)
    }

    /// Gives a tree to another class, and ends the reservation that a CPU has of it.
    fn demote(&mut self, at: usize, class: Class) {
        let tree = &mut self.trees[at];
        (tree.class, tree.reserved) = (Some(class), false);
        for slot in self.slots.iter_mut().flatten().filter(|slot| **slot == Some(at)) {
            *slot = None;
        }
    }

    /// # Panics
    /// If trees, slots and the table contradict each other.
    pub(super) fn validate(&self, table: &FrameTable) {
        self.trees.iter().for_each(|tree| tree.validate(table));
        let free: u64 = self.trees.iter().map(|tree| tree.area.free_frames()).sum();
        assert_eq!(free, self.free_frames, "free frames of the zone");
        let mut reserved: Vec<usize> =
            self.slots.iter().flatten().filter_map(|slot| *slot).collect();
        reserved.sort_unstable();
        let marked = self.trees.iter().enumerate().filter(|(_, tree)| tree.reserved);
        assert!(marked.map(|(at, _)| at).eq(reserved), "trees that are reserved");
        for slots in &self.slots {
            for (class, slot) in Class::ALL.into_iter().zip(slots) {
                assert!(slot.is_none_or(|at| self.trees[at].class == Some(class)), "{class:?}");
            }
        }
    }
}
