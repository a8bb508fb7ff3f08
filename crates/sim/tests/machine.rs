//! The machine on a small scale: everything that it knows agrees at every step, one seed gives one
//! result, and what reclaim does can be worked out by hand.
#![allow(missing_docs)]

use std::time::Duration;

use prairie_frames::Order;
use prairie_model::allocator::Allocator;
use prairie_sim::machine::page::Use;
use prairie_sim::machine::scenario::{self, Scenario};
use prairie_sim::machine::{Effort, Machine};
use proptest::prelude::*;

/// A machine of 64 MiB that has less memory than its processes and files want.
const SMALL: &str = r#"
    name = "small"
    seed = 3
    [machine]
    memory = "64M"
    cpus = 2
    swap = "64M"
    kernel = "4M"
    [disk]
    seek = "100us"
    bandwidth = "200M"
    [[files]]
    name = "tree"
    count = 2000
    size = { median = "12K", sigma = 0.8 }
    [[process]]
    name = "compile"
    cpu = { median = "200ms", sigma = 0.4 }
    anonymous = { median = "6M", sigma = 0.4 }
    files = "tree"
    read = "2M"
    skew = 2.0
    write = "64K"
    [[process]]
    name = "scan"
    cpu = "1s"
    files = "tree"
    stat_rate = 4000.0
    [[kernel]]
    name = "buffers"
    rate = 500.0
    order = 1
    lifetime = { mean = "200ms" }
    atomic = true
    [[phase]]
    name = "load"
    duration = "4s"
    run = { compile = 12, scan = 1 }
    [[phase]]
    name = "rest"
    duration = "2s"
"#;

fn small() -> Scenario {
    scenario::parse(SMALL).unwrap()
}

fn machine(scenario: &Scenario, system: &str) -> Machine {
    Machine::new(scenario, &system.parse::<Allocator>().unwrap()).unwrap()
}

/// Runs all phases; debug builds compare all that the machine knows as it goes.
fn run(scenario: &Scenario, system: &str) -> Machine {
    let mut machine = machine(scenario, system);
    for phase in &scenario.phases {
        machine.begin(phase);
        machine.run_for(Duration::from_nanos(phase.duration.0));
        machine.validate();
    }
    machine
}

#[test]
fn everything_agrees_under_every_system() {
    for system in [
        "buddy",
        "buddy+linear",
        "lists",
        "zones+kernelcore=32M",
        "linux",
        "linux-defrag",
        "freebsd",
        "freebsd+no-reservations",
        "contiguitas",
        "superpageblocks",
    ] {
        let machine = run(&small(), system);
        let counters = machine.counters();
        assert!(counters.pgfault > 10_000, "{system}: {counters:?}");
        // On so small a machine, requests are mostly faster at it than kswapd.
        let stolen = counters.pgsteal_kswapd + counters.pgsteal_direct;
        assert!(stolen > 1_000, "{system} never ran short: {counters:?}");
        assert!(machine.ended("compile") > 20, "{system}: {}", machine.ended("compile"));
        // Nothing runs any more, so nothing of a process is left.
        let pages = &machine.memory().pages;
        for gone in [Use::Anonymous, Use::Stack, Use::PageTable] {
            assert_eq!(pages.frames_used_as(gone), 0, "{system}: {gone:?}");
        }
        assert_eq!(machine.swap_used(), 0, "{system}");
        assert!(pages.frames_used_as(Use::File) > 0, "{system}: the cache outlives processes");
    }
}

/// Processes' memory fills superpages that were set aside for it, where that is not taken away.
#[test]
fn processes_fill_reservations() {
    let counted = |system: &str, name: &str| {
        let machine = run(&small(), system);
        let counters = machine.memory().placement.counters();
        counters.iter().find(|counter| counter.name == name).expect("a counter").value
    };
    let (filled, reserved) =
        (counted("freebsd", "reservations_filled"), counted("freebsd", "reserved"));
    // Stacks and slabs that stay hold some of the machine's 32 superpages.
    let broken = counted("freebsd", "reservations_broken");
    let kept = reserved - broken;
    assert!(filled * 2 > kept && filled > 10, "{filled} of {kept} were filled");
    assert!(broken > 0, "memory never ran short");
    assert_eq!(counted("freebsd+no-reservations", "reserved"), 0);
}

