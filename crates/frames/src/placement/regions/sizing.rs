//! How large the regions should be: when the border should move, and how far.
//!
//! [`decide`] and [`goes_on`] look at nothing but what the regions have; `border.rs` acts.

use super::border::PAGEBLOCK;
use super::{Region, Regions};
use crate::layout::{Frame, Zone};
use crate::placement::Request;
use crate::table::FrameTable;
use crate::{Order, ZoneKind};

/// How much a region has and wants, in frames.
#[derive(Clone, Copy, Debug)]
struct Stock {
    available: u64,
    low: u64,
    target: u64,
    high: u64,
}

/// What `maintain` does with a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Stay,
    /// Until the unmovable region has its target, or the movable one is at its low mark.
    Grow,
    /// Until the unmovable region is down to its target.
    Shrink,
    /// Until the movable region has its target, or the unmovable one is at its low mark.
    Yield,
}

/// Decides from what the regions have.
fn decide(unmovable: Stock, movable: Stock) -> Move {
    if unmovable.available < unmovable.low {
        Move::Grow
    } else if unmovable.available > unmovable.high {
        Move::Shrink
    } else if movable.available < movable.low {
        Move::Yield
    } else {
        Move::Stay
    }
}

/// Whether to go on with `this` for one pageblock more.
fn goes_on(this: Move, unmovable: Stock, movable: Stock) -> bool {
    match this {
        Move::Stay => false,
        Move::Grow => {
            unmovable.available < unmovable.target && movable.available >= movable.low + PAGEBLOCK
        }
        Move::Shrink => unmovable.available >= unmovable.target.saturating_add(PAGEBLOCK),
        Move::Yield => {
            movable.available < movable.target && unmovable.available >= unmovable.low + PAGEBLOCK
        }
    }
}

impl Regions {
    /// Moves each node's border towards what its regions need, off the path of any allocation.
    pub(super) fn resize(&mut self, table: &mut FrameTable) {
        for node in 0..self.nodes.len() {
            let stocks = |regions: &Regions| Region::ALL.map(|region| regions.stock(node, region));
            let [unmovable, movable] = stocks(self);
            let this = decide(unmovable, movable);
            let mut left = self.config.step_pageblocks;
            let wanted = unmovable.target.saturating_sub(unmovable.available).div_ceil(PAGEBLOCK);
            let border = u64::from(self.nodes[node].border.0);
            let until =
                border + wanted.min(left).saturating_mul(PAGEBLOCK).min(self.nodes[node].frames);
            let until = Frame(until.min(u64::from(u32::MAX)) as u32);
            while left > 0 {
                let [unmovable, movable] = stocks(self);
                if !goes_on(this, unmovable, movable) {
                    break;
                }
                let passed = match this {
                    Move::Stay => None,
                    Move::Grow => match self.evict_strays(table, node, until) {
                        Some(frames) => Some(frames),
                        None => self.grow(table, node, until),
                    },
                    Move::Shrink | Move::Yield => self.shrink(table, node),
                };
                let Some(frames) = passed else { break };
                // Passing a hole is no step.
                left -= u64::from(frames > 0);
            }
        }
    }

    /// Makes room at once for a request that nothing could serve. Pages are moved only if
    /// `may_move`. Returns whether a block that is large enough came free.
    pub(super) fn resize_on_failure(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        may_move: bool,
    ) -> bool {
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
                return true;
            }
        }
        false
    }

    /// How much a region of a node has for ordinary requests, and what it should have. Memory
    /// that lowmem reserves keep from ordinary requests does not count.
    fn stock(&self, node: usize, region: Region) -> Stock {
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
