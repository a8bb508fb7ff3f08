//! Machines that several tests replay on.

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::{Pfn, ZoneKind};
use prairie_replay::initial_state::InitialState;

/// A machine of one zone of `frames` frames with nothing in use.
pub fn empty_machine(frames: u64, watermarks: Watermarks) -> InitialState {
    let zone = ZoneSpan {
        node: 0,
        kind: ZoneKind::Normal,
        start: Pfn(0),
        spanned: frames,
        managed: frames,
        watermarks,
        lowmem_reserve: [0; 6],
    };
    InitialState::empty(vec![zone]).unwrap()
}
