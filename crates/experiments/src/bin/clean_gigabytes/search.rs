//! What finding the right gigabyte costs: with free lists for each, and with one set of free lists
//! for the zone that is walked until a block of the right gigabyte comes.

use std::error::Error;

use prairie_fleet::study::Study;
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::table::State;
use prairie_frames::{Frame, FrameTable, MigrateType, Order};

use experiments::document::Document;

use crate::day::{memory_note, rounds};
use crate::measure::GIB;

/// Entries of a zone's list that the series looks at before it takes what there is.
const SCAN_LIMIT: u32 = 8;
/// Seconds between two looks.
const EVERY: f64 = 7200.0;

/// Free blocks by gigabyte, migrate type and order.
struct FreeLists(Vec<[[u64; 11]; MigrateType::ALL.len()]>);

impl FreeLists {
    fn of(table: &FrameTable) -> FreeLists {
        let mut lists =
            vec![[[0; 11]; MigrateType::ALL.len()]; table.frames().div_ceil(GIB) as usize];
        let mut at = Frame(0);
        while u64::from(at.0) < table.frames() {
            let order = table.order(at);
            if table.state(at) == State::Free {
                let gigabyte = &mut lists[(u64::from(at.0) / GIB) as usize];
                gigabyte[usize::from(table.list(at))][order.index()] += 1;
            }
            at = at.offset(order.frames());
        }
        FreeLists(lists)
    }

    fn free_frames(&self, gigabyte: usize) -> u64 {
        let orders = self.0[gigabyte].iter().flat_map(|by_order| by_order.iter().enumerate());
        orders.map(|(order, blocks)| blocks << order).sum()
    }

    /// Blocks that a walk over the zone's list of the type looks at, on average over all orders in
    /// which the list can stand, until it meets one of the fullest gigabyte that has any; and the
    /// share of such walks that end within the limit. From the smallest order that will do.
    fn walk(&self, of_type: MigrateType, order: Order) -> Option<(f64, f64)> {
        let list = of_type.index();
        let has = |&at: &usize| self.0[at][list][order.index()..].iter().any(|&blocks| blocks > 0);
        let right = (0..self.0.len()).filter(has).min_by_key(|&at| self.free_frames(at))?;
        let smallest = (order.index()..11).find(|&at| self.0[right][list][at] > 0)?;
        let all: u64 = self.0.iter().map(|gigabyte| gigabyte[list][smallest]).sum();
        let mine = self.0[right][list][smallest];
        // None of the first `n` is one of `mine` among `all`: (all-mine)/all · (all-mine-1)/(all-1)…
        let missed = (0..u64::from(SCAN_LIMIT)).fold(1.0, |missed, n| {
            missed * (all - mine).saturating_sub(n) as f64 / (all - n.min(all - 1)) as f64
        });
        Some(((all + 1) as f64 / (mine + 1) as f64, 1.0 - missed))
    }
}

/// Sums of walks.
#[derive(Clone, Copy, Default)]
struct Walks {
    looks: u64,
    entries: f64,
    within: f64,
}

impl Walks {
    fn add(&mut self, walk: Option<(f64, f64)>) {
        let Some((entries, within)) = walk else { return };
        self.looks += 1;
        self.entries += entries;
        self.within += within;
    }

    fn mean(self) -> String {
        let of = |sum: f64| sum / self.looks.max(1) as f64;
        format!("{:.1} ({:.0} %)", of(self.entries), of(self.within) * 100.0)
    }
}

/// The table, a row for each workload.
pub fn measure(study: &Study) -> Result<Document, Box<dyn Error>> {
    let columns = [
        "workload",
        "searches in 1,000 allocations",
        "gigabytes checked in each",
        "zone's list: entries for a movable page (within 8)",
        "for a kernel page",
        "for a kernel block of order 3",
    ];
    let mut document = Document::new("clean-search", &columns, rounds(1));
    document.note(memory_note(study));
    let layout = study.layout(0)?;
    let order_3 = Order::new(3).expect("a small order");
    for (server, workload) in (0..).zip(&study.workloads) {
        let placement = Superpageblocks::new(&layout, Default::default());
        let mut walks = [Walks::default(); 3];
        let (mut searches, mut searched, mut allocations) = (0, 0, 0);
        study.watch(server, &layout, placement, study.days * 86_400.0, EVERY, |look| {
            let lists = FreeLists::of(look.table);
            walks[0].add(lists.walk(MigrateType::Movable, Order::BASE));
            walks[1].add(lists.walk(MigrateType::Unmovable, Order::BASE));
            walks[2].add(lists.walk(MigrateType::Unmovable, order_3));
            allocations = look.allocations;
            let counters = prairie_frames::placement::Placement::counters(look.placement);
            let counter = |name| counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
            (searches, searched) = (counter("searches"), counter("searched"));
        });
        let rate = format!("{:.2}", searches as f64 * 1e3 / allocations.max(1) as f64);
        let checked = format!("{:.1}", searched as f64 / searches.max(1) as f64);
        let walks = walks.map(Walks::mean);
        document.row(workload.name.clone(), [rate, checked].into_iter().chain(walks));
    }
    Ok(document)
}
