//! Page tables of one address space: four levels of 512 entries, as on x86-64.
//!
//! ```text
//! level 3   root           an entry maps 512 GiB
//! level 2   directory ptrs an entry maps 1 GiB, by itself or through a table
//! level 1   directories    an entry maps 2 MiB, by itself or through a table
//! level 0   tables         an entry maps 4 KiB
//! ```
//!
//! A block of `2^j` frames is mapped by the largest entries that fit, and by as many of them in a row
//! as it takes: the levels above are walked once for each table. That, beside fewer allocations, is
//! what wiring memory by higher orders saves (FreeBSD, "Speeding up `mlock(2)`").

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Order;
use crate::layout::Frame;

/// Entries of a table.
const ENTRIES: u64 = 512;
/// Pages that can be mapped: 48 bits of address.
pub const PAGES: u64 = 1 << 36;

/// Why nothing, or not all, was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// The page or the frame is not a multiple of the block's size, or lies beyond the tables.
    Misaligned,
    /// Something is mapped there.
    Occupied,
    /// There was no frame for a table.
    NoMemory,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Empty,
    /// The table below, by number.
    Table(u32),
    /// A mapped block, by its first frame.
    Block(Frame),
}

/// An entry takes eight bytes, as in hardware: bit 0 marks a table, bit 1 a block.
#[derive(Clone, Copy)]
struct Packed(u64);

impl Packed {
    const fn pack(entry: Entry) -> Packed {
        match entry {
            Entry::Empty => Packed(0),
            Entry::Table(number) => Packed((number as u64) << 12 | 1),
            Entry::Block(frame) => Packed((frame.0 as u64) << 12 | 2),
        }
    }

    const fn unpack(self) -> Entry {
        match self.0 & 3 {
            1 => Entry::Table((self.0 >> 12) as u32),
            2 => Entry::Block(Frame((self.0 >> 12) as u32)),
            _ => Entry::Empty,
        }
    }
}

/// The tables of an address space, and the frames that they lie in.
pub struct PageTable {
    tables: Vec<Box<[Packed; ENTRIES as usize]>>,
    frames: Vec<Frame>,
}

impl PageTable {
    /// An empty address space, its root in `root`.
    pub fn new(root: Frame) -> PageTable {
        let mut table = PageTable { tables: Vec::new(), frames: Vec::new() };
        table.add(root);
        table
    }

    /// Frames that the tables take, root first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    fn add(&mut self, frame: Frame) -> u32 {
        self.tables.push(Box::new([Packed::pack(Entry::Empty); ENTRIES as usize]));
        self.frames.push(frame);
        (self.tables.len() - 1) as u32
    }

    /// The level whose entries map a block, and how many of them it takes.
    fn entries_of(order: Order) -> (u32, u64) {
        let level = u32::from(order.get() / 9).min(2);
        (level, order.frames() >> (9 * level))
    }

    /// Maps the block at `frame` to the pages from `page` on. `table` gives frames for tables.
    ///
    /// # Errors
    /// See [`MapError`]. What was mapped before an error stays, tables stay in any case.
    pub fn map(
        &mut self,
        page: u64,
        frame: Frame,
        order: Order,
        table: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<(), MapError> {
        let aligned = page.is_multiple_of(order.frames()) && frame.align_down(order) == frame;
        if !aligned || page + order.frames() > PAGES {
            return Err(MapError::Misaligned);
        }
        let (level, entries) = PageTable::entries_of(order);
        let mut done = 0;
        while done < entries {
            let at = page + (done << (9 * level));
            let first = index(at, level);
            let here = (ENTRIES - first as u64).min(entries - done);
            let node = self.descend(at, level, table)?;
            let slots = &mut self.tables[node as usize][first..first + here as usize];
            for (slot, done) in slots.iter_mut().zip(done..) {
                if slot.unpack() != Entry::Empty {
                    return Err(MapError::Occupied);
                }
                *slot = Packed::pack(Entry::Block(frame.offset(done << (9 * level))));
            }
            done += here;
        }
        Ok(())
    }

    /// The table of `level` for a page, made if it is not there.
    fn descend(
        &mut self,
        page: u64,
        level: u32,
        table: &mut impl FnMut() -> Option<Frame>,
    ) -> Result<u32, MapError> {
        let mut node = 0;
        for above in (level + 1..4).rev() {
            let slot = index(page, above);
            node = match self.tables[node as usize][slot].unpack() {
                Entry::Table(below) => below,
                Entry::Block(_) => return Err(MapError::Occupied),
                Entry::Empty => {
                    let below = self.add(table().ok_or(MapError::NoMemory)?);
                    self.tables[node as usize][slot] = Packed::pack(Entry::Table(below));
                    below
                }
            };
        }
        Ok(node)
    }

    /// The frame of a page and the order of the entry that maps it: 0, 9 or 18.
    pub fn lookup(&self, page: u64) -> Option<(Frame, Order)> {
        if page >= PAGES {
            return None;
        }
        let mut node = 0;
        for level in (0..4).rev() {
            match self.tables[node as usize][index(page, level)].unpack() {
                Entry::Empty => return None,
                Entry::Table(below) => node = below,
                Entry::Block(frame) => {
                    let order = Order::new(9 * level as u8)?;
                    return Some((frame.offset(page & (order.frames() - 1)), order));
                }
            }
        }
        None
    }
}

