//! The policy against a plain model of a machine, under hostile demand.
#![allow(missing_docs)]

use std::time::Duration;

use prairie_host::Occupancy;
use prairie_regions::choice::{Block, Place, fits_elsewhere, obstacle};
use prairie_regions::config::Config;
use prairie_regions::limits::HOUR;
use prairie_regions::policy::{Finished, Guard, Policy, Reason, Step};
use prairie_regions::sample::{KernelSample, MovableSample, NodeSample, Sample};
use proptest::prelude::*;

const FRAMES: u64 = 32_768;
const SECOND: Duration = Duration::from_secs(1);

/// A machine of equal blocks. Kernel memory fills the kernel region from its first block on; user
/// memory lies evenly in the movable zone.
#[derive(Clone, Debug)]
struct Machine {
    places: Vec<Place>,
    /// Kernel memory that a block keeps for good.
    stuck: Vec<u64>,
    hugetlb: Vec<u64>,
    kernel: u64,
    user: u64,
    cache: u64,
    /// Page cache that takes whatever room it finds, in the kernel region down to the share of the
    /// movable zone that the kernel's reserve keeps from it (1 in N).
    greedy: Option<u64>,
    /// Page cache in the kernel region that stays there.
    idle_cache: u64,
    now: Duration,
    stalls: u64,
    psi_us: u64,
}

impl Machine {
    fn new(blocks: usize) -> Machine {
        Machine {
            places: vec![Place::Kernel; blocks],
            stuck: vec![0; blocks],
            hugetlb: vec![0; blocks],
            kernel: FRAMES,
            user: 0,
            cache: 0,
            greedy: None,
            idle_cache: 0,
            now: Duration::ZERO,
            stalls: 0,
            psi_us: 0,
        }
    }

    fn count(&self, place: Place) -> u64 {
        self.places.iter().filter(|at| **at == place).count() as u64
    }

    fn node(&self) -> NodeSample {
        let kernel = self.count(Place::Kernel) * FRAMES;
        let movable = self.count(Place::Movable) * FRAMES;
        let held = self.user + self.hugetlb.iter().sum::<u64>();
        let cache = if self.greedy.is_some() { movable - held.min(movable) } else { self.cache };
        let in_movable = (held + cache).min(movable);
        let spill = self.user.saturating_sub(movable);
        let high = 1000;
        let room = kernel.saturating_sub(self.kernel + spill);
        let lent = self.lent();
        let available = room - lent;
        NodeSample {
            node: 0,
            kernel: KernelSample {
                managed: kernel,
                available,
                high,
                min: 500,
                own: self.kernel,
                user: spill + lent,
                cache: lent,
                borrowable: available.saturating_sub(movable / 12 + high),
                kept: movable / self.greedy.unwrap_or(12) + high,
                upper: kernel,
                lower: 0,
                normal: kernel,
                per_cpu: 0,
            },
            movable: MovableSample {
                managed: movable,
                free: movable - in_movable,
                high: if movable > 0 { high } else { 0 },
                cache: cache.min(movable),
            },
        }
    }

    /// Page cache in the kernel region.
    fn lent(&self) -> u64 {
        let movable = self.count(Place::Movable) * FRAMES;
        let spill = self.user.saturating_sub(movable);
        let room = (self.count(Place::Kernel) * FRAMES).saturating_sub(self.kernel + spill);
        let idle = self.idle_cache.min(room);
        self.greedy.map_or(idle, |ratio| room.saturating_sub(movable / ratio + 1000))
    }

    fn sample(&self) -> Sample {
        Sample {
            at: self.now,
            nodes: vec![self.node()],
            kernel_stalls: self.stalls,
            psi_us: self.psi_us,
            hugetlb: self.hugetlb.iter().sum(),
            ..Sample::default()
        }
    }

