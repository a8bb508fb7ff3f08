//! What a refill remembers from one block to the next.

/// Where a refill took its last block (`enum rmqueue_mode`). The zone stays locked until the refill
/// ends, so what could not be claimed for one block cannot be claimed for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TakenFrom {
    /// On the lists of its own type, or a pageblock was claimed for it.
    #[default]
    Own,
    /// On the lists of another type.
    Foreign,
}
