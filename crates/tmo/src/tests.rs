//! The container against what can be worked out by hand, and against its own books.

use prairie_offload::tiers::{Tier, Tiers};
use proptest::prelude::*;

use super::access::Rhythm;
use super::backend::{Backend, Ssd, Zswap};
use super::container::{Container, ContainerParts};
use super::kernel::{Balance, Kernel};

fn made(pages: Vec<(Rhythm, bool)>, backend: Backend, kernel: Kernel) -> ContainerParts {
    ContainerParts {
        pages,
        real_pages: 1,
        compression: 2.0,
        busy_tasks: 1,
        backend,
        disk: Ssd::fast(),
        swap_bytes: 1 << 30,
        kernel,
    }
}

fn zswap() -> Backend {
    Backend::Zswap(Zswap::default())
}

fn pages(count: usize, rhythm: Rhythm, file: bool) -> Vec<(Rhythm, bool)> {
    vec![(rhythm, file); count]
}

/// All pages carry their accessed bit from being filled: the first reclaim scans everything
/// before it finds a victim. After all bits were cleared, it scans what it takes.
#[test]
fn the_first_bite_scans_everything_and_aging_spares_that() {
    let all = || made(pages(10_000, Rhythm::NEVER, false), zswap(), Kernel::LINUX_6_1);
    let mut blind = Container::new(all(), 1);
    blind.advance(10.0);
    assert!(blind.reclaim(100 * 4096, false) >= 100 * 4096);
    assert!(blind.counters().scanned >= 10_000, "{:?}", blind.counters());
    let mut aged = Container::new(all(), 1);
    aged.clear_accessed();
    aged.advance(10.0);
    assert!(aged.reclaim(100 * 4096, false) >= 100 * 4096);
    assert!(aged.counters().scanned < 300, "{:?}", aged.counters());
}

/// The kernel goes for 32 pages at least, and takes some more before it notices.
#[test]
fn requests_of_a_few_pages_take_32() {
    for (kernel, asked, expected) in [
        (Kernel::LINUX_6_1, 5, 32..64),
        (Kernel::LINUX_6_12, 5, 32..64),
        (Kernel::LINUX_6_12, 0, 0..1),
        (Kernel::LINUX_6_12, 100, 100..200),
    ] {
        let all = made(pages(10_000, Rhythm::NEVER, false), zswap(), kernel);
        let mut container = Container::new(all, 1);
        container.clear_accessed();
        container.advance(10.0);
        let taken = container.reclaim(asked * 4096, false) / 4096;
        assert!(expected.contains(&taken), "{asked}: {taken}");
    }
}

/// From 6.2 on, looking at pages that stay makes a kind dearer. All are in use here.
#[test]
fn pages_that_stay_cost_scanning() {
    let cost = |kernel: Kernel| {
        let all = made(pages(10_000, Rhythm::regular(1.0), true), Backend::None, kernel);
        let mut container = Container::new(all, 1);
        container.advance(10.0);
        container.reclaim(32 * 4096, false);
        container.cost
    };
    assert_eq!(cost(Kernel::LINUX_6_1), [0, 0]);
    let [anon, file] = cost(Kernel::LINUX_6_12);
    assert!(anon == 0 && file > 0, "{anon} {file}");
}

/// Of two kinds of pages, those that are used stay.
#[test]
fn cold_pages_go_and_hot_ones_stay() {
    let mut both = pages(5_000, Rhythm::regular(1.0), false);
    both.extend(pages(5_000, Rhythm::NEVER, false));
    let mut container = Container::new(made(both, zswap(), Kernel::LINUX_6_1), 1);
    container.clear_accessed();
    for second in 1..200 {
        container.advance(f64::from(second) * 6.0);
        if second % 2 == 0 && container.counters().taken[0] < 4_500 {
            container.reclaim(50 * 4096, false);
        }
    }
    let counters = container.counters();
    assert!(counters.taken[0] >= 4_500, "{counters:?}");
    assert!(counters.refaults[0] < counters.taken[0] / 100, "{counters:?}");
}

/// A page of ratio 2 is charged half of itself, and the pool takes more.
#[test]
fn savings_are_less_than_reclaimed_memory() {
    let all = made(pages(1_000, Rhythm::NEVER, false), zswap(), Kernel::LINUX_6_1);
    let mut container = Container::new(all, 1);
    container.clear_accessed();
    let before = container.current_bytes();
    let taken = container.reclaim(500 * 4096, false);
    assert_eq!(before - container.current_bytes(), taken / 2, "what the container is charged");
    let saved = (before - container.host_bytes()) as f64;
    let share = 1.0 - 134.0 / 119.0 / 2.0;
    assert!((saved / taken as f64 - share).abs() < 1e-3, "{saved} of {taken}");
    assert_eq!(container.swap_bytes(), taken);
}

