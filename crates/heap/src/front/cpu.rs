//! Per-CPU caches: a slab for each CPU, found by restartable sequences.
//!
//! The table has an entry for every CPU number that the kernel may use, whatever the affinity, the
//! container, or hot-plug say now. A CPU that never allocates has no slab of its own, only the
//! shared one that is empty and full at once; its first miss makes one.
//!
//! Where there are several NUMA nodes, a CPU has a slab for the objects of each node, and there is
//! a table for each node as well:
//!
//! ```text
//! TABLE         the slab of the CPU's own node: what malloc takes from
//! OF_NODE[n]    the slab for objects of node n: where free puts them
//! ```
//! For a CPU of node n, the two entries name the same slab. So a slab holds objects of one node
//! only, at any moment, wherever a thread is moved to: no section compares nodes. What a CPU frees
//! of another node leaves in batches for the levels of that node.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8, AtomicUsize, Ordering::*, fence};

use super::cache::Stacks;
use super::protocol::entry;
use super::rseq::{Area, Sections};
use rustix::thread::{Cpuid, MembarrierCommand, membarrier, membarrier_cpu};

use super::size_class::{CLASSES, MAX_BATCH, SizeClass};
use super::slab::{Header, Slab, begin};
use super::sync::{ForkLock, Lock};
use crate::memory::node::{MAX_NODES, Node, Topology};
use crate::numa::cpu_and_node;
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
/// By node, the table of slabs for its objects, whose entries are arranged as those of [`TABLE`].
/// Null while there is one node.
static OF_NODE: [AtomicPtr<AtomicPtr<Slab>>; MAX_NODES] =
    [const { AtomicPtr::new(null_mut()) }; MAX_NODES];
/// The number of each CPU's node plus one, once a thread has asked for it; else 0. CPUs that come
/// later by hot-plug need nothing else. Null while there is one node.
static NODE_OF_CPU: AtomicPtr<[AtomicU8; MAX_CPUS]> = AtomicPtr::new(null_mut());

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
/// Held by the thread that empties the caches, and by one that enters a slab in two tables. The
/// first alone takes other locks while it holds this one; no thread takes it while it holds another,
/// and a fork backs off and tries again.
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

    /// Makes the tables for several nodes. False if there is no storage; nothing has changed then.
    /// Called once, after [`CpuCaches::set_up`] and before any cache is used.
    #[must_use]
    pub fn set_up_nodes<S: Storage>(count: usize) -> bool {
        let Some(nodes) = S::take(Layout::new::<[AtomicU8; MAX_CPUS]>()) else { return false };
        let mut tables = [null_mut(); MAX_NODES];
        for table in &mut tables[..count] {
            let Some(made) = new_table::<S>() else { return false };
            *table = made;
        }
        NODE_OF_CPU.store(nodes.as_ptr().cast(), Release);
        OF_NODE.iter().zip(tables).for_each(|(place, table)| place.store(table, Release));
        true
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

    /// The caches for objects of a node, where there are several.
    ///
    /// # Safety
    /// As for [`CpuCaches::at`], and [`CpuCaches::set_up_nodes`] has made the node's table.
    #[inline]
    pub unsafe fn of_node(offset: &AtomicIsize, node: Node) -> CpuCaches {
        let table = OF_NODE[node.index()].load(Relaxed).cast::<*mut Slab>();
        // SAFETY: the table has entries before CPU 0's.
        let table = unsafe { table.add(UNREGISTERED) };
        CpuCaches { area: Area { offset: offset.load(Relaxed), table } }
    }

    /// The node of the CPU that the thread runs on.
    pub fn node_here(self, topology: &Topology) -> Node {
        // SAFETY: `at` was promised that the area is registered.
        let cpu = unsafe { self.area.cpu() };
        match usize::try_from(cpu).ok().and_then(node_of_cpu) {
            Some(node) => node,
            None => ask_for_node(topology),
        }
    }

    /// Whether the CPU that the thread runs on has a slab for objects of `node`, whose caches these
    /// are; if not, tries to make one, and enters that of the CPU's own node in both tables. False
    /// for a thread without registration, and without storage.
    pub fn make_slab_of<S: Storage>(self, node: Node, topology: &Topology) -> bool {
        // SAFETY: `of_node` was promised what `slab` asks for.
        if unsafe { self.area.slab() } != nobodys() {
            return true;
        }
        let Some((cpu, number)) = cpu_and_node() else { return false };
        let (own, cpu) = (topology.node_of(cpu, number), cpu as usize);
        // No slab is entered while one is emptied: it would be in use by the other table.
        let Some(_entering) = EMPTYING.lock() else { return false };
        let (Some(entry), Some(of_malloc)) =
            (CpuCaches::table(node).get(cpu), CpuCaches::table_of_malloc().get(cpu))
        else {
            return false;
        };
        if entry.load(Acquire) == nobodys() {
            let Some(fresh) = S::take(Layout::new::<Slab>()) else { return false };
            entry.store(fresh.as_ptr().cast(), Release);
        }
        if own == node {
            of_malloc.store(entry.load(Relaxed), Release);
        }
        // SAFETY: as above. Without registration the entry is of no use to the thread.
        unsafe { self.area.slab() != nobodys() }
    }

    /// The entries of the CPUs for objects of a node.
    fn table(node: Node) -> &'static [AtomicPtr<Slab>] {
        let table = OF_NODE[node.index()].load(Acquire);
        if table.is_null() {
            return CpuCaches::table_of_malloc();
        }
        let cpus = CPUS.load(Acquire);
        // SAFETY: the table has as many entries behind the first ones, for good.
        unsafe { core::slice::from_raw_parts(table.add(UNREGISTERED), cpus) }
    }

    /// The entries of the CPUs that malloc takes from.
    fn table_of_malloc() -> &'static [AtomicPtr<Slab>] {
        &TABLE[UNREGISTERED..][..CPUS.load(Acquire)]
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

    /// The entry of [`TABLE`] for the CPU that the thread runs on.
    fn entry(self) -> Option<&'static AtomicPtr<Slab>> {
        // SAFETY: `at` was promised that the area is registered.
        let cpu = unsafe { self.area.cpu() };
        TABLE[UNREGISTERED..].get(usize::try_from(cpu).ok()?)
    }

    /// Gives all objects of all CPUs' caches to `give`, with the node that they belong to.
    ///
    /// The CPU's entry is replaced by a slab that is empty and full at once, and a barrier
    /// (`membarrier` for restartable sequences, Linux 5.10) restarts every section that has read
    /// the old one; from then on the slab is unused. Without that barrier the caches are left
    /// alone.
    pub fn drain_all(nodes: usize, mut give: impl FnMut(Node, SizeClass, &[*mut u8])) {
        if membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_err() {
            return;
        }
        let Some(_emptying) = EMPTYING.lock() else { return };
        for node in Node::all(nodes) {
            for (cpu, slab) in CpuCaches::slabs(node) {
                let mut act = || drain(slab, &mut |class, objects| give(node, class, objects));
                borrow_from(&CpuCaches::table(node)[cpu], cpu, slab, || {
                    let of_malloc = &CpuCaches::table_of_malloc()[cpu];
                    // On one node, it is the entry that was just replaced.
                    let twice = core::ptr::eq(of_malloc.load(Relaxed), slab);
                    if twice { borrow_from(of_malloc, cpu, slab, act) } else { act() }
                });
            }
        }
    }

    /// The slabs for objects of a node, of CPUs that have one.
    pub fn slabs(node: Node) -> impl Iterator<Item = (usize, &'static Slab)> {
        CpuCaches::table(node).iter().enumerate().filter_map(|(cpu, entry)| {
            let slab = entry.load(Acquire);
            // SAFETY: slabs of CPUs live as long as the process.
            (!is_shared(slab)).then(|| unsafe { (cpu, &*slab) })
        })
    }
}

