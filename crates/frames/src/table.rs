//! The state of every frame, in seven bytes each, and where each owner's memory lies, in four.
//!
//! Two neighboring frames `2i` and `2i + 1` are buddies at order 0 and share their links:
//!
//! ```text
//! links   word[0] word[1] prev    4 bytes each, 12 a pair
//! marks   mark[0] mark[1]         1 byte each, in an array of their own
//! ```
//!
//! `word` of a block's first frame is its owner while it is allocated and the next block of its
//! list while it is free. The list's backward link can be shared by the pair, since two buddies
//! are never both on a free list: they would have merged. A block of two frames or more keeps its
//! order in the mark of its second frame. With the owners' locations a machine so takes 11 bytes
//! a frame, and looking for a free buddy touches only the marks, 64 frames a cache line.

mod singles;

use alloc::vec;
use alloc::vec::Vec;

use prairie_hostmem::{Array, prefetch};

use crate::layout::{Frame, Layout};
use crate::{BlockCounts, MigrateType, Mobility, Order};

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No memory.
    Absent = 0,
    /// Memory that was never the allocator's: firmware, the kernel's image.
    Reserved = 1,
    /// Not the first frame of its block, whose first frame has the state.
    Inside = 2,
    /// The first frame of a block on a free list.
    Free = 3,
    /// The first frame of an allocated block.
    Allocated = 4,
    /// The first frame of a free block that a per-CPU list holds.
    Cached = 5,
}

impl State {
    const fn from_bits(bits: u8) -> State {
        match bits & 7 {
            0 => State::Absent,
            1 => State::Reserved,
            2 => State::Inside,
            3 => State::Free,
            4 => State::Allocated,
            _ => State::Cached,
        }
    }
}

/// A frame's state in bits 0 to 2. For the first frame of a block, bits 3 to 5 hold its list (free,
/// cached) or its mobility (allocated, reserved), and bit 6 shows that the block is larger than one
/// frame. For the second frame of a larger block, bits 3 to 7 hold the block's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u8);

impl Mark {
    const ABSENT: Mark = Mark(State::Absent as u8);
    const INSIDE: Mark = Mark(State::Inside as u8);
    const LARGER: u8 = 1 << 6;

    const fn head(state: State, detail: u8, order: Order) -> Mark {
        let larger = if order.get() > 0 { Mark::LARGER } else { 0 };
        Mark(state as u8 | detail << 3 | larger)
    }

    const fn second(order: Order) -> Mark {
        Mark(State::Inside as u8 | order.get() << 3)
    }

    const fn state(self) -> State {
        State::from_bits(self.0)
    }

    const fn detail(self) -> u8 {
        self.0 >> 3 & 7
    }

    /// Whether two marks of first frames differ in their detail at most.
    const fn is_like(self, other: Mark) -> bool {
        (self.0 ^ other.0) & !(7 << 3) == 0
    }

    const fn is_larger(self) -> bool {
        self.0 & Mark::LARGER != 0
    }
}

/// Words of links for a pair of buddies.
const PAIR: usize = 3;

/// The index of `frame`'s word in the links.
#[inline]
const fn word_at(frame: Frame) -> usize {
    frame.index() / 2 * PAIR + frame.index() % 2
}

/// The index of the backward link of `frame` and its buddy in the links.
#[inline]
const fn prev_at(frame: Frame) -> usize {
    frame.index() / 2 * PAIR + 2
}

/// Who holds an allocated block: a number of the caller's choosing below
/// [`FrameTable::owners`]. A block of `2^j` frames is held by `2^j` consecutive owners, frame by
/// frame, so that parts of it can be freed.
pub type Owner = u32;

/// The state of every frame of a machine.
#[derive(Clone)]
pub struct FrameTable {
    links: Array<u32>,
    marks: Array<u8>,
    blocks: Vec<BlockCounts>,
    /// The complement of each owner's frame: zero for none.
    location: Array<u32>,
}

impl FrameTable {
    /// A table for `layout` with every frame absent, for as many owners as there are frames.
    pub fn new(layout: &Layout) -> FrameTable {
        FrameTable::with_frames(layout.frames())
    }

    /// A table for the frames below `frames`, all absent, for as many owners.
    ///
    /// # Panics
    /// If `frames` is no multiple of a pageblock's 512, or does not fit 32 bits.
    pub fn with_frames(frames: u64) -> FrameTable {
        FrameTable::with_owners(frames, frames)
    }

