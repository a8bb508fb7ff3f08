//! A stream like Memcached's.
//!
//! One thread a core serves connections of its own. Keys follow Zipf's law (θ = 0.99, YCSB's
//! default) over 4 Mi items of one size class, a tenth of the requests set. A request:
//!
//! | step | touches |
//! | --- | --- |
//! | device | a receive buffer and its descriptor, through the IOMMU |
//! | kernel, receive | descriptor, buffer, socket, copy into the connection's read buffer |
//! | parse | the read buffer byte by byte, stack, connection |
//! | look-up | a bucket of the hash table, the header and key of the item |
//! | answer | the item's value; its header is written (reference count, time of last use) |
//! | kernel, send | socket, copy into a transmit buffer, descriptor |
//! | device | reads the transmit buffer |
//!
//! The program's half has the sizes that a recording of the real Memcached 1.6.18 under QEMU's user
//! mode has (`plugin/accesses.c`; one worker, values of 100 bytes, a tenth of requests set): 1,500
//! accesses, 43 % of them stores, 3,400 instructions, which touch 120 lines in 32 pages. What user
//! mode cannot see, the kernel's half, is an assumption of 6,000 instructions and 2,400 accesses.

use super::parts::{Layout, Region};
use super::server::{self, Server, Sizes};
use super::{Request, Workload};
use crate::address::PageSize;
use crate::random::Zipf;

const ITEMS: u64 = 4 << 20;
const ITEM_BYTES: u64 = 192;
const REQUEST_BYTES: u64 = 64;
const VALUE_BYTES: u64 = 104;

const SIZES: Sizes = Sizes {
    connections: 32,
    connection_bytes_used: 1024,
    global_pages: 24,
    global_bytes_used: 128,
    kernel_bytes: 256 << 10,
    kernel_bytes_used: 4096,
};

/// See the module.
pub struct Memcached {
    layout: Layout,
    zipf: Zipf,
    hash_table: Region,
    items: Region,
    server: Server,
}

impl Memcached {
    /// For `cores` cores, the heap in pages of `heap`.
    pub fn new(cores: usize, seed: u64, heap: PageSize) -> Memcached {
        let mut layout = Layout::default();
        let n = cores as u64;
        Memcached {
            hash_table: layout.add(heap, ITEMS * 8),
            items: layout.add(heap, ITEMS * ITEM_BYTES),
            server: Server {
                sizes: SIZES,
                connections: SIZES.add_connections(&mut layout, heap, n),
                stacks: SIZES.add_stacks(&mut layout, heap, n),
                globals: SIZES.add_globals(&mut layout, n),
                kernel: SIZES.add_kernel(&mut layout, n),
                buffers: SIZES.add_buffers(&mut layout, n),
                cores: server::idle(n, seed),
            },
            zipf: Zipf::new(ITEMS, 0.99),
            layout,
        }
    }
}

impl Workload for Memcached {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.server.buffers
    }

    fn heap(&self) -> Region {
        self.items
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let turn = self.server.turn(core);
        let (user, system) = (&turn.user, &turn.system);
        let (receive, send, connection) = (turn.receive, turn.send, turn.connection);
        let item = self.zipf.rank(turn.random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % ITEMS;
        // The hash of the key: another mixture, so that buckets and items lie apart.
        let bucket = (item ^ 0x2545F).wrapping_mul(0xD1B5_4A32_D192_ED03) >> 20 & (ITEMS - 1);
        let item = self.items.at(item * ITEM_BYTES);
        let is_set = turn.random.below(10) == 0;
        let in_bytes = REQUEST_BYTES + if is_set { VALUE_BYTES } else { 0 };

        turn.receive(request, in_bytes);
        turn.take_descriptor(request);
        request.work(system, 600, 1500, turn.random);
        request.load(receive.at(0), 5);
        request.work(system, 600, 1500, turn.random);
        request.copy(receive.at(0), connection.at(2048), in_bytes);

        request.work(user, 300, 600, turn.random);
        for byte in 0..REQUEST_BYTES / 2 {
            request.load(connection.at(2048 + byte), 3);
        }
        request.work(user, 300, 700, turn.random);
        request.load(self.hash_table.at(bucket * 8), 10);
        request.load(item, 4);
        request.load(item.plus(24), 2);
        request.read(item.plus(48), 32);
        request.store(item.plus(8), 4);
        request.store(item.plus(16), 4);
        if is_set {
            request.copy(connection.at(2048 + REQUEST_BYTES), item.plus(80), VALUE_BYTES);
        }
        request.work(user, 700, 1500, turn.random);

        request.work(system, 600, 1500, turn.random);
        request.write(send.at(0), 64);
        if !is_set {
            request.copy(item.plus(80), send.at(64), VALUE_BYTES);
        }
        request.store(turn.descriptors.at(32 * 1024 + turn.ring * 16), 10);
        request.work(system, 600, 1500, turn.random);
        request.sent.push((send.at(0), if is_set { 1 } else { 3 }));
    }
}