    fn blocks(&self) -> Vec<Block> {
        let movable = self.count(Place::Movable).max(1);
        let user = self.user / movable;
        let cache = if self.greedy.is_some() { FRAMES - user } else { self.cache / movable };
        let (mut kernel, mut lent) = (self.kernel, self.lent());
        let of = |number: usize| {
            let place = self.places[number];
            let mut found = Occupancy::default();
            match place {
                Place::Kernel => {
                    found.unmovable = kernel.min(FRAMES).max(self.stuck[number]);
                    kernel = kernel.saturating_sub(FRAMES);
                    found.cache = lent.min(FRAMES - found.unmovable);
                    lent -= found.cache;
                }
                _ => {
                    found.hugetlb = self.hugetlb[number];
                    found.movable = user.min(FRAMES - found.hugetlb);
                    found.cache = cache.min(FRAMES - found.hugetlb - found.movable);
                }
            }
            found.free = FRAMES - found.unmovable - found.hugetlb - found.to_move();
            let occupancy = Some(found);
            Block { number: number as u64, node: 0, place, occupancy, scanned: self.now }
        };
        (0..self.places.len()).map(of).collect()
    }
}

/// What a run did: block, where to, why, when, whether it worked.
type Operation = (u64, Place, Reason, Duration, bool);

/// Drives a policy for one poll; operations last no time, and `fails` says which end badly.
fn poll(
    machine: &mut Machine,
    policy: &mut Policy,
    fails: &dyn Fn(u64) -> bool,
    log: &mut Vec<Operation>,
) -> Result<(), TestCaseError> {
    policy.sample(&machine.sample());
    for _ in 0..4 {
        let blocks = machine.blocks();
        let (block, to, reason) = match policy.next(&blocks, machine.now) {
            Step::Wait => break,
            Step::Scan(_) | Step::Drain => continue,
            Step::Online(block) => (block, Place::Kernel, Reason::Offline),
            Step::Convert { block, to, reason } => (block, to, reason),
        };
        policy.began(block);
        prop_assert_eq!(policy.next(&blocks, machine.now), Step::Wait, "one at a time");
        let before = blocks[block as usize];
        prop_assert_ne!(before.place, to);
        prop_assert_eq!(obstacle(&before), None, "what cannot move is not tried");
        let node = machine.node();
        if to == Place::Kernel {
            let found = before.occupancy.unwrap();
            prop_assert!(fits_elsewhere(&found, &node, 0), "{:?} {:?}", found, node);
        }
        let done = !fails(block);
        if done {
            machine.places[block as usize] = to;
        }
        if reason == Reason::Offline {
            policy.onlined(block, done, machine.now);
            continue;
        }
        let took = Duration::from_millis(50);
        policy.finished(0, Finished { block, to, done, took }, machine.now);
        log.push((block, to, reason, machine.now, done));
        policy.sample(&machine.sample());
    }
    Ok(())
}

fn shares(machine: &Machine) -> f64 {
    machine.count(Place::Kernel) as f64 / machine.places.len() as f64
}

/// A machine of 32 blocks after a minute, in which its regions were set up.
fn set_up() -> (Machine, Policy, Vec<Operation>) {
    let mut machine = Machine::new(32);
    let mut policy = Policy::new(&Config::default(), FRAMES);
    let mut log = Vec::new();
    for _ in 0..60 {
        machine.now += SECOND;
        poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
    }
    (machine, policy, log)
}

#[test]
fn setting_up_ends_at_the_initial_share() {
    let (machine, policy, log) = set_up();
    assert_eq!(machine.count(Place::Kernel), 7, "the first multiple above a fifth");
    assert!(log.iter().all(|(.., reason, _, _)| *reason == Reason::Setup));
    let order: Vec<u64> = log.iter().map(|(block, ..)| *block).collect();
    assert_eq!(order, (7..32).rev().collect::<Vec<_>>(), "from the top down");
    assert!(policy.reports()[0].set_up);
}

/// Pipes that take `rate` frames a second until they fill `blocks`, while the movable zone is full of
/// page cache, and as much as `idle_cache` of it stays in the kernel region. Kernel requests find free
/// memory at any time.
fn burst(rate: u64, idle_cache: u64, blocks: u64) -> (Machine, Vec<Operation>) {
    let (mut machine, mut policy, mut log) = set_up();
    for second in 60..200 {
        machine.now += SECOND;
        poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
        if machine.kernel < blocks * FRAMES {
            machine.cache = machine.count(Place::Movable) * FRAMES * 9 / 10;
            machine.idle_cache = idle_cache;
            machine.kernel += rate;
            let kernel = machine.node().kernel;
            let free = kernel.available > kernel.high;
            assert!(free, "{rate}, {idle_cache}: {second} s: {kernel:?}");
        }
    }
    (machine, log)
}

