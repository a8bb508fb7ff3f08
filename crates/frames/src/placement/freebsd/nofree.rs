//! Pages that are never freed come from a superpage of their own, one after the other
//! (`vm_page_alloc_nofree_domain`, D45863).
//!
//! Scattered over memory, each of them would pollute a superpage forever.

use super::{FreeBsd, Pool};
use crate::layout::Frame;
use crate::placement::Request;
use crate::table::{FrameTable, Owner};
use crate::{Mobility, Order};

/// The frames of a superpage that are left to allocate.
#[derive(Clone, Debug, Default)]
pub(super) struct NoFree {
    next: u32,
    end: u32,
}

impl NoFree {
    pub(super) fn left(&self) -> u64 {
        u64::from(self.end - self.next)
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = Frame> {
        (self.next..self.end).map(Frame)
    }

    /// Takes the next frame off the cached blocks that the rest is kept in.
    fn bump(&mut self, table: &mut FrameTable) -> Frame {
        let frame = Frame(self.next);
        let mut order = table.order(frame);
        table.set_inside(frame);
        while order > Order::BASE {
            order = order.halved();
            table.set_cached(frame.offset(order.frames()), order, Pool::Direct as u8);
        }
        self.next += 1;
        frame
    }
}

impl FreeBsd {
    /// Allocates a single frame that will never be freed, unmovable, near others of its kind. From
    /// the request its node and highest zone count; `None` if no superpage is free for the next
    /// ones and nothing else is either.
    pub fn alloc_nofree(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        let zonelist = self.zonelists.get(request.node, request.highest_zone);
        let domain = self.lists[*zonelist.first()?].domain;
        if self.domains[domain].nofree.left() == 0 {
            self.refill_nofree(table, request);
        }
        let frame = if self.domains[domain].nofree.left() > 0 {
            self.domains[domain].nofree.bump(table)
        } else {
            // No superpage left: as any other page.
            let single = Request { order: Order::BASE, page: None, ..*request };
            self.take_anywhere(table, &single)?
        };
        self.counts.nofree_frames += 1;
        table.allocate(frame, Order::BASE, Mobility::Unmovable, owner);
        Some(frame)
    }

    /// Sets a superpage of the request's domain aside.
    fn refill_nofree(&mut self, table: &mut FrameTable, request: &Request) {
        let zones = self.zonelists.get(request.node, request.highest_zone).to_vec();
        let wanted = self.lists[zones[0]].domain;
        for zone in zones {
            let (lists, domain) = self.at(zone);
            if lists.domain != wanted {
                continue;
            }
            if let Some(frame) = lists.take(table, domain, Order::HUGE, Pool::Direct) {
                table.set_cached(frame, Order::HUGE, Pool::Direct as u8);
                domain.nofree = NoFree { next: frame.0, end: frame.offset(Order::HUGE.frames()).0 };
                return;
            }
        }
    }
}
