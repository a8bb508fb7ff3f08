//! Page-heap calls: whatever is asked, both page heaps agree with themselves, and with a set of the
//! pages in use.
#![cfg_attr(fuzzing, no_main)]

use std::collections::BTreeMap;

use prairie_fuzz::fuzz_target;
use prairie_heap::memory::{CountingMemory, Shared};
use prairie_heap::page_heap::{Clock, Legacy, PageHeap, Temeraire};
use prairie_heap::{HugePages, PageRange, Pages};

/// A clock that goes on by what the input says.
#[derive(Clone, Default)]
struct Ticks(std::rc::Rc<std::cell::Cell<u64>>);

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

fuzz_target!(|input: (bool, u16, Vec<(u8, u32)>)| {
    let (legacy, limit, calls) = input;
    let memory = Shared::new(CountingMemory::limited(HugePages(u64::from(limit))));
    let clock = Ticks::default();
    let mut heap: Box<dyn PageHeap> = match legacy {
        true => Box::new(Legacy::new(memory.clone()).unwrap()),
        false => Box::new(Temeraire::<_, _>::new(memory.clone(), clock.clone()).unwrap()),
    };
    let mut live: BTreeMap<u64, PageRange> = BTreeMap::new();
    for (call, number) in calls {
        match call % 8 {
            0..4 => {
                let align = Pages(1 << (number >> 28));
                let pages = Pages(1 + u64::from(number & 0x0fff_ffff) % (1 << (call / 8)).max(2));
                let Some(span) = heap.new_span(pages, align) else { continue };
                let range = span.pages;
                assert_eq!((range.len, range.start.0 % align.0), (pages, 0));
                if let Some((_, before)) = live.range(..range.end().0).next_back() {
                    assert!(before.end() <= range.start, "{range} overlap {before}");
                }
                memory.with(|memory| memory.touch(range));
                live.insert(range.start.0, range);
            }
            4..6 => {
                let from = live.range(u64::from(number)..).next().or(live.iter().next());
                let Some((&start, &range)) = from else { continue };
                live.remove(&start);
                heap.delete(range);
            }
            6 => {
                heap.release(Pages(number.into()));
            }
            _ => {
                clock.0.set(clock.0.get() + u64::from(number));
                memory.with(|memory| memory.refuse_release(number % 4 == 0));
            }
        }
        heap.validate().unwrap();
    }
});
