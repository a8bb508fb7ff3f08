//! Linux's compaction asks more of a placement than most have to give
//! ([`Compactable`](prairie_frames::compaction::Compactable)).

/// Does something with a [`MachinePlacement`](prairie_model::allocator::MachinePlacement) that Linux's
/// compaction can work on; `None` for any other. A macro, since the compactor is compiled for each
/// placement.
macro_rules! compactable {
    ($placed:expr, $placement:ident => $run:expr) => {
        match $placed {
            prairie_model::allocator::MachinePlacement::Linux($placement) => {
                let $placement = &mut **$placement;
                Some($run)
            }
            prairie_model::allocator::MachinePlacement::Regions($placement) => {
                let $placement = &mut **$placement;
                Some($run)
            }
            _ => None,
        }
    };
}
pub(super) use compactable;
