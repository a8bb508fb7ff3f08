//! The memory hierarchy against latencies worked out by hand, a naive model of caches, and its own
//! invariants under random traffic.

use prairie_migrate::address::{Access, Frame, Kind, Line, PageSize, Virtual};
use prairie_migrate::cache::{HitLevel, Private};
use prairie_migrate::engine::Engine;
use prairie_migrate::hierarchy::Hierarchy;
use prairie_migrate::machine::Machine;
use prairie_migrate::params::Params;
use prairie_migrate::protocol::table::{Caching, Refusal};
use proptest::prelude::*;

/// One nanosecond a cycle; L2 10, LLC 20, a hop 1 (one tile a slice), memory 100 ns load to use.
const TINY: &str = "
[cores]
count = 2
mhz = 1000
line_fill_buffers = 10
stores_in_flight = 4
[l1]
kib = 1
ways = 4
cycles = 1
[l2]
kib = 4
ways = 8
cycles = 10
[llc]
slices = 1
kib_per_slice = 8
ways = 8
cycles = 20
port_ps = 0
[directory]
sets_per_slice = 16
ways = 8
[mesh]
columns = 2
hop_ps = 1000
[memory]
load_ns = 100
mb_per_second = 64000000
[tlb]
l2_cycles = 7
[migration]
lookup_cycles = 3
entries = 2
";

fn tiny() -> Params {
    Params::read(TINY).unwrap()
}

/// Core 0 is at the slice's tile, core 1 one hop away: 0 and 2 ns there and back, mean 1 ns. So
/// memory adds 100 - 20 - 1 = 79 ns.
#[test]
fn latencies_are_those_worked_out_by_hand() {
    let mut h = Hierarchy::new(&tiny());
    let line = Line(1000);
    assert_eq!(h.access(0, line, false), 20_000 + 79_000, "memory");
    assert_eq!(h.access(0, line, false), 0, "L1");
    assert_eq!(h.access(0, line, true), 0, "held exclusively: no need to ask");
    // Core 1: there and back 2, LLC 20, and the owner at the slice's tile looks into its L2: 10.
    assert_eq!(h.access(1, line, false), 20_000 + 2_000 + 10_000, "forwarded by the owner");
    assert_eq!(h.counts.forwards, 1);
    // Now shared. Core 0 asks to own it: core 1 is a hop from the slice.
    assert_eq!(h.access(0, line, true), 20_000 + 2_000 + 10_000, "upgrade");
    assert_eq!((h.counts.upgrades, h.counts.invalidations), (1, 1));
    // Core 1 reads again: the dirty line comes from core 0 once more and stays in the LLC.
    assert_eq!(h.access(1, line, false), 32_000);
    // The L1 has 4 sets of 4 ways: four lines of the same L1 set put the line out of the L1 of
    // core 1, but not out of the L2 (8 sets): lines 1004, 1012, … lie in another L2 set.
    for other in [1004, 1012, 1020, 1028] {
        assert_eq!(h.access(1, Line(other), false), 20_000 + 2_000 + 79_000);
    }
    assert_eq!(h.access(1, line, false), 10_000, "L2");
    h.validate();
}

#[test]
fn the_last_core_leaves_a_line_in_the_last_level_cache() {
    let mut h = Hierarchy::new(&tiny());
    let line = Line(1000);
    h.access(0, line, true);
    // Eight more lines of its L2 set (8 sets, 8 ways) put it out, dirty.
    for other in 1..=8 {
        h.access(0, Line(1000 + 8 * other), false);
    }
    let reads = h.counts.memory_reads;
    assert_eq!(h.access(0, line, false), 20_000, "LLC");
    assert_eq!(h.counts.memory_reads, reads);
    h.validate();
}

/// Redirection by hand: the look-up adds 3 ns, and with one slice nothing crosses.
#[test]
fn a_copied_line_is_read_at_the_destination() {
    let mut h = Hierarchy::new(&tiny());
    let (source, destination) = (Frame(10), Frame(20));
    h.access(0, source.line(0), true);
    h.access(0, source.line(1), true);
    let slot = h.migrate(source, destination, 64, Caching::Cacheable).unwrap();
    // By the opposite name: LLC 20, way 2, look-up 3, recall from core 0 (10); then the data is in
    // the LLC under the source's name.
    assert_eq!(h.access(1, destination.line(0), false), 20_000 + 2_000 + 3_000 + 10_000);
    assert_eq!(h.counts.opposite_recalls, 1);
    h.validate();
    h.start_copy(source).unwrap();
    // Line 0: read and write of the LLC 40, recall from core 1 (2 + 10).
    assert_eq!(h.copy_line(slot), Some(40_000 + 12_000));
    // Line 1 is dirty in core 0, at the slice's tile.
    assert_eq!(h.copy_line(slot), Some(40_000 + 10_000));
    // Line 2 is in memory.
    assert_eq!(h.copy_line(slot), Some(40_000 + 79_000));
    // Below Ptr both names lead to the destination's line, which the LLC has.
    assert_eq!(h.access(0, source.line(0), false), 20_000 + 3_000);
    assert_eq!(h.access(1, destination.line(2), false), 20_000 + 2_000 + 3_000);
    for _ in 3..64 {
        assert!(h.copy_line(slot).is_some());
    }
    assert_eq!(h.copy_line(slot), None);
    assert_eq!(h.counts.lines_copied, 64);
    h.forget(source.line(0));
    assert!(h.clear(source).is_ok());
    assert_eq!(h.live(), 0);
    h.validate();
}

