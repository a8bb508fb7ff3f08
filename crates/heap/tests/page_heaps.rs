//! Both page heaps against a plain model of memory, and the programs that the paper names.

mod model;

use model::{Model, Step, TestClock, TestMemory};
use prairie_heap::page_heap::ranking::{ByRank, Fullness};
use prairie_heap::page_heap::{Components, Legacy, PageHeap, Tail, Temeraire, TemeraireStats};
use prairie_heap::{HugePages, Pages};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pages = prop_oneof![
        8 => 1u64..9,
        4 => 1u64..140,
        2 => 120u64..300,
        2 => 250u64..2_000,
        2 => (1u64..8).prop_map(|huge| huge * 256),
        1 => 100_000u64..300_000,
    ];
    let tail = prop_oneof![Just(Tail::Kept), Just(Tail::Released)];
    let align = prop_oneof![8 => Just(0u32), 2 => 0u32..9, 1 => 0u32..14];
    let step = prop_oneof![
        5 => (pages, align).prop_map(|(pages, align)| Step::New { pages, align: 1 << align }),
        4 => any::<usize>().prop_map(Step::Delete),
        2 => (any::<usize>(), 1u64..8).prop_map(|(span, by)| Step::Extend(span, by * 256)),
        1 => (any::<usize>(), 1u64..600).prop_map(|(span, by)| Step::Extend(span, by)),
        3 => (any::<usize>(), 0u64..5, tail)
            .prop_map(|(span, len, tail)| Step::Truncate(span, len * 256, tail)),
        1 => (any::<usize>(), 0u64..600)
            .prop_map(|(span, len)| Step::Truncate(span, len, Tail::Released)),
        1 => (1u64..3_000).prop_map(Step::Release),
        1 => Just(Step::GiveUpSpace),
        1 => (0u64..1_500).prop_map(|ms| Step::Wait(ms * MS)),
        1 => any::<bool>().prop_map(Step::RefuseRelease),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn temeraire_behaves_like_memory(steps in steps()) {
        Model::new(|memory, clock| Temeraire::<_, _>::new(memory, clock).unwrap()).run(&steps);
    }

    #[test]
    fn temeraire_by_fullness_behaves_like_memory(steps in steps()) {
        type ByFullness = Temeraire<TestMemory, TestClock, ByRank<prairie_heap::storage::Allocated, Fullness>>;
        Model::new(|memory, clock| ByFullness::new(memory, clock).unwrap()).run(&steps);
    }

    #[test]
    fn legacy_behaves_like_memory(steps in steps()) {
        Model::new(|memory, _| Legacy::new(memory).unwrap()).run(&steps);
    }
}

type Heap = Temeraire<TestMemory, TestClock>;

fn temeraire() -> (Heap, TestMemory, TestClock) {
    let (memory, clock) = (TestMemory::default(), TestClock::default());
    let heap = Temeraire::new(memory.clone(), clock.clone()).unwrap();
    (heap, memory, clock)
}

fn components(heap: &Heap) -> TemeraireStats {
    match heap.stats().components {
        Components::Temeraire(components) => components,
        _ => unreachable!("this is TEMERAIRE"),
    }
}

fn mib(mib: u64) -> Pages {
    Pages((mib << 20) / Pages::SIZE)
}

fn new(heap: &mut impl PageHeap, pages: Pages) -> prairie_heap::PageRange {
    heap.new_span(pages, Pages::ONE).unwrap().pages
}

