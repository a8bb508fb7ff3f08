//! Wiring the memory of a virtual machine page by page, in batches, and by higher orders (FreeBSD,
//! "Speeding up `mlock(2)`", Table 2).
//!
//! ```text
//! cargo run --release -p experiments --bin mlock_rate -- [ROUNDS] [MIB]
//! ```
//!
//! A domain of 4 GiB under `freebsd`, fresh and broken (every second page of half of it in use), and a
//! virtual machine of 1 GiB, the size that `bhyve` examples have. Each way allocates all of its frames
//! and maps them in page tables, whose own frames come from the same allocator. Once more with what FreeBSD
//! notes of each page (`bookkeeping.rs`), and once more with every page written with zeros, as wired
//! anonymous memory is: into a buffer larger than the caches. Ways take
//! turns within each round; times are of this thread's CPU, medians over the rounds.

mod bookkeeping;

use std::hint::black_box;
use std::ops::Range;

use bookkeeping::{Bookkeeping, enter_block};
use experiments::measure::{FRAMES_OF_4_GIB, median, one_zone, thread_ns};
use prairie_frames::layout::Watermarks;
use prairie_frames::page_table::PageTable;
use prairie_frames::placement::freebsd::{Config, FreeBsd};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::{Frame, FrameTable, MigrateType, Mobility, Order};

const FRAMES: u32 = FRAMES_OF_4_GIB;
/// What is written with zeros, again and again.
const BUFFER: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// One page after the other, allocated and mapped separately.
    Single,
    /// Pages in batches of 512, each mapped separately.
    Batched,
    /// The largest blocks there are, up to 2 MiB, each mapped at once.
    HigherOrders,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (rounds, mib) = (number(9), number(1024));
    let pages = (mib as u64) << 8;
    let mut buffer = vec![1u8; BUFFER];
    println!(
        "| memory | noted | pages zeroed | one by one, ms | batches, ms | higher orders, ms | one by one / higher orders | tables |"
    );
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for broken in [false, true] {
        for (note, zero) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut times = [Vec::new(), Vec::new(), Vec::new()];
            let mut tables = [0; 3];
            for _ in 0..rounds {
                for (at, way) in
                    [Way::Single, Way::Batched, Way::HigherOrders].into_iter().enumerate()
                {
                    let zeroed = if zero { Some(&mut buffer[..]) } else { None };
                    let (time, frames) = wire(pages, way, broken, note, zeroed);
                    times[at].push(time);
                    tables[at] = frames;
                }
            }
            let [single, batched, higher] = times.map(median);
            println!(
                "| {} | {} | {} | {single:.2} | {batched:.2} | {higher:.2} | {:.1} | {} and {} |",
                if broken { "broken" } else { "fresh" },
                if note { "yes" } else { "no" },
                if zero { "yes" } else { "no" },
                single / higher,
                tables[0],
                tables[2],
            );
        }
    }
}

/// The machine that memory is wired on.
struct Domain {
    table: FrameTable,
    freebsd: FreeBsd,
    /// The next owner of a page table's frame.
    tables: u32,
}

/// Milliseconds to wire `pages`, and frames that page tables take.
fn wire(
    pages: u64,
    way: Way,
    broken: bool,
    note: bool,
    mut zeroed: Option<&mut [u8]>,
) -> (f64, usize) {
    let mut domain = Domain::new(broken);
    let root = domain.page_table();
    let mut space = PageTable::new(root);
    let mut runs: Vec<Range<Frame>> = Vec::new();
    let mut books = note.then(|| Bookkeeping::new(FRAMES));
    let mut entries = 0;
    let begun = thread_ns();
    let mut at = 0;
    while at < pages {
        let order = match way {
            Way::HigherOrders => domain.largest(at, pages),
            _ => Order::BASE,
        };
        match way {
            Way::Batched => {
                runs.clear();
                let count = (pages - at).min(512) as u32;
                let given = domain.batch(at as u32, count, &mut runs);
                assert_eq!(given, count, "memory for the virtual machine");
                for frame in runs.iter().flat_map(|run| run.start.0..run.end.0) {
                    domain.map(&mut space, at, Frame(frame), Order::BASE);
                    if let Some(books) = &mut books {
                        enter_block(books, at, Frame(frame), Order::BASE);
                    }
                    entries += 1;
                    zero(&mut zeroed, at, 1);
                    at += 1;
                }
            }
            Way::Single | Way::HigherOrders => {
                let (frame, order) = domain.block(at as u32, order);
                domain.map(&mut space, at, frame, order);
                if let Some(books) = &mut books {
                    enter_block(books, at, frame, order);
                }
                entries += if order == Order::HUGE { 1 } else { order.frames() as usize };
                zero(&mut zeroed, at, order.frames());
                at += order.frames();
            }
        }
    }
    let spent = thread_ns() - begun;
    black_box(&space);
    for page in (0..pages).step_by(509) {
        let (frame, _) = space.lookup(page).expect("all of it is mapped");
        let (owner, head) = domain.table.block_containing(page as u32).expect("all of it is wired");
        assert_eq!(frame, head.offset(page - u64::from(owner)), "page {page}");
    }
    domain.freebsd.validate(&domain.table);
    if let Some(books) = &books {
        books.check(pages, entries);
    }
    (spent / 1e6, space.frames().len())
}

