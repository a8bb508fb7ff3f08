//! When pages are due: lists of pages by tick, in arrays whose size does not change.
//!
//! What is known of a page lies in one place, because an emulated machine takes most of its time for
//! translating addresses.

use std::time::Duration;

/// Ticks of a second.
pub const TICKS_A_SECOND: u32 = 4;

/// Length of a tick.
pub const TICK: Duration = Duration::from_millis(1_000 / TICKS_A_SECOND as u64);

/// Ticks of a turn: 16,384 s. A page that is due later stays on its list.
const SLOTS: usize = 1 << 16;

/// End of a list.
const NONE: u32 = u32::MAX;

/// A page: where it is listed, and what belongs to it.
struct Entry<T> {
    next: u32,
    due: u32,
    value: T,
}

/// A page is on one list, or has been taken from it.
pub struct Wheel<T> {
    heads: Vec<u32>,
    entries: Vec<Entry<T>>,
}

impl<T> Wheel<T> {
    /// Pages from 0 on, with what belongs to them, on no list. The memory is written, so that it is
    /// charged now.
    pub fn new(values: impl Iterator<Item = T>) -> Wheel<T> {
        let entry = |value| Entry { next: NONE, due: NONE, value };
        Wheel { heads: vec![NONE; SLOTS], entries: values.map(entry).collect() }
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// What belongs to a page.
    pub fn value(&self, page: u32) -> &T {
        &self.entries[page as usize].value
    }

    /// Puts a page on the list of a tick.
    pub fn put(&mut self, page: u32, tick: u32) {
        self.entries[page as usize].due = tick;
        self.put_back(page);
    }

    /// Puts a page back on the list from which it was taken.
    pub fn put_back(&mut self, page: u32) {
        let entry = &mut self.entries[page as usize];
        entry.next = std::mem::replace(&mut self.heads[entry.due as usize % SLOTS], page);
    }

    /// Takes the list of a tick: its first page.
    pub fn take(&mut self, tick: u32) -> Option<u32> {
        let first = std::mem::replace(&mut self.heads[tick as usize % SLOTS], NONE);
        (first != NONE).then_some(first)
    }

    /// The page after this one on a list that was taken; to be asked before the page is put.
    pub fn after(&self, page: u32) -> Option<u32> {
        let next = self.entries[page as usize].next;
        (next != NONE).then_some(next)
    }

    /// Whether a page of a taken list is due, and not a turn or more later.
    pub fn is_due(&self, page: u32, tick: u32) -> bool {
        self.entries[page as usize].due <= tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_due_at_its_tick_and_not_a_turn_before() {
        let mut wheel = Wheel::new([(); 3].into_iter());
        let turn = SLOTS as u32;
        wheel.put(0, 7);
        wheel.put(1, 7 + turn);
        wheel.put(2, 8);
        for (tick, expected) in [(7, vec![0]), (8, vec![2]), (7 + turn, vec![1])] {
            let mut found = Vec::new();
            let mut at = wheel.take(tick);
            while let Some(page) = at {
                at = wheel.after(page);
                match wheel.is_due(page, tick) {
                    true => found.push(page),
                    false => wheel.put_back(page),
                }
            }
            assert_eq!(found, expected, "tick {tick}");
        }
    }
}