#[test]
fn figure_7_sends_each_size_to_its_component() {
    let (mut heap, _, _) = temeraire();
    new(&mut heap, mib(1));
    assert_eq!(components(&heap).huge_filler.huge_pages, HugePages(1));
    // Between 1 and 2 MiB: another huge page, whose tail is donated.
    let medium = new(&mut heap, mib(1) + Pages(20));
    let filler = components(&heap).huge_filler;
    assert_eq!((filler.huge_pages, filler.donated_huge_pages), (HugePages(2), HugePages(1)));
    // What fits into the filler goes there, even above 1 MiB.
    heap.delete(medium);
    let first = new(&mut heap, Pages(1));
    heap.delete(first);
    // 4.5 MiB: three huge pages, 1.5 MiB of the last donated (section 4.1).
    let large = new(&mut heap, Pages(2 * 256 + 64));
    let filler = components(&heap).huge_filler;
    assert_eq!((filler.huge_pages, filler.donated_huge_pages), (HugePages(2), HugePages(1)));
    assert_eq!(large.start.index_in_huge_page(), 0);
    // Whole huge pages, and 1 GiB and more, donate nothing.
    new(&mut heap, mib(4));
    new(&mut heap, mib(1024) + Pages(1));
    assert_eq!(components(&heap).huge_filler.huge_pages, HugePages(2));
    assert_eq!(heap.validate(), Ok(()));
}

#[test]
fn an_unused_tail_comes_back_with_its_span_and_a_used_one_stays() {
    let (mut heap, _, _) = temeraire();
    let unused = new(&mut heap, Pages(256 + 100));
    heap.delete(unused);
    assert_eq!(components(&heap).huge_filler.huge_pages, HugePages(0));
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, HugePages(2));

    let used = new(&mut heap, Pages(256 + 100));
    let small = new(&mut heap, Pages(3));
    assert_eq!(small.start, used.end());
    heap.delete(used);
    assert_eq!(components(&heap).huge_filler.huge_pages, HugePages(1));
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, HugePages(1));
    heap.delete(small);
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, HugePages(2));
    assert_eq!(heap.stats().backing.live, Pages(0));
}

#[test]
fn whole_huge_pages_are_extended_into_what_is_free_behind_them() {
    let (mut heap, _, _) = temeraire();
    // Reserves address space, and makes the cache keep what is freed later.
    let all = new(&mut heap, mib(32));
    heap.delete(all);
    let first = new(&mut heap, mib(4));
    let behind = new(&mut heap, mib(2));
    assert_eq!((first.start, behind.start), (all.start, first.end()));
    assert!(!heap.extend(first, mib(6)), "the next huge page is in use");
    heap.delete(behind);
    let cached = components(&heap).huge_cache.cached_huge_pages;
    assert!(heap.extend(first, mib(8)));
    let first = prairie_heap::PageRange { len: mib(8), ..first };
    assert_eq!(heap.stats().backing.live, mib(8));
    // Both lay in the cache: what was freed first, and what came back.
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, cached - HugePages(2));
    // The rest of the cache, and then what is unbacked.
    assert!(heap.extend(first, mib(32)));
    let first = prairie_heap::PageRange { len: mib(32), ..first };
    assert!(!heap.extend(first, mib(34)), "nothing is reserved there");
    assert_eq!(heap.validate(), Ok(()));
    // Parts of huge pages are not, nor does anything shrink.
    let odd = new(&mut heap, mib(4) + Pages(1));
    assert!(!heap.extend(odd, mib(8)) && !heap.extend(first, mib(34) + Pages(1)));
    assert!(!heap.extend(first, mib(4)));
    heap.delete(first);
    heap.delete(odd);
    assert_eq!(heap.stats().backing.live, Pages(0));
    assert_eq!(heap.validate(), Ok(()));
}