#[test]
fn a_steady_demand_never_meets_an_empty_region() {
    for rate in [10_240, 20_480, 51_200] {
        let (machine, log) = burst(rate, 0, 16);
        assert!(machine.kernel >= 16 * FRAMES, "it went on to the end");
        assert!(log.iter().any(|(.., reason, _, _)| *reason == Reason::Reserve));
    }
}

/// Free memory of the kernel zones in MiB, twice a second, before the first kernel request stalled:
/// pipes at 40 MiB/s on Linux 7.3, 3,300 MiB of page cache, 234 MiB of it in the kernel zones
/// (`bench/regions-vm.sh`, 4 GiB). ZONE_DMA32 keeps 30 MiB of what is free from kernel requests, and
/// the high watermarks are 5 MiB. Kswapd freed page cache as fast as the pipes took it, but began only
/// near the mark at which requests stall.
#[test]
fn page_cache_is_not_at_hand_for_what_a_growth_takes_to_come() {
    const MIB: u64 = 256;
    let free = [434, 409, 384, 358, 333, 308, 282, 257, 231, 206, 181, 159, 133, 108, 82, 58, 34];
    let (mut machine, mut policy, _) = set_up();
    machine.cache = machine.count(Place::Movable) * FRAMES;
    let managed = machine.count(Place::Kernel) * FRAMES;
    let mut left = None;
    for free in free.iter().step_by(2) {
        machine.now += SECOND;
        let mut sample = machine.sample();
        let kernel = &mut sample.nodes[0].kernel;
        (kernel.available, kernel.high) = ((free - 30) * MIB, 5 * MIB);
        (kernel.user, kernel.cache, kernel.borrowable) = (263 * MIB, 234 * MIB, 0);
        kernel.own = managed - (free + 263) * MIB;
        policy.sample(&sample);
        if matches!(policy.next(&machine.blocks(), machine.now), Step::Convert { .. }) {
            left = Some(free - 30 - 5);
            break;
        }
    }
    // A full block takes a second, as far as is known.
    assert!(left.is_some_and(|left| left >= 40), "MiB above the watermarks: {left:?}");
}

/// At any rate that one growth a second can serve, with page cache in the kernel region that is never
/// freed in time.
#[test]
fn kernel_requests_find_free_memory_beside_page_cache() {
    for rate in [2560, 10_240, 20_480, 30_720] {
        for cache in [0, 2 * FRAMES, 3 * FRAMES] {
            let (machine, _) = burst(rate, cache, 14);
            let grown = machine.count(Place::Kernel) * FRAMES;
            assert!(grown <= machine.kernel + cache + 5 * FRAMES, "{rate}, {cache}: {grown}");
        }
    }
}

/// Where growth evicts nothing it comes before the reserve is touched; where it evicts page cache it
/// waits for a while, but never for more than half of the ready block.
#[test]
fn growth_comes_early_where_it_is_free_and_late_where_it_evicts() {
    const RATE: u64 = 5120;
    let first_growth = |cache_share: u64| {
        let (mut machine, mut policy, _) = set_up();
        machine.cache = machine.count(Place::Movable) * FRAMES * cache_share / 100;
        loop {
            machine.now += SECOND;
            machine.kernel += RATE;
            let available = machine.node().kernel.available;
            let mut log = Vec::new();
            poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
            if let Some((.., reason, _, _)) = log.first() {
                assert_eq!(*reason, Reason::Reserve);
                let reserve = policy.reports()[0].reserve;
                return (available as i64 - reserve as i64, available);
            }
        }
    };
    let (early, _) = first_growth(0);
    assert!(early > 0 && early <= FRAMES as i64, "{early}");
    // Every block is full of page cache.
    let (late, left) = first_growth(100);
    let half = FRAMES as i64 / 2;
    assert!((-half - RATE as i64..0).contains(&late), "{late}");
    assert!(left > RATE + 1000, "a second's demand and the watermark are left: {left}");
    // There is free memory, but no block is nearly empty: nothing is moved early.
    let (cheap_only, _) = first_growth(50);
    assert!(cheap_only < 0, "{cheap_only}");
}

