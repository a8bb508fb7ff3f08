//! The state of a machine while pages migrate, in which each request is one transaction at the
//! last-level cache.
//!
//! Everything physical is indexed by frame and line, as in a real cache: a private copy under the
//! old name and one under the new name are copies of different frames. What a copy holds is one
//! bit: whether it equals what was last written to the page that the frame belongs to. A protocol
//! that never depends on data needs no more.

use std::hash::{Hash, Hasher};

use super::table::Table;

/// Virtual pages of a machine that does not say otherwise: those of all models that are visited
/// whole.
pub const PAGES: usize = 2;
/// Frames of such a machine: each page can have a second one while it moves.
pub const FRAMES: usize = 4;
/// No frame: an empty translation, an empty slot.
pub const NONE: u8 = 0xff;

/// A private cache's right to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// No copy.
    Invalid,
    /// May be read. In the last-level cache: equal to memory.
    Shared,
    /// May be read and written; memory may be older. Stands for exclusive as well: from a clean
    /// exclusive copy a store makes a modified one without telling anyone.
    Modified,
    /// Modified, between the read and the write of a locked instruction.
    Locked,
}

/// A copy of a line: two bits of access, six of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell(u8);

impl Cell {
    /// No copy.
    pub const EMPTY: Cell = Cell(0);
    /// The bits of a copy; one is set.
    pub const VALID: u8 = 3;

    /// A copy with `data`.
    #[must_use]
    pub fn new(access: Access, data: u8) -> Cell {
        Cell(access as u8 | data << 2)
    }

    /// The permission.
    #[must_use]
    pub fn access(self) -> Access {
        match self.0 & 3 {
            0 => Access::Invalid,
            1 => Access::Shared,
            2 => Access::Modified,
            _ => Access::Locked,
        }
    }

    /// The data: 1 for the last write and 0 for older data; or a value.
    #[must_use]
    pub fn data(self) -> u8 {
        self.0 >> 2
    }

    /// All of it.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is a copy.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.0 & 3 != 0
    }

    /// Whether it is the only up-to-date copy.
    #[must_use]
    pub fn is_owned(self) -> bool {
        self.0 & 2 != 0
    }

    /// The same copy with other data.
    #[must_use]
    pub fn with_data(self, data: u8) -> Cell {
        Cell(self.0 & 3 | data << 2)
    }
}

/// A request of an agent to the last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Nothing.
    #[default]
    None,
    /// A load that missed, or a DMA read.
    Read,
    /// A store that missed or needs ownership: part of the line is overwritten. Or a DMA write of
    /// part of a line.
    Write,
    /// A DMA write of a whole line.
    WholeLine,
    /// A locked instruction's read, with ownership.
    Lock,
}

/// A request on its way to the last-level cache, already translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The kind.
    pub kind: Kind,
    /// The virtual page.
    pub page: u8,
    /// The line in it.
    pub line: u8,
    /// The name it was translated to.
    pub frame: u8,
}

impl Request {
    /// No request.
    pub const NONE: Request = Request { kind: Kind::None, page: 0, line: 0, frame: NONE };

    /// Whether there is one.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.kind != Kind::None
    }
}

/// A victim on its way to the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteBack {
    /// The name it is written back under; [`NONE`] if there is none.
    pub frame: u8,
    /// The line.
    pub line: u8,
    /// The data.
    pub data: u8,
}

impl WriteBack {
    /// No victim.
    pub const NONE: WriteBack = WriteBack { frame: NONE, line: 0, data: 0 };
}

/// A line that the engine has read and not yet written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The line; [`NONE`] if there is none.
    pub line: u8,
    /// The data.
    pub data: u8,
}

impl Held {
    /// No line.
    pub const NONE: Held = Held { line: NONE, data: 0 };
}

/// How far an agent has come in invalidating its translation of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Invalidation {
    /// Not begun.
    #[default]
    None,
    /// The translation is gone; requests under the old name are still under way.
    Draining,
    /// Acknowledged, but the operating system has not seen it.
    Sent,
    /// Nothing of the old name is left, and the operating system knows.
    Done,
}

