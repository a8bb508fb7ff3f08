//! The command `prairie`.

use std::process::ExitCode;

/// Runs before Rust's runtime prepares the standard files.
// SAFETY: the section holds pointers to functions that the C library calls before `main`. This one
// calls `fcntl` and sets a flag, for which nothing has to be prepared.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_IF_CLOSED: extern "C" fn() = prairie::note_if_closed;

fn main() -> ExitCode {
    prairie::main(std::env::args_os().collect())
}