/// Polls at rest are glances: what a burst uses in the second after them is not spread over them.
#[test]
fn a_burst_after_rest_has_its_full_rate() {
    let run = |glances: bool| {
        let (mut machine, mut policy, _) = set_up();
        assert!(policy.rests(machine.now));
        for _ in 0..9 {
            machine.now += SECOND;
            match glances {
                true => policy.still(machine.now),
                false => policy.sample(&machine.sample()),
            }
        }
        machine.now += SECOND;
        machine.kernel += 5000;
        policy.sample(&machine.sample());
        policy.reports()[0].rate
    };
    assert_eq!((run(true), run(false)), (5000, 5000));
}

#[test]
fn nothing_rests_while_something_is_short_or_under_way() {
    let mut machine = Machine::new(32);
    let mut policy = Policy::new(&Config::default(), FRAMES);
    policy.sample(&machine.sample());
    assert!(!policy.rests(machine.now), "not set up");
    for _ in 0..60 {
        machine.now += SECOND;
        poll(&mut machine, &mut policy, &|_| false, &mut Vec::new()).unwrap();
    }
    assert!(policy.rests(machine.now));
    let after = |change: &dyn Fn(&mut Machine), policy: &Policy| {
        let (mut machine, mut policy) = (machine.clone(), policy.clone());
        change(&mut machine);
        machine.now += SECOND * 2;
        policy.sample(&machine.sample());
        policy.rests(machine.now)
    };
    assert!(after(&|_| (), &policy));
    assert!(!after(&|machine| machine.kernel = 7 * FRAMES - 2000, &policy), "kernel memory");
    assert!(!after(&|machine| machine.user = 25 * FRAMES, &policy), "user memory");
    assert!(!after(&|machine| (machine.psi_us, machine.stalls) = (9_000_000, 9), &policy), "PSI");
    policy.reserving(true);
    assert!(!after(&|_| (), &policy), "a reservation");
    policy.reserving(false);
    policy.began(20);
    assert!(!after(&|_| (), &policy), "a conversion");
}

/// Page cache fills what a conversion frees, so that free kernel memory stays as it was: that is no
/// demand of the kernel's.
#[test]
fn page_cache_that_fills_the_kernel_region_does_not_make_it_grow() {
    for ratio in [12, 16, 32] {
        let mut machine = Machine::new(32);
        let mut policy = Policy::new(&Config::default(), FRAMES);
        let mut log = Vec::new();
        let run = |machine: &mut Machine, policy: &mut Policy, log: &mut Vec<Operation>, ms| {
            machine.now += Duration::from_millis(ms);
            poll(machine, policy, &|_| false, log).unwrap();
        };
        for _ in 0..60 {
            run(&mut machine, &mut policy, &mut log, 1000);
        }
        machine.greedy = Some(ratio);
        log.clear();
        for _ in 0..120 {
            run(&mut machine, &mut policy, &mut log, 1000);
        }
        assert_eq!(machine.count(Place::Kernel), 7, "{ratio}: no kernel memory is needed: {log:?}");
        // 900 MiB in two seconds, for five.
        for _ in 0..8 {
            machine.kernel += 28_800;
            run(&mut machine, &mut policy, &mut log, 250);
        }
        for _ in 0..5 {
            run(&mut machine, &mut policy, &mut log, 1000);
        }
        let peak = machine.kernel;
        machine.kernel = FRAMES;
        for _ in 0..60 {
            run(&mut machine, &mut policy, &mut log, 1000);
        }
        let reserve = |op: &Operation| op.2 == Reason::Reserve;
        assert!(log.iter().all(reserve), "nothing stalled: {log:?}");
        // The kernel's own and the largest reserve, an eighth of all, fit; one block for rounding.
        let grown = machine.count(Place::Kernel) as usize;
        let most = (peak + 4 * FRAMES).div_ceil(FRAMES) as usize + 1;
        assert!((8..=most).contains(&grown), "{ratio}: {grown} of at most {most}: {log:?}");
        for _ in 0..1800 {
            run(&mut machine, &mut policy, &mut log, 1000);
        }
        let left = machine.count(Place::Kernel) as usize;
        assert!((left - 7) * 2 <= grown - 7, "{ratio}: {left} of {grown} stay: {log:?}");
    }
}