#[test]
fn lines_of_a_noncacheable_page_stay_at_the_last_level_cache() {
    let mut h = Hierarchy::new(&tiny());
    h.access(0, Frame(10).line(5), true);
    h.migrate(Frame(10), Frame(20), 64, Caching::Noncacheable).unwrap();
    for _ in 0..3 {
        assert_eq!(h.access(0, Frame(10).line(5), true), 20_000 + 3_000, "never in the L1");
    }
    assert_eq!(h.migrate(Frame(10), Frame(30), 64, Caching::Cacheable), Err(Refusal::Named));
    h.migrate(Frame(40), Frame(50), 64, Caching::Cacheable).unwrap();
    assert_eq!(h.migrate(Frame(60), Frame(70), 64, Caching::Cacheable), Err(Refusal::Full));
    h.validate();
}

/// A walk reads four levels, each from memory (1 + 99 + way) the first time.
#[test]
fn a_walk_is_the_sum_of_its_reads() {
    let mut machine = Machine::new(&tiny(), [1 << 20, 0, 0]).unwrap();
    let load = |page: u64, byte: u64| {
        Access::new(Virtual::new(PageSize::Base, (page << 12) + byte), Kind::Load, 1)
    };
    let memory = 99_000;
    let walk = 7_000 + 4 * (1_000 + memory);
    assert_eq!(machine.access(0, load(0, 0), 0), walk + memory);
    assert_eq!(machine.access(0, load(0, 0), 0), 0);
    // The next page: the page directory's entry is kept, and the lowest line is in the L1.
    assert_eq!(machine.access(0, load(1, 0), 0), 7_000 + 1_000 + memory);
    // Streams overlap ten misses, and two walks.
    let stream = Access::new(Virtual::new(PageSize::Base, 2 << 12), Kind::Stream, 1);
    assert_eq!(machine.access(0, stream, 0), 8_000 / 2 + memory / 10);
    let store = Access::new(Virtual::new(PageSize::Base, (2 << 12) + 64), Kind::Store, 1);
    assert_eq!(machine.access(0, store, 0), memory / 4);
    machine.validate();
}

#[test]
fn an_access_to_a_blocked_page_waits_and_is_woken() {
    let mut machine = Machine::new(&tiny(), [1 << 20, 0, 0]).unwrap();
    let address = Virtual::new(PageSize::Base, 0);
    let load = Access::new(address, Kind::Load, 1);
    for core in 0..2 {
        machine.access(core, load, 0);
        machine.invalidate(core, address.vpn());
    }
    machine.block(address.vpn(), 500_000..9_000_000, 0);
    let calm = machine.clone().access(0, load, 1_000_000);
    let held_up = machine.clone().access(1, load, 1_000_000);
    assert!(calm < 1_000_000, "the core that migrates is not kept out");
    // 8 µs until it is over, 2.5 µs until woken.
    assert!((10_500_000..10_700_000).contains(&held_up), "{held_up}");
    assert!(machine.clone().access(1, load, 9_000_000) < 1_000_000, "it is over");
    assert!(machine.clone().access(1, load, 499_999) < 1_000_000, "it has not begun");
    machine.unblock_before(9_000_000);
    assert!(machine.access(1, load, 0) < 1_000_000);
}

/// Two levels of plain lists in order of use; the L2 sees what misses the L1.
#[derive(Default)]
struct NaiveCaches {
    l1: std::collections::HashMap<u32, Vec<u32>>,
    l2: std::collections::HashMap<u32, Vec<u32>>,
}

impl NaiveCaches {
    /// 0 for a hit in the L1, 1 for one in the L2, 2 for neither.
    fn read(&mut self, line: u32) -> usize {
        let l1 = self.l1.entry(line % 4).or_default();
        if let Some(at) = l1.iter().position(|other| *other == line) {
            l1.remove(at);
            l1.insert(0, line);
            return 0;
        }
        let l2 = self.l2.entry(line % 8).or_default();
        let level = match l2.iter().position(|other| *other == line) {
            Some(at) => {
                l2.remove(at);
                1
            }
            None => 2,
        };
        l2.insert(0, line);
        if l2.len() > 8 {
            let gone = l2.pop().unwrap();
            self.l1.entry(gone % 4).or_default().retain(|other| *other != gone);
        }
        let l1 = self.l1.entry(line % 4).or_default();
        l1.insert(0, line);
        l1.truncate(4);
        level
    }
}

