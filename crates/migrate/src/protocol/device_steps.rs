//! What devices and their IOMMU do: DMA, evictions, invalidations.

use std::ops::Range;

use super::action::{Action, Verb};
use super::design::Design;
use super::state::{Invalidation, Kind, NONE, Request, Stage, State};
use super::variant::Variant;

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// Every step that device `d` can take on these lines, or that takes what it has sent.
    pub(super) fn device_steps(
        &self,
        design: &Design,
        d: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        self.device_demands(design, d, lines, emit);
        self.device_served(design, d, emit);
    }

    /// The last-level cache serves what device `d` has under way.
    pub(super) fn device_served(
        &self,
        design: &Design,
        d: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let device = &self.devices[d];
        let agent = d as u8;
        for (verb, request) in
            [(Verb::ServeDmaRead, device.read), (Verb::ServePosted, device.posted)]
        {
            if !request.is_some() || self.must_wait(design, request) {
                continue;
            }
            let Request { page, line, frame, .. } = request;
            let mut next = *self;
            match verb {
                Verb::ServeDmaRead => next.devices[d].read = Request::NONE,
                _ => next.devices[d].posted = Request::NONE,
            }
            next.serve_device(design, request);
            emit(Action { verb, agent, page, line, frame }, next);
        }
    }

    /// What device `d` and its IOMMU do by themselves: they ask, post, evict and invalidate.
    pub(super) fn device_demands(
        &self,
        design: &Design,
        d: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        for page in 0..P {
            self.device_page_demands(design, d, page, lines.clone(), emit);
        }
    }

    /// What device `d` and its IOMMU do with a page.
    pub(super) fn device_page_demands(
        &self,
        design: &Design,
        d: usize,
        page: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let device = &self.devices[d];
        let own = self.pages[page];
        let frame = if design.ats { device.own_tlb[page] } else { device.tlb[page] };
        let stale = own.stage == Stage::Done && frame != own.home && frame != NONE;
        if own.stage.in_use() || stale {
            for line in lines {
                self.dma(design, d, (page as u8, line as u8, frame), emit);
            }
            self.io_translation(design, d, page, emit);
        }
        self.io_invalidation(design, d, page, emit);
    }

    /// Reads and posted writes, by the translation that the device has now.
    fn dma(
        &self,
        design: &Design,
        d: usize,
        (page, line, frame): (u8, u8, u8),
        emit: &mut impl FnMut(Action, Self),
    ) {
        let device = &self.devices[d];
        let action = |verb| Action { verb, agent: d as u8, page, line, frame };
        if !device.read.is_some() {
            let mut next = *self;
            next.devices[d].read = Request { kind: Kind::Read, page, line, frame };
            emit(action(Verb::DmaRead), next);
        }
        if device.posted.is_some() {
            return;
        }
        let mut post = |kind, verb| {
            let mut next = *self;
            next.devices[d].posted = Request { kind, page, line, frame };
            emit(action(verb), next);
        };
        post(Kind::WholeLine, Verb::DmaWrite);
        if design.partial {
            post(Kind::Write, Verb::DmaWritePart);
        }
    }

    /// Evictions; an empty entry of the IOMMU or of the device is what a walk would find.
    fn io_translation(
        &self,
        design: &Design,
        d: usize,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let device = &self.devices[d];
        let action =
            |verb, frame| Action { verb, agent: d as u8, page: page as u8, line: 0, frame };
        let table = self.pages[page].io_table;
        if device.tlb[page] != table {
            let mut next = *self;
            next.devices[d].tlb[page] = table;
            emit(action(Verb::EvictIoTranslation, device.tlb[page]), next);
        }
        if design.ats && device.own_tlb[page] != device.tlb[page] {
            let mut next = *self;
            next.devices[d].own_tlb[page] = device.tlb[page];
            emit(action(Verb::EvictOwnTranslation, device.own_tlb[page]), next);
        }
    }

    /// The IOMMU's invalidation: its translation goes and the device's own with it, then it waits
    /// for reads and posted writes under the old name.
    fn io_invalidation(
        &self,
        design: &Design,
        d: usize,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let Some((new, old)) = self.pages[page].change() else { return };
        let device = &self.devices[d];
        let action = |verb| Action { verb, agent: d as u8, page: page as u8, line: 0, frame: old };
        let waits = |request: Request, variant| {
            request.is_some() && request.frame == old && !design.breaks(variant)
        };
        let waits = waits(device.read, Variant::DeviceAcksWithRead)
            || waits(device.posted, Variant::PostedNotDrained);
        let mut next = *self;
        match device.invalidation[page] {
            Invalidation::Draining if !waits => {
                next.devices[d].invalidation[page] = Invalidation::Done;
                emit(action(Verb::DrainedIo), next);
            }
            Invalidation::None if self.pages[page].io_table == new => {
                next.devices[d].tlb[page] = new;
                if !design.breaks(Variant::DeviceTlbKept) {
                    next.devices[d].own_tlb[page] = new;
                }
                let mut step = |state| {
                    next.devices[d].invalidation[page] = state;
                    emit(action(Verb::InvalidateIo), next);
                };
                if waits || design.slow_drain {
                    step(Invalidation::Draining);
                }
                if !waits {
                    step(Invalidation::Done);
                }
            }
            _ => {}
        }
    }
}
