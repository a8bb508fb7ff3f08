//! The state of each allocated block: its use, owner, and list.
//!
//! A page keeps its number when it is moved: the frame table has its location. Numbers below the
//! machine's frames are blocks whose parts never go apart. Numbers from there on are transparent
//! huge pages, which have an owner for each of their 512 frames, so that a placement may move them
//! in pieces.

use std::ops::{BitOr, Index, IndexMut};

use prairie_frames::table::Owner;
use prairie_frames::{BlockCounts, Order};
use serde::Serialize;

/// The number of a block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl PageId {
    /// No page.
    pub const NONE: PageId = PageId(u32::MAX);

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The use of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Use {
    /// Nothing: the number is free.
    #[default]
    Nothing,
    /// Heap and stack of a process.
    Anonymous,
    /// Page cache.
    File,
    /// Small objects of a kernel cache.
    Slab,
    /// A process's page tables.
    PageTable,
    /// A kernel stack.
    Stack,
    /// Anything else the kernel keeps for a while: network buffers, pipes, drivers.
    Kernel,
    /// User pages that a device has pinned.
    Pinned,
    /// The pool of persistent huge pages, and what a test module holds.
    HugeTlb,
}

impl Use {
    /// Number of uses.
    pub const COUNT: usize = 9;
}

/// One-bit facts of a page (`enum pageflags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// None of them.
    pub const NONE: Flags = Flags(0);
    /// On an active list (`PG_active`).
    pub const ACTIVE: Flags = Flags(1 << 0);
    /// Used once since the last scan (`PG_referenced`).
    pub const REFERENCED: Flags = Flags(1 << 1);
    /// A page table entry says that it was touched (the accessed bit).
    pub const YOUNG: Flags = Flags(1 << 2);
    /// To be written to its file or to swap (`PG_dirty`).
    pub const DIRTY: Flags = Flags(1 << 3);
    /// On its way to the disk (`PG_writeback`).
    pub const WRITEBACK: Flags = Flags(1 << 4);
    /// Was part of the working set when it was last active (`PG_workingset`).
    pub const WORKINGSET: Flags = Flags(1 << 5);
    /// Mapped by processes that execute it.
    pub const EXECUTABLE: Flags = Flags(1 << 6);

    /// Whether any of `flags` is set.
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets `flags`.
    pub fn set(&mut self, flags: Flags) {
        self.0 |= flags.0;
    }

    /// Clears `flags`; whether any was set.
    pub fn take(&mut self, flags: Flags) -> bool {
        let had = self.has(flags);
        self.0 &= !flags.0;
        had
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Towards the head of its list.
    pub(super) prev: PageId,
    /// Towards the tail of its list.
    pub(super) next: PageId,
    /// The process, file or kernel cache that has it.
    pub owner: u32,
    /// Which page of the process or file; of a slab, how many of its objects are in use.
    pub index: u32,
    /// One-bit facts.
    pub flags: Flags,
    /// Its use.
    pub used_as: Use,
    /// The list that it is on, [`Page::NO_LIST`] if none.
    pub(super) list: u8,
    /// Its size.
    order: u8,
}

impl Page {
    /// On no list.
    pub const NO_LIST: u8 = u8::MAX;

    const FREE: Page = Page {
        prev: PageId::NONE,
        next: PageId::NONE,
        owner: u32::MAX,
        index: 0,
        flags: Flags::NONE,
        used_as: Use::Nothing,
        list: Page::NO_LIST,
        order: 0,
    };

    /// Its size.
    pub fn order(&self) -> Order {
        Order::new(self.order).unwrap_or(Order::BASE)
    }

    /// Its size in frames.
    pub fn frames(&self) -> u64 {
        1 << self.order
    }

    /// Whether it belongs on an LRU list.
    pub fn is_lru(&self) -> bool {
        matches!(self.used_as, Use::Anonymous | Use::File)
    }
}

const _: () = assert!(size_of::<Page>() == 20);

