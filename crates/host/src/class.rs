//! The class of a frame by its flags, and whether software can move it.
//!
//! "Software could move it" means: a full compaction that may wait for locks and I/O, drain per-CPU
//! caches and use every migration path that the kernel has (`migrate_pages`, `alloc_contig_range`),
//! but patches no driver. This is the reading of Contiguitas, "Potential Memory Contiguity". The
//! page `docs/src/concepts/definitions.md` gives the same rules as a table.

use std::fmt;

use prairie_frames::Mobility;
use serde::Serialize;

use crate::PageFlags;

/// What fills a frame. One frame has one class; [`FrameClass::of`] gives the rules in the order
/// in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[non_exhaustive]
pub enum FrameClass {
    /// On the buddy lists (`BUDDY`).
    Free = 0,
    /// Anonymous memory of processes in single frames (`ANON`).
    Anonymous,
    /// Anonymous memory in compound pages (`ANON` with `THP`): 2 MiB huge pages, and on kernels
    /// since about 6.7 large folios of any size, which carry the same flag.
    AnonymousThp,
    /// Shared memory and tmpfs (`SWAPBACKED` without `ANON`).
    Shmem,
    /// Page cache (`LRU` without `ANON` and `SWAPBACKED`).
    File,
    /// A hugetlb page (`HUGE`) that the buddy lists could hold: 2 MiB on x86-64.
    Hugetlb,
    /// A hugetlb page larger than any block on the buddy lists (`hstate_is_gigantic`): 1 GiB on
    /// x86-64.
    HugetlbGigantic,
    /// The slab allocator (`SLAB`), reclaimable or not: flags do not show it.
    Slab,
    /// Page tables (`PGTABLE`).
    PageTable,
    /// Kernel or driver memory that a process has mapped (`MMAP` off the LRU lists): perf rings,
    /// packet rings, GPU and RDMA buffers, the vDSO.
    DriverMapped,
    /// Other kernel memory that carries a flag of its owner (`PRIVATE`, `OWNER_PRIVATE`, …) or is
    /// a compound page of no known kind.
    KernelOther,
    /// Withheld from the page allocator (`RESERVED`): kernel image, boot-time tables, firmware.
    Reserved,
    /// The shared zero page, small or huge (`ZERO_PAGE`).
    ZeroPage,
    /// Ballooned or unplugged (`OFFLINE`): the hypervisor has it.
    Offline,
    /// Broken (`HWPOISON`).
    HwPoison,
    /// No flag that names an owner, though the frame exists and its surroundings carry flags:
    /// kernel allocations that set none (vmalloc, kernel stacks, network buffers, per-CPU data,
    /// zsmalloc), and free frames parked on per-CPU lists.
    Unflagged,
    /// No flag anywhere in an aligned 128 MiB section: the kernel has not initialized the frames'
    /// descriptions yet (deferred or lazy initialization), so nothing is known of them.
    // The name in saved documents keeps its first spelling.
    #[serde(rename = "uninitialised")]
    Uninitialized,
    /// No memory (`NOPAGE`, outside every zone, or outside the firmware's memory map).
    Absent,
}

/// Flags that show the current use of a page but not its owner. Kernels leave some of them behind
/// on pages of any owner.
const NO_OWNER: PageFlags = PageFlags::REFERENCED
    .union(PageFlags::ACTIVE)
    .union(PageFlags::RECLAIM)
    .union(PageFlags::IDLE)
    .union(PageFlags::ERROR)
    .union(PageFlags::LOCKED)
    .union(PageFlags::SOFTDIRTY)
    .union(PageFlags::ARCH)
    .union(PageFlags::ARCH_2)
    .union(PageFlags::ARCH_3);

/// Flags that only page cache has, even while a page is off the LRU lists.
const PAGE_CACHE: PageFlags = PageFlags::UPTODATE
    .union(PageFlags::DIRTY)
    .union(PageFlags::WRITEBACK)
    .union(PageFlags::OWNER_2);

