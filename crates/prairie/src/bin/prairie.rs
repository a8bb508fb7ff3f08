//! The command `prairie`.

use std::process::ExitCode;

fn main() -> ExitCode {
    prairie::main(std::env::args_os().collect())
}
