//! The workload of the real kernels' tests: memory touched once a second, once a minute, and never
//! again, whose truth is known (`crates/experiments/src/bin/paced.rs`).

use std::ops::Range;

use crate::access::Rhythm;
use crate::backend::{Backend, Ssd};
use crate::container::{Container, ContainerParts};
use crate::kernel::Kernel;

/// Sizes in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Touched every second.
    pub hot: u64,
    /// Touched every minute.
    pub warm: u64,
    /// Written once.
    pub cold: u64,
}

impl Sizes {
    /// As on the real kernels.
    pub const FULL: Sizes = Sizes { hot: 128, warm: 64, cold: 256 };

    const PAGES_IN_MIB: u64 = 256;

    /// All pages.
    pub fn pages(&self) -> u64 {
        (self.hot + self.warm + self.cold) * Self::PAGES_IN_MIB
    }

    /// The cold ones.
    pub fn cold_pages(&self) -> Range<usize> {
        ((self.hot + self.warm) * Self::PAGES_IN_MIB) as usize..self.pages() as usize
    }
}

/// One task that touches them, in a container with swap as large as itself. Half of each page is
/// noise: they compress by two.
pub fn container(sizes: Sizes, backend: Backend, kernel: Kernel, seed: u64) -> Container {
    let rhythms = [
        (sizes.hot, Rhythm::regular(1.0)),
        (sizes.warm, Rhythm::regular(60.0)),
        (sizes.cold, Rhythm::NEVER),
    ];
    let pages = rhythms.into_iter().flat_map(|(mib, rhythm)| {
        std::iter::repeat_n(rhythm, (mib * Sizes::PAGES_IN_MIB) as usize)
    });
    of(pages, backend, kernel, seed)
}

/// Touches a second of the most popular page under [`zipf`].
pub const ZIPF_RATE: f64 = 100.0;

/// The same size with accesses by Zipf's law: the k-th most popular page is touched at random,
/// once in `k / ZIPF_RATE` seconds on average. Popular pages lie anywhere.
pub fn zipf(sizes: Sizes, backend: Backend, kernel: Kernel, seed: u64) -> Container {
    let pages = sizes.pages();
    // An odd prime that does not divide the number of pages visits each rank once.
    let rank = |page: u64| page * 104_729 % pages + 1;
    let rhythms = (0..pages).map(|page| Rhythm::random(rank(page) as f64 / ZIPF_RATE));
    of(rhythms, backend, kernel, seed)
}

fn of(
    pages: impl Iterator<Item = Rhythm>,
    backend: Backend,
    kernel: Kernel,
    seed: u64,
) -> Container {
    let made = ContainerParts {
        pages: pages.map(|rhythm| (rhythm, false)).collect(),
        real_pages: 1,
        compression: 2.0,
        busy_tasks: 1,
        backend,
        disk: Ssd::fast(),
        swap_bytes: 1 << 30,
        kernel,
    };
    Container::new(made, seed)
}

/// The cold memory is read once a minute from now on.
pub fn change(container: &mut Container, sizes: Sizes) {
    container.change(sizes.cold_pages(), Rhythm::regular(60.0));
}