#[test]
fn what_a_truncated_span_loses_is_kept_or_released() {
    let (mut heap, memory, _) = temeraire();
    let span = new(&mut heap, mib(32) + Pages(100));
    memory.touch(span);
    let behind = new(&mut heap, Pages(10));
    assert_eq!(behind.start, span.end(), "the filler uses the rest of its last huge page");
    assert!(heap.truncate(span, mib(8), Tail::Released));
    let span = prairie_heap::PageRange { len: mib(8), ..span };
    assert_eq!(heap.stats().backing.live, mib(8) + Pages(10));
    assert_eq!(heap.stats().released_pages, mib(24));
    // The space behind it serves again.
    let next = new(&mut heap, mib(4));
    assert_eq!(next.start, span.end());
    for len in [mib(7), mib(8), Pages(0)] {
        assert!(!heap.truncate(span, len, Tail::Released), "{len:?}");
    }
    assert!(!heap.truncate(behind, Pages(0), Tail::Kept));
    assert!(heap.truncate(span, mib(2), Tail::Kept));
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, HugePages(3));
    assert_eq!(heap.stats().released_pages, mib(24));
    assert_eq!(heap.validate(), Ok(()));
    let span = prairie_heap::PageRange { len: mib(2), ..span };
    [span, behind, next].into_iter().for_each(|span| heap.delete(span));
    assert_eq!(heap.stats().backing.live, Pages(0));
    assert_eq!(heap.validate(), Ok(()));
}

/// Figure 9: `while (true) Delete(New(512KB))` drains a huge page at each turn.
#[test]
fn figure_9_makes_no_system_call() {
    let (mut heap, memory, clock) = temeraire();
    for _ in 0..10_000 {
        let span = new(&mut heap, Pages(64));
        memory.touch(span);
        heap.delete(span);
        clock.advance(MS);
    }
    let calls = memory.calls();
    assert_eq!((calls.release, calls.reserve, calls.faults), (0, 1, 1));
    let cache = components(&heap).huge_cache;
    assert_eq!((cache.hits, cache.misses), (9_999, 1));
}

/// What the cache holds and does not fit is given back for what is backed afresh: memory never
/// exceeds the highest demand, however ill the sizes fit each other.
#[test]
fn what_does_not_fit_makes_way_for_what_is_backed_afresh() {
    let (mut heap, _, _) = temeraire();
    let mut spans: [Option<prairie_heap::PageRange>; 20] = [None; 20];
    let (mut random, mut live, mut highest, mut kept) = (5u64, 0, 0, 0);
    for _ in 0..3_000 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = &mut spans[(random >> 33) as usize % 20];
        if let Some(span) = slot.take() {
            live -= span.len.0;
            heap.delete(span);
        }
        let pages = HugePages(3 + (random >> 43) % 10).pages();
        *slot = Some(new(&mut heap, pages));
        live += pages.0;
        highest = highest.max(live);
        let backed = heap.stats().backing.backed().0;
        assert!(backed <= highest, "{backed} pages are backed, {highest} were needed at most");
        kept = kept.max(backed - live);
    }
    let cache = components(&heap).huge_cache;
    assert!(kept > highest / 10 && cache.hits > 500, "{kept} {cache:?}");
    assert_eq!(heap.validate(), Ok(()));
}

/// A cached range too short for a span is made longer by the unbacked space next to it: only what
/// lacks is backed afresh.
#[test]
fn a_cached_range_is_extended_rather_than_left() {
    let (mut heap, memory, clock) = temeraire();
    let huge = |count: u64| HugePages(count).pages();
    // Address space of 20 huge pages, unbacked.
    let room = new(&mut heap, huge(20));
    heap.delete(room);
    heap.release(huge(20));
    let spans = [huge(4), huge(2)].map(|pages| {
        let span = new(&mut heap, pages);
        memory.touch(span);
        span
    });
    // Demand has risen by 6 huge pages, so the first span's 4 stay in the cache.
    heap.delete(spans[0]);
    assert_eq!(components(&heap).huge_cache.cached_huge_pages, HugePages(4));
    heap.delete(spans[1]);
    let before = memory.calls().faults;
    let longer = new(&mut heap, huge(9));
    memory.touch(longer);
    assert_eq!(memory.calls().faults - before, 3);
    let cache = components(&heap).huge_cache;
    assert_eq!((cache.extensions, cache.cached_huge_pages), (1, HugePages(0)));
    assert_eq!(heap.validate(), Ok(()));
    // One that is hemmed in by spans is not extended, and is taken when it fits.
    let next = new(&mut heap, huge(2));
    heap.delete(longer);
    clock.advance(MS);
    let elsewhere = new(&mut heap, huge(10));
    assert_ne!(elsewhere.start, longer.start);
    assert_eq!(new(&mut heap, huge(9)), longer);
    for span in [elsewhere, next] {
        heap.delete(span);
    }
    assert_eq!(heap.validate(), Ok(()));
}

