//! Draws the pictures of `docs/src/internals/contiguitas-hw.md` from the protocol.
//!
//! Usage: `contiguitas_pictures [DIRECTORY]`, default `docs/src/images`.

use std::path::PathBuf;

mod pictures;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).map_or("docs/src/images".into(), PathBuf::from);
    for (name, svg) in pictures::all() {
        std::fs::write(directory.join(name), svg)?;
    }
    Ok(())
}
