//! Frames in use according to a stream of events: shows frees that are missing from it although no
//! event was reported lost.

use prairie_frames::{Order, Pfn};

use crate::{Event, EventKind};

/// Frames in a chunk of the map: 128 MiB, as much memory as a Linux section.
const CHUNK: u64 = 1 << 15;

/// Frames from here on are not followed: 64 TiB, beyond what any machine numbers.
const END: u64 = 1 << 34;

type Chunk = [u64; CHUNK as usize / 64];

/// A bit for each frame, set while the frame is allocated. Memory: 4 KiB for each 128 MiB in which
/// an event fell, and 8 bytes for each 128 MiB below those.
#[derive(Debug, Default)]
pub struct InUse {
    chunks: Vec<Option<Box<Chunk>>>,
    frees_missing: u64,
}

impl InUse {
    /// Takes note of the next event.
    pub fn see(&mut self, event: &Event) {
        match event.what {
            EventKind::Alloc { pfn, order, .. } => {
                self.frees_missing += u64::from(self.replace(pfn, order, u64::MAX));
            }
            EventKind::Free { pfn, order } => {
                self.replace(pfn, order, 0);
            }
            _ => {}
        }
    }

    /// Frames that were allocated again while they still were, so that a free between must have
    /// gone unrecorded. A single frame freed twice unseen counts twice.
    pub fn frees_missing(&self) -> u64 {
        self.frees_missing
    }

    /// Sets the bits of a block to those of `to`; returns how many were set before. Blocks that are
    /// not aligned, or larger than any page, no kernel allocates: they are left alone.
    fn replace(&mut self, pfn: Pfn, order: Order, to: u64) -> u32 {
        let frames = order.frames();
        if order > Order::GIGANTIC || !pfn.is_aligned(order) || pfn.0 >= END - frames {
            return 0;
        }
        let mask = if frames >= 64 { u64::MAX } else { ((1 << frames) - 1) << (pfn.0 % 64) };
        let mut set = 0;
        for word in pfn.0 / 64..(pfn.0 + frames).div_ceil(64) {
            let bits = self.word(word);
            set += (*bits & mask).count_ones();
            *bits = *bits & !mask | to & mask;
        }
        set
    }

    fn word(&mut self, word: u64) -> &mut u64 {
        let (chunk, word) = ((word / (CHUNK / 64)) as usize, (word % (CHUNK / 64)) as usize);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK as usize / 64]));
        &mut chunk[word]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GfpFlags, StackId};
    use prairie_frames::MigrateType;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn event(what: EventKind) -> Event {
        Event { time_ns: 0, pid: 0, cpu: 0, what }
    }

    fn alloc(pfn: u64, order: u8) -> Event {
        event(EventKind::Alloc {
            pfn: Pfn(pfn),
            order: Order::new(order).unwrap(),
            migrate_type: MigrateType::Movable,
            gfp: GfpFlags(0),
            stack: StackId::NONE,
        })
    }

    fn free(pfn: u64, order: u8) -> Event {
        event(EventKind::Free { pfn: Pfn(pfn), order: Order::new(order).unwrap() })
    }

    #[test]
    fn a_frame_allocated_twice_misses_a_free() {
        let mut in_use = InUse::default();
        for event in [alloc(8, 0), alloc(9, 0), free(8, 0), alloc(8, 1)] {
            in_use.see(&event);
        }
        assert_eq!(in_use.frees_missing(), 1);
    }

    #[test]
    fn frames_beyond_any_machine_are_left_alone() {
        let mut in_use = InUse::default();
        for pfn in [u64::MAX, END, END - 1, 3] {
            for _ in 0..2 {
                in_use.see(&alloc(pfn, 2));
                in_use.see(&free(pfn, 2));
            }
        }
        assert_eq!(in_use.frees_missing(), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_frames(steps in prop::collection::vec(
            (0..1u64 << 17, 0..=12u8, any::<bool>()), 1..80)
        ) {
            let (mut in_use, mut model, mut missing) = (InUse::default(), BTreeSet::new(), 0);
            for (at, order, is_alloc) in steps {
                let pfn = at >> order << order;
                for frame in pfn..pfn + (1 << order) {
                    if is_alloc {
                        missing += u64::from(!model.insert(frame));
                    } else {
                        model.remove(&frame);
                    }
                }
                in_use.see(&if is_alloc { alloc(pfn, order) } else { free(pfn, order) });
                prop_assert_eq!(in_use.frees_missing(), missing);
            }
        }
    }
}
