//! Links the library to preload with the unwinder that GCC has as an archive.
//!
//! Rust's standard library asks for `libgcc_s.so`, which C programs have no use for: 100 KB of
//! each process, and a library more for the loader. A linker script of that name, found before it,
//! names the archive instead.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if !is_gnu || !compiler_has("libgcc_eh.a") {
        return;
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    std::fs::write(folder.join("libgcc_s.so"), "GROUP ( libgcc_eh.a libgcc.a )\n")
        .expect("OUT_DIR can be written to");
    println!("cargo::rustc-cdylib-link-arg=-L{}", folder.display());
}

/// Whether the C compiler, which links, knows where an archive is.
fn compiler_has(archive: &str) -> bool {
    let asked = Command::new("cc").arg(format!("-print-file-name={archive}")).output();
    asked.is_ok_and(|told| Path::new(String::from_utf8_lossy(&told.stdout).trim()).is_absolute())
}
