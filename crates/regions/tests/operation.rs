//! Operations against a kernel that answers as kernels do, and worse.
#![allow(missing_docs)]

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use prairie_frames::ZoneKind;
use prairie_host::{BlockState, BlockZone, MemoryBlock};
use prairie_regions::choice::Place;
use prairie_regions::operation::{BlockFiles, Outcome, bring_back, convert};
use proptest::prelude::*;

const NORMAL: BlockZone = BlockZone::One(ZoneKind::Normal);
const MOVABLE: BlockZone = BlockZone::One(ZoneKind::Movable);

/// What the kernel does at a write.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// As it is told.
    Obeys,
    /// An error, and nothing happens.
    Fails(i32),
    /// An error, but it happens all the same: a signal that came late.
    FailsLate(i32),
    /// Somebody puts the block online in this zone right after.
    Competes(ZoneKind),
    /// The block vanishes.
    Vanishes,
}

#[derive(Debug)]
struct Kernel {
    block: Mutex<Option<MemoryBlock>>,
    answers: Mutex<VecDeque<Answer>>,
    words: Mutex<Vec<String>>,
}

impl Kernel {
    fn new(state: BlockState, zone: BlockZone, answers: &[Answer]) -> Kernel {
        Kernel {
            block: Mutex::new(Some(MemoryBlock { number: 7, state, zone, node: 0 })),
            answers: Mutex::new(answers.iter().copied().collect()),
            words: Mutex::default(),
        }
    }

    fn obey(block: &mut MemoryBlock, word: &str) {
        let offline = block.state == BlockState::Offline;
        (block.state, block.zone) = match word {
            "offline" => (BlockState::Offline, BlockZone::Unknown),
            "online_movable" if offline => (BlockState::Online, MOVABLE),
            "online" | "online_kernel" if offline => (BlockState::Online, NORMAL),
            _ => (block.state, block.zone),
        };
    }

    fn words(&self) -> Vec<String> {
        self.words.lock().unwrap().clone()
    }
}

impl BlockFiles for Kernel {
    fn read(&self, _: u64) -> io::Result<Option<MemoryBlock>> {
        Ok(*self.block.lock().unwrap())
    }

    fn write(&self, _: u64, word: &str) -> io::Result<()> {
        self.words.lock().unwrap().push(word.to_owned());
        let mut slot = self.block.lock().unwrap();
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Answer::Obeys);
        let Some(block) = slot.as_mut() else {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        };
        match answer {
            Answer::Obeys => {
                let online = block.state == BlockState::Online;
                if online == word.starts_with("online") {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                Kernel::obey(block, word);
                Ok(())
            }
            Answer::Fails(code) => Err(io::Error::from_raw_os_error(code)),
            Answer::FailsLate(code) => {
                Kernel::obey(block, word);
                Err(io::Error::from_raw_os_error(code))
            }
            Answer::Competes(zone) => {
                (block.state, block.zone) = (BlockState::Online, BlockZone::One(zone));
                Ok(())
            }
            Answer::Vanishes => {
                *slot = None;
                Err(io::Error::from_raw_os_error(libc::ENODEV))
            }
        }
    }
}

fn grow(answers: &[Answer]) -> (Outcome, Option<Place>, Vec<String>) {
    let kernel = Kernel::new(BlockState::Online, MOVABLE, answers);
    let done = convert(&kernel, 7, Place::Kernel);
    (done.outcome, done.place, kernel.words())
}

#[test]
fn a_block_changes_sides() {
    let (outcome, place, words) = grow(&[]);
    assert_eq!((outcome, place), (Outcome::Done, Some(Place::Kernel)));
    assert_eq!(words, ["offline", "online_kernel"]);
    let kernel = Kernel::new(BlockState::Online, NORMAL, &[]);
    assert_eq!(convert(&kernel, 7, Place::Kernel).outcome, Outcome::Done);
    assert!(kernel.words().is_empty(), "it is there already");
    assert_eq!(convert(&kernel, 7, Place::Movable).place, Some(Place::Movable));
}

