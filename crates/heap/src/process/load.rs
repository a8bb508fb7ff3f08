//! What runs when the library or the program is loaded, and when the process ends.

use super::settings::Settings;
use super::{at_exit, background, fork, output, pprof, setup};

/// Runs when the library or the program is loaded, before any of its own code.
pub extern "C" fn on_load() {
    fork::register();
    setup::ensure_ready();
    let settings = Settings::of_process();
    background::start_at(settings.release_rate);
    output::note_start(&settings);
}

/// Runs when the process ends, after the program's own handlers.
pub extern "C" fn on_exit() {
    let settings = Settings::of_process();
    if let Some(asked) = settings.statistics {
        at_exit::write_as_asked(&asked);
    }
    if let Some(path) = settings.profile {
        pprof::write_to(&path);
    }
}

/// Runs [`on_load`] and [`on_exit`] of the program or library that calls this macro. A program that
/// only links this crate pays for neither.
#[macro_export]
#[doc(hidden)]
macro_rules! run_at_load_and_exit {
    () => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static PRAIRIE_HEAP_ON_LOAD: extern "C" fn() = $crate::exported::load::on_load;

        #[used]
        #[unsafe(link_section = ".fini_array")]
        static PRAIRIE_HEAP_ON_EXIT: extern "C" fn() = $crate::exported::load::on_exit;
    };
}
