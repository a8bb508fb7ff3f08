//! The metadata table of the last-level cache: the migrating pages and their progress.
//!
//! An entry holds the source and the destination page, *Ptr* (the next line to be copied) and
//! flags (Contiguitas 2023, "Hardware Migration of Unmovables", Figure 4b). While it lives, both
//! pages are names of the same data, and a line's data is at home in exactly one of them:
//!
//! ```text
//!   line      0   1   2   3   4   5   6   7          Ptr = 3
//!   home    [ D   D   D ] S   S   S   S   S          D destination, S source
//!                         ^
//!                        Ptr: the next line to be copied
//! ```
//!
//! Every slice of the cache holds every entry. For one line the slice of the *source* name orders
//! all requests, by whichever name they come; so two slices never have to agree on Ptr at an
//! instant. (The paper says that sliced caches are supported and leaves to its full version how;
//! this is our choice.)
//!
//! The table is generic over how a page is named (`N`): the simulator uses page frame numbers, the
//! checker small integers.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Which of the two pages of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The page that is being left.
    Source,
    /// The page that is being moved into.
    Destination,
}

impl Side {
    /// The opposite name.
    #[must_use]
    pub fn opposite(self) -> Side {
        match self {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }
}

/// How accesses to a migrating page are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caching {
    /// Private caches keep lines of the page, under one name at a time. The copy begins when all
    /// translations to the source are gone.
    #[default]
    Cacheable,
    /// Accesses are served at the last-level cache. The copy may begin at once.
    Noncacheable,
}

/// How far a migration has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Both names live; nothing copied yet.
    Aliased,
    /// The engine copies the line at Ptr.
    Copying,
    /// Every line is copied: all data is at home in the destination.
    Copied,
}

/// One migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<N> {
    /// The page that is being left.
    pub source: N,
    /// The page that is being moved into.
    pub destination: N,
    /// The caching of its accesses during migration.
    pub caching: Caching,
    /// Whether the copy was allowed to begin.
    started: bool,
    /// The next line to be copied. It must be able to hold `lines` itself: with 64 lines, 6 bits
    /// are not enough.
    ptr: u16,
    /// Lines of the page: 64 of 64 bytes for 4 KiB, 32 768 for 2 MiB.
    lines: u16,
}

impl<N: Copy + Eq> Entry<N> {
    /// The next line to be copied; the number of lines once all are.
    #[must_use]
    pub fn ptr(&self) -> u16 {
        self.ptr
    }

    /// Lines of the page.
    #[must_use]
    pub fn lines(&self) -> u16 {
        self.lines
    }

    /// How far the migration has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (self.started, self.ptr == self.lines) {
            (false, _) => Phase::Aliased,
            (true, false) => Phase::Copying,
            (true, true) => Phase::Copied,
        }
    }

    /// The page of one side.
    #[must_use]
    pub fn name(&self, side: Side) -> N {
        match side {
            Side::Source => self.source,
            Side::Destination => self.destination,
        }
    }

    /// Which side a page is of this migration, if any.
    #[must_use]
    pub fn side(&self, name: N) -> Option<Side> {
        if name == self.source {
            Some(Side::Source)
        } else if name == self.destination {
            Some(Side::Destination)
        } else {
            None
        }
    }

    /// Redirection: where the data of `line` is at home now, whichever name a request has. Below
    /// Ptr it is the destination, from Ptr on the source.
    #[must_use]
    pub fn home(&self, line: u16) -> Side {
        if line < self.ptr { Side::Destination } else { Side::Source }
    }

    /// What the last-level cache does with a request that missed in private caches, or that asks
    /// to own a line it shares.
    #[must_use]
    pub fn route(&self, asked: Side, line: u16) -> Route<N> {
        Route {
            home: self.name(self.home(line)),
            opposite: self.name(asked.opposite()),
            fill: self.caching == Caching::Cacheable,
        }
    }

    /// The line to copy next, while there is one and the copy was allowed to begin.
    #[must_use]
    pub fn to_copy(&self) -> Option<u16> {
        (self.phase() == Phase::Copying).then_some(self.ptr)
    }

    /// Moves Ptr past the line that was just written to the destination.
    ///
    /// # Panics
    ///
    /// If no line is left to copy.
    pub fn copied(&mut self) {
        assert_eq!(self.phase(), Phase::Copying, "no line was to be copied");
        self.ptr += 1;
    }
}

/// The routing of a request for a line of a migrating page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<N> {
    /// The page whose line holds the data: read and written there.
    pub home: N,
    /// The page under whose name private copies of the line are invalidated first, dirty ones
    /// written to `home`.
    pub opposite: N,
    /// Whether the private cache of the requester may keep the line, under the name it asked by.
    pub fill: bool,
}

