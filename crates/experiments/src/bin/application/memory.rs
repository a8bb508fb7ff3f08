//! The pages of a process: one anonymous mapping and one of a file.

#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::ptr;

use anyhow::{Context, Result};
use experiments::load::Noise;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

const PAGE: usize = 4096;

/// A page of one of the mappings.
pub struct Page {
    at: *mut u8,
    /// Whether it is of a file.
    pub is_file: bool,
}

impl Page {
    /// Reads a page of a file; writes an anonymous page, with what it holds.
    pub fn touch(&self) {
        // SAFETY: the page is mapped as long as the process lives, and writable if not of a file.
        unsafe {
            let value = self.at.read_volatile();
            if !self.is_file {
                self.at.write_volatile(value);
            }
        }
    }
}

/// Maps a page for each of `kinds`, which says whether it is of a file. Nothing is filled.
///
/// There is no advice against readahead, because Linux then ignores that pages are used
/// (`vma_has_recency`). FILE's device shall not read ahead.
pub fn map(file: &Path, kinds: &[bool]) -> Result<impl Iterator<Item = Page>> {
    let files = kinds.iter().filter(|file| **file).count();
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let len = |pages: usize| pages.max(1) * PAGE;
    // SAFETY: both mappings are new, and nothing unmaps them while the process lives.
    let mut next = unsafe {
        let (write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let anonymous = mmap_anonymous(ptr::null_mut(), len(kinds.len() - files), write, private)?;
        let shared = MapFlags::SHARED;
        let mapped = mmap(ptr::null_mut(), len(files), ProtFlags::READ, shared, &opened, 0)?;
        [anonymous.cast::<u8>(), mapped.cast::<u8>()]
    };
    Ok(kinds.iter().map(move |is_file| {
        let at = next[usize::from(*is_file)];
        next[usize::from(*is_file)] = at.wrapping_add(PAGE);
        Page { at, is_file: *is_file }
    }))
}

/// What anonymous pages hold: noise, which does not compress, and zeros.
pub struct Contents {
    noise: Noise,
    noise_bytes: usize,
}

impl Contents {
    /// Contents that compress by a factor.
    pub fn new(compression: f64) -> Contents {
        let noise_bytes = (PAGE as f64 / compression / 8.0).round() as usize * 8;
        Contents { noise: Noise(0x9e37_79b9_7f4a_7c15), noise_bytes }
    }

    /// Fills a page for the first time.
    pub fn fill(&mut self, page: &Page) {
        if page.is_file {
            page.touch();
            return;
        }
        // SAFETY: the page is mapped, writable, and nothing else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(page.at, PAGE) };
        self.noise.fill(&mut bytes[..self.noise_bytes]);
    }
}
