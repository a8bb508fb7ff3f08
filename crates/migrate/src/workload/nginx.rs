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

use super::parts::{Layout, Region};
use super::server::{self, Server, Sizes};
use super::{Request, Workload};
use crate::address::PageSize;
use crate::random::Zipf;

const FILES: u64 = 16 << 10;
const FILE_PAGES: u64 = 4;
const REQUEST_BYTES: u64 = 448;
const HEADER_BYTES: u64 = 256;
const LOG_BYTES: u64 = 64 << 10;

const SIZES: Sizes = Sizes {
    connections: 64,
    connection_bytes_used: 2048,
    global_pages: 56,
    global_bytes_used: 256,
    kernel_bytes: 512 << 10,
    kernel_bytes_used: 8192,
};

/// See the module.
pub struct Nginx {
    layout: Layout,
    zipf: Zipf,
    open_files: Region,
    logs: Region,
    page_structs: Region,
    files: Region,
    server: Server,
}

impl Nginx {
    /// For `cores` cores, the heap in pages of `heap`. The page cache is in base pages.
    pub fn new(cores: usize, seed: u64, heap: PageSize) -> Nginx {
        let mut layout = Layout::default();
        let n = cores as u64;
        // The order of these lines is that of addresses.
        let connections = SIZES.add_connections(&mut layout, heap, n);
        let open_files = layout.add(heap, FILES * 256);
        let stacks = SIZES.add_stacks(&mut layout, heap, n);
        let globals = SIZES.add_globals(&mut layout, n);
        let logs = layout.add(heap, n * LOG_BYTES);
        let kernel = SIZES.add_kernel(&mut layout, n);
        let page_structs = layout.add(PageSize::Huge, FILES * FILE_PAGES * 64);
        let files = layout.add(PageSize::Base, (FILES * FILE_PAGES) << 12);
        let buffers = SIZES.add_buffers(&mut layout, n);
        let cores = server::idle(n, seed);
        Nginx {
            open_files,
            logs,
            page_structs,
            files,
            server: Server { sizes: SIZES, connections, stacks, globals, kernel, buffers, cores },
            zipf: Zipf::new(FILES, 0.99),
            layout,
        }
    }
}

impl Workload for Nginx {
    fn bytes(&self) -> [u64; 3] {
        self.layout.bytes
    }

    fn buffers(&self) -> Region {
        self.server.buffers
    }

    fn heap(&self) -> Region {
        self.server.connections
    }

    fn request(&mut self, core: usize, request: &mut Request) {
        let turn = self.server.turn(core);
        let (user, system) = (&turn.user, &turn.system);
        let (receive, send, connection) = (turn.receive, turn.send, turn.connection);
        let file = self.zipf.rank(turn.random).wrapping_mul(0x9E37_79B9_7F4A_7C15) % FILES;

        turn.receive(request, REQUEST_BYTES);
        turn.take_descriptor(request);
        request.work(system, 1500, 3700, turn.random);
        request.load(receive.at(0), 5);
        request.copy(receive.at(0), connection.at(4096), REQUEST_BYTES);
        request.work(system, 1500, 3700, turn.random);

        for byte in 0..REQUEST_BYTES {
            request.load(connection.at(4096 + byte), 4);
            if byte % 16 == 0 {
                request.work(user, 12, 30, turn.random);
            }
        }
        request.work(user, 4450, 12_600, turn.random);
        let bucket = (file ^ 0x2545F).wrapping_mul(0xD1B5_4A32_D192_ED03) >> 20 & (FILES - 1);
        request.load(self.open_files.at(bucket * 256), 10);
        request.read(self.open_files.at(file * 256), 128);
        request.work(user, 2600, 7300, turn.random);
        request.write(connection.at(6144), HEADER_BYTES);
        let log = self.logs.part(core as u64, LOG_BYTES);
        request.write(log.at((turn.served * 128) & 0xFF80), 128);

        request.copy(connection.at(6144), send.at(0), HEADER_BYTES);
        request.work(system, 1500, 3700, turn.random);
        request.sent.push((send.at(0), HEADER_BYTES.div_ceil(64) as u32));
        for page in file * FILE_PAGES..(file + 1) * FILE_PAGES {
            request.load(self.page_structs.at(page * 64), 20);
            request.store(self.page_structs.at(page * 64 + 32), 5);
            request.store(turn.descriptors.at(32 * 1024 + (page & 0x7FF) * 16), 10);
            request.sent.push((self.files.at(page << 12), 64));
        }
        request.work(system, 1500, 3700, turn.random);
    }
}
