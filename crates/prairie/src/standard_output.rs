//! Standard output, which may be full or closed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes whether standard output is closed. Rust's runtime opens `/dev/null` in its place before
/// `main`, so the binary calls this earlier; otherwise what a command prints would be lost with exit
/// code 0.
pub extern "C" fn note_if_closed() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Writes what a command prints.
pub fn write(text: &[u8]) -> anyhow::Result<()> {
    print(|| io::stdout().write_all(text))
}

/// Writes by `printing`, unless standard output is closed.
pub fn print(printing: impl FnOnce() -> io::Result<()>) -> anyhow::Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        bail!("standard output: closed");
    }
    printing().and_then(|()| io::stdout().flush()).context("standard output")
}
