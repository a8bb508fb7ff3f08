//! Extremes: what no application does, at either end of what caches can do for it.

use super::parts::{Layout, Region};
use super::{Request, Workload};
use crate::address::{Access, Kind, PageSize};
use crate::random::Random;

/// Accesses of a request.
const ACCESSES: usize = 1000;

/// Bytes that a core of the hot stream has to itself.
const HOT_BYTES: u64 = 16 << 10;

/// See [`super::Kind`].
pub struct Synthetic {
    layout: Layout,
    near: Region,
    far: Region,
    buffers: Region,
    /// The number of far accesses among 256.
    far_of_256: u64,
    cores: Vec<Random>,
}

impl Synthetic {
    fn new(cores: usize, seed: u64, size: PageSize, far: u64, far_of_256: u64) -> Synthetic {
        let mut layout = Layout::default();
        Synthetic {
            near: layout.add(size, cores as u64 * HOT_BYTES),
            far: layout.add(size, far),
            buffers: layout.add(PageSize::Base, 1 << 20),
            far_of_256,
            cores: (0..cores as u64).map(|core| Random::new(seed, core)).collect(),
            layout,
        }
    }

    /// Nine in ten accesses hit the L1.
    pub fn hot(cores: usize, seed: u64, size: PageSize) -> Synthetic {
        Synthetic::new(cores, seed, size, 64 << 20, 24)
    }

    /// Nearly all accesses miss the L1.
    pub fn random(cores: usize, seed: u64, size: PageSize) -> Synthetic {
        Synthetic::new(cores, seed, size, 128 << 20, 232)
    }

    /// One access in sixteen goes to a page that all cores and a device use.
    pub fn sharing(cores: usize, seed: u64, size: PageSize) -> Synthetic {
        let mut stream = Synthetic::new(cores, seed, size, 4096, 16);
        stream.far = stream.buffers.part(0, 4096);
        stream.buffers = stream.far;
        stream
    }
}

impl Workload for Synthetic {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.buffers
    }

    fn heap(&self) -> Region {
        self.far
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let random = &mut self.cores[core];
        let near = self.near.part(core as u64, HOT_BYTES);
        let (near_scale, far_scale) = (near.bytes >> 3, self.far.bytes >> 3);
        request.received.push((self.buffers.at(random.below(self.buffers.bytes) & !63), 1));
        request.accesses.extend((0..ACCESSES).map(|_| {
            let bits = random.next();
            let place = bits >> 24;
            let address = if bits & 0xFF < self.far_of_256 {
                self.far.at(((place * far_scale) >> 40) * 8)
            } else {
                near.at(((place * near_scale) >> 40) * 8)
            };
            let kind = if bits >> 8 & 0xFF < 85 { Kind::Store } else { Kind::Load };
            Access::new(address, kind, 3)
        }));
    }
}
