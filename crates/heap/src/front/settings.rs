//! What the environment says about the heap, read without the C library's help: the first call may
//! come before it has an environment.

use core::ffi::{CStr, c_char};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::choice::PageHeapChoice;
use super::fatal::say;
use crate::storage::{Mapped, Storage};

/// The settings of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Which page heap (`PRAIRIE_PAGE_HEAP`).
    pub page_heap: PageHeapChoice,
}

impl Settings {
    /// The settings of this process. A value that is not understood is said on standard error, and
    /// the default holds.
    pub fn of_process() -> Settings {
        let mut settings = Settings::default();
        each_variable(|name, value| settings.set(name, value));
        settings
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        if name == b"PRAIRIE_PAGE_HEAP" {
            match PageHeapChoice::named(value) {
                Some(choice) => self.page_heap = choice,
                None => misunderstood("PRAIRIE_PAGE_HEAP", value, PageHeapChoice::NAMES),
            }
        }
    }
}

fn misunderstood(name: &str, value: &[u8], right: &str) {
    let value = core::str::from_utf8(value).unwrap_or("…");
    say(format_args!("{name}={value} is not understood, the default holds; right is {right}"));
}

/// Calls `act` with the name and the value of each variable.
fn each_variable(mut act: impl FnMut(&[u8], &[u8])) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, read once; it is null before the library is ready.
    let mut place = unsafe { environ };
    if place.is_null() {
        return each_variable_of_kernel(act);
    }
    // SAFETY: the environment is an array of C strings that a null ends; during the first
    // allocation nobody changes it, as changing it allocates.
    while let Some(text) = unsafe { place.read().as_ref() } {
        // SAFETY: as above.
        split(unsafe { CStr::from_ptr(text) }.to_bytes(), &mut act);
        // SAFETY: the null that ends the array was not yet reached.
        place = unsafe { place.add(1) };
    }
}

/// The environment that the kernel gave the program.
fn each_variable_of_kernel(mut act: impl FnMut(&[u8], &[u8])) {
    const MOST: usize = 256 << 10;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = openat(CWD, c"/proc/self/environ", flags, Mode::empty()) else { return };
    let Ok(layout) = core::alloc::Layout::from_size_align(MOST, 4096) else { return };
    let Some(storage) = Mapped::take(layout) else { return };
    // SAFETY: the storage is ours until it is given back, and has this size.
    let text = unsafe { core::slice::from_raw_parts_mut(storage.as_ptr(), MOST) };
    let mut len = 0;
    while let Ok(read @ 1..) = rustix::io::read(&file, &mut text[len..]) {
        len += read;
    }
    text[..len].split(|&byte| byte == 0).for_each(|variable| split(variable, &mut act));
    // SAFETY: the text is not used any more.
    unsafe { Mapped::give_back(storage, layout) };
}

fn split(variable: &[u8], act: &mut impl FnMut(&[u8], &[u8])) {
    if let Some(equals) = variable.iter().position(|&byte| byte == b'=') {
        act(&variable[..equals], &variable[equals + 1..]);
    }
}
