//! A small program for each protocol: a few threads that use it, and what must never happen.

use std::ptr::null_mut;

use loom::sync::atomic::{AtomicUsize as Counter, Ordering as Order};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, Plain};
use crate::deferred::{Deferred, Object};
use crate::entry;
use crate::flag::Flag;
use crate::lock_word::{LockWord, Waiting};
use crate::once::{Once, Turn};
use crate::place::Place;
use crate::sequence::Sequence;
use crate::slot::{NotLive, Slot};
use crate::window::Window;

/// A value for all threads of a model. Each is shared by its address: an `Arc` would order what the
/// protocol has to order.
fn shared<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The kernel's side of a lock: who sleeps, and who wakes them.
#[derive(Clone, Copy)]
pub enum Futex {
    /// Looks at the word and falls asleep in one step.
    Compares,
    /// Does not look: a mistake.
    SleepsAtOnce,
}

struct Sleepers {
    kind: Futex,
    asleep: Mutex<usize>,
    bell: Condvar,
}

impl Sleepers {
    fn new(kind: Futex) -> Arc<Sleepers> {
        Arc::new(Sleepers { kind, asleep: Mutex::new(0), bell: Condvar::new() })
    }

    fn wake(&self) {
        let _asleep = self.asleep.lock().unwrap();
        self.bell.notify_one();
    }
}

struct Sleep<'a>(&'a Sleepers);

impl Waiting for Sleep<'_> {
    const SPINS: u32 = 0;

    fn is_patient(&self) -> bool {
        true
    }

    fn sleep(&mut self, word: &AtomicUsize, marked: usize) {
        let asleep = self.0.asleep.lock().unwrap();
        let stays = match self.0.kind {
            Futex::Compares => word.load(Ordering::Relaxed) == marked,
            Futex::SleepsAtOnce => true,
        };
        if stays {
            drop(self.0.bell.wait(asleep).unwrap());
        }
    }
}

fn take(word: &LockWord, me: usize, sleepers: &Sleepers) {
    if word.try_take(me).is_err() {
        assert!(word.take(me, &mut Sleep(sleepers)));
    }
}

/// Two threads add to a plain number, one after the other.
pub fn a_lock_excludes() {
    let (word, number) = (shared(LockWord::new()), shared(Plain::new(0)));
    let sleepers = Sleepers::new(Futex::Compares);
    assert_eq!(word.owner(), 0);
    let add = move |me: usize, sleepers: &Sleepers| {
        take(word, me, sleepers);
        assert_eq!(word.owner(), me);
        // SAFETY: loom looks.
        unsafe { number.write(number.read() + 1) };
        word.give_up(|_| sleepers.wake());
    };
    let other = thread::spawn({
        let sleepers = sleepers.clone();
        move || add(2, &sleepers)
    });
    add(4, &sleepers);
    other.join().unwrap();
    // SAFETY: as above.
    assert_eq!((unsafe { number.read() }, word.owner(), word.has_waiters()), (2, 0, false));
}

/// Three threads take a lock in turn, whatever the order in which they fall asleep.
pub fn three_sleep_in_turn(futex: Futex) {
    let word = shared(LockWord::new());
    let sleepers = Sleepers::new(futex);
    take(word, 2, &sleepers);
    let others = [4, 6].map(|me| {
        let sleepers = sleepers.clone();
        thread::spawn(move || {
            take(word, me, &sleepers);
            word.give_up(|_| sleepers.wake());
        })
    });
    word.give_up(|_| sleepers.wake());
    for other in others {
        other.join().unwrap();
    }
}

/// Two threads need a number that one of them makes.
pub fn what_is_done_once_is_seen() {
    let (once, number) = (shared(Once::new()), shared(Plain::new(0)));
    assert!(!once.is_done());
    let need = move |me: usize| {
        match once.begin(me) {
            Turn::Mine => {
                assert_eq!(once.begin(me), Turn::Within);
                // SAFETY: loom looks.
                unsafe { number.write(number.read() + 7) };
                once.finish();
            }
            Turn::Done => {}
            Turn::Within => panic!("{me} is not at it"),
            Turn::Others => {
                while !once.is_done() {
                    thread::yield_now();
                }
            }
        }
        // SAFETY: as above.
        assert_eq!(unsafe { number.read() }, 7);
    };
    let other = thread::spawn(move || need(2));
    need(4);
    other.join().unwrap();
}

