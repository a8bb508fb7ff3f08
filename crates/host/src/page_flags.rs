//! The flags of a frame, as `/proc/kpageflags` gives them.
//!
//! Bits 0 to 26 are a stable interface (`include/uapi/linux/kernel-page-flags.h`); bits from 32
//! up are "subject to change" (`include/linux/kernel-page-flags.h`) and have kept their meaning
//! since 2009 but for a few names. What the flags say together is decided in
//! [`class`](crate::class).

use std::fmt;
use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// One frame's word from `/proc/kpageflags`: the bits `KPF_*` of
/// `include/uapi/linux/kernel-page-flags.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageFlags(pub u64);

/// Declares each flag once: its bit, the kernel's name without `KPF_`, its meaning.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl PageFlags {
            $($(#[$doc])* pub const $name: PageFlags = PageFlags(1 << $bit);)*

            /// Every flag that has a name, lowest bit first, with the kernel's name for it
            /// (without `KPF_`).
            pub(crate) const NAMED: &'static [(PageFlags, &'static str)] =
                &[$((PageFlags::$name, stringify!($name)),)*];
        }
    };
}

flags! {
    /// Locked for I/O, truncation or migration: held for moments.
    LOCKED = 0;
    /// An I/O error occurred (gone from kernels since 6.12).
    ERROR = 1;
    /// Used since reclaim looked last. Left over on some kernel pages, so it names no owner.
    REFERENCED = 2;
    /// The content is valid. Left over on free blocks of some kernels.
    UPTODATE = 3;
    /// Must be written back before it is dropped.
    DIRTY = 4;
    /// On one of the lists that reclaim and compaction walk: user memory or page cache.
    LRU = 5;
    /// On an active list.
    ACTIVE = 6;
    /// Belongs to the slab allocator. Kernels since 6.10 or so show it together with stray `ANON`
    /// and `KSM`, because the slab allocator reuses the word where these are kept.
    SLAB = 7;
    /// Being written to storage.
    WRITEBACK = 8;
    /// To be reclaimed as soon as its write ends.
    RECLAIM = 9;
    /// Free, in a block on the buddy lists. Set on every frame of the block since Linux 4.6, on
    /// its first frame only before (`stable_page_flags` asks `is_free_buddy_page`).
    BUDDY = 10;
    /// Mapped into at least one page table of a process.
    MMAP = 11;
    /// Anonymous memory.
    ANON = 12;
    /// In the swap cache.
    SWAPCACHE = 13;
    /// Backed by swap: anonymous memory or shared memory (tmpfs, shmem).
    SWAPBACKED = 14;
    /// The first frame of a compound page.
    COMPOUND_HEAD = 15;
    /// A further frame of a compound page.
    COMPOUND_TAIL = 16;
    /// Part of a hugetlb page.
    HUGE = 17;
    /// On the unevictable list: reclaim leaves it, compaction does not.
    UNEVICTABLE = 18;
    /// The hardware reported an uncorrectable error here.
    HWPOISON = 19;
    /// No page. Kernels since 6.15 or so give a word without flags instead.
    NOPAGE = 20;
    /// Shared by kernel same-page merging.
    KSM = 21;
    /// Part of a transparent huge page; since 6.7 or so of any large folio of user memory or page
    /// cache, whatever its size.
    THP = 22;
    /// Logically offline: inflated into a balloon, or unplugged by the hypervisor.
    OFFLINE = 23;
    /// The zero page, small or huge.
    ZERO_PAGE = 24;
    /// Not touched since idle page tracking marked it.
    IDLE = 25;
    /// Holds a page table.
    PGTABLE = 26;
    /// Withheld from the page allocator: the kernel's image, boot-time allocations, firmware.
    RESERVED = 32;
    /// Locked into memory by `mlock`.
    MLOCKED = 33;
    /// The owner's second flag: page cache uses it for blocks that are mapped to disk (its name
    /// was `MAPPEDTODISK` before 6.12).
    OWNER_2 = 34;
    /// The owner keeps private data: buffer heads for page cache, anything for kernel pages.
    PRIVATE = 35;
    /// More private data: a file system's caching layer.
    PRIVATE_2 = 36;
    /// The owner's own flag.
    OWNER_PRIVATE = 37;
    /// The architecture's own flag.
    ARCH = 38;
    /// Mapped without caching.
    UNCACHED = 39;
    /// Written since soft-dirty tracking was reset.
    SOFTDIRTY = 40;
    /// The architecture's second flag.
    ARCH_2 = 41;
    /// The architecture's third flag.
    ARCH_3 = 42;
}

impl PageFlags {
    /// No flag at all.
    pub const NONE: PageFlags = PageFlags(0);

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: PageFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    pub const fn intersects(self, flags: PageFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// These flags without `flags`.
    pub const fn without(self, flags: PageFlags) -> PageFlags {
        PageFlags(self.0 & !flags.0)
    }

    /// Both sets together; `|` for constants.
    pub const fn union(self, flags: PageFlags) -> PageFlags {
        PageFlags(self.0 | flags.0)
    }

    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kernel's names (without `KPF_`) of the flags that are set, lowest bit first. Bits
    /// without a name are passed over; [`Display`](fmt::Display) shows them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| *name)
    }
}

impl BitOr for PageFlags {
    type Output = PageFlags;

    fn bitor(self, other: PageFlags) -> PageFlags {
        self.union(other)
    }
}

impl fmt::Display for PageFlags {
    /// `UPTODATE|LRU`, unnamed bits as `bit 50`, and `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let named = Self::NAMED.iter().fold(PageFlags::NONE, |all, (flag, _)| all | *flag);
        let unnamed = self.without(named);
        let unnamed = (0..64).filter(|bit| unnamed.0 >> bit & 1 == 1);
        let words = self.names().map(String::from).chain(unnamed.map(|bit| format!("bit {bit}")));
        for (i, word) in words.enumerate() {
            if i > 0 {
                f.write_str("|")?;
            }
            f.write_str(&word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_kernel_headers() {
        assert_eq!(PageFlags::BUDDY.0, 0x400);
        assert_eq!(PageFlags::NOPAGE.0, 0x10_0000);
        assert_eq!(PageFlags::PGTABLE.0, 0x400_0000);
        assert_eq!(PageFlags::RESERVED.0, 0x1_0000_0000);
        assert_eq!(PageFlags::NAMED.len(), 38);
        assert!(PageFlags::NAMED.windows(2).all(|pair| pair[0].0.0 < pair[1].0.0));
    }

    #[test]
    fn names_and_display() {
        let file = PageFlags(0x4_0000_0028);
        assert_eq!(file.names().collect::<Vec<_>>(), ["UPTODATE", "LRU", "OWNER_2"]);
        assert_eq!(file.to_string(), "UPTODATE|LRU|OWNER_2");
        assert_eq!(PageFlags::NONE.to_string(), "none");
        assert_eq!(PageFlags(1 << 50 | 1 << 10).to_string(), "BUDDY|bit 50");
    }
}
