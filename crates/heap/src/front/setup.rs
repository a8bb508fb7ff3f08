//! Setting the process's heap up, inside its first call: before `main`, perhaps before the C
//! library itself is ready. So nothing here allocates or registers anything.

use rustix::process::{Resource, getrlimit};

use super::page_map::Reach;
use super::settings::Settings;
use super::{fork, malloc, possible_cpus};

/// What the set-up has found out about the process.
#[derive(Clone, Copy, Debug)]
pub struct Openings {
    /// How far the page map's window reaches.
    pub reach: Reach,
    /// CPUs that the kernel may number, if that is known.
    pub possible_cpus: Option<usize>,
    /// The key of the marks of free objects.
    pub free_mark: u64,
}

/// Reads the settings and opens the heap.
pub fn run() {
    let settings = Settings::of_process();
    let openings = Openings {
        reach: Reach::for_limit(getrlimit(Resource::As).current),
        possible_cpus: possible_cpus::read(),
        free_mark: random_word(),
    };
    malloc::open(settings.page_heap, openings);
}

/// A word that differs from process to process: the one that the kernel gives each program.
fn random_word() -> u64 {
    // SAFETY: asks for a value of the auxiliary vector, which is there from the start.
    let place = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u64; 2];
    // SAFETY: the kernel puts 16 bytes there. The first of them guard the stack; the second half
    // is used here.
    let words = unsafe { if place.is_null() { [0; 2] } else { place.read_unaligned() } };
    // Never an aligned pointer exclusive-or its own address, which is what programs may hold.
    words[1] | 1
}

/// Runs once the heap is open: what may allocate.
pub fn finish() {}

/// Runs when the library or the program is loaded, before any of its own code.
extern "C" fn on_load() {
    fork::register();
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