/// Two threads try to write the same text.
pub fn a_flag_excludes() {
    let (flag, text) = (shared(Flag::new()), shared(Plain::new(0)));
    assert!(!flag.lower());
    let write = move || {
        if flag.raise() {
            // SAFETY: loom looks.
            unsafe { text.write(text.read() + 1) };
            assert!(flag.lower());
        }
    };
    let other = thread::spawn(write);
    write();
    other.join().unwrap();
}

/// Two threads need something at a place, and a third looks there.
pub fn a_place_is_filled_once_and_whole() {
    struct Made {
        by: Plain<usize>,
    }
    let place = shared(Place::<Made>::new());
    assert!(place.get().is_null());
    let need = move |me: usize| {
        let fresh = Box::into_raw(Box::new(Made { by: Plain::new(0) }));
        // SAFETY: nobody else knows of it yet; then loom looks.
        unsafe { (*fresh).by.write(me) };
        let there = match place.fill(fresh) {
            Ok(()) => fresh,
            Err(other) => other,
        };
        // SAFETY: what is at the place stays.
        unsafe { (*there).by.read() }
    };
    let other = thread::spawn(move || need(1));
    let looks = thread::spawn(move || {
        // SAFETY: as above.
        unsafe { place.get().as_ref().map(|made| made.by.read()) }
    });
    let mine = need(2);
    assert_eq!(other.join().unwrap(), mine);
    assert!(looks.join().unwrap().is_none_or(|by| by == mine));
}

/// Two threads defer an object each while a third takes the list.
pub fn deferred_objects_come_back_once() {
    let list = shared(Deferred::new());
    assert!(list.is_empty());
    let objects = [(), ()].map(|()| {
        // The first word is the protocol's, from a thread to the next.
        let object: *mut Plain<*mut Object> = Box::into_raw(Box::new(Plain::new(null_mut())));
        object as usize
    });
    let [one, two] = objects;
    // SAFETY: the object lives forever and is this thread's.
    let defer = move |object: usize| unsafe { list.push(object as *mut Object) };
    let others = [thread::spawn(move || defer(one)), thread::spawn(move || defer(two))];
    let mut back = Vec::new();
    list.take_all(|object| back.push(object as usize));
    for other in others {
        other.join().unwrap();
    }
    list.take_all(|object| back.push(object as usize));
    back.sort_unstable();
    let mut all = objects;
    all.sort_unstable();
    assert_eq!(back, all);
}

/// One thread writes two words that belong together, another reads them.
pub fn a_sequence_shows_torn_reads() {
    let sequence = shared(Sequence::new());
    let words = shared([AtomicU64::new(0), AtomicU64::new(0)]);
    assert!(!sequence.is_odd());
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    let writer = thread::spawn(move || {
        for value in 1..3 {
            sequence.begin();
            words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
            sequence.end();
        }
    });
    let read = sequence.attempt(|| words.each_ref().map(|word| word.load(Ordering::Relaxed)));
    if let Some([one, two]) = read {
        assert_eq!(one, two, "torn, and not said");
    }
    writer.join().unwrap();
}

/// A thread frees an object again whose slot another thread allocates again.
pub fn a_slot_that_is_used_again_is_another_objects() {
    const OLD: usize = 16;
    const NEW: usize = 32;
    let slot = shared(Slot::new());
    assert!(slot.is_vacant() && !slot.is_used());
    slot.hand_out(OLD, 1);
    assert_eq!(slot.size_of(OLD), Ok(1));
    slot.vacate();
    let handed = shared(Place::<usize>::new());
    assert!(handed.get().is_null());
    let other = thread::spawn(move || {
        assert!(slot.is_vacant());
        slot.hand_out(NEW, 2);
        // Whoever gets the object gets it by something that orders.
        handed.fill(NEW as *mut usize).unwrap();
    });
    match slot.size_of(OLD) {
        Err(NotLive::Freed(size)) => assert!(size <= 2),
        Err(NotLive::Other(size)) => assert!(size <= 2),
        Ok(_) => panic!("double free, but taken for live"),
    }
    if !handed.get().is_null() {
        assert_eq!(slot.size_of(NEW), Ok(2));
    }
    other.join().unwrap();
}