    /// A table for the frames below `frames`, all absent, for the owners below `owners`.
    ///
    /// # Panics
    /// If `frames` is no multiple of a pageblock's 512, or either does not fit 32 bits.
    pub fn with_owners(frames: u64, owners: u64) -> FrameTable {
        assert!(owners < u64::from(u32::MAX), "{owners} owners");
        assert!(frames.is_multiple_of(u64::from(BlockCounts::FRAMES)), "{frames} frames");
        assert!(frames < u64::from(u32::MAX), "{frames} frames");
        FrameTable {
            links: Array::zeroed(frames as usize / 2 * PAIR),
            marks: Array::zeroed(frames as usize),
            blocks: vec![BlockCounts::default(); frames as usize / BlockCounts::FRAMES as usize],
            location: Array::zeroed(owners as usize),
        }
    }

    /// Number of frames, absent ones included.
    pub fn frames(&self) -> u64 {
        self.marks.len() as u64
    }

    /// Number of owners: each is below it.
    pub fn owners(&self) -> u64 {
        self.location.len() as u64
    }

    /// Bytes that the table takes for each frame, counted from its allocations.
    pub fn bytes_per_frame(&self) -> f64 {
        let bytes = size_of_val(&self.links[..])
            + size_of_val(&self.marks[..])
            + self.blocks.capacity() * size_of::<BlockCounts>()
            + size_of_val(&self.location[..]);
        bytes as f64 / self.frames() as f64
    }

    fn mark(&self, frame: Frame) -> Mark {
        Mark(self.marks[frame.index()])
    }

    #[inline]
    fn set_head(&mut self, frame: Frame, state: State, detail: u8, order: Order) {
        self.marks[frame.index()] = Mark::head(state, detail, order).0;
        if order > Order::BASE {
            self.marks[frame.index() + 1] = Mark::second(order).0;
        }
    }

    fn word(&self, frame: Frame) -> u32 {
        self.links[word_at(frame)]
    }

    fn set_word(&mut self, frame: Frame, word: u32) {
        self.links[word_at(frame)] = word;
    }

    /// What `frame` is.
    #[inline]
    pub fn state(&self, frame: Frame) -> State {
        self.mark(frame).state()
    }

    /// The order of the block that starts at `frame`.
    #[inline]
    pub fn order(&self, frame: Frame) -> Order {
        if !self.mark(frame).is_larger() {
            return Order::BASE;
        }
        Order::new(self.marks[frame.index() + 1] >> 3).unwrap_or(Order::BASE)
    }

    /// The list that the free or cached block that starts at `frame` is on: its meaning is the
    /// policy's.
    #[inline]
    pub fn list(&self, frame: Frame) -> u8 {
        self.mark(frame).detail()
    }

    /// Whether the block that starts at `frame` can be moved.
    #[inline]
    pub fn mobility(&self, frame: Frame) -> Mobility {
        let mark = self.mark(frame);
        match (mark.state(), mark.detail()) {
            (State::Absent, _) => Mobility::Absent,
            (State::Allocated | State::Reserved, 1) => Mobility::Movable,
            (State::Allocated | State::Reserved, 2) => Mobility::Unmovable,
            (State::Allocated | State::Reserved, _) => Mobility::Unknown,
            _ => Mobility::Free,
        }
    }

    /// Whether a free block of exactly `order` on a free list starts at `frame`; false beyond the
    /// table's end.
    #[inline]
    pub fn is_free_block(&self, frame: Frame, order: Order) -> bool {
        let free = Mark::head(State::Free, 0, order);
        // A second mark exists if the first says that the block is larger.
        self.marks.get(frame.index()).is_some_and(|&mark| Mark(mark).is_like(free))
            && (order == Order::BASE || self.marks[frame.index() + 1] == Mark::second(order).0)
    }

    /// The owner of the allocated block that starts at `frame`.
    pub fn owner(&self, frame: Frame) -> Owner {
        debug_assert_eq!(self.state(frame), State::Allocated, "{frame:?}");
        self.word(frame)
    }

    /// Counts by pageblock. Frames on per-CPU lists count as free.
    pub fn blocks(&self) -> &[BlockCounts] {
        &self.blocks
    }

    /// The pageblock of `frame`.
    pub fn block(&self, frame: Frame) -> &BlockCounts {
        &self.blocks[frame.pageblock()]
    }

    // --- Links of free blocks, for `FreeList` alone. -------------------------------------------

    pub(crate) fn next(&self, frame: Frame) -> Frame {
        Frame(self.word(frame))
    }

    pub(crate) fn set_next(&mut self, frame: Frame, next: Frame) {
        self.set_word(frame, next.0);
    }

    pub(crate) fn prev(&self, frame: Frame) -> Frame {
        Frame(self.links[prev_at(frame)])
    }