#[test]
fn what_was_grown_returns_once_it_has_been_idle_for_a_while() {
    let mut machine = Machine::new(32);
    let mut policy = Policy::new(&Config::default(), FRAMES);
    let mut log = Vec::new();
    let run = |machine: &mut Machine, policy: &mut Policy, log: &mut Vec<Operation>, seconds| {
        for _ in 0..seconds {
            machine.now += SECOND;
            poll(machine, policy, &|_| false, log).unwrap();
        }
    };
    run(&mut machine, &mut policy, &mut log, 60);
    machine.kernel = 12 * FRAMES;
    run(&mut machine, &mut policy, &mut log, 30);
    let grown = machine.count(Place::Kernel);
    assert!(grown >= 13, "{grown}");
    let began = machine.now;
    log.clear();
    machine.kernel = FRAMES;
    run(&mut machine, &mut policy, &mut log, 1800);
    let first = log.first().expect("something returned");
    assert!(first.3 >= began + 60 * SECOND && first.2 == Reason::Excess, "{first:?}");
    assert_eq!(machine.count(Place::Kernel), 7, "down to its floor");
}

/// That no block could leave before a load says nothing about those after it.
#[test]
fn a_fruitless_search_does_not_hold_up_the_return_after_a_load() {
    let mut config = Config::default();
    config.kernel.floor_percent = 5.0;
    let mut machine = Machine::new(32);
    machine.stuck[..7].fill(1);
    let mut policy = Policy::new(&config, FRAMES);
    let mut log = Vec::new();
    for second in 0..300u64 {
        machine.now += SECOND;
        if second == 150 {
            assert_eq!(machine.count(Place::Kernel), 7);
            assert_eq!(policy.reports()[0].guard, Guard::AllRefused, "a search has failed");
            log.clear();
        }
        let load = if (150..180).contains(&second) { (second - 149) * FRAMES / 4 } else { 0 };
        machine.kernel = FRAMES + load;
        poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
    }
    let grown = log.iter().filter(|op| op.1 == Place::Kernel).count();
    let returned: Vec<_> = log.iter().filter(|op| op.2 == Reason::Excess).collect();
    assert!(grown >= 3 && !returned.is_empty(), "{log:?}");
    assert!(returned[0].3 <= 265 * SECOND, "a minute after the load: {log:?}");
}

/// A pool of huge pages or a process that takes all of user memory within seconds.
#[test]
fn user_memory_that_is_about_to_run_out_may_borrow() {
    for (rate, borrows) in [(FRAMES / 100, false), (4 * FRAMES, true)] {
        let mut machine = Machine::new(32);
        let mut policy = Policy::new(&Config::default(), FRAMES);
        let mut lent_with = None;
        for second in 0..80 {
            machine.now += SECOND;
            poll(&mut machine, &mut policy, &|_| false, &mut Vec::new()).unwrap();
            let movable = machine.count(Place::Movable) * FRAMES;
            if second >= 60 {
                machine.user = (machine.user + rate).min(movable);
            }
            if policy.borrows(machine.now) && lent_with.is_none() {
                lent_with = Some(machine.node().movable.free / FRAMES);
            }
        }
        assert_eq!(lent_with.is_some(), borrows, "{lent_with:?}");
        assert!(lent_with.is_none_or(|left| left >= 1), "in time: {lent_with:?}");
    }
}

/// The kernel's files are read one after the other: a pool that fills meanwhile shows in the pool's
/// size first, and a sample later in the zones.
#[test]
fn a_pool_that_fills_is_no_kernel_demand() {
    const POOL: u64 = 2 * FRAMES;
    for seen_early in [0, POOL / 4, POOL] {
        let (mut machine, mut policy, _) = set_up();
        machine.cache = machine.count(Place::Movable) * FRAMES;
        for (pool, in_zones) in [(0, 0), (seen_early, 0), (POOL, POOL), (POOL, POOL)] {
            machine.now += SECOND / 4;
            let mut sample = machine.sample();
            let kernel = &mut sample.nodes[0].kernel;
            kernel.own += in_zones;
            kernel.available -= in_zones;
            sample.hugetlb = pool;
            policy.sample(&sample);
            assert_eq!(policy.reports()[0].rate, 0, "{seen_early}: {pool}, {in_zones}");
            let step = policy.next(&machine.blocks(), machine.now);
            assert!(!matches!(step, Step::Convert { to: Place::Kernel, .. }), "{step:?}");
        }
    }
}

