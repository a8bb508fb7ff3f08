//! The part of the hierarchy that Contiguitas-HW adds: redirection of requests to migrating pages,
//! and the copy of a line. What goes where is decided by the protocol's [`Table`].
//!
//! A 2 MiB page is 512 consecutive frames on both sides. The table names a migration by first
//! frames; here a frame within is first brought back to that.
//!
//! [`Table`]: crate::protocol::table::Table

use super::Hierarchy;
use crate::address::{Frame, LINES, Line};
use crate::cache::InLlc;
use crate::geometry::Geometry;
use crate::protocol::table::{Caching, Entry, Misuse, Refusal, Side};

/// Where a request to a migrating page goes.
pub(super) struct Redirection {
    /// The line that holds the data.
    pub home: Line,
    /// Whether the requester's private caches may keep it.
    pub fill: bool,
    /// What redirection took.
    pub ps: u64,
}

impl<G: Geometry> Hierarchy<G> {
    /// The migration that a line is part of: its slot, by which name it is asked for, and its
    /// number within the page.
    fn migration(&self, line: Line) -> Option<(usize, Side, u32)> {
        self.table.entries().find_map(|(slot, entry)| {
            let within = |first: Frame| {
                let at = line.0.wrapping_sub(first.0 * LINES);
                (at < u32::from(entry.lines())).then_some(at)
            };
            let source = within(entry.source).map(|at| (slot, Side::Source, at));
            source.or_else(|| within(entry.destination).map(|at| (slot, Side::Destination, at)))
        })
    }

    /// Looks a line up in the metadata table. A copy under the opposite name is called back first.
    pub(super) fn redirect(&mut self, line: Line) -> Redirection {
        let lookup = self.latencies.lookup;
        let Some((slot, side, at)) = self.migration(line) else {
            return Redirection { home: line, fill: true, ps: lookup };
        };
        let entry = *self.table.entry(slot).expect("the slot that was just found");
        let route = entry.route(side, at as u16);
        let (home, opposite) = (route.home.line(at), route.opposite.line(at));
        self.counts.redirected += 1;
        // The source's slice orders all requests for the line; then comes the opposite name's
        // directory, and where the data is at home.
        let mut ps = lookup + self.cross(line, entry.source.line(at));
        if self.llc.is_tracked(opposite) {
            self.counts.opposite_recalls += 1;
            ps += self.cross(entry.source.line(at), opposite)
                + self.recall(opposite, self.llc.place(home));
        }
        if home != entry.source.line(at) {
            ps += self.cross(entry.source.line(at), home);
        }
        Redirection { home, fill: route.fill, ps }
    }

    /// Picoseconds to go on from the slice of one line to the slice of another, and back.
    fn cross(&mut self, from: Line, to: Line) -> u64 {
        let (from, to) = (self.llc.slice(from), self.llc.slice(to));
        if from == to {
            return 0;
        }
        self.counts.crossings += 1;
        let port = self.ports[to].take();
        let way = self.travel(self.mesh.slice_tile(from), self.mesh.slice_tile(to));
        2 * (way + self.latencies.crossing) + port
    }

    /// Serves an access to a line that private caches may not keep: at the last-level cache, which
    /// keeps it.
    pub(super) fn serve_uncached(&mut self, line: Line, home: InLlc, write: bool) -> u64 {
        let mut ps = self.recall(line, home);
        if self.llc.has(home) {
            self.counts.llc_hits += 1;
        } else {
            self.counts.memory_reads += 1;
            ps += self.latencies.memory + self.memory.take();
        }
        self.keep(home, write);
        ps
    }

    /// Where the data of a line is at home.
    pub(super) fn home(&self, line: Line) -> Line {
        if self.live == 0 {
            return line;
        }
        match self.migration(line) {
            Some((slot, side, at)) => {
                let entry = self.table.entry(slot).expect("the slot that was just found");
                entry.route(side, at as u16).home.line(at)
            }
            None => line,
        }
    }

