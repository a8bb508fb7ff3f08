//! A machine whose demand comes from a recording: allocations and frees, and their times, are
//! inputs. The machine decides what is reclaimed and what is moved, with the same
//! daemons, lists and scanners as under a scenario.

use prairie_frames::compaction::Cost;
use prairie_frames::layout::LayoutError;
use prairie_frames::placement::Request;
use prairie_frames::placement::linux::Linux;
use prairie_frames::{Frame, FrameTable, Layout, Mobility, Order};

use super::Machine;
use super::compact::{Compaction, Movable};
use super::compactable::compactable;
use super::files::Slot;
use super::lru::Lru;
use super::memory::Memory;
use super::page::{PageId, Pages, Use};
use super::process::{Place, Process};
use super::scenario::Scenario;
use prairie_model::allocator::Allocator;
use prairie_model::allocator::MachinePlacement;

/// The file that all recorded page cache is of.
const FILE: u32 = 0;
/// The process that all recorded anonymous memory is of.
const PROCESS: usize = 0;

/// The purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Page cache; written to, or read.
    File {
        /// Whether it is dirty from the start.
        dirty: bool,
    },
    /// Memory of a process.
    Anonymous,
    /// Anything that reclaim and compaction leave alone.
    Other,
}

/// A block that the recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedBlock {
    /// A page of the file, which may have been reclaimed meanwhile.
    File(u32),
    /// A page of the process, which may have been swapped out meanwhile.
    Anonymous(u32),
    /// A block that stays.
    Other(PageId),
}

/// Memory in the middle of a recording.
pub struct ResumedMemory {
    /// The zones.
    pub layout: Layout,
    /// The state of every frame, with room for [`Pages::owners`].
    pub table: FrameTable,
    /// The placement, as the table says.
    pub linux: Linux,
    /// Pages of page cache and of processes that are wanted in all, at most.
    pub pages: u32,
}

impl Machine {
    /// A machine on memory that is already in use. Its scenario has neither processes nor files.
    ///
    /// # Errors
    /// If the scenario's memory makes no layout.
    pub fn resume(
        scenario: &Scenario,
        system: &Allocator,
        resumed: ResumedMemory,
    ) -> Result<Machine, LayoutError> {
        let mut machine = Machine::new(scenario, system)?;
        let ResumedMemory { layout, table, linux, pages } = resumed;
        let nodes = layout.zones().iter().map(|zone| usize::from(zone.span.node)).collect();
        machine.lru = Lru::new(nodes, false);
        machine.compaction = Compaction::new(&layout, scenario, false);
        let placement = MachinePlacement::Linux(Box::new(linux));
        machine.memory = Memory {
            reserved: (0, 0),
            pages: Pages::new(layout.frames()),
            layout,
            table,
            placement,
        };
        machine.add_recorded_file(pages);
        machine.processes = vec![Process::idle(pages)];
        Ok(machine)
    }

    /// The placement under it, which is Linux's.
    pub fn linux(&mut self) -> &mut Linux {
        match &mut self.memory.placement {
            MachinePlacement::Linux(linux) => linux,
            _ => unreachable!("resumed with Linux's"),
        }
    }

    /// The state of every frame.
    pub fn table(&mut self) -> &mut FrameTable {
        &mut self.memory.table
    }

    /// Meets a request of a recording as the machine can; `number` is its own among the pages.
    pub fn demand(
        &mut self,
        request: &Request,
        wanted: Purpose,
        number: u32,
    ) -> Option<RecordedBlock> {
        self.slice = super::Slice { cpu: request.cpu, ..super::Slice::default() };
        let id = self.allocate(request)?;
        let (used_as, owner, index) = match wanted {
            Purpose::File { .. } => (Use::File, FILE, number),
            Purpose::Anonymous => (Use::Anonymous, PROCESS as u32, number),
            Purpose::Other => (Use::Kernel, u32::MAX, 0),
        };
        self.memory.pages.set_use(id, used_as, owner, index);
        let held = match wanted {
            Purpose::File { .. } => {
                self.cache_recorded(FILE, number, id);
                RecordedBlock::File(number)
            }
            Purpose::Anonymous => {
                self.processes[PROCESS].set_place(number, id);
                RecordedBlock::Anonymous(number)
            }
            Purpose::Other => return Some(RecordedBlock::Other(id)),
        };
        let lists = self.lru.of_zone(self.memory.zone(id));
        self.lru.add(&mut self.memory.pages, lists, id);
        if wanted == (Purpose::File { dirty: true }) {
            self.dirty(id);
        }
        Some(held)
    }

    /// Ends the use of what a recording holds. Returns whether it was still in memory.
    pub fn let_go(&mut self, held: RecordedBlock, cpu: u16) -> bool {
        self.slice = super::Slice { cpu, ..super::Slice::default() };
        match held {
            RecordedBlock::File(index) => {
                let Some(id) = self.cached(FILE, index) else { return false };
                self.lru.remove(&mut self.memory.pages, id);
                self.uncache(FILE, index, Slot::Absent);
                self.free(id);
            }
            RecordedBlock::Anonymous(index) => match self.processes[PROCESS].place(index) {
                Place::Nowhere => return false,
                Place::Swap(slot) => {
                    self.swap.take(slot);
                    self.processes[PROCESS].forget_swapped(index);
                    return false;
                }
                Place::Memory(id) => {
                    self.lru.remove(&mut self.memory.pages, id);
                    self.processes[PROCESS].forget(index);
                    self.free(id);
                }
            },
            RecordedBlock::Other(id) => self.free(id),
        }
        true
    }

    /// Takes a block that was in use before the recording into the machine's account.
    pub fn adopt(&mut self, frame: Frame, order: Order) -> RecordedBlock {
        let id = self.memory.pages.begin(order, true);
        let owner = self.memory.pages.owner_of(id);
        self.memory.table.allocate(frame, order, Mobility::Unmovable, owner);
        self.memory.pages.set_use(id, Use::Kernel, u32::MAX, 0);
        RecordedBlock::Other(id)
    }

    /// Gives memory that is new to the machine to the tail of its free list.
    pub fn hand_over(&mut self, frame: Frame, order: Order) {
        let (table, linux) = match &mut self.memory {
            Memory { table, placement: MachinePlacement::Linux(linux), .. } => (table, linux),
            _ => unreachable!("resumed with Linux's"),
        };
        let end = prairie_frames::free_area::End::Tail;
        linux.give_to_lists(table, frame, order, prairie_frames::MigrateType::Movable, Some(end));
    }

    /// Cuts a block into single frames, which are then held one by one, in order.
    pub fn shatter(&mut self, id: PageId) -> Vec<RecordedBlock> {
        let frame = self.memory.frame(id);
        let order = self.memory.pages[id].order();
        self.memory.table.release(frame);
        self.memory.pages.end(id);
        (0..order.frames()).map(|at| self.adopt(frame.offset(at), Order::BASE)).collect()
    }

    /// The size of what is held.
    pub fn order_of(&self, id: PageId) -> Order {
        self.memory.pages[id].order()
    }

    /// Compacts all memory, as a write to `/proc/sys/vm/compact_memory` does (`compact_node`).
    pub fn compact_memory(&mut self) {
        let zones = 0..self.memory.layout.zones().len();
        let Memory { table, placement, pages, .. } = &mut self.memory;
        let compactor = self.compaction.compactor();
        let pages = &mut Movable { pages };
        let cost: Option<Cost> = compactable!(placement, placement => {
            compactor.whole(table, placement, pages, zones, None)
        });
        self.pay(cost.unwrap_or_default());
    }
}
