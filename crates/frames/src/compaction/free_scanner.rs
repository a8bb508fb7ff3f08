//! The free scanner: from the top of the zone, free pages to move to (`isolate_freepages`).

use super::zone::Run;
use super::{CLUSTER, Compactable, Mode, PAGEBLOCK, Pages};
use crate::layout::Frame;
use crate::table::State;
use crate::{MigrateType, Order};

impl<P: Compactable, S: Pages> Run<'_, '_, P, S> {
    /// Isolates free pages until there are as many as pages to move, or the scanners meet.
    ///
    /// While it finds nothing, an asynchronous run checks only every 32nd frame, a synchronous one
    /// at every second, every fourth and so on, up to that.
    pub(super) fn isolate_targets(&mut self) {
        let zone_end = self.memory.zone().end.0;
        let mut stride = if self.control.mode == Mode::Async { CLUSTER as u32 } else { 1 };
        let mut at = self.free.0;
        let mut block = self.free.align_down(Order::HUGE).0;
        let lowest = self.migrate.align_down(Order::HUGE).0 + PAGEBLOCK;
        while block >= lowest {
            let end = (block + PAGEBLOCK).min(zone_end);
            let start = Frame(block);
            if self.is_populated(start) && self.is_suitable_target(start) && !self.skips(start) {
                let before = self.targets.len();
                let through = self.isolate_targets_in(&mut at, end, stride);
                if through {
                    self.hints.pass_free(start);
                }
                if self.targets.len() >= self.sources.len() {
                    if through {
                        at = block - PAGEBLOCK;
                    }
                    break;
                }
                if !through {
                    break;
                }
                let found = self.targets.len() > before;
                stride = if found { 1 } else { (stride * 2).min(CLUSTER as u32) };
            }
            block -= PAGEBLOCK;
            at = block;
        }
        self.free = Frame(at);
    }

    /// Pages move to movable pageblocks alone, and never into a large free block, which is what
    /// compaction is to make (`suitable_migration_target`).
    fn is_suitable_target(&self, block: Frame) -> bool {
        let table = &self.memory.table;
        if table.state(block) == State::Free && table.order(block) >= Order::HUGE {
            return false;
        }
        self.control.ignore_block_type
            || matches!(
                self.memory.placement.pageblock_type(block),
                MigrateType::Movable | MigrateType::Cma
            )
    }

    /// Isolates the free blocks of one pageblock from `at` on, and leaves there how far it came;
    /// true if that is the end (`isolate_freepages_block`).
    fn isolate_targets_in(&mut self, at: &mut u32, end: u32, stride: u32) -> bool {
        while *at < end {
            self.cost.free_scanned += 1;
            let here = Frame(*at);
            let table = &mut *self.memory.table;
            match table.state(here) {
                State::Allocated => *at += table.order(here).frames() as u32 - 1,
                State::Free => {
                    let (placement, zone) = (&mut *self.memory.placement, self.memory.zone);
                    let Some(order) = placement.isolate_free(table, zone, here) else { break };
                    let frames = order.frames() as u32;
                    self.targets.extend((here.0..here.0 + frames).map(Frame));
                    self.cost.free_scanned += u64::from(frames) - 1;
                    self.cost.isolated += u64::from(frames);
                    if self.targets.len() >= self.sources.len() {
                        *at += frames;
                        break;
                    }
                    *at += frames - 1;
                }
                _ => {}
            }
            *at += stride;
        }
        *at = (*at).min(end);
        *at == end
    }
}