    pub(crate) fn set_prev(&mut self, frame: Frame, prev: Frame) {
        self.links[prev_at(frame)] = prev.0;
    }

    #[inline]
    pub(crate) fn set_free(&mut self, frame: Frame, order: Order, list: u8) {
        self.set_head(frame, State::Free, list, order);
    }

    #[inline]
    pub(crate) fn set_inside(&mut self, frame: Frame) {
        self.marks[frame.index()] = Mark::INSIDE.0;
    }

    /// Marks a free block that left its free list as held by a per-CPU list.
    #[inline]
    pub(crate) fn set_cached(&mut self, frame: Frame, order: Order, list: u8) {
        self.set_head(frame, State::Cached, list, order);
    }

    // --- Transitions that change what a frame is used for. -------------------------------------

    /// Makes `frame` memory that is present and never the allocator's.
    ///
    /// # Panics
    /// If the frame is not absent.
    pub fn reserve(&mut self, frame: Frame, mobility: Mobility) {
        assert_eq!(self.state(frame), State::Absent, "{frame:?}");
        self.set_head(frame, State::Reserved, mobility as u8, Order::BASE);
        self.blocks[frame.pageblock()].add(mobility, 1);
    }

    /// Gives an absent block to the allocator: its frames count as free and belong to no list yet.
    pub fn add_memory(&mut self, start: Frame, order: Order) {
        for frame in start.0..start.0 + order.frames() as u32 {
            let frame = Frame(frame);
            debug_assert_eq!(self.state(frame), State::Absent, "{frame:?}");
            self.set_inside(frame);
            self.blocks[frame.pageblock()].add(Mobility::Free, 1);
        }
    }

    /// Allocates a block that is on no list to `owner` and the owners after it.
    #[inline]
    pub fn allocate(&mut self, frame: Frame, order: Order, mobility: Mobility, owner: Owner) {
        debug_assert!(matches!(self.state(frame), State::Inside | State::Cached), "{frame:?}");
        self.set_head(frame, State::Allocated, mobility as u8, order);
        self.set_word(frame, owner);
        self.location[owner as usize] = !frame.0;
        self.recount(frame, order, Mobility::Free, mobility);
    }

    /// Takes an allocated block from its owner and returns its order: its frames count as free
    /// and are on no list yet.
    #[inline(always)]
    pub fn release(&mut self, frame: Frame) -> Order {
        debug_assert_eq!(self.state(frame), State::Allocated, "{frame:?}");
        let (order, mobility) = (self.order(frame), self.mobility(frame));
        self.set_inside(frame);
        self.recount(frame, order, mobility, Mobility::Free);
        order
    }

    /// Moves the counts of a block's frames from one mobility to another.
    #[inline(always)]
    fn recount(&mut self, frame: Frame, order: Order, from: Mobility, to: Mobility) {
        if order < Order::HUGE {
            return self.blocks[frame.pageblock()].change(from, to, order.frames() as u16);
        }
        let blocks = 1usize << (order.get() - Order::HUGE.get());
        for counts in &mut self.blocks[frame.pageblock()..frame.pageblock() + blocks] {
            counts.change(from, to, BlockCounts::FRAMES);
        }
    }

    /// Splits an allocated block into two of half its size, with one owner after the other.
    ///
    /// # Panics
    /// If the block is a single frame.
    pub fn split_allocated(&mut self, frame: Frame) {
        debug_assert_eq!(self.state(frame), State::Allocated, "{frame:?}");
        let mobility = self.mobility(frame);
        let half = Order::new(self.order(frame).get().wrapping_sub(1)).expect("a single frame");
        let upper = frame.offset(half.frames());
        let owner = self.owner(frame) + half.frames() as u32;
        for part in [frame, upper] {
            self.set_head(part, State::Allocated, mobility as u8, half);
        }
        self.set_word(upper, owner);
        self.location[owner as usize] = !upper.0;
    }

    /// The allocated block that starts with `owner`'s frame, if there is one. Constant time.
    #[inline]
    pub fn block_of(&self, owner: Owner) -> Option<Frame> {
        let frame = Frame(!*self.location.get(owner as usize)?);
        // A location outlives its block; the block's owner shows whether it is current.
        let live = frame != Frame::NONE
            && self.state(frame) == State::Allocated
            && self.owner(frame) == owner;
        live.then_some(frame)
    }

    /// Prefetches the location of `owner`, which [`block_of`](FrameTable::block_of) and
    /// [`allocate`](FrameTable::allocate) look up first. Changes nothing.
    ///
    /// The table is larger than any cache, and a core waits for many lines of main memory at once
    /// if it asks for them early enough.
    #[inline]
    pub fn prefetch_location(&self, owner: Owner) {
        prefetch(&self.location, owner as usize);
    }