/// A thread opens the page map's window, another one that of the fast path after it, and a third
/// looks for a page there.
pub fn a_page_is_found_with_its_class_or_not_at_all() {
    const PAGES: u64 = 8;
    const START: u64 = 4;
    let (map, fast) = (shared(Window::new()), shared(Window::new()));
    for window in [map, fast] {
        assert!(window.find(START).is_null() && window.classes.load(Ordering::Relaxed).is_null());
    }
    let classes: &'static [AtomicU8; PAGES as usize] =
        shared([const { AtomicU8::new(9) }; PAGES as usize]);
    let first = classes.as_ptr().cast_mut() as usize;
    let opens = thread::spawn(move || map.open(START, PAGES, first as *mut AtomicU8));
    let copies = thread::spawn(move || {
        fast.open_as(map);
        // Whose window is open finds its pages by it.
        assert!(!fast.is_open() || !fast.find(START + 1).is_null());
    });
    // The first page looks as if it lay in a window that begins at 0, too.
    let found = fast.find(START) as usize;
    assert!(found == 0 || found == first, "found at {found:x}, not {first:x}");
    opens.join().unwrap();
    copies.join().unwrap();
}

/// Whether who empties a cache waits for the CPU's sequences.
#[derive(Clone, Copy)]
pub enum Barrier {
    Waits,
    Missing,
}

/// A cache of one stack, which is a number of objects.
struct Cache {
    objects: Plain<usize>,
}

fn cache(objects: usize) -> *mut Cache {
    Box::into_raw(Box::new(Cache { objects: Plain::new(objects) }))
}

/// A CPU: its sequences come one after the other, which a lock does here; on x86 each of their
/// loads acquires.
struct Cpu {
    one_at_a_time: Mutex<()>,
    entry: AtomicPtr<Cache>,
}

impl Cpu {
    fn load(&self) -> *mut Cache {
        self.entry.load(Ordering::Acquire)
    }

    /// A sequence that pushes an object, unless the stand-in is there. Whether it did.
    fn push(&self, stand_in: *mut Cache) -> bool {
        let _running = self.one_at_a_time.lock().unwrap();
        let cache = self.load();
        if cache == stand_in {
            return false;
        }
        // SAFETY: caches live forever, and loom looks.
        unsafe { (*cache).objects.write((*cache).objects.read() + 1) };
        true
    }
}

/// A thread pushes to a CPU's cache while another one empties it.
pub fn emptied_cache(barrier: Barrier) {
    let (own, stand_in) = (cache(1) as usize, cache(0) as usize);
    let cpu = Cpu { one_at_a_time: Mutex::new(()), entry: AtomicPtr::new(own as *mut Cache) };
    let cpu = Arc::new(cpu);
    assert_eq!(cpu.load() as usize, own);
    let pushes = thread::spawn({
        let cpu = cpu.clone();
        move || usize::from(cpu.push(stand_in as *mut Cache))
    });
    let mut taken = 0;
    let fence = || {
        if let Barrier::Waits = barrier {
            drop(cpu.one_at_a_time.lock().unwrap());
        }
        true
    };
    let own = own as *mut Cache;
    entry::borrow(&cpu.entry, own, stand_in as *mut Cache, fence, || {
        // SAFETY: as above.
        unsafe {
            taken = (*own).objects.read();
            (*own).objects.write(0);
        }
    });
    let pushed = pushes.join().unwrap();
    // SAFETY: as above.
    assert_eq!(taken + unsafe { (*own).objects.read() }, 1 + pushed);
}

/// As the heap does it.
pub fn an_emptied_cache_is_nobodys_meanwhile() {
    emptied_cache(Barrier::Waits);
}

/// Two threads make a cache for a CPU that has none, while statistics look at it.
pub fn a_new_cache_is_seen_whole() {
    let stand_in = cache(0) as usize;
    let entry = shared(AtomicPtr::new(stand_in as *mut Cache));
    assert_eq!(entry.load(Ordering::Acquire) as usize, stand_in);
    let made = Arc::new(Counter::new(0));
    let make = move |made: &Counter| {
        let fresh = cache(0);
        // SAFETY: nobody else knows of it yet; then loom looks.
        unsafe { (*fresh).objects.write(5) };
        if entry::replace_stand_in(entry, stand_in as *mut Cache, fresh) {
            made.fetch_add(1, Order::Relaxed);
        }
    };
    let other = thread::spawn({
        let made = made.clone();
        move || make(&made)
    });
    let looks = thread::spawn(move || {
        let cache = entry.load(Ordering::Acquire);
        // SAFETY: caches live forever, and loom looks.
        let objects = || unsafe { (*cache).objects.read() };
        assert!(cache as usize == stand_in || objects() == 5);
    });
    make(&made);
    other.join().unwrap();
    looks.join().unwrap();
    assert_eq!(made.load(Order::Relaxed), 1);
}
