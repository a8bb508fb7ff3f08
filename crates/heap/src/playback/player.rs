//! One page heap in a playback.

use std::cell::Cell;
use std::rc::Rc;

use serde::Serialize;

use super::SystemResults;
use super::names::{Numbered, TimedCall};
use super::release::{Release, Releaser};
use super::samples::{Sample, Samples};
use super::system::System;
use crate::memory::{Calls, CountingMemory, Shared};
use crate::page_heap::{Clock, PageHeap};
use crate::units::{PageId, PageRange, Pages};

/// The time of the trace.
#[derive(Clone, Debug, Default)]
struct TraceClock(Rc<Cell<u64>>);

impl Clock for TraceClock {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

/// Counts over a whole playback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Spans created.
    pub spans_created: u64,
    /// Spans that there was no address space for.
    pub spans_refused: u64,
    /// Most pages with memory behind them at an instant, by the samples.
    pub peak_resident_pages: Pages,
    /// Pages released on request, of the trace or of the background thread.
    pub released_on_request_pages: Pages,
    /// System calls and page faults.
    pub calls: Calls,
}

/// No span: it was refused, or never created.
const NO_SPAN: PageRange = PageRange { start: PageId(0), len: Pages::ZERO };

/// A page heap, the memory that it stands on, and where its spans lie.
pub(super) struct Player {
    system: System,
    heap: Box<dyn PageHeap>,
    memory: Shared<CountingMemory>,
    clock: TraceClock,
    spans: Vec<PageRange>,
    releaser: Releaser,
    samples: Samples,
    totals: Totals,
}

impl Player {
    pub fn new(system: System) -> Player {
        let memory = Shared::new(CountingMemory::new());
        let clock = TraceClock::default();
        Player {
            system,
            heap: system.start(memory.clone(), clock.clone()),
            memory,
            clock,
            spans: Vec::new(),
            releaser: Releaser::new(),
            samples: Samples::new(),
            totals: Totals::default(),
        }
    }

    pub fn play(&mut self, calls: &[TimedCall], release: Release) {
        for timed in calls {
            let now_ns = timed.time_ns.max(self.clock.now_ns());
            self.clock.0.set(now_ns);
            if let Release::BytesPerSecond(rate) = release {
                let released = self.releaser.run(now_ns, rate, &mut *self.heap);
                self.totals.released_on_request_pages += released;
            }
            if self.samples.due(now_ns) {
                let sample = self.sample();
                self.samples.take(sample);
            }
            match timed.call {
                Numbered::New { span, pages, align } => self.create(span as usize, pages, align),
                Numbered::Delete { span } => self.delete(span as usize),
                Numbered::Release { pages } => {
                    if release == Release::Recorded {
                        self.totals.released_on_request_pages += self.heap.release(pages);
                    }
                }
            }
        }
    }

    pub fn finish(mut self, end_ns: u64) -> Result<SystemResults, String> {
        self.heap.validate()?;
        self.clock.0.set(end_ns.max(self.clock.now_ns()));
        let last = self.sample();
        let (means, samples) = self.samples.finish(last);
        self.totals.calls = self.memory.with(|memory| memory.calls());
        Ok(SystemResults {
            system: self.system.name().to_owned(),
            means,
            totals: self.totals,
            stats: self.heap.stats(),
            samples,
        })
    }

    #[inline]
    fn create(&mut self, number: usize, pages: Pages, align: Pages) {
        if number >= self.spans.len() {
            self.spans.resize(number + 1, NO_SPAN);
        }
        match self.heap.new_span(pages, align) {
            Some(span) => {
                self.spans[number] = span.pages;
                self.totals.spans_created += 1;
                self.memory.with(|memory| memory.touch(span.pages));
            }
            None => {
                self.spans[number] = NO_SPAN;
                self.totals.spans_refused += 1;
            }
        }
    }

    #[inline]
    fn delete(&mut self, number: usize) {
        let span = self.spans[number];
        if !span.len.is_zero() {
            self.heap.delete(span);
        }
    }

    fn sample(&mut self) -> Sample {
        let resident = self.memory.with(|memory| memory.resident());
        let peak = &mut self.totals.peak_resident_pages;
        *peak = (*peak).max(resident.pages);
        Sample::of(self.clock.now_ns(), &self.heap.stats(), resident)
    }
}