    /// Has the host fetch what freeing `owner`'s block will read. Wants its location, which is
    /// best fetched some time before. Changes nothing.
    #[inline]
    pub fn prefetch_block(&self, owner: Owner) {
        let location = self.location.get(owner as usize).copied().unwrap_or(0);
        self.prefetch_frame(Frame(!location));
    }

    /// Prefetches the mark and the links of `frame` and, nearly always, of its buddies.
    #[inline]
    pub(crate) fn prefetch_frame(&self, frame: Frame) {
        prefetch(&self.marks, frame.index());
        prefetch(&self.links, word_at(frame));
    }

    /// The free buddies, each of one order, that `frame` would merge with if it were freed in a row
    /// with what lies between. Of larger orders it would have to be a long row.
    #[inline]
    fn free_buddies(&self, frame: Frame) -> impl Iterator<Item = Frame> {
        let buddies = Order::up_to(const { Order::new(4).unwrap() })
            .map(move |order| (frame.align_down(order).buddy(order), order));
        buddies.filter(|&(buddy, order)| self.is_free_block(buddy, order)).map(|(buddy, _)| buddy)
    }

    /// Has the host fetch the links of the free blocks that `frame` would merge with. Wants the frame
    /// itself fetched.
    #[inline]
    pub(crate) fn prefetch_buddies(&self, frame: Frame) {
        self.free_buddies(frame).for_each(|buddy| prefetch(&self.links, word_at(buddy)));
    }

    /// Has the host fetch the links of the neighbors of `frame`'s free buddies on their lists:
    /// merging with them will write there. Wants the buddies fetched.
    #[inline(always)]
    pub(crate) fn prefetch_neighbors(&self, frame: Frame) {
        for buddy in self.free_buddies(frame) {
            prefetch(&self.links, word_at(self.next(buddy)));
            prefetch(&self.links, prev_at(self.prev(buddy)));
        }
    }

    /// The allocated block that contains `owner`'s frame: its first owner and its first frame.
    /// One probe for each order.
    pub fn block_containing(&self, owner: Owner) -> Option<(Owner, Frame)> {
        for order in Order::up_to(Order::GIGANTIC) {
            let first = owner & !((1u32 << order.get()) - 1);
            if let Some(frame) = self.block_of(first) {
                let covers = u64::from(owner - first) < self.order(frame).frames();
                return covers.then_some((first, frame));
            }
        }
        None
    }

    /// Compares every count with the frames themselves.
    ///
    /// # Panics
    /// If a pageblock's counts are not what its frames add up to, or an owner's location does
    /// not lead back to it.
    pub fn validate(&self) {
        let mut counted = vec![BlockCounts::default(); self.blocks.len()];
        let mut frame = Frame(0);
        while u64::from(frame.0) < self.frames() {
            if self.is_absent_pageblock(frame) {
                frame = frame.offset(u64::from(BlockCounts::FRAMES));
                continue;
            }
            let (mobility, order) = (self.mobility(frame), self.order(frame));
            match self.state(frame) {
                State::Inside => panic!("{frame:?} is inside a block that does not reach it"),
                State::Allocated => {
                    assert_eq!(self.block_of(self.owner(frame)), Some(frame), "{frame:?}");
                }
                State::Absent | State::Reserved | State::Free | State::Cached => {}
            }
            assert_eq!(frame.align_down(order), frame, "{frame:?} of order {order} is misaligned");
            for inside in 0..order.frames() {
                let here = frame.offset(inside);
                assert!(inside == 0 || self.state(here) == State::Inside, "{here:?} in {frame:?}");
                counted[here.pageblock()].add(mobility, 1);
            }
            frame = frame.offset(order.frames());
        }
        assert_eq!(counted, self.blocks, "counts by pageblock");
    }

    /// Whether a pageblock starts at `frame` and all of it is absent: holes are large, and looking
    /// at each of their frames would take most of the time.
    fn is_absent_pageblock(&self, frame: Frame) -> bool {
        let end = frame.index() + usize::from(BlockCounts::FRAMES);
        frame.align_down(Order::HUGE) == frame
            && self.marks[frame.index()..end].iter().all(|&mark| mark == Mark::ABSENT.0)
    }
}

/// Whether memory of `migrate_type` can be moved, as the request for it says. Reclaimable kernel
/// memory can be freed but not moved, so full compaction cannot count on it.
pub fn mobility_of(migrate_type: MigrateType) -> Mobility {
    match migrate_type {
        MigrateType::Movable | MigrateType::Cma => Mobility::Movable,
        _ => Mobility::Unmovable,
    }
}