/// Section 4.4: a large span and a small one in a loop, of which only the large one is deleted.
#[test]
fn donated_tails_do_not_collect_one_small_span_each() {
    let (mut heap, _, _) = temeraire();
    for _ in 0..200 {
        let large = new(&mut heap, mib(100) + Pages(1));
        new(&mut heap, Pages(1));
        heap.delete(large);
    }
    // 200 single pages fit on one huge page.
    assert_eq!(components(&heap).huge_filler.huge_pages, HugePages(1));
    assert_eq!(heap.validate(), Ok(()));
}

/// Section 4.5: a binary that requests nothing but 1.1 MiB.
#[test]
fn slack_heavy_programs_get_regions() {
    let (mut heap, _, _) = temeraire();
    let pages = Pages::holding(1_153_434);
    let spans: Vec<_> = (0..2_000).map(|_| new(&mut heap, pages)).collect();
    let stats = heap.stats();
    let region = components(&heap).huge_region;
    assert!(region.regions >= 2, "{region:?}");
    // Without regions 82 % of what is used would be slack; the first 64 MiB of it remain.
    assert!(stats.backing.overhead().unwrap() < 0.04, "{:?}", stats.backing);
    assert_eq!(heap.validate(), Ok(()));
    spans.into_iter().for_each(|span| heap.delete(span));
    heap.release(Pages(1 << 30));
    assert_eq!(heap.stats().backing.backed(), Pages(0));
    assert_eq!(heap.validate(), Ok(()));
}

/// Two page heaps that grew in turn have their free address space in pieces that neither can use
/// alone. Given up, it serves either.
#[test]
fn idle_address_space_goes_back_to_the_system() {
    let memory = TestMemory::limited(HugePages(20));
    let mut heaps =
        [(); 2].map(|()| Temeraire::<_, _>::new(memory.clone(), TestClock::default()).unwrap());
    let huge = |count: u64| HugePages(count).pages();
    let spans = [(); 5].map(|()| heaps.each_mut().map(|heap| new(heap, huge(2))));
    for [of_first, of_other] in spans {
        memory.touch(of_first);
        heaps[0].delete(of_first);
        heaps[1].delete(of_other);
    }
    let kept = new(&mut heaps[1], huge(1));
    // Both keep what they have, and the system has no more.
    let [first, other] = &mut heaps;
    assert_eq!(first.new_span(huge(18), Pages::ONE), None);
    assert!(first.idle_space() > HugePages::ZERO && other.idle_space() > HugePages::ZERO);
    first.give_up_space();
    other.give_up_space();
    assert_eq!(first.stats().backing.backed(), Pages::ZERO);
    assert_eq!(other.stats().backing.backed(), huge(1));
    assert!(first.new_span(huge(18), Pages::ONE).is_some());
    other.delete(kept);
    assert_eq!((first.validate(), other.validate()), (Ok(()), Ok(())));
}

#[test]
fn most_programs_get_no_region() {
    let (mut heap, _, _) = temeraire();
    for _ in 0..300 {
        new(&mut heap, Pages(141));
        for _ in 0..16 {
            new(&mut heap, Pages(16));
        }
    }
    assert_eq!(components(&heap).huge_region.regions, 0);
}