#[test]
fn refusals_leave_the_block_where_it_was() {
    for (code, expected) in [
        (libc::EBUSY, Outcome::Busy),
        (libc::EINTR, Outcome::TimedOut),
        (libc::EINVAL, Outcome::Refused),
        (libc::EPERM, Outcome::Denied),
        (libc::EACCES, Outcome::Denied),
        (libc::EROFS, Outcome::Denied),
        (libc::ENODEV, Outcome::Gone),
    ] {
        let (outcome, place, words) = grow(&[Answer::Fails(code)]);
        assert_eq!((outcome, place), (expected, Some(Place::Movable)), "{code}");
        assert_eq!(words, ["offline"], "no other word is written");
    }
    let (outcome, ..) = grow(&[Answer::Fails(libc::EIO)]);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let straddles = Kernel::new(BlockState::Online, BlockZone::Several, &[]);
    assert_eq!(convert(&straddles, 7, Place::Movable).outcome, Outcome::Refused);
    assert!(straddles.words().is_empty(), "not even tried");
}

#[test]
fn an_offline_block_always_comes_back() {
    // The signal came when the block was offline already.
    let (outcome, place, _) = grow(&[Answer::FailsLate(libc::EINTR)]);
    assert_eq!((outcome, place), (Outcome::Done, Some(Place::Kernel)));
    // Onlining is refused once, or in the wanted zone.
    let (outcome, place, _) = grow(&[Answer::Obeys, Answer::Fails(libc::ENOMEM)]);
    assert_eq!((outcome, place), (Outcome::Done, Some(Place::Kernel)));
    let refused = Answer::Fails(libc::ENOMEM);
    let (outcome, place, words) = grow(&[Answer::Obeys, refused, refused]);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(place, Some(Place::Movable), "in its old zone rather than lost");
    assert_eq!(words.last().unwrap(), "online_movable");
    // Nothing helps: it is said.
    let (outcome, place, words) = grow(&[Answer::Obeys, refused, refused, refused, refused]);
    assert!(matches!(outcome, Outcome::LeftOffline(_)), "{outcome:?}");
    assert_eq!((place, words.len()), (Some(Place::Offline), 5));
    // One that is found offline.
    let kernel = Kernel::new(BlockState::Offline, BlockZone::Unknown, &[]);
    let done = bring_back(&kernel, 7, Place::Kernel);
    assert_eq!((done.outcome, done.place), (Outcome::Done, Some(Place::Kernel)));
    assert_eq!(bring_back(&kernel, 7, Place::Kernel).outcome, Outcome::Done, "again");
}

#[test]
fn somebody_else_puts_it_online() {
    let (outcome, place, words) = grow(&[Answer::Competes(ZoneKind::Movable)]);
    assert_eq!((outcome, place), (Outcome::Competing, Some(Place::Movable)));
    assert_eq!(words, ["offline", "online_kernel"]);
    let (outcome, ..) = grow(&[Answer::Competes(ZoneKind::Normal)]);
    assert_eq!(outcome, Outcome::Done, "where it should go anyway");
}

#[test]
fn blocks_vanish() {
    for before in 0..3 {
        let mut answers = vec![Answer::Obeys; before];
        answers.push(Answer::Vanishes);
        let (outcome, place, _) = grow(&answers);
        let expected = if before < 2 { Outcome::Gone } else { Outcome::Done };
        assert_eq!(outcome, expected);
        assert_eq!(place.is_none(), before < 2);
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let codes = || prop::sample::select(vec![libc::EBUSY, libc::EINTR, libc::EINVAL, libc::EPERM]);
    prop_oneof![
        Just(Answer::Obeys),
        codes().prop_map(Answer::Fails),
        codes().prop_map(Answer::FailsLate),
        prop::sample::select(vec![ZoneKind::Normal, ZoneKind::Movable]).prop_map(Answer::Competes),
        Just(Answer::Vanishes),
    ]
}

proptest! {
    /// Whatever the kernel answers: the outcome says where the block is, few words are written, and
    /// a block is only left offline after everything was tried.
    #[test]
    fn outcomes_are_true(answers in prop::collection::vec(answer(), 0..8), to_kernel: bool) {
        let to = if to_kernel { Place::Kernel } else { Place::Movable };
        let kernel = Kernel::new(BlockState::Online, if to_kernel { MOVABLE } else { NORMAL }, &answers);
        let done = convert(&kernel, 7, to);
        let words = kernel.words();
        prop_assert!(words.len() <= 5);
        match done.outcome {
            Outcome::Done => prop_assert_eq!(done.place, Some(to)),
            Outcome::LeftOffline(_) => {
                prop_assert_eq!(done.place, Some(Place::Offline));
                prop_assert_eq!(words.len(), 5);
            }
            Outcome::Gone => {}
            _ => prop_assert!(done.place.is_some() && done.place != Some(Place::Offline)),
        }
    }
}
