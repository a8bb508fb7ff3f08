//! What a kernel notes of each page that it wires, beside its frame and its entry in a page table, as
//! FreeBSD does: the page's descriptor, its place in the tree of its object's pages (`vm_radix`), and
//! who maps it (`pv_entry`).
//!
//! These are the data structures themselves, with the same shapes: a tree of nodes with sixteen children,
//! descriptors of 104 bytes (thirteen words) linked in the order of the object's pages, entries of 24 bytes
//! in chunks of 168. What is not here is what is no data structure: locks and atomics, calls through
//! several layers, the look-up of the mapping in its process.

use prairie_frames::{Frame, Order};

const NONE: u32 = u32::MAX;

/// Children of a node (`VM_RADIX_COUNT`), as bits of an index.
const WIDTH: u32 = 4;

/// The pages of an object by their index: a radix tree.
pub struct PageTree {
    /// Nodes of sixteen children: nodes, or frames at the lowest level.
    nodes: Vec<[u32; 1 << WIDTH]>,
    /// Levels of nodes; the root is node 0.
    levels: u32,
}

impl PageTree {
    /// An empty tree for indices below `16^levels`.
    pub fn new(levels: u32) -> PageTree {
        PageTree { nodes: vec![[NONE; 1 << WIDTH]], levels }
    }

    pub fn insert(&mut self, index: u64, frame: Frame) {
        let mut node = 0;
        for level in (1..self.levels).rev() {
            let slot = slot(index, level);
            let mut below = self.nodes[node][slot];
            if below == NONE {
                below = self.nodes.len() as u32;
                self.nodes.push([NONE; 1 << WIDTH]);
                self.nodes[node][slot] = below;
            }
            node = below as usize;
        }
        let entry = &mut self.nodes[node][slot(index, 0)];
        assert_eq!(*entry, NONE, "page {index} twice");
        *entry = frame.0;
    }

    /// The page with the largest index up to `index` (`vm_radix_lookup_le`).
    pub fn at_or_before(&self, index: u64) -> Option<Frame> {
        self.last_within(0, self.levels - 1, Some(index))
    }

