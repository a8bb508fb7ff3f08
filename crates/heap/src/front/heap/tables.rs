//! What a heap finds its levels and spans in.

use crate::front::central::CentralFreeList;
use crate::front::page_map::PageMap;
use crate::front::size_class::CLASSES;
use crate::front::sync::Lock;
use crate::front::transfer::TransferCache;

/// The levels between the caches and the page level, of one size class.
#[derive(Debug)]
pub struct ClassLevels {
    pub(crate) transfer: Lock<TransferCache>,
    pub(crate) central: Lock<CentralFreeList>,
}

impl ClassLevels {
    /// Levels that hold nothing: all zeros.
    pub const fn new() -> ClassLevels {
        ClassLevels {
            transfer: Lock::new(TransferCache::new()),
            central: Lock::new(CentralFreeList::new()),
        }
    }
}

impl Default for ClassLevels {
    fn default() -> Self {
        ClassLevels::new()
    }
}

/// The tables of a heap. They begin as zeros, which no file need carry, and a process has those of
/// their pages resident alone that it uses.
pub struct Tables {
    /// From pages to spans.
    pub page_map: PageMap,
    /// By the number of the class.
    pub classes: ClassTable,
}

/// The levels of each class, by its number.
pub type ClassTable = [ClassLevels; CLASSES + 1];

impl Tables {
    /// Tables of a heap that holds nothing.
    pub const fn new() -> Tables {
        Tables { page_map: PageMap::new(), classes: [const { ClassLevels::new() }; CLASSES + 1] }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Tables::new()
    }
}