/// Linux 6.1 keeps the compressed copy of what is back: the container ends larger than it began.
#[test]
fn copies_are_kept_before_6_9() {
    let ends = |kernel: Kernel| {
        let all = made(pages(1_000, Rhythm::NEVER, false), zswap(), kernel);
        let mut container = Container::new(all, 1);
        container.clear_accessed();
        container.advance(10.0);
        container.reclaim(1_000 * 4096, false);
        container.change(0..1_000, Rhythm::regular(10.0));
        container.advance(30.0);
        assert_eq!(container.resident_bytes(), [1_000 * 4096, 0]);
        container.current_bytes()
    };
    assert_eq!(ends(Kernel::LINUX_6_12), 1_000 * 4096);
    assert_eq!(ends(Kernel::LINUX_6_1), 1_500 * 4096);
}

/// zswap's returns of pages that were never active are no stall; from a device they show
/// as IO.
#[test]
fn pressure_is_blind_where_the_kernels_is() {
    let totals = |backend: Backend| {
        let all = made(pages(1_000, Rhythm::NEVER, false), backend, Kernel::LINUX_6_12);
        let mut container = Container::new(all, 1);
        container.clear_accessed();
        container.advance(10.0);
        container.reclaim(500 * 4096, false);
        container.change(0..1_000, Rhythm::regular(10.0));
        container.advance(30.0);
        *container.counters()
    };
    let pool = totals(zswap());
    assert!(pool.major_faults >= 500 && pool.waited_us > 5_000.0, "{pool:?}");
    assert_eq!(pool.some_us, [0.0, 0.0]);
    let device = totals(Backend::Device(Ssd::fast()));
    assert_eq!(device.some_us[0], 0.0);
    assert!((device.some_us[1] / device.waited_us - 1.0).abs() < 1e-9, "{device:?}");
}

/// One of four busy tasks that waits is a quarter of `some`.
#[test]
fn a_task_that_waits_holds_up_its_share() {
    let some = |busy_tasks| {
        let all = pages(1_000, Rhythm::NEVER, true);
        let made = ContainerParts { busy_tasks, ..made(all, Backend::None, Kernel::LINUX_6_12) };
        let mut container = Container::new(made, 1);
        container.clear_accessed();
        container.advance(10.0);
        container.reclaim(500 * 4096, false);
        container.change(0..1_000, Rhythm::regular(10.0));
        container.advance(30.0);
        let counters = container.counters();
        counters.some_us[1] / counters.waited_us
    };
    assert!((some(1) - 1.0).abs() < 1e-9 && (some(4) - 0.25).abs() < 1e-9);
}

/// Without swap only page cache goes, and with `file_only` too.
#[test]
fn without_room_only_cache_goes() {
    let mut both = pages(1_000, Rhythm::NEVER, false);
    both.extend(pages(1_000, Rhythm::NEVER, true));
    for (backend, file_only) in [(Backend::None, false), (zswap(), true)] {
        for kernel in [Kernel::LINUX_6_1, Kernel::MGLRU] {
            let mut container = Container::new(made(both.clone(), backend.clone(), kernel), 1);
            container.clear_accessed();
            container.advance(10.0);
            container.reclaim(1_500 * 4096, file_only);
            assert_eq!(container.counters().taken[0], 0, "{kernel:?}");
            assert!(container.counters().taken[1] > 900, "{kernel:?}");
        }
    }
}

/// Page cache that is read again after it was dropped, cold anonymous memory, and some in use.
/// Before 5.9 the cache is what is cheap to take, again and again; balanced by refaults, cold
/// memory goes in its stead.
#[test]
fn balance_by_refaults_spares_the_cache() {
    let refaults = |kernel: Kernel| {
        let mut all = pages(10_000, Rhythm::regular(20.0), false);
        all.extend(pages(20_000, Rhythm::NEVER, false));
        all.extend(pages(10_000, Rhythm::random(600.0), true));
        let device = Backend::Device(Ssd::fast());
        let mut container = Container::new(made(all, device, kernel), 1);
        for period in 1..1_000 {
            container.advance(f64::from(period) * 6.0);
            container.reclaim(40 * 4096, false);
        }
        container.counters().refaults
    };
    let (by_refaults, by_rotation) = (refaults(Kernel::LINUX_6_12), refaults(Kernel::OLD));
    assert!(by_refaults[1] < by_rotation[1], "{by_refaults:?} {by_rotation:?}");
}

/// A pool that is full moves what came first on to the device.
#[test]
fn a_hierarchy_moves_the_oldest_on() {
    let backend = Backend::Hierarchy(Zswap::default(), Ssd::fast(), 100 * 4096);
    let all = made(pages(1_000, Rhythm::NEVER, false), backend, Kernel::LINUX_6_12);
    let mut container = Container::new(all, 1);
    container.clear_accessed();
    container.advance(10.0);
    container.reclaim(800 * 4096, false);
    assert!(container.pool_bytes() <= 100 * 4096, "{}", container.pool_bytes());
    assert!(container.pool_bytes() > 98 * 4096);
    let counters = container.counters();
    assert!(counters.device[1] >= 600 && counters.device[1] < counters.zswap[1]);
}