#[derive(Clone, Debug)]
enum Step {
    Access { core: usize, line: u32, write: bool },
    Device { line: u32, write: bool },
    Migrate { source: u32, destination: u32, noncacheable: bool },
    Copy { slot: usize },
}

fn step() -> impl Strategy<Value = Step> {
    // Few frames and few lines, so that agents and migrations meet.
    let line = (0u32..4, 0u32..6).prop_map(|(frame, offset)| Frame(frame).line(offset * 11).0);
    prop_oneof![
        8 => (0usize..3, line.clone(), any::<bool>())
            .prop_map(|(core, line, write)| Step::Access { core, line, write }),
        2 => (line, any::<bool>()).prop_map(|(line, write)| Step::Device { line, write }),
        1 => (0u32..4, 0u32..4, any::<bool>()).prop_map(|(source, destination, noncacheable)| {
            Step::Migrate { source, destination, noncacheable }
        }),
        3 => (0usize..2).prop_map(|slot| Step::Copy { slot }),
    ]
}

proptest! {
    #[test]
    fn private_caches_hit_where_naive_ones_do(lines in prop::collection::vec(0u32..80, 1..400)) {
        let mut caches = Private::new(&tiny());
        let mut naive = NaiveCaches::default();
        for line in lines {
            let level = match caches.access(1, Line(line), false) {
                HitLevel::L1 => 0,
                HitLevel::L2 => 1,
                HitLevel::Nowhere(at) => {
                    caches.fill(1, at, prairie_migrate::cache::SHARED);
                    2
                }
                HitLevel::Upgrade => unreachable!("nothing is written"),
            };
            prop_assert_eq!(level, naive.read(line), "line {}", line);
            caches.validate();
        }
    }

    /// Single writer, a directory that knows every holder, and one name at a time, whatever comes.
    #[test]
    fn coherence_holds_under_any_traffic(steps in prop::collection::vec(step(), 1..120)) {
        let text = format!("{TINY}\n").replace("count = 2", "count = 3").replace("sets_per_slice = 16", "sets_per_slice = 4");
        let mut h = Hierarchy::new(&Params::read(&text).unwrap());
        for step in steps {
            match step {
                Step::Access { core, line, write } => {
                    h.access(core, Line(line), write);
                    let again = h.access(core, Line(line), write);
                    let uncached = h.is_noncacheable(Line(line));
                    prop_assert!(again == 0 || uncached, "{step:?} was not served");
                }
                Step::Device { line, write } => drop(h.device(Line(line), write)),
                Step::Migrate { source, destination, noncacheable } => {
                    let caching =
                        if noncacheable { Caching::Noncacheable } else { Caching::Cacheable };
                    if h.migrate(Frame(source), Frame(destination), 64, caching).is_ok() {
                        h.start_copy(Frame(source)).unwrap();
                    }
                }
                Step::Copy { slot } => drop(h.copy_line(slot)),
            }
            h.validate();
        }
    }
}

/// Whole migrations at a machine whose cores go on all the while.
#[test]
fn migrations_end_and_leave_no_trace_of_the_source() {
    for (caching, size) in [
        (Caching::Cacheable, PageSize::Base),
        (Caching::Noncacheable, PageSize::Base),
        (Caching::Cacheable, PageSize::Huge),
    ] {
        let params = tiny();
        let mut machine = Machine::new(&params, [1 << 16, 4 << 20, 0]).unwrap();
        let mut engine = Engine::new(&params, caching);
        let page = Virtual::new(size, 0).vpn();
        let before = machine.pages().frame(page);
        engine.ask(page);
        engine.ask(page);
        let mut now = 0;
        for turn in 0..20_000u64 {
            engine.begin(&mut machine, now);
            for core in 0..2 {
                if turn % 7 == core as u64 {
                    engine.kernel_entry(&mut machine, core, now);
                }
                let address = Virtual::new(size, turn * 8 % 4096);
                machine.access(core, Access::new(address, Kind::Store, 1), now);
            }
            machine.device(Virtual::new(size, turn * 64 % 4096), 1, turn % 2 == 0);
            now += 1_000_000;
            engine.advance(&mut machine, now);
            if turn % 64 == 0 {
                machine.validate();
            }
            if engine.unfinished() == 0 {
                break;
            }
        }
        assert_eq!((engine.stats.moved, engine.stats.given_up), (1, 1), "the second is refused");
        assert_ne!(machine.pages().frame(page), before);
        assert_eq!(machine.hierarchy.live(), 0);
        assert_eq!(engine.stats.local_ps, 2 * 104_000, "one invalidation a core");
        assert_eq!(machine.hierarchy.counts.lines_copied, u64::from(size.pages()) * 64);
        machine.validate();
    }
}
