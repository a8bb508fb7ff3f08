//! What the regions have, and carrying out what the resizer decides: `resizer.rs` decides from what
//! is observed here, `border.rs` moves the border by one pageblock.

use super::border::PAGEBLOCK;
use super::resizer::{Resize, Stock, View};
use super::{Decision, Node, Region, Regions};
use crate::layout::{Frame, Zone};
use crate::placement::Request;
use crate::table::FrameTable;
use crate::{Order, ZoneKind};

impl Regions {
    /// Wakes the resizer up, as periodic reclaim does: it moves each node's border towards what its
    /// regions need, off the path of any allocation.
    pub(super) fn resize(&mut self, table: &mut FrameTable) {
        self.counts.wake_ups += 1;
        let elapsed_ns = self.now_ns.saturating_sub(self.woken_ns);
        self.woken_ns = self.now_ns;
        for node in 0..self.nodes.len() {
            self.nodes[node].pressure.iter_mut().for_each(|pressure| pressure.wake_up(elapsed_ns));
            let view = self.view(node);
            let (refused, moved) =
                (self.nodes[node].resizer.turns_refused(), self.counts.pages_moved);
            let this = self.nodes[node].resizer.decide(&view);
            let steps = if this == Resize::Stay { 0 } else { self.carry_out(table, node, this) };
            if steps > 0 {
                self.nodes[node].resizer.moved(this);
                self.counts.resizes += 1;
            }
            let Node { number, border, ref resizer, .. } = self.nodes[node];
            let decision = Decision {
                node: number,
                view,
                resize: if steps > 0 { this } else { Resize::Stay },
                refused: resizer.turns_refused() > refused,
                steps,
                pages_moved: self.counts.pages_moved - moved,
                waited: 0,
                border,
            };
            self.record.note(self.counts.waited, decision);
        }
    }

    /// Whether a node's resizer has anything to do, by the kernel's number for the node.
    pub fn is_resize_due(&self, node: u16) -> bool {
        let node = self.nodes.iter().position(|n| n.number == node);
        node.is_some_and(|node| self.nodes[node].resizer.is_due(&self.view(node)))
    }

    /// What the resizer of a node looks at.
    fn view(&self, node: usize) -> View {
        let [unmovable, movable] = Region::ALL.map(|region| self.stock(node, region));
        let Node { ref zones, ref pressure, .. } = self.nodes[node];
        View {
            size: zones.iter().map(|&zone| self.zones[zone].memory[0]).sum(),
            available: [unmovable.available, movable.available],
            low: [unmovable.low, movable.low],
            high: unmovable.high,
            pressure: [pressure[0].share(), pressure[1].share()],
        }
    }

    /// Moves a node's border pageblock by pageblock as decided, a bounded number of them. Returns
    /// how many steps it came.
    fn carry_out(&mut self, table: &mut FrameTable, node: usize, this: Resize) -> u64 {
        self.drain_lists(table);
        let stocks = |regions: &Regions| Region::ALL.map(|region| regions.stock(node, region));
        let [unmovable, _] = stocks(self);
        let mut left = self.config.step_pageblocks;
        let beyond = if let Resize::Grow { beyond } = this { beyond } else { 0 };
        let target = unmovable.target.saturating_add(beyond);
        let wanted = target.saturating_sub(unmovable.available).div_ceil(PAGEBLOCK);
        let border = u64::from(self.nodes[node].border.0);
        let until =
            border + wanted.min(left).saturating_mul(PAGEBLOCK).min(self.nodes[node].frames);
        let until = Frame(until.min(u64::from(u32::MAX)) as u32);
        while left > 0 {
            let [unmovable, movable] = stocks(self);
            if !this.goes_on(unmovable, movable, PAGEBLOCK) {
                break;
            }
            let passed = match this {
                Resize::Stay => None,
                Resize::Grow { .. } => match self.evict_strays(table, node, until) {
                    Some(frames) => Some(frames),
                    None => self.grow(table, node, until),
                },
                Resize::Shrink | Resize::Yield { .. } => self.shrink(table, node),
            };
            let Some(frames) = passed else { break };
            // Passing a hole is no step.
            left -= u64::from(frames > 0);
        }
        self.config.step_pageblocks - left
    }

