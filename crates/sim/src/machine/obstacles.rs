//! Obstacles to huge pages: aligned blocks by their least movable memory.

use prairie_frames::table::State;
use prairie_frames::{Frame, Order};
use serde::Serialize;

use super::Machine;
use super::page::Use;

/// Aligned blocks of one size in a zone. Each is counted once, under the first that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Obstacles {
    /// In use as huge pages.
    pub had: u64,
    /// With kernel memory in them, or memory that boot reserved.
    pub kernel: u64,
    /// With anonymous memory.
    pub anonymous: u64,
    /// With page cache.
    pub file: u64,
    /// With nothing in use but frames on per-CPU lists.
    pub per_cpu: u64,
    /// Wholly on the free lists.
    pub free: u64,
}

impl Machine {
    /// The blocks of `order` in each zone, by the zone's name. Time linear in frames.
    pub fn obstacles(&self, order: Order) -> Vec<(&'static str, Obstacles)> {
        let zones = self.memory.layout.zones().iter();
        let of_zone = |zone: &prairie_frames::layout::Zone| {
            let first = u64::from(zone.start.0).next_multiple_of(order.frames());
            let last = u64::from(zone.end.0).saturating_sub(order.frames());
            let mut obstacles = Obstacles::default();
            for start in (first..=last).step_by(order.frames() as usize) {
                self.count_obstacle(Frame(start as u32), order, &mut obstacles);
            }
            (zone.span.kind.name(), obstacles)
        };
        zones.filter(|zone| zone.start < zone.end && !zone.interleaved).map(of_zone).collect()
    }

    fn count_obstacle(&self, start: Frame, order: Order, obstacles: &mut Obstacles) {
        let (mut at, end) = (start, start.offset(order.frames()));
        let (mut kernel, mut anonymous, mut file, mut cached) = (false, false, false, false);
        while at < end {
            let table = &self.memory.table;
            match table.state(at) {
                State::Allocated => {
                    let page = &self.memory.pages[self.memory.pages.of_owner(table.owner(at))];
                    match page.used_as {
                        Use::HugeTlb if page.frames() >= order.frames() => {
                            obstacles.had += 1;
                            return;
                        }
                        Use::Anonymous => anonymous = true,
                        Use::File => file = true,
                        _ => kernel = true,
                    }
                }
                State::Cached => cached = true,
                State::Free => {}
                // No block begins here: one that began below reaches into this one.
                State::Inside => {
                    at = at.offset(1);
                    continue;
                }
                State::Reserved | State::Absent => {
                    kernel = true;
                    at = at.offset(1);
                    continue;
                }
            }
            at = at.offset(table.order(at).frames());
        }
        *match () {
            () if kernel => &mut obstacles.kernel,
            () if anonymous => &mut obstacles.anonymous,
            () if file => &mut obstacles.file,
            () if cached => &mut obstacles.per_cpu,
            () => &mut obstacles.free,
        } += 1;
    }
}
