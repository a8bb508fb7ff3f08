//! `kernelcore=`: how memory is divided between the standard zones and ZONE_EASYRCLM.

use alloc::vec::Vec;
use core::ops::Range;

use crate::layout::{Layout, Zone, ZoneSpan};
use crate::{Order, ZoneKind};

/// How much memory the standard zones keep, as the administrator said at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernelcore {
    /// A number of frames, over all nodes.
    Frames(u64),
    /// A share of all memory, in percent; 100 and more is all of it.
    Percent(u8),
}

impl Kernelcore {
    /// Frames of `memory` frames; at most all of them.
    pub fn of(self, memory: u64) -> u64 {
        match self {
            Kernelcore::Frames(frames) => frames.min(memory),
            Kernelcore::Percent(percent) => memory / 100 * u64::from(percent.min(100)),
        }
    }
}

/// A layout with ZONE_EASYRCLM in it, as zones of [`ZoneKind::Movable`].
#[derive(Clone, Debug)]
pub(super) struct DividedLayout {
    /// Frames have the numbers that they have in the layout divided.
    pub(super) layout: Layout,
    /// For each zone of the layout divided, its parts.
    pub(super) parts: Vec<Range<usize>>,
}

/// The lowest memory of each node stays in the standard zones, up to its share of `kernelcore`;
/// the rest is ZONE_EASYRCLM, which begins at a multiple of the largest block. Without a value all
/// memory stays. Where ZONE_EASYRCLM takes from several zones, each keeps its own part of it.
///
/// The paper's machines have one node. Over several, the amount is spread evenly and what one is
/// too small for goes to the others (`find_easyrclm_pfns_for_nodes`, posted in May 2006).
pub(super) fn divide(layout: &Layout, kernelcore: Option<Kernelcore>) -> DividedLayout {
    let memory = layout.zones().iter().map(frames_of).sum();
    let total = kernelcore.map_or(u64::MAX, |kernelcore| kernelcore.of(memory));
    // A command line that says 0 says nothing (the patches' `kernelcore_pages &&`).
    let total = if total == 0 { u64::MAX } else { total };
    let mut left = spread(layout, total);
    let mut spans = Vec::new();
    let mut parts = Vec::new();
    for zone in layout.zones() {
        let first = spans.len();
        let left = left.iter_mut().find(|(node, _)| *node == zone.span.node);
        let left = &mut left.expect("every node has a share").1;
        let kept = kept_of(zone, *left);
        *left -= kept.min(*left);
        spans.extend(split(zone, kept));
        parts.push(first..spans.len());
    }
    let layout = Layout::new(spans).expect("the same frames as before");
    DividedLayout { layout, parts }
}

/// Frames of a zone, holes included: the layout does not show where they lie.
fn frames_of(zone: &Zone) -> u64 {
    u64::from(zone.end.0 - zone.start.0)
}

/// Whether memory of this kind can be the kernel's.
fn is_standard(kind: ZoneKind) -> bool {
    kind <= ZoneKind::HighMem
}

/// Each node's share of `total`: as even as their sizes allow.
fn spread(layout: &Layout, total: u64) -> Vec<(u16, u64)> {
    let mut sizes: Vec<(u16, u64)> = Vec::new();
    for zone in layout.zones() {
        let frames = if is_standard(zone.span.kind) { frames_of(zone) } else { 0 };
        match sizes.iter_mut().find(|(node, _)| *node == zone.span.node) {
            Some((_, size)) => *size += frames,
            None => sizes.push((zone.span.node, frames)),
        }
    }
    // The smallest first, so that what they lack is shared among those that are left.
    sizes.sort_by_key(|&(node, size)| (size, node));
    let (count, mut left) = (sizes.len() as u64, total);
    for (done, (_, share)) in sizes.iter_mut().enumerate() {
        *share = (*share).min(left / (count - done as u64));
        left -= *share;
    }
    sizes
}

/// Frames at the start of a zone that stay in it when `left` are still wanted.
fn kept_of(zone: &Zone, left: u64) -> u64 {
    if !is_standard(zone.span.kind) || left >= frames_of(zone) {
        return frames_of(zone);
    }
    if left == 0 {
        return 0;
    }
    let end = zone.start.offset(left).0.next_multiple_of(Order::LARGEST_FREE.frames() as u32);
    u64::from(end.min(zone.end.0) - zone.start.0)
}

/// Splits a zone after its first `kept` frames, which stay. Empty parts are left out.
fn split(zone: &Zone, kept: u64) -> impl Iterator<Item = ZoneSpan> {
    let frames = frames_of(zone);
    let mut standard = part(&zone.span, 0, kept, frames);
    let mut easy = part(&zone.span, kept, frames - kept, frames);
    if kept < frames {
        easy.kind = ZoneKind::Movable;
        easy.lowmem_reserve = Default::default();
        // Keeps requests that may use ZONE_EASYRCLM from draining the zone below it
        // (`sysctl_lowmem_reserve_ratio`, which the patches extend by another 32).
        let ratio = if standard.kind <= ZoneKind::Dma32 { 256 } else { 32 };
        standard.lowmem_reserve[ZoneKind::Movable as usize] += easy.managed / ratio;
    }
    [standard, easy].into_iter().filter(|part| part.spanned > 0)
}

/// `frames` of a zone of `total` from the frame `from` on, with their share of what it manages and
/// of its watermarks.
fn part(span: &ZoneSpan, from: u64, frames: u64, total: u64) -> ZoneSpan {
    let share = |count: u64| (u128::from(count) * u128::from(frames) / u128::from(total)) as u64;
    let mut part = span.clone();
    part.start.0 += from;
    part.spanned = frames;
    part.managed = share(span.managed);
    part.watermarks.min = share(span.watermarks.min);
    part.watermarks.low = share(span.watermarks.low);
    part.watermarks.high = share(span.watermarks.high);
    part
}
