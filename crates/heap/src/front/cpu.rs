//! Per-CPU caches: a slab for each CPU, found by restartable sequences.
//!
//! The table has an entry for every CPU number that the kernel may use, whatever the affinity, the
//! container, or hot-plug say now. A CPU that never allocates has no slab of its own, only the
//! shared one that is empty and full at once; its first miss makes one.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering::*};

use super::cache::Stacks;
use super::protocol::entry;
use super::rseq::Area;
use rustix::thread::{Cpuid, MembarrierCommand, membarrier, membarrier_cpu};

use super::size_class::{CLASSES, MAX_BATCH, SizeClass};
use super::slab::{Header, Slab, begin};
use super::sync::{ForkLock, Lock};
use crate::storage::Storage;

/// CPUs of the largest Linux (`CONFIG_NR_CPUS`).
const MAX_CPUS: usize = 8192;
/// Values of `cpu_id` in threads without registration: −1 and −2.
const UNREGISTERED: usize = 2;

/// The table of slabs; entry 2 is CPU 0's.
#[doc(hidden)]
pub static TABLE: [AtomicPtr<Slab>; UNREGISTERED + MAX_CPUS] =
    [const { AtomicPtr::new(null_mut()) }; UNREGISTERED + MAX_CPUS];
/// Offset of CPU 0's entry in the table, in bytes.
#[doc(hidden)]
pub const CPU_ZERO: usize = UNREGISTERED * size_of::<usize>();
/// CPUs that have an entry.
static CPUS: AtomicUsize = AtomicUsize::new(0);

/// The headers of the slab that is empty and full at once. It is never written to.
#[repr(align(64))]
struct Headers(#[allow(dead_code, reason = "read as a slab")] [u64; CLASSES + 1]);
static NOBODYS: Headers = Headers([0; CLASSES + 1]);

fn nobodys() -> *mut Slab {
    (&raw const NOBODYS).cast::<Slab>().cast_mut()
}

/// The slab of a CPU whose own one is being emptied: as [`NOBODYS`], but not to be replaced.
static EMPTIED: Headers = Headers([0; CLASSES + 1]);
/// Held by the thread that empties the caches. That thread alone takes other locks while it holds
/// this one; no thread takes it while it holds another, and a fork backs off and tries again.
static EMPTYING: Lock<()> = Lock::new(());

/// The lock of the thread that empties the caches, for fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &EMPTYING
}

fn emptied() -> *mut Slab {
    (&raw const EMPTIED).cast::<Slab>().cast_mut()
}

fn is_shared(slab: *mut Slab) -> bool {
    slab == nobodys() || slab == emptied()
}

/// The caches of the CPUs.
#[derive(Clone, Copy)]
pub struct CpuCaches {
    area: Area,
}

impl CpuCaches {
    /// Fills the table for `possible` CPUs, or for all that there can be, and gives the caches.
    /// Called once, before any of them is used.
    pub fn set_up(possible: Option<usize>) {
        let cpus = possible.unwrap_or(MAX_CPUS).min(MAX_CPUS);
        for entry in &TABLE[..UNREGISTERED + cpus] {
            entry.store(nobodys(), Relaxed);
        }
        CPUS.store(cpus, Release);
    }

    /// The caches, for threads whose registered area is at `offset`.
    ///
    /// # Safety
    /// It is registered there, and [`CpuCaches::set_up`] was called.
    #[inline]
    pub unsafe fn at(offset: &AtomicIsize) -> CpuCaches {
        let table = (&raw const TABLE).cast::<*mut Slab>();
        // SAFETY: the table has entries before CPU 0's.
        let table = unsafe { table.add(UNREGISTERED) };
        CpuCaches { area: Area { offset: offset.load(Relaxed), table } }
    }

    /// Whether the CPU that the thread runs on has a slab; if not, tries to make one. False for a
    /// thread without registration, and without storage.
    pub fn make_slab<S: Storage>(self) -> bool {
        // SAFETY: `at` was promised what `slab` asks for.
        if unsafe { self.area.slab() } != nobodys() {
            return true;
        }
        let Some(entry) = self.entry() else { return false };
        let Some(fresh) = S::take(Layout::new::<Slab>()) else { return false };
        // Zeroed storage is a slab whose stacks are empty and have no room.
        if !entry::replace_stand_in(entry, nobodys(), fresh.as_ptr().cast()) {
            // SAFETY: no other thread knows of the fresh storage.
            unsafe { S::give_back(fresh, Layout::new::<Slab>()) };
        }
        true
    }

