//! Shared by server workloads: threads that serve connections, and the kernel's half of them.

use super::Request;
use super::parts::{Layout, Near, Region, Scattered};
use crate::address::PageSize;
use crate::random::Random;

const CONNECTION_BYTES: u64 = 8192;
const SOCKET_BYTES: u64 = 2048;
const BUFFERS: u64 = 256;
const BUFFER_BYTES: u64 = 2048;
const STACK_BYTES: u64 = 16 << 10;
const STACK_BYTES_USED: u64 = 2048;

/// Sizes in which servers differ, of each core.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Connections.
    pub connections: u64,
    /// Bytes of a connection that the program works in.
    pub connection_bytes_used: u64,
    /// Pages of data of the program and of its libraries.
    pub global_pages: u64,
    /// Bytes used of each of those, a power of two.
    pub global_bytes_used: u64,
    /// The kernel's own data: sockets in the first half, then data of the core, descriptors in the
    /// last quarter.
    pub kernel_bytes: u64,
    /// Bytes of the core's data that the kernel works in.
    pub kernel_bytes_used: u64,
}

impl Sizes {
    /// Connections of `cores` cores, on the program's heap.
    pub fn add_connections(&self, layout: &mut Layout, heap: PageSize, cores: u64) -> Region {
        layout.add(heap, cores * self.connections * CONNECTION_BYTES)
    }

    /// Stacks, on the program's heap.
    pub fn add_stacks(&self, layout: &mut Layout, heap: PageSize, cores: u64) -> Region {
        layout.add(heap, cores * STACK_BYTES)
    }

    /// Data of the program and of its libraries, which lies in files, and so in base pages.
    pub fn add_globals(&self, layout: &mut Layout, cores: u64) -> Region {
        layout.add(PageSize::Base, cores * (self.global_pages << 12))
    }

    /// The kernel's own data, which Linux maps by pages of 1 GiB.
    pub fn add_kernel(&self, layout: &mut Layout, cores: u64) -> Region {
        layout.add(PageSize::Giant, cores * self.kernel_bytes)
    }

    /// Network buffers.
    pub fn add_buffers(&self, layout: &mut Layout, cores: u64) -> Region {
        layout.add(PageSize::Base, cores * 2 * BUFFERS * BUFFER_BYTES)
    }
}

/// The memory of a server, and how far its cores are.
pub struct Server {
    /// Its sizes.
    pub sizes: Sizes,
    /// The connections of each core.
    pub connections: Region,
    /// Its stack.
    pub stacks: Region,
    /// Its data.
    pub globals: Region,
    /// The kernel's.
    pub kernel: Region,
    /// A ring of receive buffers and one of transmit buffers for each core.
    pub buffers: Region,
    /// Random numbers of each core, and requests that it served.
    pub cores: Vec<(Random, u64)>,
}

/// Random numbers of `cores` cores that served nothing yet.
pub fn idle(cores: u64, seed: u64) -> Vec<(Random, u64)> {
    (0..cores).map(|core| (Random::new(seed, core), 0)).collect()
}

/// What a core serves a request with.
pub struct Turn<'a> {
    /// The core's random numbers.
    pub random: &'a mut Random,
    /// Requests that it served, this one included.
    pub served: u64,
    /// The place of the request in the rings.
    pub ring: u64,
    /// The connection.
    pub connection: Region,
    /// Descriptors of buffers, half of them for receiving.
    pub descriptors: Region,
    /// The receive buffer.
    pub receive: Region,
    /// The transmit buffer.
    pub send: Region,
    /// What the program works in.
    pub user: Near,
    /// What the kernel works in.
    pub system: Near,
}

impl Server {
    /// The next request of a core, on a connection drawn at random.
    pub fn turn(&mut self, core: usize) -> Turn<'_> {
        let (number, sizes) = (core as u64, self.sizes);
        let (random, served) = &mut self.cores[core];
        let ring = *served % BUFFERS;
        *served += 1;
        let which = random.below(sizes.connections);
        let connection =
            self.connections.part(number * sizes.connections + which, CONNECTION_BYTES);
        let kernel = self.kernel.part(number, sizes.kernel_bytes);
        let half = kernel.part(1, sizes.kernel_bytes / 2);
        Turn {
            random,
            served: *served,
            ring,
            connection,
            descriptors: half.part(1, sizes.kernel_bytes / 4),
            receive: self.buffers.part(2 * number * BUFFERS + ring, BUFFER_BYTES),
            send: self.buffers.part((2 * number + 1) * BUFFERS + ring, BUFFER_BYTES),
            user: Near {
                regions: [
                    self.stacks.part(number, STACK_BYTES).part(0, STACK_BYTES_USED),
                    connection.part(0, sizes.connection_bytes_used),
                ],
                scattered: Scattered {
                    region: self.globals.part(number, sizes.global_pages << 12),
                    bytes_of_page: sizes.global_bytes_used,
                },
            },
            system: Near {
                regions: [half.part(0, sizes.kernel_bytes_used), kernel.part(which, SOCKET_BYTES)],
                scattered: Scattered {
                    region: half.part(1, sizes.kernel_bytes_used),
                    bytes_of_page: 4096,
                },
            },
        }
    }
}

impl Turn<'_> {
    /// The device writes `bytes` and a descriptor.
    pub fn receive(&self, request: &mut Request, bytes: u64) {
        request.received.push((self.receive.at(0), bytes.div_ceil(64) as u32));
        request.received.push((self.descriptors.at((self.ring * 16) & !63), 1));
    }

    /// The kernel finds them.
    pub fn take_descriptor(&self, request: &mut Request) {
        request.load(self.descriptors.at(self.ring * 16), 20);
    }
}
