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

use super::parts::{Layout, Near, Region, Scattered};
use super::{Request, Workload};
use crate::address::PageSize;
use crate::random::{Random, Zipf};

const ITEMS: u64 = 4 << 20;
const ITEM_BYTES: u64 = 192;
const CONNECTIONS: u64 = 32;
const CONNECTION_BYTES: u64 = 8192;
const SOCKET_BYTES: u64 = 2048;
const BUFFERS: u64 = 256;
const BUFFER_BYTES: u64 = 2048;
const REQUEST_BYTES: u64 = 64;
const VALUE_BYTES: u64 = 104;
const STACK_BYTES: u64 = 16 << 10;
const GLOBAL_PAGES: u64 = 24;

/// See the module.
pub struct Memcached {
    layout: Layout,
    zipf: Zipf,
    hash_table: Region,
    items: Region,
    connections: Region,
    stacks: Region,
    globals: Region,
    kernel: Region,
    buffers: Region,
    cores: Vec<(Random, u64)>,
}

impl Memcached {
    /// For `cores` cores, the heap in pages of `heap`.
    pub fn new(cores: usize, seed: u64, heap: PageSize) -> Memcached {
        let mut layout = Layout::default();
        let n = cores as u64;
        Memcached {
            hash_table: layout.add(heap, ITEMS * 8),
            items: layout.add(heap, ITEMS * ITEM_BYTES),
            connections: layout.add(heap, n * CONNECTIONS * CONNECTION_BYTES),
            stacks: layout.add(heap, n * STACK_BYTES),
            // Data of the program and of its libraries lies in files, and so in base pages.
            globals: layout.add(PageSize::Base, n * (GLOBAL_PAGES << 12)),
            // Linux maps its own data by pages of 1 GiB.
            kernel: layout.add(PageSize::Giant, n * (64 << 10) * 4),
            buffers: layout.add(PageSize::Base, n * 2 * BUFFERS * BUFFER_BYTES),
            zipf: Zipf::new(ITEMS, 0.99),
            cores: (0..n).map(|core| (Random::new(seed, core), 0)).collect(),
            layout,
        }
    }
}

impl Workload for Memcached {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.buffers
    }

    fn heap(&self) -> Region {
        self.items
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let number = core as u64;
        let (random, served) = &mut self.cores[core];
        let ring = *served % BUFFERS;
        *served += 1;
        let connection_of = |region: &Region, bytes: u64, which: u64| {
            region.part(number * CONNECTIONS + which, bytes)
        };
        let which = random.below(CONNECTIONS);
        let connection = connection_of(&self.connections, CONNECTION_BYTES, which);
        let kernel = self.kernel.part(number, 256 << 10);
        let socket = kernel.part(which, SOCKET_BYTES);
        let (own, descriptors) = (kernel.part(1, 128 << 10), kernel.part(3, 64 << 10));
        let receive = self.buffers.part(2 * number * BUFFERS + ring, BUFFER_BYTES);
        let send = self.buffers.part((2 * number + 1) * BUFFERS + ring, BUFFER_BYTES);
        let user = Near {
            regions: [
                self.stacks.part(number, STACK_BYTES).part(0, 2048),
                connection.part(0, 1024),
            ],
            scattered: Scattered {
                region: self.globals.part(number, GLOBAL_PAGES << 12),
                bytes_of_page: 128,
            },
        };
        let system = Near {
            regions: [own.part(0, 4096), socket],
            scattered: Scattered { region: own.part(1, 4096), bytes_of_page: 4096 },
        };
        let item = self.zipf.rank(random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % ITEMS;
        // The hash of the key: another mixture, so that buckets and items lie apart.
        let bucket = (item ^ 0x2545F).wrapping_mul(0xD1B5_4A32_D192_ED03) >> 20 & (ITEMS - 1);
        let item = self.items.at(item * ITEM_BYTES);
        let is_set = random.below(10) == 0;
        let in_bytes = REQUEST_BYTES + if is_set { VALUE_BYTES } else { 0 };

        request.received.push((receive.at(0), in_bytes.div_ceil(64) as u32));
        request.received.push((descriptors.at((ring * 16) & !63), 1));

        request.load(descriptors.at(ring * 16), 20);
        request.work(&system, 600, 1500, random);
        request.load(receive.at(0), 5);
        request.work(&system, 600, 1500, random);
        request.copy(receive.at(0), connection.at(2048), in_bytes);

        request.work(&user, 300, 600, random);
        for byte in 0..REQUEST_BYTES / 2 {
            request.load(connection.at(2048 + byte), 3);
        }
        request.work(&user, 300, 700, random);
        request.load(self.hash_table.at(bucket * 8), 10);
        request.load(item, 4);
        request.load(item.plus(24), 2);
        request.read(item.plus(48), 32);
        request.store(item.plus(8), 4);
        request.store(item.plus(16), 4);
        if is_set {
            request.copy(connection.at(2048 + REQUEST_BYTES), item.plus(80), VALUE_BYTES);
        }
        request.work(&user, 700, 1500, random);

        request.work(&system, 600, 1500, random);
        request.write(send.at(0), 64);
        if !is_set {
            request.copy(item.plus(80), send.at(64), VALUE_BYTES);
        }
        request.store(descriptors.at(32 * 1024 + ring * 16), 10);
        request.work(&system, 600, 1500, random);
        request.sent.push((send.at(0), if is_set { 1 } else { 3 }));
    }
}
