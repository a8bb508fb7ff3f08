//! HugeAllocator (section 4.2): the address space. All mappings are made here.

use serde::Serialize;

use super::range_tree::RangeTree;
use crate::memory::Memory;
use crate::storage::Storage;
use crate::units::{HugePageId, HugePages, HugeRange};

/// Unbacked ranges of huge pages: address space that was reserved, without memory behind it.
#[derive(Debug)]
pub struct HugeAllocator<S: Storage> {
    unbacked: RangeTree<S>,
    reserved: HugePages,
    lost: HugePages,
}

/// What a [`HugeAllocator`] holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[repr(C)]
pub struct HugeAllocatorStats {
    /// Address space reserved from the system.
    pub reserved_huge_pages: HugePages,
    /// Address space that is unbacked and free.
    pub unbacked_huge_pages: HugePages,
    /// Number of ranges that it lies in.
    pub unbacked_ranges: u32,
    /// The longest of them.
    pub longest_unbacked_range: HugePages,
    /// Unbacked address space that is lost for lack of metadata storage.
    pub lost_huge_pages: HugePages,
}

impl<S: Storage> HugeAllocator<S> {
    /// An allocator that has reserved nothing.
    pub const fn new() -> HugeAllocator<S> {
        HugeAllocator {
            unbacked: RangeTree::new(),
            reserved: HugePages::ZERO,
            lost: HugePages::ZERO,
        }
    }

    /// An unbacked range whose start is a multiple of `align` huge pages, a power of two. `None` if
    /// neither the allocator nor the system has one.
    pub fn get(
        &mut self,
        len: HugePages,
        align: HugePages,
        memory: &mut impl Memory,
    ) -> Option<HugeRange> {
        if let Some(range) = self.take(len, align) {
            return Some(range);
        }
        let ample = HugePages(len.0.checked_add(align.0 - 1)?);
        let reserved = memory.reserve(ample)?;
        self.reserved += reserved.len;
        self.put(reserved);
        self.take(len, align)
    }

    /// Takes a range back; it must be unbacked.
    pub fn put(&mut self, range: HugeRange) {
        if !self.unbacked.insert(range) {
            self.lost += range.len;
        }
    }

    /// Huge pages that it holds.
    pub const fn size(&self) -> HugePages {
        self.unbacked.total()
    }

    /// Gives all it holds back to the system; stops at the first range that the system refuses.
    pub fn give_up(&mut self, memory: &mut impl Memory) {
        while let Some(range) = self.unbacked.take_at_most(self.size()) {
            if !memory.unreserve(range) {
                return self.put(range);
            }
            self.reserved -= range.len;
        }
    }

    /// The unbacked huge pages that extend a range of another owner to `len` huge pages: the part
    /// before it, then the part behind it, which is as large as it can be. One of them may be empty.
    /// `None` if there are too few. Nothing is taken yet.
    pub fn extension_of(&self, range: HugeRange, len: HugePages) -> Option<[HugeRange; 2]> {
        let lack = len.saturating_sub(range.len);
        let behind = self.unbacked.len_from(range.end()).min(lack);
        let before = self.unbacked.len_up_to(range.start).min(lack - behind);
        let start = HugePageId(range.start.0 - before.0);
        let parts =
            [HugeRange { start, len: before }, HugeRange { start: range.end(), len: behind }];
        (before + behind == lack).then_some(parts)
    }

    /// Whether an unbacked range begins with `part`, or the part is empty.
    pub fn begins_with(&self, part: HugeRange) -> bool {
        self.unbacked.len_from(part.start) >= part.len
    }

    /// Takes a part that [`HugeAllocator::extension_of`] named, or that a range begins with.
    pub fn take_part(&mut self, part: HugeRange) {
        self.unbacked.take_end(part);
    }

    /// Its state.
    pub fn stats(&self) -> HugeAllocatorStats {
        HugeAllocatorStats {
            reserved_huge_pages: self.reserved,
            unbacked_huge_pages: self.unbacked.total(),
            unbacked_ranges: self.unbacked.len(),
            longest_unbacked_range: self.unbacked.largest(),
            lost_huge_pages: self.lost,
        }
    }

    /// Whether it holds a huge page of the range.
    pub fn overlaps(&self, range: HugeRange) -> bool {
        self.unbacked.overlaps(range)
    }

    /// Checks its tree.
    ///
    /// # Errors
    /// A message that names the inconsistency.
    pub fn validate(&self) -> Result<(), String> {
        self.unbacked.validate().map_err(|error| format!("HugeAllocator: {error}"))
    }

    fn take(&mut self, len: HugePages, align: HugePages) -> Option<HugeRange> {
        match align {
            HugePages::ONE => self.unbacked.take(len),
            _ => self.unbacked.take_aligned(len, align),
        }
    }
}

impl<S: Storage> Default for HugeAllocator<S> {
    fn default() -> Self {
        HugeAllocator::new()
    }
}