fn zero(buffer: &mut Option<&mut [u8]>, page: u64, pages: u64) {
    if let Some(buffer) = buffer {
        let at = (page << 12) as usize % BUFFER;
        black_box(&mut buffer[at..at + ((pages as usize) << 12)]).fill(0);
    }
}

impl Domain {
    fn new(broken: bool) -> Domain {
        let layout = one_zone(FRAMES, Watermarks::default());
        let mut table = FrameTable::with_owners(u64::from(FRAMES), u64::from(FRAMES) * 2);
        let mut freebsd = FreeBsd::new(&layout, Config::default());
        for start in (0..FRAMES).step_by(1024) {
            table.add_memory(Frame(start), Order::LARGEST_FREE);
            freebsd.seed(&mut table, Frame(start), Order::LARGEST_FREE);
        }
        freebsd.start(&mut table);
        if broken {
            // Of half of memory every second page goes back, and of a quarter all.
            let mut runs = Vec::new();
            freebsd.alloc_batch(&mut table, &movable(), FRAMES, FRAMES / 4 * 3, &mut runs);
            let odd = (FRAMES..FRAMES + FRAMES / 2).step_by(2);
            for owner in odd.chain(FRAMES + FRAMES / 2..FRAMES / 4 * 7) {
                let frame = table.block_of(owner).expect("allocated");
                freebsd.free(&mut table, frame, 0);
            }
            freebsd.drain(&mut table);
        }
        Domain { table, freebsd, tables: FRAMES / 4 * 7 }
    }

    fn page_table(&mut self) -> Frame {
        self.tables += 1;
        let request = Request::default();
        self.freebsd.allocate(&mut self.table, &request, self.tables - 1).expect("a frame")
    }

    fn map(&mut self, space: &mut PageTable, page: u64, frame: Frame, order: Order) {
        let mapped = space.map(page, frame, order, &mut || Some(self.page_table()));
        mapped.expect("nothing was mapped there");
    }

    fn batch(&mut self, owner: u32, count: u32, runs: &mut Vec<Range<Frame>>) -> u32 {
        self.freebsd.alloc_batch(&mut self.table, &movable(), owner, count, runs)
    }

    /// A block of `order`, or of the largest below that there is.
    fn block(&mut self, owner: u32, order: Order) -> (Frame, Order) {
        let orders = (0..=order.get()).rev().filter_map(Order::new);
        for order in orders {
            let request = Request { order, ..movable() };
            if let Some(frame) = self.freebsd.allocate(&mut self.table, &request, owner) {
                return (frame, order);
            }
        }
        panic!("no memory for the virtual machine");
    }

    /// The largest order up to 2 MiB that fits where the next page is.
    fn largest(&self, at: u64, pages: u64) -> Order {
        let fits =
            |order: &Order| at.is_multiple_of(order.frames()) && at + order.frames() <= pages;
        Order::up_to(Order::HUGE).rev().find(fits).expect("a page fits")
    }
}

fn movable() -> Request {
    Request {
        migrate_type: MigrateType::Movable,
        mobility: Mobility::Movable,
        ..Request::default()
    }
}