/// Since Linux 6.7 the pool's size changes only at the end of a request, which lasts for seconds.
#[test]
fn a_pool_that_is_about_to_fill_is_no_kernel_demand() {
    let (mut machine, mut policy, _) = set_up();
    machine.cache = machine.count(Place::Movable) * FRAMES;
    for taken in [0, 0, FRAMES / 512, 2 * FRAMES / 512, 3 * FRAMES / 512] {
        machine.now += SECOND;
        let mut sample = machine.sample();
        let in_zones = taken * 512;
        let kernel = &mut sample.nodes[0].kernel;
        kernel.own += in_zones;
        kernel.available -= in_zones;
        sample.pool_requests = taken;
        policy.sample(&sample);
        assert_eq!(policy.reports()[0].rate, 0, "{taken}");
    }
}

#[test]
fn hugetlb_and_refusals_are_left_alone() {
    let mut machine = Machine::new(32);
    let mut policy = Policy::new(&Config::default(), FRAMES);
    let mut log = Vec::new();
    for second in 0..7200 {
        machine.now += SECOND;
        if second == 60 {
            machine.hugetlb = (0..32).map(|n| if n % 2 == 0 { 512 } else { 0 }).collect();
            machine.kernel = 7 * FRAMES - 2000;
            log.clear();
        }
        poll(&mut machine, &mut policy, &|_| second >= 60, &mut log).unwrap();
    }
    assert!(log.iter().all(|(block, ..)| block % 2 == 1), "{log:?}");
    for number in 0..32 {
        let times: Vec<_> = log.iter().filter(|op| op.0 == number).map(|op| op.3).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= HOUR), "{number}: {times:?}");
    }
    assert_eq!(policy.reports()[0].guard, Guard::AllRefused);
}

/// User memory ran short during the conversion, which says nothing about the block.
#[test]
fn a_block_that_the_daemon_interrupted_is_tried_again_soon() {
    let (mut machine, mut policy, _) = set_up();
    machine.kernel = 7 * FRAMES - 2000;
    let mut tries = Vec::new();
    for second in 1..=30 {
        machine.now += SECOND;
        policy.sample(&machine.sample());
        if let Step::Convert { block, .. } = policy.next(&machine.blocks(), machine.now) {
            policy.began(block);
            policy.interrupted(block, machine.now);
            tries.push((second, block));
        }
    }
    let (first, block) = tries[0];
    assert!(tries.contains(&(first + 10, block)), "{tries:?}");
    assert_eq!(policy.counts(machine.now).0, tries.len(), "each is an operation");
}

/// A node of CPUs alone, and one whose memory is all the kernel's, beside one that is set up.
#[test]
fn nodes_without_movable_memory_are_never_short() {
    let (mut machine, mut policy, _) = set_up();
    for _ in 0..90 {
        machine.now += SECOND;
        let mut sample = machine.sample();
        let kernel = KernelSample { managed: 4 * FRAMES, high: 1000, ..KernelSample::default() };
        let node = |node, kernel| NodeSample { node, kernel, movable: MovableSample::default() };
        sample.nodes.extend([node(1, KernelSample::default()), node(2, kernel)]);
        policy.sample(&sample);
        policy.next(&machine.blocks(), machine.now);
        assert!(!policy.borrows(machine.now) && !policy.is_short());
    }
    let nodes: Vec<u32> = policy.reports().iter().map(|report| report.sample.node).collect();
    assert_eq!(nodes, [0, 2]);
    assert!(policy.rests(machine.now));
}

#[test]
fn a_node_that_is_no_longer_managed_is_left_alone() {
    let (mut machine, mut policy, _) = set_up();
    let mut config = Config::default();
    config.daemon.nodes = vec![1];
    policy.configure(&config);
    machine.now += SECOND;
    machine.kernel = 7 * FRAMES - 2000;
    policy.sample(&machine.sample());
    assert_eq!(policy.reports(), []);
    assert_eq!(policy.next(&machine.blocks(), machine.now), Step::Wait);
}