/// Each of FreeBSD's mechanisms runs in the machine, and its option switches it off.
#[test]
fn options_of_freebsd_switch_mechanisms_off() {
    let kernel = "[[kernel]]\nname = \"modules\"\nrate = 20.0\nlifetime = { mean = \"1s\" }\npermanent = true\n[[phase]]\nname = \"load\"";
    let scenario =
        scenario::parse(&SMALL.replacen("[[phase]]\n    name = \"load\"", kernel, 1)).unwrap();
    let counted = |system: &str, name: &str| {
        let machine = run(&scenario, system);
        let counters = machine.memory().placement.counters();
        let found = counters.iter().find(|counter| counter.name == name).expect("a counter").value;
        (found, machine)
    };
    // What is never freed: modules, and slabs of processes.
    let (nofree, machine) = counted("freebsd", "nofree_frames");
    let pages = &machine.memory().pages;
    let modules =
        pages.in_use().filter(|&id| pages[id].used_as == Use::Kernel && pages[id].owner == 1);
    let modules = modules.count() as u64;
    assert!(modules > 60, "{modules} modules");
    assert!(nofree > modules, "{nofree} frames from superpages of their own");
    assert_eq!(counted("freebsd+no-nofree", "nofree_frames").0, 0);
    assert!(counted("freebsd", "batched_frames").0 > 1_000, "reads come in batches");
    assert_eq!(counted("freebsd+no-batch", "batched_frames").0, 0);
    // Stacks of four pages leave a hole at every guard page, or none.
    let all = |system: &str| -> Vec<u64> {
        let counters = run(&scenario, system).memory().placement.counters();
        counters.iter().map(|counter| counter.value).collect()
    };
    assert_eq!(all("freebsd"), all("freebsd"), "one seed, one result");
    assert_ne!(all("freebsd"), all("freebsd+linear-stacks"), "stacks are numbered in another way");
}

/// Contiguitas places what is never freed at the far end of the unmovable region.
#[test]
fn memory_that_is_never_freed_lies_far_from_the_border() {
    let text = r#"
        seed = 5
        [machine]
        memory = "256M"
        kernel = "4M"
        [[kernel]]
        name = "buffers"
        rate = 2000.0
        lifetime = { mean = "1s" }
        [[kernel]]
        name = "modules"
        rate = 200.0
        lifetime = { mean = "1s" }
        permanent = true
        [[phase]]
        name = "all"
        duration = "4s"
        "#;
    let scenario = scenario::parse(text).unwrap();
    let mean_frame = |system: &str| {
        let machine = run(&scenario, system);
        let memory = machine.memory();
        let modules = memory.pages.in_use().filter(|&id| {
            let page = &memory.pages[id];
            page.used_as == Use::Kernel && page.owner == 1
        });
        let frames: Vec<f64> = modules.map(|id| f64::from(memory.frame(id).0)).collect();
        assert!(frames.len() > 500, "{system}: {} modules", frames.len());
        frames.iter().sum::<f64>() / frames.len() as f64
    };
    let (far, near) = (mean_frame("contiguitas"), mean_frame("contiguitas+no-far-end"));
    assert!(far < near, "{far} is no farther from the border than {near}");
}

#[test]
fn one_seed_one_result() {
    for system in ["buddy", "linux"] {
        let (a, b) = (run(&small(), system), run(&small(), system));
        assert_eq!(a.counters(), b.counters());
        assert_eq!((a.free_blocks(), a.operations()), (b.free_blocks(), b.operations()));
        let other = run(&Scenario { seed: 4, ..small() }, system);
        assert_ne!(a.counters(), other.counters());
    }
}

/// Nothing but one process that fills memory: it is killed, and that is all.
#[test]
fn out_of_memory_is_an_outcome() {
    let scenario = scenario::parse(
        r#"
        [machine]
        memory = "32M"
        kernel = "1M"
        [[process]]
        name = "hog"
        cpu = "100ms"
        anonymous = "64M"
        [[phase]]
        name = "all"
        duration = "1s"
        run = { hog = 1 }
        "#,
    )
    .unwrap();
    for system in ["buddy", "linux", "linux-defrag", "freebsd", "contiguitas", "superpageblocks"] {
        let machine = run(&scenario, system);
        let killed = machine.killed();
        assert!(killed.len() > 1, "{system}: another follows");
        assert_eq!(killed[0].process, "hog");
        assert!(killed[0].resident_frames > 5_000, "{system}: {killed:?}");
        assert_eq!(machine.counters().oom_kill, killed.len() as u64);
        assert_eq!(machine.ended("hog"), 0, "{system}");
    }
}