/// A core with its private cache and TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Core<const L: usize, const P: usize = PAGES, const F: usize = FRAMES> {
    /// Its private cache.
    pub copies: [[Cell; L]; F],
    /// The frame it holds each page to be in.
    pub tlb: [u8; P],
    /// The value that an unfinished page walk has read.
    pub walk: [u8; P],
    /// Its miss.
    pub request: Request,
    /// Its victim.
    pub write_back: WriteBack,
    /// Its part in the present change of each page's translation.
    pub invalidation: [Invalidation; P],
}

impl<const L: usize, const P: usize, const F: usize> Core<L, P, F> {
    /// Whether it is in the middle of a locked instruction. All copies are checked, side by side:
    /// it is rare.
    #[must_use]
    pub fn holds_locked(&self) -> bool {
        let locked = |cell: &Cell| cell.bits() & Cell::VALID == Access::Locked as u8;
        self.copies.as_flattened().iter().fold(false, |any, cell| any | locked(cell))
    }

    /// The frame and line of an unfinished locked instruction.
    #[must_use]
    pub fn locked(&self) -> Option<(usize, usize)> {
        if !self.holds_locked() {
            return None;
        }
        let locked = |cell: &Cell| cell.access() == Access::Locked;
        let at = self.copies.as_flattened().iter().position(locked)?;
        Some((at / L, at % L))
    }
}

/// A device behind the IOMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device<const P: usize = PAGES> {
    /// The IOMMU's TLB.
    pub tlb: [u8; P],
    /// The device's own TLB, where it has one (ATS).
    pub own_tlb: [u8; P],
    /// A read under way.
    pub read: Request,
    /// A posted write under way: the device does not wait for it.
    pub posted: Request,
    /// The IOMMU's part in the present change of each page's translation.
    pub invalidation: [Invalidation; P],
}

/// The stage of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Not migrated yet, and not accessed.
    #[default]
    Waiting,
    /// In use, not migrating.
    Idle,
    /// In use, migrating.
    Migrating,
    /// In use, its migration being taken back.
    Aborting,
    /// In use; it was migrated, and stays where it is.
    Moved,
    /// Migrated, and only accessed by stale translations.
    Done,
}

impl Stage {
    /// Whether programs and devices use the page.
    #[must_use]
    pub fn in_use(self) -> bool {
        matches!(self, Stage::Idle | Stage::Migrating | Stage::Aborting | Stage::Moved)
    }
}

/// The operating system's state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Where it stands.
    pub stage: Stage,
    /// The frame that it is in, or leaves.
    pub home: u8,
    /// The frame that it moves into; [`NONE`] outside a migration.
    pub target: u8,
    /// The entry of the cores' page table.
    pub table: u8,
    /// The entry of the IOMMU's page table.
    pub io_table: u8,
}

impl Page {
    /// The translation that is to be established, and the one that goes away with it, while one
    /// changes.
    #[must_use]
    pub fn change(&self) -> Option<(u8, u8)> {
        match self.stage {
            Stage::Migrating => Some((self.target, self.home)),
            Stage::Aborting => Some((self.home, self.target)),
            _ => None,
        }
    }
}

/// Whom a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Owner {
    /// No page yet.
    Unused,
    /// A page that was migrated away from it: no agent may still reach it.
    Freed,
    /// The page with that number.
    Page0,
    /// The page with that number.
    Page1,
    /// The page with that number.
    Page2,
    /// The page with that number.
    Page3,
}

impl Owner {
    /// The owner that a page is.
    ///
    /// # Panics
    ///
    /// If the page does not exist: a machine has at most four.
    #[must_use]
    pub fn page(page: usize) -> Owner {
        [Owner::Page0, Owner::Page1, Owner::Page2, Owner::Page3][page]
    }

    /// The page that an owner is.
    #[must_use]
    pub fn of(self) -> Option<u8> {
        (self as u8).checked_sub(Owner::Page0 as u8)
    }
}

/// What went wrong in a step, for states do not show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A read returned, or a partial write merged with, what is not the last value written.
    Stale,
}

