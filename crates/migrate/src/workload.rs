//! The workload of the cores: requests to a server, as streams of accesses and transfers of its
//! device.

mod memcached;
mod nginx;
mod parts;
mod server;
mod synthetic;
mod traced;

use serde::{Deserialize, Serialize};

use crate::address::{Access, PageSize, Virtual, Vpn};

pub use memcached::Memcached;
pub use nginx::Nginx;
pub use parts::Region;
pub use synthetic::Synthetic;
pub use traced::Traced;

/// One request: what the device writes before it, what a core does, what the device reads after.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The core's accesses, in order.
    pub accesses: Vec<Access>,
    /// Received by the device before: where, and how many lines.
    pub received: Vec<(Virtual, u32)>,
    /// Sent by the device after: where, and how many lines.
    pub sent: Vec<(Virtual, u32)>,
}

impl Request {
    /// Empties it for the next.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.received.clear();
        self.sent.clear();
    }
}

/// A stream of requests, seeded.
pub trait Workload: Send {
    /// Bytes that it maps in the arena of each page size.
    fn bytes(&self) -> [u64; 3];

    /// Puts the next request of a core into `request`, which is empty. The requests of a core
    /// depend on the seed alone, not on what other cores ask in between.
    fn request(&mut self, core: usize, request: &mut Request);

    /// Pages that device and cores use all the time and that software cannot move: network buffers.
    fn buffers(&self) -> Region;

    /// Pages of the program that software can move.
    fn heap(&self) -> Region;
}

/// Which workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A key-value cache: network buffers, parse, skewed hash look-ups.
    Memcached,
    /// A web server that sends files from the page cache.
    Nginx,
    /// Nine accesses in ten to 16 KiB of the core's own, the rest anywhere in 64 MiB.
    Hot,
    /// Nine accesses in ten anywhere in 128 MiB that all cores share, a third of them stores.
    Random,
    /// One access in sixteen to a page that all cores and a device use.
    Sharing,
    /// A recorded program: [`Traced`].
    Trace,
}

impl Kind {
    /// All that are generated, applications first.
    pub const ALL: [Kind; 5] =
        [Kind::Memcached, Kind::Nginx, Kind::Hot, Kind::Random, Kind::Sharing];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Memcached => "memcached",
            Kind::Nginx => "nginx",
            Kind::Hot => "hot",
            Kind::Random => "random",
            Kind::Sharing => "sharing",
            Kind::Trace => "trace",
        }
    }

    /// The stream for `cores` cores from a seed, the program's heap in pages of `heap`; `None` of a
    /// recording, which is not generated.
    pub fn stream(self, cores: usize, seed: u64, heap: PageSize) -> Option<Box<dyn Workload>> {
        Some(match self {
            Kind::Memcached => Box::new(Memcached::new(cores, seed, heap)),
            Kind::Nginx => Box::new(Nginx::new(cores, seed, heap)),
            Kind::Hot => Box::new(Synthetic::hot(cores, seed, heap)),
            Kind::Random => Box::new(Synthetic::random(cores, seed, heap)),
            Kind::Sharing => Box::new(Synthetic::sharing(cores, seed, heap)),
            Kind::Trace => return None,
        })
    }
}

/// The accesses of a request that its program makes itself: not the kernel's, whose memory lies in
/// pages of 1 GiB, nor those to network buffers. For streams whose heap is in base pages.
pub fn of_the_program<'a>(
    stream: &dyn Workload,
    request: &'a Request,
) -> impl Iterator<Item = &'a Access> + use<'a> {
    let buffers = stream.buffers();
    let within = buffers.start.0..buffers.start.0 + buffers.bytes;
    let own = move |access: &&Access| {
        let address = access.address();
        address.size() == PageSize::Base && !within.contains(&address.0)
    };
    request.accesses.iter().filter(own)
}

impl Region {
    /// Its page number `index`, counted around.
    pub fn page(&self, index: u64) -> Vpn {
        let size = self.start.size();
        let pages = self.bytes >> (12 + size.order());
        self.start.plus((index % pages) << (12 + size.order())).vpn()
    }
}