    /// The other name of a line of a migrating page.
    pub(super) fn opposite(&self, line: Line) -> Option<Line> {
        let (slot, side, at) = self.migration(line)?;
        Some(self.table.entry(slot)?.name(side.opposite()).line(at))
    }

    /// `Migrate(source, destination, flags)` for a page of `lines` lines. The destination is
    /// emptied from all caches first, as the protocol demands; of the noncacheable variant, the
    /// source from private caches as well.
    ///
    /// # Errors
    /// As [`Table::migrate`](crate::protocol::table::Table::migrate); nothing has changed then.
    pub fn migrate(
        &mut self,
        source: Frame,
        destination: Frame,
        lines: u16,
        caching: Caching,
    ) -> Result<usize, Refusal> {
        let slot = self.table.migrate(source, destination, lines, caching)?;
        for at in 0..u32::from(lines) {
            self.forget(destination.line(at));
            if caching == Caching::Noncacheable {
                let line = source.line(at);
                self.recall(line, self.llc.place(line));
            }
        }
        self.live += 1;
        Ok(slot)
    }

    /// Drops a line from all caches; its data is no longer needed.
    pub fn forget(&mut self, line: Line) {
        let at = self.llc.place(line);
        if self.llc.is_tracked(line) {
            self.recall(line, at);
        }
        self.llc.take(at);
    }

    /// The migration in a slot.
    pub fn entry(&self, slot: usize) -> Option<&Entry<Frame>> {
        self.table.entry(slot)
    }

    /// Whether a frame is the source of a migration under way.
    pub fn is_source(&self, frame: Frame) -> bool {
        self.table.entries().any(|(_, entry)| entry.source == frame)
    }

    /// Whether private caches may not keep a line, because its page migrates noncacheably.
    pub fn is_noncacheable(&self, line: Line) -> bool {
        let entry = self.migration(line).and_then(|(slot, ..)| self.table.entry(slot));
        entry.is_some_and(|entry| entry.caching == Caching::Noncacheable)
    }

    /// Migrations under way.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Lets the copy begin.
    ///
    /// # Errors
    /// If no migration has this source.
    pub fn start_copy(&mut self, source: Frame) -> Result<usize, Misuse> {
        self.table.start_copy(source)
    }

    /// Copies the line at Ptr of the migration in `slot`: calls private copies back, brings the
    /// line into the last-level cache, writes it into the destination's slice, and moves Ptr.
    /// Returns the time; `None` if no line is left to copy.
    pub fn copy_line(&mut self, slot: usize) -> Option<u64> {
        let entry = *self.table.entry(slot)?;
        let at = u32::from(entry.to_copy()?);
        let (source, destination) = (entry.source.line(at), entry.destination.line(at));
        self.counts.lines_copied += 1;
        let slice = self.llc.slice(source);
        let mut ps = 2 * self.latencies.llc + self.ports[slice].take();
        // At most one of the names is held; data called back is at home in the source.
        for name in [source, destination] {
            if self.llc.is_tracked(name) {
                ps += self.recall(name, self.llc.place(source));
            }
        }
        if self.llc.take(self.llc.place(source)) {
            self.counts.llc_hits += 1;
        } else {
            self.counts.memory_reads += 1;
            ps += self.latencies.memory + self.memory.take();
        }
        ps += self.cross(source, destination);
        self.keep(self.llc.place(destination), true);
        self.table.entry_mut(slot)?.copied();
        Some(ps)
    }

    /// `Clear(source)`.
    ///
    /// # Errors
    /// If no migration has this source, or lines are still to be copied.
    pub fn clear(&mut self, source: Frame) -> Result<Entry<Frame>, Misuse> {
        let entry = self.table.clear(source)?;
        self.live -= 1;
        for at in 0..u32::from(entry.lines()) {
            let line = entry.source.line(at);
            debug_assert!(!self.llc.is_tracked(line), "{line:?} is held under the source's name");
        }
        Ok(entry)
    }
}
