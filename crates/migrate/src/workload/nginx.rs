//! A stream like NGINX's, serving files from the page cache with `sendfile`.
//!
//! One worker a core; 16 Ki files of 16 KiB, by Zipf's law (θ = 0.99). A request:
//!
//! | step | touches |
//! | --- | --- |
//! | device | a receive buffer (a request of 448 bytes) and its descriptor |
//! | kernel, receive | descriptor, buffer, socket, copy into the connection's header buffer |
//! | parse | the header buffer byte by byte, stack, the request's pool |
//! | open-file cache | a bucket and an entry |
//! | answer | headers written; a line of the log |
//! | kernel, send | headers into a transmit buffer, a descriptor for each page of the file and the page's `struct page`; the file's data is not touched |
//! | device | reads headers and file pages |
//!
//! The program's half of a request is calibrated against a recording of the real NGINX 1.22.1 under
//! QEMU's user mode (`plugin/accesses.c`; files of 16 KiB, requests of some 400 bytes with the
//! headers of a browser, a log of accesses): 7,900 accesses, a third of them stores, and 22,600
//! instructions, which touch 360 lines in 66 pages. What user mode cannot see, the kernel's half, is
//! an assumption of 15,000 instructions.

use super::parts::{Layout, Near, Region, Scattered};
use super::{Request, Workload};
use crate::address::PageSize;
use crate::random::{Random, Zipf};

const FILES: u64 = 16 << 10;
const FILE_PAGES: u64 = 4;
const CONNECTIONS: u64 = 64;
const CONNECTION_BYTES: u64 = 8192;
const SOCKET_BYTES: u64 = 2048;
const BUFFERS: u64 = 256;
const BUFFER_BYTES: u64 = 2048;
const REQUEST_BYTES: u64 = 448;
const HEADER_BYTES: u64 = 256;
const STACK_BYTES: u64 = 16 << 10;
const GLOBAL_PAGES: u64 = 56;
const KERNEL_BYTES: u64 = 512 << 10;

/// See the module.
pub struct Nginx {
    layout: Layout,
    zipf: Zipf,
    heap: Region,
    open_files: Region,
    connections: Region,
    stacks: Region,
    globals: Region,
    logs: Region,
    kernel: Region,
    page_structs: Region,
    files: Region,
    buffers: Region,
    cores: Vec<(Random, u64)>,
}

impl Nginx {
    /// For `cores` cores, the heap in pages of `heap`. The page cache is in base pages.
    pub fn new(cores: usize, seed: u64, heap: PageSize) -> Nginx {
        let mut layout = Layout::default();
        let n = cores as u64;
        let connections = layout.add(heap, n * CONNECTIONS * CONNECTION_BYTES);
        Nginx {
            heap: connections,
            connections,
            open_files: layout.add(heap, FILES * 256),
            stacks: layout.add(heap, n * STACK_BYTES),
            // Data of the program and of its libraries lies in files, and so in base pages.
            globals: layout.add(PageSize::Base, n * (GLOBAL_PAGES << 12)),
            logs: layout.add(heap, n * (64 << 10)),
            kernel: layout.add(PageSize::Giant, n * KERNEL_BYTES),
            page_structs: layout.add(PageSize::Huge, FILES * FILE_PAGES * 64),
            files: layout.add(PageSize::Base, (FILES * FILE_PAGES) << 12),
            buffers: layout.add(PageSize::Base, n * 2 * BUFFERS * BUFFER_BYTES),
            zipf: Zipf::new(FILES, 0.99),
            cores: (0..n).map(|core| (Random::new(seed, core), 0)).collect(),
            layout,
        }
    }
}

impl Workload for Nginx {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.buffers
    }

    fn heap(&self) -> Region {
        self.heap
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let number = core as u64;
        let (random, served) = &mut self.cores[core];
        let ring = *served % BUFFERS;
        *served += 1;
        let which = random.below(CONNECTIONS);
        let connection = self.connections.part(number * CONNECTIONS + which, CONNECTION_BYTES);
        let kernel = self.kernel.part(number, KERNEL_BYTES);
        let socket = kernel.part(which, SOCKET_BYTES);
        let (own, descriptors) = (kernel.part(2, 128 << 10), kernel.part(6, 64 << 10));
        let stack = self.stacks.part(number, STACK_BYTES);
        let receive = self.buffers.part(2 * number * BUFFERS + ring, BUFFER_BYTES);
        let send = self.buffers.part((2 * number + 1) * BUFFERS + ring, BUFFER_BYTES);
        let user = Near {
            regions: [stack.part(0, 2048), connection.part(0, 2048)],
            scattered: Scattered {
                region: self.globals.part(number, GLOBAL_PAGES << 12),
                bytes_of_page: 256,
            },
        };
        let system = Near {
            regions: [own.part(0, 8192), socket],
            scattered: Scattered { region: own.part(1, 8192), bytes_of_page: 4096 },
        };
        let file = self.zipf.rank(random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % FILES;

        request.received.push((receive.at(0), REQUEST_BYTES.div_ceil(64) as u32));
        request.received.push((descriptors.at((ring * 16) & !63), 1));

        request.load(descriptors.at(ring * 16), 20);
        request.work(&system, 1500, 3700, random);
        request.load(receive.at(0), 5);
        request.copy(receive.at(0), connection.at(4096), REQUEST_BYTES);
        request.work(&system, 1500, 3700, random);

        for byte in 0..REQUEST_BYTES {
            request.load(connection.at(4096 + byte), 4);
            if byte % 16 == 0 {
                request.work(&user, 12, 30, random);
            }
        }
        request.work(&user, 4450, 12_600, random);
        let bucket = (file ^ 0x2545F).wrapping_mul(0xD1B5_4A32_D192_ED03) >> 20 & (FILES - 1);
        request.load(self.open_files.at(bucket * 256), 10);
        request.read(self.open_files.at(file * 256), 128);
        request.work(&user, 2600, 7300, random);
        request.write(connection.at(6144), HEADER_BYTES);
        let log = self.logs.part(number, 64 << 10);
        request.write(log.at((*served * 128) & 0xFF80), 128);

        request.copy(connection.at(6144), send.at(0), HEADER_BYTES);
        request.work(&system, 1500, 3700, random);
        request.sent.push((send.at(0), HEADER_BYTES.div_ceil(64) as u32));
        for page in file * FILE_PAGES..(file + 1) * FILE_PAGES {
            request.load(self.page_structs.at(page * 64), 20);
            request.store(self.page_structs.at(page * 64 + 32), 5);
            request.store(descriptors.at(32 * 1024 + (page & 0x7FF) * 16), 10);
            request.sent.push((self.files.at(page << 12), 64));
        }
        request.work(&system, 1500, 3700, random);
    }
}