/// The whole machine: `C` cores, `D` devices, `L` lines a page, `P` pages in `F` frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<
    const C: usize,
    const D: usize,
    const L: usize,
    const P: usize = PAGES,
    const F: usize = FRAMES,
> {
    /// The cores. All alike; symmetry sorts them.
    pub cores: [Core<L, P, F>; C],
    /// The devices.
    pub devices: [Device<P>; D],
    /// Memory; and the last-level cache, where that is not modeled apart from it.
    pub memory: [[Cell; L]; F],
    /// The last-level cache: shared is clean, modified is dirty.
    pub llc: [[Cell; L]; F],
    /// The metadata table.
    pub table: Table<u8, P>,
    /// The line that the engine has read and not yet written, for each entry.
    pub held: [Held; P],
    /// Whether the engine has asked for a line that a core holds locked. It is next when the core
    /// unlocks it: no other locked instruction comes between.
    pub asked: [bool; P],
    /// Whether the slice of the destination's name has not heard of the last move of Ptr. (Only
    /// in a broken variant.)
    pub lagging: bool,
    /// The operating system's state.
    pub pages: [Page; P],
    /// Whom each frame belongs to.
    pub owners: [Owner; F],
    /// The value that each line of each page should have.
    pub last: [[u8; L]; P],
    /// What went wrong in the last step.
    pub fault: Fault,
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize> Hash
    for State<C, D, L, P, F>
{
    /// Bytes in a row: a hash of small fields one by one would cost more than the step.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut words = Words { hasher, word: 0, bits: 0 };
        for core in &self.cores {
            core.copies.iter().flatten().for_each(|cell| words.byte(cell.0));
            for page in 0..P {
                words.byte(core.tlb[page] & 15 | core.walk[page] << 4);
            }
            words.request(core.request);
            let WriteBack { frame, line, data } = core.write_back;
            words.bits(u64::from(frame & 15) | u64::from(line) << 4 | u64::from(data) << 12, 20);
            words.invalidations(&core.invalidation);
        }
        for device in &self.devices {
            for page in 0..P {
                words.byte(device.tlb[page] & 15 | device.own_tlb[page] << 4);
            }
            words.request(device.read);
            words.request(device.posted);
            words.invalidations(&device.invalidation);
        }
        self.memory.iter().flatten().for_each(|cell| words.byte(cell.0));
        self.llc.iter().flatten().for_each(|cell| words.byte(cell.0));
        for held in &self.held {
            words.bits(u64::from(held.line) | u64::from(held.data) << 8, 16);
        }
        self.last.iter().flatten().for_each(|&value| words.byte(value));
        for page in &self.pages {
            words.byte(page.stage as u8 | page.home << 4);
            words.byte(page.target & 15 | page.table << 4);
            words.bits(u64::from(page.io_table & 15), 4);
        }
        for &owner in &self.owners {
            words.bits(owner as u64, 3);
        }
        for &asked in &self.asked {
            words.bits(asked.into(), 1);
        }
        words.bits(u64::from(self.lagging) | (self.fault as u64) << 1, 2);
        words.finish();
        self.table.hash(hasher);
    }
}

/// Gathers small fields into words.
struct Words<'a, H> {
    hasher: &'a mut H,
    word: u64,
    bits: u32,
}

impl<H: Hasher> Words<'_, H> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bits(u64::from(byte), 8);
    }

    #[inline]
    fn invalidations(&mut self, of_pages: &[Invalidation]) {
        of_pages.iter().for_each(|&state| self.bits(state as u64, 2));
    }

    #[inline]
    fn request(&mut self, request: Request) {
        let Request { kind, page, line, frame } = request;
        let low = u64::from(kind as u8 | page << 3) | u64::from(frame & 15) << 5;
        self.bits(low | u64::from(line) << 9, 17);
    }

    #[inline]
    fn bits(&mut self, value: u64, bits: u32) {
        if self.bits + bits > 64 {
            self.hasher.write_u64(self.word);
            (self.word, self.bits) = (0, 0);
        }
        self.word |= value << self.bits;
        self.bits += bits;
    }

    fn finish(&mut self) {
        self.hasher.write_u64(self.word);
    }
}