/// A table whose CPUs have no slabs yet, with the two entries before CPU 0's. It is never given back.
fn new_table<S: Storage>() -> Option<*mut AtomicPtr<Slab>> {
    let entries = UNREGISTERED + CPUS.load(Acquire);
    let layout = Layout::array::<AtomicPtr<Slab>>(entries).ok()?;
    let table = S::take(layout)?.cast::<AtomicPtr<Slab>>().as_ptr();
    for entry in 0..entries {
        // SAFETY: an entry of the storage that was just taken.
        unsafe { table.add(entry).write(AtomicPtr::new(nobodys())) };
    }
    Some(table)
}

/// Takes a CPU's slab away from one entry while `act` runs, after a barrier on that CPU.
fn borrow_from(entry: &AtomicPtr<Slab>, cpu: usize, slab: &'static Slab, act: impl FnOnce()) {
    // SAFETY: the number of a CPU is a plain number.
    let number = unsafe { Cpuid::from_raw(cpu as u32) };
    let stop = || {
        let stopped = membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, number).is_ok();
        // Linux returns at once, without a barrier, once it has seen that all other threads ended.
        fence(Acquire);
        stopped
    };
    entry::borrow(entry, (&raw const *slab).cast_mut(), emptied(), stop, act);
}

/// Where the node of a CPU is noted, if there are several nodes.
fn place_of_node(cpu: usize) -> Option<&'static AtomicU8> {
    // SAFETY: storage for all CPUs, which is never given back.
    unsafe { NODE_OF_CPU.load(Acquire).as_ref() }?.get(cpu)
}

fn node_of_cpu(cpu: usize) -> Option<Node> {
    let known = place_of_node(cpu)?.load(Relaxed).checked_sub(1)?;
    Node::new(known.into())
}

/// The node of the CPU that the thread runs on, as the kernel says, noted for the next time.
#[cold]
fn ask_for_node(topology: &Topology) -> Node {
    let Some((cpu, number)) = cpu_and_node() else { return Node::FIRST };
    let node = topology.node_of(cpu, number);
    if let Some(place) = place_of_node(cpu as usize) {
        place.store(node.index() as u8 + 1, Relaxed);
    }
    node
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