    /// Makes room at once for a request that nothing could serve. Pages are moved only if
    /// `may_move`. Returns whether a block that is large enough came free.
    pub(super) fn resize_on_failure(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        may_move: bool,
    ) -> bool {
        self.drain_lists(table);
        let here = self.node_index(request.node);
        for near in 0..self.nodes.len() {
            let node = self.nodes[here].nearest[near];
            let done = match Region::of(request.mobility) {
                Region::Unmovable => {
                    let border = self.plan_growth(table, node, request, may_move);
                    border.is_some_and(|border| self.grow_to(table, node, border))
                }
                Region::Movable => self.shrink_for(table, node, request),
            };
            if done {
                self.counts.waited += 1;
                let region = Region::of(request.mobility) as usize;
                self.nodes[here].pressure[region].waited += 1;
                return true;
            }
        }
        false
    }

    /// How much a region of a node has for ordinary requests, and what it should have. Memory
    /// that lowmem reserves keep from ordinary requests does not count.
    pub(super) fn stock(&self, node: usize, region: Region) -> Stock {
        let (mut available, mut low, mut high) = (0, 0, 0);
        for &zone in &self.nodes[node].zones {
            let zone = &self.zones[zone];
            let limits = &zone.limits[region as usize];
            let ordinary = match region {
                Region::Unmovable => ZoneKind::Normal,
                Region::Movable => ZoneKind::Movable,
            };
            let free = zone.space.frames(region);
            available += free.saturating_sub(limits.reserve[ordinary as usize]);
            low += limits.low;
            high += limits.high;
        }
        match region {
            Region::Unmovable => {
                let share = self.nodes[node].frames.saturating_mul(self.config.low_per_1024) / 1024;
                let low = low.max(share).max(PAGEBLOCK);
                Stock {
                    available,
                    low,
                    target: low.saturating_mul(self.config.target_lows),
                    high: low.saturating_mul(self.config.high_lows),
                }
            }
            Region::Movable => Stock { available, low, target: high.max(low) + PAGEBLOCK, high },
        }
    }

    /// The border at which a block for `request` would be free, if it is near enough and the
    /// pages in the way have somewhere to go.
    fn plan_growth(
        &self,
        table: &FrameTable,
        node: usize,
        request: &Request,
        may_move: bool,
    ) -> Option<Frame> {
        let mut border = self.nodes[node].border;
        let mut room = self.free_in(node, Region::Movable);
        let mut lower_is_clear = false;
        let mut left = self.config.failure_pageblocks;
        while left > 0 {
            let (start, zone) = self.next_pageblock(node, border)?;
            if zone.span.kind > request.highest_zone {
                return None;
            }
            let contents = self.contents(table, node, start, request.order);
            room = room.checked_sub(contents.free)?.checked_sub(contents.movable)?;
            if contents.movable > 0 && !may_move {
                return None;
            }
            border = start.offset(PAGEBLOCK);
            let lower = start.buddy(Order::HUGE);
            let completes_pair = contents.clear
                && lower < start
                && zone.contains(lower)
                && (lower_is_clear || table.is_free_block(lower, Order::HUGE));
            if contents.fits || (request.order == Order::LARGEST_FREE && completes_pair) {
                return Some(border);
            }
            lower_is_clear = contents.clear;
            // A hole is passed for nothing.
            left -= u64::from(table.block(start).present() > 0);
        }
        None
    }

    fn grow_to(&mut self, table: &mut FrameTable, node: usize, border: Frame) -> bool {
        while self.nodes[node].border < border {
            if self.grow(table, node, border).is_none() {
                return false;
            }
            self.counts.grown_on_failure += 1;
        }
        true
    }

    /// Gives back pageblocks until a zone that `request` may use has a block for it, as long as
    /// the unmovable region stays above its low mark.
    fn shrink_for(&mut self, table: &mut FrameTable, node: usize, request: &Request) -> bool {
        if request.order > Order::LARGEST_FREE {
            return false;
        }
        let mut left = self.config.failure_pageblocks;
        while left > 0 {
            let stock = self.stock(node, Region::Unmovable);
            let allowed = |(_, zone): (Frame, &Zone)| zone.span.kind <= request.highest_zone;
            if stock.available < stock.low + PAGEBLOCK
                || !self.last_pageblock(node).is_some_and(allowed)
            {
                return false;
            }
            let Some(frames) = self.shrink(table, node) else { return false };
            self.counts.shrunk_on_failure += 1;
            left -= u64::from(frames > 0);
            let mut zones = self.eligible(node, Region::Movable, request.highest_zone);
            if zones.any(|zone| self.zones[zone].space.has_block(Region::Movable, request.order)) {
                return true;
            }
        }
        false
    }
}
