//! A slot of a guarded object, which is handed out, freed once, and handed out again.

use super::atomic::{AtomicU8, AtomicUsize, Ordering::*};

const UNUSED: u8 = 0;
const LIVE: u8 = 1;
const FREED: u8 = 2;

/// State of a slot.
#[derive(Debug)]
pub struct Slot {
    object: AtomicUsize,
    size: AtomicUsize,
    state: AtomicU8,
}

/// Why an object cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLive {
    /// It was freed before; its size in bytes.
    Freed(usize),
    /// The slot's object begins elsewhere; its size in bytes.
    Other(usize),
}

impl Slot {
    /// A slot that was never used.
    pub const fn new() -> Slot {
        Slot {
            object: AtomicUsize::new(0),
            size: AtomicUsize::new(0),
            state: AtomicU8::new(UNUSED),
        }
    }

    /// Whether it was ever used.
    pub fn is_used(&self) -> bool {
        self.state.load(Acquire) != UNUSED
    }

    /// Whether it can be handed out. The caller holds the lock of the slots.
    pub fn is_vacant(&self) -> bool {
        self.state.load(Acquire) != LIVE
    }

    /// Hands it out as an object of `size` bytes. The caller holds the lock of the slots and has
    /// found it vacant.
    pub fn hand_out(&self, object: usize, size: usize) {
        self.object.store(object, Relaxed);
        self.size.store(size, Relaxed);
        self.state.store(LIVE, Release);
    }

    /// The object that it holds or held last, and its size, for a message.
    pub fn last(&self) -> (usize, usize) {
        (self.object.load(Relaxed), self.size.load(Relaxed))
    }

    /// Bytes of a live object. To free it, the caller must hold the lock of the slots: otherwise
    /// another thread may free it meanwhile.
    ///
    /// # Errors
    /// If it is not the slot's live object.
    pub fn size_of(&self, object: usize) -> Result<usize, NotLive> {
        // The state first, then its data: a slot that was handed out again is seen to hold another
        // object.
        let state = self.state.load(Acquire);
        let (known, size) = self.last();
        match state {
            LIVE if known == object => Ok(size),
            FREED if known == object => Err(NotLive::Freed(size)),
            _ => Err(NotLive::Other(size)),
        }
    }

    /// Records that its object is freed. The caller holds the lock of the slots.
    pub fn vacate(&self) {
        self.state.store(FREED, Release);
    }
}

impl Default for Slot {
    fn default() -> Self {
        Slot::new()
    }
}