/// Why a migration cannot be entered into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No entry is free: the operating system waits for a `Clear`.
    #[error("all entries of the table are in use")]
    Full,
    /// One of the two pages is already part of a migration. A request would have to be redirected
    /// twice; so the second migration waits for the first one's `Clear`.
    #[error("a page of it is part of another migration that was not cleared yet")]
    Named,
    /// Source and destination are the same page.
    #[error("source and destination are the same page")]
    Same,
    /// The number of lines is zero.
    #[error("a page has at least one line")]
    Empty,
}

/// Why a command for an entry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misuse {
    /// No migration has this source.
    #[error("no migration has this source")]
    Unknown,
    /// Lines are still to be copied: clearing would lose what lies on the other side of Ptr.
    #[error("the copy has not finished")]
    Unfinished,
    /// The copy has begun: below Ptr new data is in the destination only. It is finished, not
    /// aborted.
    #[error("the copy has begun, and has to be finished")]
    Begun,
}

impl<N: Hash> Hash for Entry<N> {
    /// Small fields in one word: the checker hashes entries by the million.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.source.hash(hasher);
        self.destination.hash(hasher);
        let flags = u64::from(self.started) | (self.caching as u64) << 1;
        hasher.write_u64(flags | u64::from(self.ptr) << 16 | u64::from(self.lines) << 32);
    }
}

/// The entries of all migrations under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table<N, const MAX: usize = 16> {
    entries: [Option<Entry<N>>; MAX],
    capacity: usize,
}

impl<N: Hash, const MAX: usize> Hash for Table<N, MAX> {
    /// Without the capacity, which no step changes.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for (slot, entry) in self.entries.iter().enumerate() {
            if let Some(entry) = entry {
                hasher.write_u8(slot as u8 + 1);
                entry.hash(hasher);
            }
        }
    }
}

impl<N: Copy + Eq, const MAX: usize> Table<N, MAX> {
    /// An empty table of `capacity` entries.
    ///
    /// # Panics
    ///
    /// If `capacity` is zero or above `MAX`.
    #[must_use]
    pub fn new(capacity: usize) -> Table<N, MAX> {
        assert!((1..=MAX).contains(&capacity), "a table has 1 to {MAX} entries, not {capacity}");
        Table { entries: [None; MAX], capacity }
    }

    /// How many migrations it can hold at once.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Migrations under way, each with its slot.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry<N>)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// The entry in a slot.
    #[must_use]
    pub fn entry(&self, slot: usize) -> Option<&Entry<N>> {
        self.entries.get(slot)?.as_ref()
    }

    /// The entry in a slot, to move its Ptr.
    pub fn entry_mut(&mut self, slot: usize) -> Option<&mut Entry<N>> {
        self.entries.get_mut(slot)?.as_mut()
    }

    /// The migration that a page is part of, by either name. Linear in the capacity, as the
    /// hardware's comparison of all entries at once is in area.
    #[must_use]
    pub fn find(&self, name: N) -> Option<(usize, Side)> {
        self.entries().find_map(|(slot, entry)| Some((slot, entry.side(name)?)))
    }

    /// What to do with a request for `line` of page `name`; nothing special if no migration has
    /// that page.
    #[must_use]
    pub fn route(&self, name: N, line: u16) -> Option<Route<N>> {
        let (slot, side) = self.find(name)?;
        Some(self.entries[slot]?.route(side, line))
    }

    /// `Migrate(source, destination, flags)`: both names live from now on. The caller has first
    /// emptied the destination from every cache: a dirty line of its former owner would overwrite
    /// the copy later.
    ///
    /// # Errors
    ///
    /// Refuses if the table is full, if either page is part of a migration, or if the two are the
    /// same. Nothing has changed then.
    pub fn migrate(
        &mut self,
        source: N,
        destination: N,
        lines: u16,
        caching: Caching,
    ) -> Result<usize, Refusal> {
        if source == destination {
            return Err(Refusal::Same);
        }
        if lines == 0 {
            return Err(Refusal::Empty);
        }
        if self.find(source).is_some() || self.find(destination).is_some() {
            return Err(Refusal::Named);
        }
        self.enter(source, destination, lines, caching)
    }

    /// Enters a migration without asking whether its pages are part of another.
    pub(super) fn enter(
        &mut self,
        source: N,
        destination: N,
        lines: u16,
        caching: Caching,
    ) -> Result<usize, Refusal> {
        let free = self.entries[..self.capacity].iter().position(Option::is_none);
        let slot = free.ok_or(Refusal::Full)?;
        let entry = Entry { source, destination, caching, started: false, ptr: 0, lines };
        self.entries[slot] = Some(entry);
        Ok(slot)
    }

    /// The operating system's notice that the copy may begin: for a cacheable migration, that no
    /// translation to the source is left. Saying it twice changes nothing.
    ///
    /// # Errors
    ///
    /// If no migration has this source.
    pub fn start_copy(&mut self, source: N) -> Result<usize, Misuse> {
        let slot = self.slot_of(source)?;
        if let Some(entry) = &mut self.entries[slot] {
            entry.started = true;
        }
        Ok(slot)
    }

