//! Setting the process's heap up, inside its first call: before `main`, perhaps before the C
//! library itself is ready. So nothing here allocates or registers anything.

use rustix::process::{Resource, getrlimit};

use super::choice::PageHeapChoice;
use super::page_map::Reach;
use super::record::Recorder;
use super::settings::Settings;
use super::{
    at_exit, background, deepbind, fork, guard, malloc, output, possible_cpus, pprof, profile,
};
use crate::storage::Mapped;

/// What the set-up has found out about the process.
#[derive(Clone, Copy, Debug)]
pub struct Openings {
    /// How far the page map's window reaches.
    pub reach: Reach,
    /// CPUs that the kernel may number, if that is known.
    pub possible_cpus: Option<usize>,
    /// The key of the marks of free objects.
    pub free_mark: u64,
    /// Whether every free takes the slow path, which checks fully.
    pub check: bool,
}

/// Reads the settings and opens the heap.
pub fn run() {
    let settings = Settings::of_process();
    let random = random_words();
    let openings = Openings {
        reach: Reach::for_limit(getrlimit(Resource::As).current),
        possible_cpus: possible_cpus::read(),
        // Never an aligned pointer exclusive-or its own address, which is what programs may hold.
        free_mark: random[1] | 1,
        check: settings.check,
    };
    if settings.keep_deepbind {
        deepbind::keep();
    }
    background::set_rate(settings.release_rate);
    if settings.profile.is_some() {
        profile::set_up::<Mapped>(random[0] ^ random[1]);
    }
    if settings.guard_one_in > 0 {
        guard::set_up::<Mapped>(settings.guard_one_in);
    }
    malloc::open(page_heap_of(&settings, random[0]), openings);
    if let Some(path) = &settings.trace {
        malloc::HEAP.record(Recorder::begin(path.as_c_str()));
    }
}

/// The page heap of the settings, or of the arm of the experiment that the process falls into by a
/// hash of a random word (section 6.4).
fn page_heap_of(settings: &Settings, random: u64) -> PageHeapChoice {
    // Fibonacci hashing: the product's high bits are even spread.
    let arm = ((random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * 1000) >> 32;
    if arm < settings.experiment_per_mille { PageHeapChoice::Legacy } else { settings.page_heap }
}

/// Words that differ from process to process: those that the kernel gives each program.
fn random_words() -> [u64; 2] {
    // SAFETY: asks for a value of the auxiliary vector, which is there from the start.
    let place = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u64; 2];
    // SAFETY: the kernel puts 16 bytes there.
    unsafe { if place.is_null() { [0; 2] } else { place.read_unaligned() } }
}

/// Runs when the library or the program is loaded, before any of its own code.
#[doc(hidden)]
pub extern "C" fn on_load() {
    fork::register();
    malloc::ensure_ready();
    background::start();
    output::note_start(&Settings::of_process());
}

/// Runs when the process ends, after the program's own handlers.
#[doc(hidden)]
pub extern "C" fn on_exit() {
    let settings = Settings::of_process();
    if let Some(asked) = settings.statistics {
        at_exit::write_as_asked(&asked);
    }
    if let Some(path) = settings.profile {
        pprof::write_to(&path);
    }
}

/// Has the heap set up when the program or the library that calls this macro is loaded, and asked
/// for its statistics at exit. Whoever merely links this crate pays for neither.
#[macro_export]
#[doc(hidden)]
macro_rules! run_at_load_and_exit {
    () => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static PRAIRIE_HEAP_ON_LOAD: extern "C" fn() = $crate::front::setup::on_load;

        #[used]
        #[unsafe(link_section = ".fini_array")]
        static PRAIRIE_HEAP_ON_EXIT: extern "C" fn() = $crate::front::setup::on_exit;
    };
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
