//! How large per-CPU lists may grow, and when that changed: the kernel leaves no event.

use prairie_frames::layout::{Watermarks, Zone};
use prairie_frames::placement::linux::Pageset;
use prairie_frames::{Frame, Layout, Order};

use super::act::{Act, Action};
use super::onlined::ZoneSize;
use super::recording::Recording;
use super::{limits, lost};

/// The limits of every zone's lists, from the start of the trace on.
///
/// At first nothing stays on them. Once the kernel knows its CPUs (`setup_per_cpu_pageset`) the
/// batch follows from the memory that is there by then, and the high mark is four batches, for
/// watermarks are still 0. Then the watermarks are set (`init_per_zone_wmark_min`), from which on
/// the snapshots tell the limits.
///
/// Where the record says when limits were set, that is followed from the watermarks on
/// ([`limits`]).
#[derive(Clone, Debug)]
pub struct Stages {
    stages: Vec<Stage>,
    current: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stage {
    pagesets: Vec<Pageset>,
    /// The act at which it begins, where that is known.
    at: Option<usize>,
    /// The watermarks from then on, where they change.
    watermarks: Option<Vec<Watermarks>>,
    /// The sizes of the zones from then on, where memory comes online.
    sizes: Option<Vec<ZoneSize>>,
}

impl Stages {
    /// The stages of a recording.
    pub fn of(recording: &Recording) -> Stages {
        let layout = &recording.layout;
        let boot = vec![Pageset::BOOT; layout.zones().len()];
        let told: Vec<_> = recording.snapshots.iter().map(|s| s.pagesets(layout)).collect();
        let early = |(place, (zone, last)): (usize, (&Zone, &Pageset))| {
            let batch = match last.batch {
                0 | 1 => 1,
                _ => first_batch(&recording.acts, zone).unwrap_or(last.batch),
            };
            let boot = &recording.acts[..recording.first_snapshot()];
            let handed_over = handed_over(boot, zone);
            let managed = zone.span.managed.saturating_sub(handed_over);
            let limits = Pageset::of_size(managed, 0, recording.sharing_cpus(place));
            Pageset { batch, high: batch.saturating_mul(4), keeps_batch: false, ..limits }
        };
        let early = layout.zones().iter().zip(&told[0]).enumerate().map(early).collect();
        let unknown = |pagesets| Stage { pagesets, at: None, watermarks: None, sizes: None };
        let mut stages = vec![unknown(boot), unknown(early)];
        if recording.names_limits {
            stages.extend(limits::changes(recording).into_iter().map(|change| Stage {
                pagesets: change.pagesets,
                at: Some(change.at),
                watermarks: Some(change.watermarks),
                sizes: change.sizes,
            }));
        } else {
            stages.extend(told.into_iter().map(unknown));
            stages.dedup();
        }
        Stages { stages, current: 0 }
    }

    /// Whether the record says that a later stage begins at an act or before.
    pub fn is_due(&self, index: usize) -> bool {
        let later = &self.stages[self.current + 1..];
        later.iter().any(|stage| stage.at.is_some_and(|at| at <= index))
    }

    /// The limits of a zone's lists now.
    pub fn pageset(&self, zone: usize) -> Pageset {
        self.stages[self.current].pagesets[zone]
    }

    /// Blocks that a refill fetches now (`__rmqueue_pcplist`).
    pub fn refill(&self, zone: usize, order: Order) -> u32 {
        match self.pageset(zone).batch {
            0 | 1 => 1,
            batch => (batch >> order.get()).max(2),
        }
    }

    /// Whether the limits are still those from before the kernel knew its CPUs.
    pub fn is_boot(&self) -> bool {
        self.current == 0
    }

    /// Whether the limits will change again, at a time that the record does not say.
    pub fn will_change(&self) -> bool {
        self.stages.get(self.current + 1).is_some_and(|next| next.at.is_none())
    }

    /// Whether the watermarks are still to be set, at a time that the record does not say.
    pub fn is_early(&self) -> bool {
        self.current == 1 && self.will_change()
    }

    /// Goes on to the next stage, if there is one.
    pub fn advance(&mut self) -> bool {
        let more = self.current + 1 < self.stages.len();
        self.current += usize::from(more);
        more
    }

    /// The limits of all zones now.
    pub fn limits(&self) -> &[Pageset] {
        &self.stages[self.current].pagesets
    }

    /// The watermarks, where this stage changed them.
    pub fn watermarks(&self) -> Option<&[Watermarks]> {
        self.stages[self.current].watermarks.as_deref()
    }

    /// The sizes of the zones, where this stage changed them.
    pub fn sizes(&self) -> Option<&[ZoneSize]> {
        self.stages[self.current].sizes.as_deref()
    }
}

/// Frames of a zone that boot handed over late.
fn handed_over(acts: &[Act], zone: &Zone) -> u64 {
    let late = |act: &&Act| act.action == Action::HandOver && zone.contains(act.frame);
    acts.iter().filter(late).map(|act| act.order.frames()).sum()
}

/// The batch of a zone's first refill.
fn first_batch(acts: &[Act], zone: &Zone) -> Option<u32> {
    lost::refills(acts).find(|refill| zone.contains(refill[0].frame)).and_then(lost::batch_of)
}

/// The zone of a frame of the layout.
pub fn zone_of(layout: &Layout, frame: Frame) -> usize {
    layout.zone_of(frame).expect("acts are within zones")
}