    /// `Clear(source)`: the entry ends, and with it the source's name. The caller has waited for
    /// every translation to the source to be gone and for every request under it to be served.
    ///
    /// # Errors
    ///
    /// If no migration has this source, or lines are still to be copied.
    pub fn clear(&mut self, source: N) -> Result<Entry<N>, Misuse> {
        let slot = self.slot_of(source)?;
        if self.entries[slot].is_some_and(|entry| entry.phase() != Phase::Copied) {
            return Err(Misuse::Unfinished);
        }
        self.entries[slot].take().ok_or(Misuse::Unknown)
    }

    /// Ends a migration whose copy has not begun; the page stays where it was. The caller has
    /// taken every translation back to the source and has recalled what private caches hold
    /// under the destination.
    ///
    /// # Errors
    ///
    /// If no migration has this source, or its copy has begun.
    pub fn abort(&mut self, source: N) -> Result<Entry<N>, Misuse> {
        let slot = self.slot_of(source)?;
        if self.entries[slot].is_some_and(|entry| entry.phase() != Phase::Aliased) {
            return Err(Misuse::Begun);
        }
        self.entries[slot].take().ok_or(Misuse::Unknown)
    }

    /// Ends a migration in any state: only for injected bugs.
    pub(super) fn forget(&mut self, slot: usize) {
        self.entries[slot] = None;
    }

    fn slot_of(&self, source: N) -> Result<usize, Misuse> {
        match self.find(source) {
            Some((slot, Side::Source)) => Ok(slot),
            _ => Err(Misuse::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<u64, 4> {
        Table::new(2)
    }

    /// By hand: a page of four lines, with two of them copied.
    #[test]
    fn requests_by_either_name_go_below_ptr_to_the_destination() {
        let mut table = table();
        let slot = table.migrate(10, 20, 4, Caching::Cacheable).unwrap();
        table.start_copy(10).unwrap();
        for _ in 0..2 {
            table.entry_mut(slot).unwrap().copied();
        }
        let homes = |name| [0, 1, 2, 3].map(|line| table.route(name, line).unwrap().home);
        assert_eq!(homes(10), [20, 20, 10, 10]);
        assert_eq!(homes(20), [20, 20, 10, 10]);
        assert_eq!(table.route(10, 0).unwrap().opposite, 20);
        assert_eq!(table.route(20, 0).unwrap().opposite, 10);
        assert_eq!(table.route(30, 0), None);
    }

    #[test]
    fn ptr_holds_the_number_of_lines() {
        for lines in [1, 64, 32_768] {
            let mut table = table();
            let slot = table.migrate(1, 2, lines, Caching::Cacheable).unwrap();
            assert_eq!(table.entry(slot).unwrap().to_copy(), None);
            table.start_copy(1).unwrap();
            for line in 0..lines {
                assert_eq!(table.clear(1), Err(Misuse::Unfinished));
                assert_eq!(table.entry(slot).unwrap().to_copy(), Some(line));
                table.entry_mut(slot).unwrap().copied();
            }
            let entry = *table.entry(slot).unwrap();
            assert_eq!((entry.ptr(), entry.phase(), entry.to_copy()), (lines, Phase::Copied, None));
            assert_eq!(entry.home(lines - 1), Side::Destination);
            assert_eq!(table.clear(1), Ok(entry));
            assert_eq!(table.find(2), None);
        }
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let mut table = table();
        table.migrate(1, 2, 64, Caching::Cacheable).unwrap();
        let before = table;
        let mut refused = |source, destination| {
            table.migrate(source, destination, 64, Caching::Cacheable).unwrap_err()
        };
        assert_eq!(refused(2, 3), Refusal::Named, "a chain");
        assert_eq!(refused(3, 1), Refusal::Named, "into a source");
        assert_eq!(refused(2, 1), Refusal::Named, "and back");
        assert_eq!(refused(1, 3), Refusal::Named, "the same source twice");
        assert_eq!(refused(4, 4), Refusal::Same);
        assert_eq!(table.migrate(4, 5, 0, Caching::Cacheable), Err(Refusal::Empty));
        assert_eq!(table, before);
        table.migrate(3, 4, 64, Caching::Noncacheable).unwrap();
        assert_eq!(table.migrate(5, 6, 64, Caching::Cacheable), Err(Refusal::Full));
        assert!(!table.route(4, 0).unwrap().fill);
    }

    #[test]
    fn an_abort_is_for_copies_that_have_not_begun() {
        let mut table = table();
        table.migrate(1, 2, 2, Caching::Cacheable).unwrap();
        assert_eq!(table.abort(2), Err(Misuse::Unknown), "the destination names no migration");
        assert!(table.abort(1).is_ok());
        table.migrate(1, 2, 2, Caching::Cacheable).unwrap();
        table.start_copy(1).unwrap();
        assert_eq!(table.abort(1), Err(Misuse::Begun));
    }
}