/// Section 4.6: the cache first, then the emptiest huge page, and no more than was requested of
/// those.
#[test]
fn release_breaks_the_emptiest_huge_page_last() {
    let (mut heap, memory, clock) = temeraire();
    let spans: Vec<_> = (0..16).map(|_| new(&mut heap, Pages(64))).collect();
    spans.iter().for_each(|&span| memory.touch(span));
    // Four spans a huge page: leave 3, 1, 2 and none of them.
    for emptied in [0, 5, 6, 7, 8, 9, 12, 13, 14, 15] {
        heap.delete(spans[emptied]);
    }
    clock.advance(3_000 * MS);
    assert_eq!(heap.release(Pages(256)), Pages(256));
    assert_eq!(components(&heap).huge_filler.subreleased_pages_total, Pages(0));
    assert_eq!(heap.release(Pages(1)), Pages(192));
    assert_eq!(memory.calls().huge_pages_split, 1);
    assert_eq!(components(&heap).huge_filler.broken_huge_pages, HugePages(1));
    // The whole huge pages serve before the broken one, whose last span's end makes it whole again.
    let next = new(&mut heap, Pages(128));
    assert_eq!(next.start.huge_page(), spans[8].start.huge_page());
    heap.delete(spans[4]);
    let filler = components(&heap).huge_filler;
    assert_eq!((filler.broken_huge_pages, filler.huge_pages), (HugePages(0), HugePages(2)));
    assert_eq!(heap.validate(), Ok(()));
}

#[test]
fn both_give_nothing_where_the_system_has_nothing() {
    let memory = TestMemory::limited(HugePages(64));
    let mut heap = Heap::new(memory, TestClock::default()).unwrap();
    assert_eq!(heap.new_span(mib(200), Pages::ONE), None);
    let span = new(&mut heap, mib(60));
    assert_eq!(heap.new_span(mib(1024), Pages(1 << 17)), None);
    assert_eq!(heap.validate(), Ok(()));
    heap.delete(span);
    let mut heap = Legacy::new(TestMemory::limited(HugePages(64))).unwrap();
    assert_eq!(heap.new_span(mib(200), Pages::ONE), None);
    new(&mut heap, mib(60));
    assert_eq!(heap.new_span(Pages(u64::MAX >> 13), Pages::ONE), None);
    assert_eq!(heap.validate(), Ok(()));
}

/// A gigabyte's alignment, as posix_memalign allows it.
#[test]
fn alignment_reaches_a_gigabyte() {
    let (mut heap, _, _) = temeraire();
    for shift in 0..=17 {
        for pages in [1, 3, 100, 200, 300, 1_000] {
            let align = Pages(1 << shift);
            let span = heap.new_span(Pages(pages), align).unwrap().pages;
            assert_eq!((span.start.0 % align.0, span.len), (0, Pages(pages)));
        }
    }
    assert_eq!(heap.validate(), Ok(()));
}

/// Best fit over pages takes the shortest range, wherever it lies; released is what was free for
/// longest.
#[test]
fn legacy_takes_the_shortest_range_and_releases_round_the_lists() {
    let memory = TestMemory::default();
    let mut heap = Legacy::new(memory.clone()).unwrap();
    let spans: Vec<_> =
        [10, 1, 5, 1, 7, 1].iter().map(|&pages| new(&mut heap, Pages(pages))).collect();
    spans.iter().for_each(|&span| memory.touch(span));
    for hole in [0, 2, 4] {
        heap.delete(spans[hole]);
    }
    assert_eq!(new(&mut heap, Pages(6)).start, spans[4].start);
    assert_eq!(heap.release(Pages(1)), Pages(1));
    // One page of a huge page is gone, and so is the huge page.
    assert_eq!(memory.calls().huge_pages_split, 1);
    assert_eq!(heap.stats().backing.on_huge_pages, Pages(0));
    assert_eq!(heap.release(Pages(2)), Pages(5));
    assert_eq!(heap.validate(), Ok(()));
}
