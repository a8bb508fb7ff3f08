//! Setup of the process's heap, inside its first call: before `main`, perhaps before the C library
//! itself is ready. Nothing here may allocate or register anything.

use core::sync::atomic::{AtomicBool, Ordering::*};

use rustix::process::{Resource, getrlimit};

use super::deepbind;
use super::limit;
use super::nodes;
use super::possible_cpus;
use super::settings::{Numa, Settings};
use super::shared::HEAP;
use crate::front::choice::PageHeapChoice;
use crate::front::control::CONTROL;
use crate::front::cpu::CpuCaches;
use crate::front::page_map::Reach;
use crate::front::protocol::once::{Once, Turn};
use crate::front::record::Recorder;
use crate::front::size_class::{MAX_DIRECT, MAX_FINE};
use crate::front::{guard, profile, rseq, sync};
use crate::memory::node::{Node, Topology};
use crate::numa;
use crate::storage::Mapped;
use crate::units::Pages;

static SET_UP: Once = Once::new();

/// Whether every free takes the slow path, which checks fully.
static CHECK: AtomicBool = AtomicBool::new(false);

/// Whether the heap is set up.
#[inline]
pub fn is_done() -> bool {
    SET_UP.is_done()
}

/// Whether every free takes the slow path.
pub fn checks_all_frees() -> bool {
    CHECK.load(Relaxed)
}

/// Whether the heap is set up; if not, sets it up. False while this thread itself does that: a
/// function that setup calls allocates.
#[inline]
pub fn ready() -> bool {
    SET_UP.is_done() || set_up()
}

/// Sets the heap up unless an earlier call did.
pub fn ensure_ready() {
    ready();
}

#[cold]
fn set_up() -> bool {
    match SET_UP.begin(sync::me()) {
        Turn::Mine => {
            run();
            SET_UP.finish();
            true
        }
        Turn::Done => true,
        Turn::Within => false,
        Turn::Others => {
            while !SET_UP.is_done() {
                rustix::thread::sched_yield();
            }
            true
        }
    }
}

/// Reads the settings, gives the heap its page heap, and opens the fast paths.
fn run() {
    let settings = Settings::of_process();
    let random = random_words();
    if settings.keep_deepbind {
        deepbind::keep();
    }
    if settings.profile.is_some() || settings.sample {
        profile::set_up::<Mapped>(random[0] ^ random[1]);
    }
    if settings.guard_one_in > 0 {
        guard::set_up::<Mapped>(settings.guard_one_in);
    }
    CpuCaches::set_up(possible_cpus::read());
    set_up_heaps(&settings, page_heap_of(&settings, random[0]));
    // Odd, so never an aligned pointer exclusive-or its own address, which programs may hold.
    CONTROL.free_mark.store(random[1] | 1, Relaxed);
    CHECK.store(settings.check, Relaxed);
    open_fast_paths();
    if let Some(path) = &settings.trace {
        HEAP.record(Recorder::begin(path.as_c_str()));
    }
}

/// Gives each node's heap its page heap.
fn set_up_heaps(settings: &Settings, choice: PageHeapChoice) {
    let address_space = getrlimit(Resource::As).current;
    let reach = Reach::for_limit(address_space);
    let mut topology = topology_of(settings, address_space);
    if topology.count() > 1 && !nodes::set_up_map() {
        topology = Topology::ONE;
    }
    if let Some(page_heap) = choice.make(nodes::memory(&topology, Node::FIRST)) {
        HEAP.set_up(page_heap, reach);
        if topology.count() > 1 {
            nodes::set_up(topology, choice, reach);
        }
    }
    if let Some(bytes) = settings.limit.and_then(limit::bytes) {
        HEAP.all().for_each(|heap| heap.set_limit(Pages(bytes / Pages::SIZE)));
    }
}

/// The nodes that have heaps of their own. One if that is asked for; if threads have caches, not
/// CPUs; if address space is short; and for a trace, which is of one page heap.
fn topology_of(settings: &Settings, address_space: Option<u64>) -> Topology {
    let alone = settings.trace.is_some() || address_space.is_some();
    match settings.numa {
        _ if alone || rseq::registered_offset().is_none() => Topology::ONE,
        Numa::One => Topology::ONE,
        Numa::ByNode => {
            numa::allowed_nodes().map_or(Topology::ONE, |mask| Topology::of_mask(&mask))
        }
        Numa::InTurn(count) => Topology::InTurn { count },
    }
}

/// Opens the fast paths where the C library has registered an area for restartable sequences.
fn open_fast_paths() {
    let Some(offset) = rseq::registered_offset() else { return };
    CONTROL.rseq_offset.store(offset, Release);
    // The fast path counts nothing.
    let counted = guard::is_on() || profile::is_on();
    if !counted {
        CONTROL.fast_limit.store(MAX_DIRECT, Release);
        CONTROL.table_limit.store(MAX_FINE, Release);
    }
}

/// The page heap of the settings, or of the arm of the experiment that the process falls into by a
/// hash of a random word (section 6.4).
fn page_heap_of(settings: &Settings, random: u64) -> PageHeapChoice {
    // Fibonacci hashing: the product's high bits are evenly spread.
    let arm = ((random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * 1000) >> 32;
    if arm < settings.experiment_per_mille { PageHeapChoice::Legacy } else { settings.page_heap }
}

/// Words that differ from process to process: those that the kernel gives each program.
fn random_words() -> [u64; 2] {
    // SAFETY: reads a value of the auxiliary vector, which exists from the start.
    let place = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u64; 2];
    // SAFETY: the kernel puts 16 bytes there.
    unsafe { if place.is_null() { [0; 2] } else { place.read_unaligned() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_takes_its_share() {
        let settings =
            |experiment_per_mille| Settings { experiment_per_mille, ..Settings::default() };
        let mut word = 1u64;
        let legacy =
            |settings: Settings, word| page_heap_of(&settings, word) == PageHeapChoice::Legacy;
        let mut taken = 0;
        for _ in 0..10_000 {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            assert!(!legacy(settings(0), word) && legacy(settings(1000), word));
            taken += u32::from(legacy(settings(100), word));
        }
        assert!((900..1100).contains(&taken), "{taken} of 10,000 at 100 per mille");
    }
}