/// Memory of a device may be kept offline, or is about to come online as movable.
#[test]
fn offline_blocks_of_other_nodes_stay_offline() {
    let mut config = Config::default();
    config.daemon.nodes = vec![0];
    let mut machine = Machine::new(8);
    machine.places[3] = Place::Offline;
    let mut policy = Policy::new(&config, FRAMES);
    policy.sample(&machine.sample());
    let mut blocks = machine.blocks();
    blocks[3].node = 1;
    assert_ne!(policy.next(&blocks, SECOND), Step::Online(3));
    blocks[3].node = 0;
    assert_eq!(policy.next(&blocks, SECOND), Step::Online(3));
}

/// A container at its own limit stalls and is killed while the host has plenty.
#[test]
fn what_a_container_does_at_its_limit_is_not_the_hosts() {
    for (scans, is_hosts) in [(0, false), (100, true)] {
        let (mut machine, mut policy, _) = set_up();
        for second in 0..60 {
            machine.now += SECOND;
            machine.psi_us += 500_000;
            let mut sample = machine.sample();
            (sample.oom_kills, sample.scanned) = (second, Some(second * scans));
            sample.user_stalls = second * scans;
            policy.sample(&sample);
        }
        let report = policy.reports()[0];
        assert_eq!(report.pressure[1] > 100, is_hosts, "{:?}", report.pressure);
        assert_eq!(policy.has_killed(), is_hosts);
    }
}

/// A refusal takes a millisecond, and the zones are read again at once.
#[test]
fn no_rate_comes_from_the_milliseconds_after_a_failure() {
    let (mut machine, mut policy, _) = set_up();
    machine.now += SECOND;
    policy.sample(&machine.sample());
    policy.began(31);
    machine.now += Duration::from_millis(5);
    let took = Duration::from_millis(1);
    let failed = Finished { block: 31, to: Place::Kernel, done: false, took };
    policy.finished(0, failed, machine.now);
    // What the counters of the CPUs held back.
    machine.kernel += 100;
    policy.sample(&machine.sample());
    assert_eq!(policy.reports()[0].rate, 0);
    machine.now += SECOND;
    machine.kernel += 100;
    policy.sample(&machine.sample());
    assert_eq!(policy.reports()[0].rate, 100);
    assert!(policy.rests(machine.now));
}

#[test]
fn the_setup_leaves_the_hours_operations_to_what_follows() {
    let (machine, policy, log) = set_up();
    assert_eq!((log.len(), policy.counts(machine.now).0), (25, 0));
}

/// Each reload would else allow as many operations again.
#[test]
fn a_reload_leaves_the_hours_operations_counted() {
    let (mut machine, mut policy, mut log) = set_up();
    machine.kernel = 9 * FRAMES;
    for _ in 0..30 {
        machine.now += SECOND;
        poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
    }
    let used = policy.counts(machine.now).0;
    assert!(used > 0);
    policy.configure(&Config::default());
    assert_eq!(policy.counts(machine.now).0, used);
}

#[test]
fn an_offline_block_comes_first() {
    let mut machine = Machine::new(8);
    machine.places[3] = Place::Offline;
    let mut policy = Policy::new(&Config::default(), FRAMES);
    policy.sample(&machine.sample());
    assert_eq!(policy.next(&machine.blocks(), SECOND), Step::Online(3));
}

/// Bringing a block back is no conversion.
#[test]
fn an_offline_block_is_tried_each_minute_and_costs_nothing() {
    let mut config = Config::default();
    config.limits.operations_per_hour = 3;
    let mut machine = Machine::new(32);
    machine.places[3] = Place::Offline;
    let mut policy = Policy::new(&config, FRAMES);
    let mut tries = Vec::new();
    for second in 1..=300 {
        machine.now = SECOND * second;
        policy.sample(&machine.sample());
        if policy.next(&machine.blocks(), machine.now) == Step::Online(3) {
            tries.push(second);
            policy.began(3);
            policy.onlined(3, false, machine.now);
            assert_ne!(policy.next(&machine.blocks(), machine.now), Step::Online(3), "not at once");
        }
    }
    assert_eq!(tries, [1, 61, 121, 181, 241]);
    let granule_ms = policy.reports()[0].granule_ms;
    assert_eq!(policy.counts(machine.now), (0, 0), "no operation of the hour, no refusal");
    policy.began(3);
    policy.onlined(3, true, machine.now);
    machine.places[3] = Place::Kernel;
    policy.sample(&machine.sample());
    assert_eq!(policy.reports()[0].granule_ms, granule_ms, "it is no growth");
    assert_ne!(policy.next(&machine.blocks(), machine.now), Step::Wait, "it is not busy");
}