/// Hot, warm, and cold memory whose idle pages are offloaded for three hours, by the back end; with
/// `tiers`, the pool is limited as they decide.
fn offloaded(backend: Backend, mut tiers: Option<Tiers>) -> Container {
    let mut all = pages(4_000, Rhythm::regular(10.0), false);
    all.extend(pages(4_000, Rhythm::random(400.0), false));
    all.extend(pages(12_000, Rhythm::NEVER, false));
    let mut container = Container::new(made(all, backend, Kernel::MGLRU), 1);
    for period in 1..1_800 {
        container.advance(f64::from(period) * 6.0);
        if period % 10 == 0 {
            container.begin_generation();
        }
        container.evict_idle(100 * 4096, 120.0, false);
        if let Some(tiers) = &mut tiers {
            container.limit_pool(match tiers.decide(&container.observe()) {
                Tier::Pool => u64::MAX,
                Tier::Young(bytes) => bytes,
                Tier::Device => 0,
            });
        }
    }
    container
}

/// Old pages move to the device and save what they take of the pool; those that come back are still
/// read from the pool.
#[test]
fn tiers_save_half_as_much_as_a_device_and_wait_as_little_as_a_pool() {
    let slow = || Ssd::slow();
    let pool = offloaded(zswap(), None);
    let device = offloaded(Backend::Device(slow()), None);
    let both = Backend::Hierarchy(Zswap::default(), slow(), u64::MAX);
    let tiers = offloaded(both, Some(Tiers::default()));
    let (host, waited) = (
        [&pool, &device, &tiers].map(|container| container.host_bytes() >> 20),
        [&pool, &device, &tiers].map(|container| container.counters().waited_us),
    );
    // Recently stored pages may be old all the same, where much comes and goes: they stay.
    assert!((host[0] - host[2]) * 2 >= host[0] - host[1], "{host:?} MiB");
    assert!(waited[2] <= waited[0] * 1.01 && waited[1] > waited[0] * 10.0, "{waited:?} us");
    let counters = tiers.counters();
    assert!(counters.device[0] * 100 <= counters.device[1], "{counters:?}");
}

/// A generation is as old as it says.
#[test]
fn generations_show_age() {
    let mut both = pages(1_000, Rhythm::regular(10.0), false);
    both.extend(pages(2_000, Rhythm::NEVER, false));
    let mut container = Container::new(made(both, zswap(), Kernel::MGLRU), 1);
    for minute in 1..=3 {
        container.advance(f64::from(minute) * 60.0);
        container.begin_generation();
    }
    // All were filled at the start, and seen used by the first walk; the second found the cold idle.
    container.advance(240.0);
    assert_eq!(container.idle_bytes(120.0), 2_000 * 4096);
    assert_eq!(container.idle_bytes(600.0), 0);
    assert_eq!(container.evict_idle(500 * 4096, 120.0, false), 500 * 4096);
    container.advance(400.0);
    let counters = container.counters();
    assert_eq!((counters.taken[0], counters.scanned, counters.major_faults), (500, 500, 0));
}

/// A step of the property.
#[derive(Clone, Copy, Debug)]
enum Act {
    Advance(u16),
    Reclaim(u16, bool),
    Clear,
    Age,
    Change(u16),
    Grow(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0u16..200).prop_map(Act::Advance),
        (0u16..300, any::<bool>()).prop_map(|(pages, file)| Act::Reclaim(pages, file)),
        Just(Act::Clear),
        Just(Act::Age),
        (0u16..400).prop_map(Act::Change),
        (0u8..50).prop_map(Act::Grow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, each page is at one place, and the books are right.
    #[test]
    fn books_balance(
        acts in prop::collection::vec(act(), 1..40),
        kernel in prop::sample::select(vec![
            Kernel::LINUX_6_1, Kernel::LINUX_6_12, Kernel::OLD, Kernel::MGLRU
        ]),
        backend in prop::sample::select(vec![
            Backend::None, zswap(), Backend::Device(Ssd::slow()),
            Backend::Hierarchy(Zswap::default(), Ssd::fast(), 50 * 4096),
        ]),
    ) {
        let mut both = pages(200, Rhythm::random(40.0), false);
        both.extend(pages(200, Rhythm::random(300.0), true));
        let mut container = Container::new(made(both, backend, kernel), 1);
        for act in acts {
            match act {
                Act::Advance(seconds) => container.advance(container.now_s() + f64::from(seconds)),
                Act::Reclaim(pages, file) => {
                    container.reclaim(u64::from(pages) * 4096, file);
                }
                Act::Clear => container.clear_accessed(),
                Act::Age if kernel.balance == Balance::Generations => container.begin_generation(),
                Act::Age => {}
                Act::Change(at) => {
                    container.change(usize::from(at)..usize::from(at) + 1, Rhythm::regular(5.0));
                }
                Act::Grow(count) => {
                    container.grow(pages(usize::from(count), Rhythm::random(20.0), false));
                }
            }
            prop_assert_eq!(container.validate(), Ok(()));
        }
    }
}