impl FrameClass {
    /// Its name in documents, labels, and columns.
    pub const fn name(self) -> &'static str {
        match self {
            FrameClass::Free => "free",
            FrameClass::Anonymous => "anonymous",
            FrameClass::AnonymousThp => "anonymous_thp",
            FrameClass::Shmem => "shmem",
            FrameClass::File => "file",
            FrameClass::Hugetlb => "hugetlb",
            FrameClass::HugetlbGigantic => "hugetlb_gigantic",
            FrameClass::Slab => "slab",
            FrameClass::PageTable => "page_table",
            FrameClass::DriverMapped => "driver_mapped",
            FrameClass::KernelOther => "kernel_other",
            FrameClass::Reserved => "reserved",
            FrameClass::ZeroPage => "zero_page",
            FrameClass::Offline => "offline",
            FrameClass::HwPoison => "hw_poison",
            FrameClass::Unflagged => "unflagged",
            FrameClass::Uninitialized => "uninitialized",
            FrameClass::Absent => "absent",
        }
    }

    /// Every class, in the order in which reports list them.
    pub const ALL: [FrameClass; 18] = [
        FrameClass::Free,
        FrameClass::Anonymous,
        FrameClass::AnonymousThp,
        FrameClass::Shmem,
        FrameClass::File,
        FrameClass::Hugetlb,
        FrameClass::HugetlbGigantic,
        FrameClass::Slab,
        FrameClass::PageTable,
        FrameClass::DriverMapped,
        FrameClass::KernelOther,
        FrameClass::Reserved,
        FrameClass::ZeroPage,
        FrameClass::Offline,
        FrameClass::HwPoison,
        FrameClass::Unflagged,
        FrameClass::Uninitialized,
        FrameClass::Absent,
    ];

    /// The class of a frame by its own flags. Three things need the frames around it and are left
    /// to [`Classifier`](crate::Classifier): a compound page's tail belongs to its head, a
    /// hugetlb page's size is the number of its frames, and frames that were never initialized
    /// differ from other frames without flags by their extent.
    ///
    /// The first rule that fits decides:
    ///
    /// | flags | class | why in this place |
    /// | --- | --- | --- |
    /// | `NOPAGE` | absent | |
    /// | `HWPOISON` | poisoned | withdrawn, whatever it held |
    /// | `BUDDY` | free | stray `UPTODATE` may remain |
    /// | `OFFLINE` | offline | |
    /// | `SLAB` | slab | `ANON`, `KSM`, `MMAP` beside it are misread slab data |
    /// | `PGTABLE` | page table | |
    /// | `HUGE` | hugetlb | |
    /// | `ZERO_PAGE` | zero page | it is `RESERVED` as well |
    /// | `RESERVED` | reserved | may be `MMAP` (vDSO) |
    /// | `ANON` or `SWAPCACHE` | anonymous | also off the LRU lists: isolated or on its way |
    /// | `SWAPBACKED` | shared memory | likewise |
    /// | `LRU` | file | |
    /// | `UPTODATE`, `DIRTY`, `WRITEBACK`, `OWNER_2` without `PRIVATE…` | file | off the LRU lists for moments |
    /// | `MMAP` | mapped by a driver | neither anonymous nor page cache |
    /// | any other but the usage marks | kernel, other | |
    /// | usage marks only, or none | unflagged | |
    ///
    /// Usage marks: `REFERENCED`, `ACTIVE`, `RECLAIM`, `IDLE`, `ERROR`, `LOCKED`, `SOFTDIRTY`,
    /// `ARCH…`.
    pub fn of(flags: PageFlags) -> FrameClass {
        let has = |flag: PageFlags| flags.contains(flag);
        let compound = flags.intersects(PageFlags::THP);
        let owners_private = PageFlags::PRIVATE | PageFlags::PRIVATE_2 | PageFlags::OWNER_PRIVATE;
        match () {
            () if has(PageFlags::NOPAGE) => FrameClass::Absent,
            () if has(PageFlags::HWPOISON) => FrameClass::HwPoison,
            () if has(PageFlags::BUDDY) => FrameClass::Free,
            () if has(PageFlags::OFFLINE) => FrameClass::Offline,
            () if has(PageFlags::SLAB) => FrameClass::Slab,
            () if has(PageFlags::PGTABLE) => FrameClass::PageTable,
            () if has(PageFlags::HUGE) => FrameClass::Hugetlb,
            () if has(PageFlags::ZERO_PAGE) => FrameClass::ZeroPage,
            () if has(PageFlags::RESERVED) => FrameClass::Reserved,
            () if has(PageFlags::ANON) && compound => FrameClass::AnonymousThp,
            () if flags.intersects(PageFlags::ANON | PageFlags::SWAPCACHE) => FrameClass::Anonymous,
            () if has(PageFlags::SWAPBACKED) => FrameClass::Shmem,
            () if has(PageFlags::LRU) => FrameClass::File,
            () if flags.intersects(PAGE_CACHE) && !flags.intersects(owners_private) => {
                FrameClass::File
            }
            () if has(PageFlags::MMAP) => FrameClass::DriverMapped,
            () if flags.without(NO_OWNER).is_empty() => FrameClass::Unflagged,
            () => FrameClass::KernelOther,
        }
    }

    /// Whether software could move what fills the frame; [`FrameClass::why`] gives the reason.
    pub const fn mobility(self) -> Mobility {
        match self {
            FrameClass::Free => Mobility::Free,
            FrameClass::Anonymous
            | FrameClass::AnonymousThp
            | FrameClass::Shmem
            | FrameClass::File
            | FrameClass::Hugetlb => Mobility::Movable,
            FrameClass::HugetlbGigantic
            | FrameClass::Slab
            | FrameClass::PageTable
            | FrameClass::DriverMapped
            | FrameClass::KernelOther
            | FrameClass::Reserved
            | FrameClass::ZeroPage
            | FrameClass::HwPoison => Mobility::Unmovable,
            FrameClass::Offline | FrameClass::Unflagged | FrameClass::Uninitialized => {
                Mobility::Unknown
            }
            FrameClass::Absent => Mobility::Absent,
        }
    }

    /// A short name for tables and legends.
    pub const fn label(self) -> &'static str {
        match self {
            FrameClass::Free => "free",
            FrameClass::Anonymous => "anonymous",
            FrameClass::AnonymousThp => "anonymous, huge",
            FrameClass::Shmem => "shared memory",
            FrameClass::File => "page cache",
            FrameClass::Hugetlb => "hugetlb",
            FrameClass::HugetlbGigantic => "hugetlb, gigantic",
            FrameClass::Slab => "slab",
            FrameClass::PageTable => "page tables",
            FrameClass::DriverMapped => "mapped by drivers",
            FrameClass::KernelOther => "kernel, other",
            FrameClass::Reserved => "reserved",
            FrameClass::ZeroPage => "zero page",
            FrameClass::Offline => "offline or ballooned",
            FrameClass::HwPoison => "poisoned",
            FrameClass::Unflagged => "no flags",
            FrameClass::Uninitialized => "not initialized yet",
            FrameClass::Absent => "absent",
        }
    }

    /// Why the class has its [mobility](FrameClass::mobility), in a sentence with the kernel's
    /// names.
    pub const fn why(self) -> &'static str {
        match self {
            FrameClass::Free => "on the buddy lists",
            FrameClass::Anonymous => {
                "migrate_pages moves it; mlocked and unevictable pages too, as long as \
                 vm.compact_unevictable_allowed is 1"
            }
            FrameClass::AnonymousThp => "migrated whole, or split and moved frame by frame",
            FrameClass::Shmem => {
                "migrated as page cache is; secretmem is not, but no flag shows it"
            }
            FrameClass::File => {
                "migrated through its file system's migrate_folio, or written back and dropped"
            }
            FrameClass::Hugetlb => {
                "alloc_contig_range migrates it (hugepage_movable_supported); plain compaction \
                 leaves it"
            }
            FrameClass::HugetlbGigantic => {
                "hugepage_movable_supported refuses gigantic pages: moving one needs a free block \
                 that the buddy lists never hold"
            }
            FrameClass::Slab => {
                "kernel pointers lead to it; a shrinker may free it, nothing moves it"
            }
            FrameClass::PageTable => {
                "the hardware and other tables point to it by physical address"
            }
            FrameClass::DriverMapped => "not on the LRU lists, and no migrate_folio to ask",
            FrameClass::KernelOther => {
                "kernel pointers lead to it; zsmalloc and balloon pages would move (movable_ops) \
                 but no flag shows it them"
            }
            FrameClass::Reserved => "never given to the page allocator",
            FrameClass::ZeroPage => "mapped everywhere and not counted",
            FrameClass::Offline => {
                "virtio-balloon's pages move (movable_ops), those of other drivers do not"
            }
            FrameClass::HwPoison => "never used again",
            FrameClass::Unflagged => {
                "kernel memory without flags does not move, frames on per-CPU lists are free"
            }
            FrameClass::Uninitialized => "the kernel has not initialized it since boot",
            FrameClass::Absent => "no memory",
        }
    }

    /// The class with this number (`class as u8`).
    pub fn from_index(index: u8) -> Option<FrameClass> {
        FrameClass::ALL.get(usize::from(index)).copied()
    }

    /// This class as an index into per-class arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for FrameClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(flags: &[PageFlags]) -> FrameClass {
        FrameClass::of(flags.iter().fold(PageFlags::NONE, |all, f| all | *f))
    }

    #[test]
    fn numbers_are_places_in_the_list() {
        for (i, class) in FrameClass::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), i);
            assert_eq!(FrameClass::from_index(i as u8), Some(class));
        }
        assert_eq!(FrameClass::from_index(18), None);
    }

    #[test]
    fn user_memory_and_page_cache() {
        use PageFlags as F;
        let anonymous = [F::UPTODATE, F::LRU, F::MMAP, F::ANON, F::SWAPBACKED];
        assert_eq!(class(&anonymous), FrameClass::Anonymous);
        assert_eq!(
            class(&[&anonymous[..], &[F::UNEVICTABLE, F::MLOCKED]].concat()).mobility(),
            Mobility::Movable
        );
        assert_eq!(class(&[&anonymous[..], &[F::KSM]].concat()), FrameClass::Anonymous);
        assert_eq!(class(&[F::ANON, F::MMAP, F::SWAPBACKED]), FrameClass::Anonymous, "isolated");
        assert_eq!(class(&[F::SWAPCACHE, F::SWAPBACKED, F::LRU]), FrameClass::Anonymous);
        assert_eq!(class(&[F::ANON, F::THP, F::COMPOUND_TAIL]), FrameClass::AnonymousThp);
        assert_eq!(class(&[F::LRU, F::SWAPBACKED, F::UPTODATE]), FrameClass::Shmem);
        assert_eq!(class(&[F::LRU, F::UPTODATE, F::PRIVATE]), FrameClass::File, "buffer heads");
        assert_eq!(class(&[F::LRU, F::WRITEBACK]), FrameClass::File);
        assert_eq!(class(&[F::UPTODATE, F::OWNER_2]), FrameClass::File, "isolated");
    }

    #[test]
    fn kernel_memory() {
        use PageFlags as F;
        assert_eq!(class(&[F::SLAB, F::ANON, F::KSM]), FrameClass::Slab, "misread slab data");
        assert_eq!(class(&[F::PGTABLE, F::REFERENCED]), FrameClass::PageTable);
        assert_eq!(class(&[F::MMAP]), FrameClass::DriverMapped);
        assert_eq!(class(&[F::RESERVED, F::MMAP]), FrameClass::Reserved);
        assert_eq!(class(&[F::RESERVED, F::ZERO_PAGE]), FrameClass::ZeroPage);
        assert_eq!(class(&[F::PRIVATE]), FrameClass::KernelOther);
        assert_eq!(class(&[F::PRIVATE, F::UPTODATE]), FrameClass::KernelOther);
        assert_eq!(class(&[F::COMPOUND_HEAD]), FrameClass::KernelOther);
        assert_eq!(class(&[F::REFERENCED, F::LOCKED]), FrameClass::Unflagged);
        assert_eq!(class(&[]), FrameClass::Unflagged);
    }

    #[test]
    fn free_offline_and_lost() {
        use PageFlags as F;
        assert_eq!(class(&[F::BUDDY, F::UPTODATE]), FrameClass::Free);
        assert_eq!(class(&[F::OFFLINE]).mobility(), Mobility::Unknown);
        assert_eq!(class(&[F::HWPOISON, F::LRU, F::ANON]), FrameClass::HwPoison);
        assert_eq!(class(&[F::NOPAGE]), FrameClass::Absent);
    }
}