/// Page cache everywhere, and nothing that cannot move: a range of 1 GiB can be emptied, and comes
/// back whole. The pool of 2 MiB pages grows by reclaim and compaction.
#[test]
fn pools_of_huge_pages_grow_on_a_machine_full_of_cache() {
    let scenario = scenario::parse(
        r#"
        [machine]
        memory = "3G"
        kernel = "8M"
        [disk]
        seek = "10us"
        bandwidth = "8G"
        [vm]
        thp = "never"
        [[files]]
        name = "data"
        count = 64
        size = "48M"
        [[process]]
        name = "reader"
        cpu = "2s"
        files = "data"
        read = "3G"
        [[phase]]
        name = "read"
        duration = "4s"
        run = { reader = 1 }
        [[phase]]
        name = "ask"
        duration = "1ms"
        gigantic = 1
        hugetlb = 100
        [[phase]]
        name = "return"
        duration = "1ms"
        gigantic = 0
        hugetlb = 0
        "#,
    )
    .unwrap();
    let had = |system: &str| -> Vec<(u8, u64)> {
        let machine = run(&scenario, system);
        let pages = &machine.memory().pages;
        assert_eq!(pages.frames_used_as(Use::HugeTlb), 0, "{system}: all given back");
        assert!(pages.frames_used_as(Use::File) > 100_000, "{system}");
        machine.pool_changes().iter().map(|change| (change.order, change.had)).collect()
    };
    assert_eq!(had("linux"), [(18, 1), (9, 100), (18, 0), (9, 0)]);
    // 2.6.16 can move nothing.
    assert_eq!(had("buddy")[0], (18, 0));
    // From outside, while memory is full of files: what is moved away takes its time.
    let mut asked = scenario.clone();
    asked.phases.truncate(1);
    let took = |system| run(&asked, system).attempt_gigantic();
    assert!(took("linux").expect("a range of files") > Duration::from_millis(10));
    assert_eq!(took("buddy"), None);
}

/// One process fills memory with page cache, and with it come the kernel's tree nodes, one for 64
/// pages. Where these lie among the pages, no reclaim makes room for a huge page; where they are
/// kept apart, both kinds of reclaim do, and linear reclaim frees little more than it needs.
#[test]
fn clean_cache_gives_way_to_huge_pages_where_the_kernel_keeps_apart() {
    let scenario = scenario::parse(
        r#"
        [machine]
        architecture = "x86-32"
        memory = "64M"
        kernel = "1M"
        huge_order = 10
        [[files]]
        name = "data"
        count = 4
        size = "24M"
        [[process]]
        name = "reader"
        cpu = "1s"
        files = "data"
        read = "96M"
        [[phase]]
        name = "read"
        duration = "3s"
        run = { reader = 1 }
        "#,
    )
    .unwrap();
    let order = Order::new(10).unwrap();
    let attempt = |system: &str| {
        let mut machine = run(&scenario, system);
        machine.set_population(0, 0);
        let before = machine.memory().pages.frames_used_as(Use::File);
        assert!(before > 10_000, "memory is full of cache: {before}");
        let mut got = 0;
        // kswapd continues until there is one block: every second attempt finds it.
        for _ in 0..36 {
            got += u64::from(machine.allocate_huge(order, Effort::Direct).zone.is_some());
            machine.validate();
            machine.run_for(Duration::from_secs(4));
        }
        let freed = before - machine.memory().pages.frames_used_as(Use::File);
        assert_eq!(machine.free_huge(), got);
        machine.validate();
        (got, freed)
    };
    let (mixed, _) = attempt("buddy");
    let (apart, _) = attempt("lists");
    let (linear, _) = attempt("lists+linear");
    // Sixteen blocks of 4 MiB, less the kernel's own.
    assert!(mixed < apart && apart >= 4, "buddy {mixed}, lists {apart}");
    assert!(linear >= 8 && linear >= apart, "lists {apart}, with linear reclaim {linear}");
}