    /// The table's entry for the CPU that the thread runs on.
    fn entry(self) -> Option<&'static AtomicPtr<Slab>> {
        // SAFETY: `at` was promised that the area is registered.
        let cpu = unsafe { self.area.cpu() };
        TABLE[UNREGISTERED..].get(usize::try_from(cpu).ok()?)
    }

    /// Gives all objects of all CPUs' caches to `give`.
    ///
    /// The CPU's entry is replaced by a slab that is empty and full at once, and a barrier
    /// (`membarrier` for restartable sequences, Linux 5.10) restarts every section that has read
    /// the old one; from then on the slab is unused. Without that barrier the caches are left
    /// alone.
    pub fn drain_all(mut give: impl FnMut(SizeClass, &[*mut u8])) {
        if membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_err() {
            return;
        }
        let Some(_emptying) = EMPTYING.lock() else { return };
        for (cpu, slab) in CpuCaches::slabs() {
            let entry = &TABLE[UNREGISTERED + cpu];
            // SAFETY: the number of a CPU is a plain number.
            let number = unsafe { Cpuid::from_raw(cpu as u32) };
            let fence = || membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, number).is_ok();
            let its_own = (&raw const *slab).cast_mut();
            entry::borrow(entry, its_own, emptied(), fence, || drain(slab, &mut give));
        }
    }

    /// The slabs of CPUs that have one.
    pub fn slabs() -> impl Iterator<Item = (usize, &'static Slab)> {
        let cpus = CPUS.load(Acquire);
        TABLE[UNREGISTERED..UNREGISTERED + cpus].iter().enumerate().filter_map(|(cpu, entry)| {
            let slab = entry.load(Acquire);
            // SAFETY: slabs of CPUs live as long as the process.
            (!is_shared(slab)).then(|| unsafe { (cpu, &*slab) })
        })
    }
}

/// Empties an unused slab.
fn drain(slab: &Slab, give: &mut impl FnMut(SizeClass, &[*mut u8])) {
    for class in SizeClass::all() {
        let first = begin(class);
        loop {
            let Header { top, end } = slab.header(class);
            let mut objects = [null_mut(); MAX_BATCH];
            let count = (top.saturating_sub(first) as usize).min(MAX_BATCH);
            if count == 0 {
                break;
            }
            for (back, object) in objects[..count].iter_mut().enumerate() {
                *object = slab.slot(top - back as u32).load(Relaxed) as *mut u8;
            }
            slab.set_header(class, Header { top: top - count as u32, end });
            give(class, &objects[..count]);
        }
    }
}

impl Stacks for CpuCaches {
    #[inline]
    fn pop(&self, class: SizeClass) -> *mut u8 {
        // SAFETY: `at` was promised what the sections ask for.
        unsafe { self.area.pop(class.number()) }
    }

    #[inline]
    fn push(&self, class: SizeClass, object: *mut u8) -> bool {
        // SAFETY: as above.
        unsafe { self.area.push(class.number(), object) }
    }

    fn push_batch(&self, class: SizeClass, objects: &[*mut u8]) -> usize {
        // SAFETY: as above.
        unsafe { self.area.push_batch(class.number(), objects) }
    }

    fn pop_batch(&self, class: SizeClass, objects: &mut [*mut u8]) -> usize {
        // SAFETY: as above.
        unsafe { self.area.pop_batch(class.number(), begin(class) as usize, objects) }
    }

    fn slab(&self) -> Option<&Slab> {
        // SAFETY: as above; slabs of CPUs live as long as the process.
        unsafe {
            let slab = self.area.slab();
            (!is_shared(slab)).then(|| &*slab)
        }
    }

    fn replace_header(&self, slab: &Slab, class: SizeClass, old: Header, new: Header) -> bool {
        let slab = (&raw const *slab).cast_mut();
        // SAFETY: as above; the caller describes the same objects, with more or less room.
        unsafe { self.area.replace_header(slab, class.number(), old.word(), new.word()) }
    }
}