/// Which entry of a table of `level` a page's address selects.
const fn index(page: u64, level: u32) -> usize {
    (page >> (9 * level) & (ENTRIES - 1)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn order(j: u8) -> Order {
        Order::new(j).unwrap()
    }

    /// Frames from a million on.
    fn frames() -> impl FnMut() -> Option<Frame> {
        let mut next = 1 << 20;
        move || {
            next += 1;
            Some(Frame(next))
        }
    }

    /// A gigabyte page by page takes 512 tables below a directory; in superpages the directory
    /// alone; as one page neither.
    #[test]
    fn larger_pages_take_fewer_tables() {
        for (with, tables) in [(0, 1 + 1 + 1 + 512), (9, 1 + 1 + 1), (12, 1 + 1 + 1), (18, 1 + 1)] {
            let mut table = PageTable::new(Frame(0));
            let mut give = frames();
            for at in (0..1u64 << 18).step_by(1 << with) {
                table.map(at, Frame(at as u32), order(with), &mut give).unwrap();
            }
            assert_eq!(table.frames().len(), tables, "order {with}");
            let mapped = order(with / 9 * 9);
            assert_eq!(table.lookup(0x1_2345), Some((Frame(0x1_2345), mapped)));
            assert_eq!(table.lookup(1 << 18), None);
        }
    }

    #[test]
    fn impossible_mappings_are_refused() {
        let mut table = PageTable::new(Frame(0));
        let mut give = frames();
        assert_eq!(table.map(1, Frame(512), order(9), &mut give), Err(MapError::Misaligned));
        assert_eq!(table.map(512, Frame(1), order(9), &mut give), Err(MapError::Misaligned));
        assert_eq!(table.map(PAGES, Frame(0), order(0), &mut give), Err(MapError::Misaligned));
        assert_eq!(table.map(0, Frame(0), order(0), &mut || None), Err(MapError::NoMemory));
        table.map(512, Frame(512), order(9), &mut give).unwrap();
        assert_eq!(table.map(600, Frame(0), order(0), &mut give), Err(MapError::Occupied));
        assert_eq!(table.map(512, Frame(0), order(9), &mut give), Err(MapError::Occupied));
    }

    proptest! {
        /// A table is a map from pages to frames.
        #[test]
        fn agrees_with_a_plain_map(
            blocks in prop::collection::vec((0..4096u64, 0..4096u32, 0..=12u8), 1..40)
        ) {
            let mut table = PageTable::new(Frame(0));
            let mut plain = BTreeMap::new();
            let mut give = frames();
            for (page, frame, j) in blocks {
                let (page, frame) = (page >> j << j, Frame(frame).align_down(order(j)));
                let pages = page..page + order(j).frames();
                if plain.range(pages.clone()).next().is_some() {
                    continue;
                }
                let mapped = table.map(page, frame, order(j), &mut give);
                // A table of 4 KiB pages may be in the way of a larger one.
                if mapped.is_ok() {
                    plain.extend(pages.map(|at| (at, frame.offset(at - page))));
                } else {
                    prop_assert_eq!(mapped, Err(MapError::Occupied));
                    prop_assert!(j >= 9);
                    break;
                }
            }
            for page in 0..8192 {
                let found = table.lookup(page).map(|(frame, _)| frame);
                if let Some(expected) = plain.get(&page) {
                    prop_assert_eq!(found, Some(*expected));
                }
            }
        }
    }
}