/// The worst case of Figure 9, simulated: one page after another is freed from full memory, and the
/// adversary always picks a page whose block has another page in use. How many must go before a
/// block of the order is free is what the formula says.
#[test]
fn figure_9_from_the_worst_case() {
    use prairie_sim::bench::reclaim_difficulty::{FRAMES, ORDERS, worst_case_simulated};

    for order in ORDERS {
        let order = Order::new(order).unwrap();
        let formula = prairie_sim::machine::worst_case_share(FRAMES, order);
        assert_eq!(worst_case_simulated(order), formula, "order {order}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever the workload, the books agree at the end of it (and, in debug builds, during it).
    #[test]
    fn the_books_agree(
        seed in 0u64..1000,
        memory in 24u64..64,
        compilers in 0u32..12,
        swap in 0u64..32,
        anonymous in 1u64..16,
        system in prop::sample::select(&[
            "buddy",
            "lists+three-way",
            "lists+linear",
            "zones+kernelcore=16M",
            "linux",
            "linux+no-pcp+no-workingset",
            "contiguitas",
        ]),
    ) {
        let mut scenario = small();
        scenario.seed = seed;
        scenario.machine.memory = scenario::Bytes(memory << 20);
        scenario.machine.swap = scenario::Bytes(swap << 20);
        scenario.processes[0].anonymous =
            prairie_model::random::Spread::Uniform(4096.0, (anonymous << 20) as f64);
        scenario.phases[0].run.insert("compile".into(), compilers);
        scenario.phases[0].duration = scenario::Nanoseconds(800_000_000);
        scenario.check().unwrap();
        run(&scenario, system);
    }
}

/// A machine of 1.5 GiB whose kernel memory grows beyond the kernel region and goes again, beside
/// page cache and processes.
const BLOCKS: &str = r#"
    name = "blocks"
    seed = 5
    [machine]
    memory = "1536M"
    low = "256M"
    cpus = 2
    [disk]
    seek = "1us"
    bandwidth = "8G"
    [[files]]
    name = "data"
    count = 16
    size = "64M"
    [[process]]
    name = "reader"
    cpu = "1s"
    slice = "4ms"
    files = "data"
    read = "1G"
    [[process]]
    name = "worker"
    cpu = "200ms"
    pause = "10ms"
    anonymous = "30M"
    growth = 0.5
    [[kernel]]
    name = "pipes"
    rate = 30000.0
    lifetime = "9s"
    [[kernel]]
    name = "pins"
    rate = 200.0
    lifetime = "2s"
    use = "pinned"
    [[phase]]
    name = "start"
    duration = "3s"
    kernel = ["pins"]
    [[phase]]
    name = "load"
    duration = "4s"
    run = { reader = 2, worker = 4 }
    [[phase]]
    name = "rest"
    duration = "10s"
    kernel = ["pins"]
"#;

#[test]
fn memory_blocks_change_zones() {
    let scenario = scenario::parse(BLOCKS).unwrap();
    let (stock, first) = (run(&scenario, "linux"), run(&scenario, "linux+regions"));
    assert!(stock.regions_daemon().is_none());
    let daemon = first.regions_daemon().expect("a daemon");
    let done = daemon.conversions();
    // A fifth of memory, of which the kernel itself is 24 MiB, stays the kernel's at first.
    assert_eq!(done.to_movable, 9, "{done:?}");
    // 470 MiB of pipes do not fit into what it has then.
    assert!(done.to_kernel >= 2, "{done:?}");
    assert!(!daemon.is_busy(), "a block is offline");
    assert_eq!(first.killed().len(), 0);
    let managed = |machine: &Machine| -> u64 {
        machine.memory().layout.zones().iter().map(|zone| zone.span.managed).sum()
    };
    assert_eq!(managed(&first), managed(&stock));
    // Pins left the movable zone, and so did all of the blocks' contents.
    assert!(first.counters().pgmigrate_success > stock.counters().pgmigrate_success);
    let clean = |machine: &Machine| {
        let blocks = machine.memory().table.blocks();
        prairie_model::sample::Tally::of(blocks).potential.mib_32
    };
    assert!(clean(&first) > clean(&stock), "{} {}", clean(&first), clean(&stock));
    let again = run(&scenario, "linux+regions");
    assert_eq!(again.counters(), first.counters());
    assert_eq!(again.regions_daemon().unwrap().conversions(), done);
    // Blocks of 2 GiB are more than this machine has.
    let coarse = run(&scenario, "linux+regions=2G");
    assert_eq!(coarse.regions_daemon().unwrap().conversions(), Default::default());
}
