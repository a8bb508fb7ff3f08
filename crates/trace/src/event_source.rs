//! Where a replay gets its events from.

use crate::{Event, Result, Texts};

/// A stream of events in batches: a trace file, an imported text, a generator.
///
/// A source holds one batch at a time, so that its memory does not grow with the stream's length.
pub trait EventSource {
    /// The next events, or `None` at the end. A batch is never empty.
    ///
    /// # Errors
    /// Whatever makes the rest of the stream unreadable; the source is at its end afterwards.
    fn next_batch(&mut self) -> Result<Option<&[Event]>>;

    /// The texts that the events returned so far refer to.
    fn texts(&self) -> &Texts;
}