/// A search for a block that could shrink reads each block once, however many there are, and comes
/// again after longer and longer.
#[test]
fn a_fruitless_search_ends() {
    let mut machine = Machine::new(40);
    machine.stuck.fill(1);
    let mut policy = Policy::new(&Config::default(), FRAMES);
    let mut blocks = machine.blocks();
    let (mut scans, mut drains) = (Vec::new(), 0);
    for second in 1..=600 {
        machine.now = SECOND * second;
        policy.sample(&machine.sample());
        for _ in 0..4 {
            let step = policy.next(&blocks, machine.now);
            drains += usize::from(step == Step::Drain);
            let Step::Scan(wanted) = step else { break };
            for number in wanted {
                blocks[number as usize].scanned = machine.now;
                scans.push(second);
            }
        }
    }
    assert_eq!(scans.len() % 40, 0, "whole searches");
    assert_eq!(drains * 80, scans.len(), "read, drained of empty slabs, and read again");
    let searches = drains;
    assert!((2..=5).contains(&searches), "{searches} searches");
    let (first, last) = (scans[0], *scans.last().unwrap());
    assert!((60..=62).contains(&first) && last > 300, "{first} {last}");
    assert_eq!(policy.reports()[0].guard, Guard::AllRefused);
}

#[test]
fn the_guardian_only_grows() {
    let mut machine = Machine::new(32);
    machine.places[8..].fill(Place::Movable);
    let mut policy = Policy::new(&Config::default(), FRAMES).grow_only();
    let mut log = Vec::new();
    for second in 0..1000 {
        machine.now += SECOND;
        machine.kernel = if second == 5 { 9 * FRAMES } else { machine.kernel.min(9 * FRAMES) };
        if second == 100 {
            machine.kernel = FRAMES;
        }
        poll(&mut machine, &mut policy, &|_| false, &mut log).unwrap();
    }
    assert!(!log.is_empty() && log.iter().all(|op| op.1 == Place::Kernel), "{log:?}");
}

/// One second of a demand: kernel memory, user memory, and cache as shares of all memory in
/// thousandths; whether operations fail; time stalled in thousandths.
type Second = (u64, u64, u64, bool, u64);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens: bounds and budgets hold, blocks rest, and every conversion has a reason.
    #[test]
    fn hostile_demand(seconds in prop::collection::vec((0..600u64, 0..1000u64, 0..1000u64, any::<bool>(), 0..1000u64), 50..300), step in 1..90u32) {
        let config = Config::default();
        let mut machine = Machine::new(32);
        let mut policy = Policy::new(&config, FRAMES);
        let mut log: Vec<Operation> = Vec::new();
        let all = 32 * FRAMES;
        let seconds: Vec<Second> = seconds;
        for (kernel, user, cache, fails, stalled) in seconds {
            machine.now += SECOND * step;
            machine.kernel = (kernel * all / 1000).min(machine.count(Place::Kernel) * FRAMES);
            machine.user = user * all / 1000;
            machine.cache = cache * all / 1000;
            machine.psi_us += stalled * 1000 * u64::from(step);
            machine.stalls += stalled / 100;
            poll(&mut machine, &mut policy, &|_| fails, &mut log)?;
            prop_assert!(shares(&machine) >= config.kernel.floor_percent / 100.0);
            let had = log.iter().any(|op| op.1 == Place::Movable && op.4);
            prop_assert!(machine.count(Place::Movable) >= 1 || !had, "one block stays movable");
        }
        for (at, (block, to, reason, now, done)) in log.iter().enumerate() {
            let grows = matches!(reason, Reason::Reserve | Reason::Stalls);
            prop_assert_eq!(*to == Place::Kernel, grows);
            if *reason != Reason::Reserve && *reason != Reason::Setup {
                let counts = |op: &&Operation| op.2 != Reason::Setup && op.3 + HOUR > *now;
                let hour = log[..at].iter().filter(counts).count();
                prop_assert!(hour < 60, "{hour} operations in an hour, then {reason:?}");
            }
            if !done {
                let next = log[at + 1..].iter().find(|op| op.0 == *block);
                prop_assert!(next.is_none_or(|next| next.3 >= *now + HOUR), "{block} again");
            }
        }
    }
}