    fn last_within(&self, node: usize, level: u32, upto: Option<u64>) -> Option<Frame> {
        let from = upto.map_or((1 << WIDTH) - 1, |index| slot(index, level));
        for at in (0..=from).rev() {
            let below = self.nodes[node][at];
            if below == NONE {
                continue;
            }
            let found = match level {
                0 => Some(Frame(below)),
                _ => self.last_within(below as usize, level - 1, upto.filter(|_| at == from)),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

fn slot(index: u64, level: u32) -> usize {
    (index >> (WIDTH * level) & ((1 << WIDTH) - 1)) as usize
}

/// A page's descriptor (`struct vm_page`), by its frame: thirteen words.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Descriptor {
    /// Neighbors among the object's pages.
    previous: u32,
    next: u32,
    object: u64,
    index: u64,
    address: u64,
    /// First and last of those that map it.
    first_mapping: u32,
    last_mapping: u32,
    wired: u32,
    queue: u32,
    /// Flags, pool, order, segment, validity and dirt, and links of queues that a wired page is on none of.
    state: [u64; 7],
}

const _: () = assert!(size_of::<Descriptor>() == 104);

const BLANK: Descriptor = Descriptor {
    previous: NONE,
    next: NONE,
    object: 0,
    index: 0,
    address: 0,
    first_mapping: NONE,
    last_mapping: NONE,
    wired: 0,
    queue: 0,
    state: [0; 7],
};

/// A mapping of a page, in a list of its page's (`struct pv_entry`).
#[derive(Clone, Copy)]
#[repr(C)]
struct Mapping {
    address: u64,
    previous: u64,
    next: u64,
}

/// Mappings come in chunks of a page, whose free ones a bit map tells (`struct pv_chunk`).
struct Chunk {
    free: [u64; 3],
    mappings: [Mapping; MAPPINGS],
}

const MAPPINGS: usize = 168;

/// All that is noted of one object and of the address space that it is mapped in.
pub struct Bookkeeping {
    pub tree: PageTree,
    descriptors: Vec<Descriptor>,
    // Each is a page of its own, as in the kernel, and is never copied.
    #[expect(clippy::vec_box)]
    chunks: Vec<Box<Chunk>>,
}

impl Bookkeeping {
    /// Nothing noted of a machine of `frames` frames, whose descriptors are there and were written, as
    /// they are after boot.
    pub fn new(frames: u32) -> Bookkeeping {
        Bookkeeping {
            tree: PageTree::new(5),
            descriptors: vec![Descriptor { state: [1; 7], ..BLANK }; frames as usize],
            chunks: Vec::new(),
        }
    }

    /// The page at `frame` becomes page `index` of the object, behind `before`, and is wired
    /// (`vm_page_insert_after`, `vm_page_wire`).
    pub fn enter(&mut self, index: u64, frame: Frame, before: Option<Frame>) {
        let at = frame.index();
        self.descriptors[at] = Descriptor {
            object: 1,
            index,
            address: u64::from(frame.0) << 12,
            previous: before.map_or(NONE, |before| before.0),
            wired: 1,
            ..BLANK
        };
        if let Some(before) = before {
            self.descriptors[at].next = self.descriptors[before.index()].next;
            self.descriptors[before.index()].next = frame.0;
        }
        self.tree.insert(index, frame);
    }

    /// Notes that `index` is mapped from `frame` on by one entry (`pmap_insert_entry`).
    pub fn map(&mut self, index: u64, frame: Frame) {
        if self.chunks.last().is_none_or(|chunk| chunk.free == [0; 3]) {
            let none = Mapping { address: 0, previous: 0, next: 0 };
            let free = [u64::MAX, u64::MAX, (1 << (MAPPINGS - 128)) - 1];
            self.chunks.push(Box::new(Chunk { free, mappings: [none; MAPPINGS] }));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let word = chunk.free.iter().position(|&free| free != 0).expect("a free mapping");
        let bit = chunk.free[word].trailing_zeros() as usize;
        chunk.free[word] &= chunk.free[word] - 1;
        let entry = (number * MAPPINGS + word * 64 + bit) as u32;
        let descriptor = &mut self.descriptors[frame.index()];
        let previous = u64::from(descriptor.last_mapping);
        chunk.mappings[word * 64 + bit] =
            Mapping { address: index << 12, previous, next: u64::MAX };
        if descriptor.first_mapping == NONE {
            descriptor.first_mapping = entry;
        }
        descriptor.last_mapping = entry;
    }

    /// Checks that the object's pages are linked in order, each with its frame, and are mapped by this many
    /// entries.
    pub fn check(&self, pages: u64, mappings: usize) {
        let mut at = self.tree.at_or_before(0);
        for index in 0..pages {
            let frame = at.expect("a page for each index");
            let descriptor = &self.descriptors[frame.index()];
            assert_eq!((descriptor.index, descriptor.wired), (index, 1));
            assert_eq!(self.tree.at_or_before(index), Some(frame));
            at = (descriptor.next != NONE).then_some(Frame(descriptor.next));
        }
        assert_eq!(at, None);
        let used = |chunk: &Chunk| {
            MAPPINGS - chunk.free.iter().map(|w| w.count_ones() as usize).sum::<usize>()
        };
        assert_eq!(self.chunks.iter().map(|chunk| used(chunk)).sum::<usize>(), mappings);
    }
}

/// Notes a block that was allocated and mapped at once: each page for itself but for the mapping.
pub fn enter_block(books: &mut Bookkeeping, index: u64, frame: Frame, order: Order) {
    let mut before = index.checked_sub(1).and_then(|before| books.tree.at_or_before(before));
    for page in 0..order.frames() {
        let here = frame.offset(page);
        books.enter(index + page, here, before);
        before = Some(here);
    }
    if order == Order::HUGE {
        books.map(index, frame);
    } else {
        (0..order.frames()).for_each(|page| books.map(index + page, frame.offset(page)));
    }
}