/// All pages of a machine, and the numbers that are free.
#[derive(Clone, Debug)]
pub struct Pages {
    pages: Vec<Page>,
    frames: u32,
    free: Vec<u32>,
    free_huge: Vec<u32>,
    /// Frames in use by what for.
    used: [u64; Use::COUNT],
}

impl Pages {
    /// Numbers for a machine of `frames` frames, a multiple of 512.
    pub fn new(frames: u64) -> Pages {
        let huge = (frames / u64::from(BlockCounts::FRAMES)) as u32;
        let frames = frames as u32;
        Pages {
            pages: vec![Page::FREE; (frames + huge) as usize],
            frames,
            free: (0..frames).rev().collect(),
            free_huge: (frames..frames + huge).rev().collect(),
            used: [0; Use::COUNT],
        }
    }

    /// Owners that the frame table must have room for.
    pub fn owners(frames: u64) -> u64 {
        2 * frames
    }

    /// Takes a free number for a block; `whole` says that its parts never go apart.
    ///
    /// # Panics
    /// If there is none, which would mean more blocks than frames.
    pub fn begin(&mut self, order: Order, whole: bool) -> PageId {
        let in_parts = !whole && order == Order::HUGE;
        let numbers = if in_parts { &mut self.free_huge } else { &mut self.free };
        let id = PageId(numbers.pop().expect("more blocks than frames"));
        self.pages[id.index()].order = order.get();
        id
    }

    /// Says what a number is used for from now on.
    pub fn set_use(&mut self, id: PageId, used_as: Use, owner: u32, index: u32) {
        let page = &mut self.pages[id.index()];
        debug_assert_eq!(page.used_as, Use::Nothing, "{id:?}");
        (page.used_as, page.owner, page.index) = (used_as, owner, index);
        self.used[used_as as usize] += page.frames();
    }

    /// Gives a number back. Its page must be on no list.
    pub fn end(&mut self, id: PageId) {
        let page = &mut self.pages[id.index()];
        debug_assert_eq!(page.list, Page::NO_LIST, "{id:?} {page:?}");
        self.used[page.used_as as usize] -=
            if page.used_as == Use::Nothing { 0 } else { page.frames() };
        *page = Page::FREE;
        if id.0 < self.frames { self.free.push(id.0) } else { self.free_huge.push(id.0) }
    }

    /// Frames in use for one purpose.
    pub fn frames_used_as(&self, used_as: Use) -> u64 {
        self.used[used_as as usize]
    }

    /// The first owner of a page in the frame table.
    pub fn owner_of(&self, id: PageId) -> Owner {
        match id.0.checked_sub(self.frames) {
            None => id.0,
            Some(huge) => self.frames + (huge << Order::HUGE.get()),
        }
    }

    /// The page that an owner of the frame table belongs to.
    pub fn of_owner(&self, owner: Owner) -> PageId {
        match owner.checked_sub(self.frames) {
            None => PageId(owner),
            Some(part) => PageId(self.frames + (part >> Order::HUGE.get())),
        }
    }

    /// Whether the page has an owner for each of its frames.
    pub fn is_in_parts(&self, id: PageId) -> bool {
        id.0 >= self.frames
    }

    /// All numbers in use.
    pub fn in_use(&self) -> impl Iterator<Item = PageId> + '_ {
        let used = |&at: &usize| self.pages[at].used_as != Use::Nothing;
        (0..self.pages.len()).filter(used).map(|at| PageId(at as u32))
    }

    /// Bytes that the pages take.
    pub fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>()
            + (self.free.capacity() + self.free_huge.capacity()) * size_of::<u32>()
    }
}

impl Index<PageId> for Pages {
    type Output = Page;

    #[inline]
    fn index(&self, id: PageId) -> &Page {
        &self.pages[id.index()]
    }
}

impl IndexMut<PageId> for Pages {
    #[inline]
    fn index_mut(&mut self, id: PageId) -> &mut Page {
        &mut self.pages[id.index()]
    }
}
