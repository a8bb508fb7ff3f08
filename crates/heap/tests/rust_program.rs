//! A Rust program on the heap: this test program itself, by `prairie_heap::global_allocator!`.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

prairie_heap::global_allocator!();

/// Live bytes by the heap's own books.
fn live() -> String {
    let statistics =
        prairie_heap::statistics().expect("no thread is inside the page level for long");
    statistics.to_string().lines().next().expect("the first line tells what is live").to_owned()
}

#[test]
fn collections_and_threads_live_on_it() {
    let (send, receive) = mpsc::channel::<Vec<String>>();
    let senders: Vec<_> = (0..4)
        .map(|thread| {
            let send = send.clone();
            thread::spawn(move || {
                for round in 0..200 {
                    let texts = (0..50).map(|i| format!("{thread} {round} {}", "x".repeat(i)));
                    send.send(texts.collect()).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut lengths: HashMap<String, usize> = HashMap::new();
    let mut ordered = BTreeMap::new();
    for texts in receive {
        for text in texts {
            ordered.insert(text.clone(), text.len());
            lengths.insert(text.clone(), text.len());
        }
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!((lengths.len(), ordered.len()), (40_000, 40_000));
    assert!(ordered.iter().all(|(text, length)| lengths[text] == *length && text.len() == *length));
}

#[test]
fn alignments_and_reallocations_keep_what_they_hold() {
    for align in (0..=21).map(|shift| 1usize << shift) {
        for size in [1usize, 24, 1000, 70_000, 3_000_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            let grown = Layout::from_size_align(size * 3, align).unwrap();
            // SAFETY: a layout of some size; what is written is within it, and it is freed as what
            // it was last.
            unsafe {
                let object = alloc(layout);
                assert!(!object.is_null() && object.addr().is_multiple_of(align), "{layout:?}");
                object.write_bytes(7, size);
                let object = realloc(object, layout, grown.size());
                assert!(!object.is_null() && object.addr().is_multiple_of(align), "{grown:?}");
                assert!((0..size).all(|at| *object.add(at) == 7), "{grown:?}");
                dealloc(object, grown);
            }
        }
    }
}

#[test]
fn the_statistics_count_a_large_allocation() {
    let before = live();
    let large: Vec<u8> = vec![1; 300 << 20];
    let with = live();
    assert!(large.len() > 200 << 20 && before != with, "{before} then {with}");
    assert!(with.contains("large"), "{with}");
}
