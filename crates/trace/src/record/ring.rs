//! One CPU's ring: the perf events that write into it, and reading it.
//!
//! The only place that needs `unsafe`: two `ioctl`s that the perf library does not wrap.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

use perf_event::events::{Software, Tracepoint as TracepointEvent};
use perf_event::{Builder, Clock, Counter, ReadFormat, SampleFlag, Sampler};
use perf_event_open_sys::ioctls;

use super::perf_record::{self, Record};

/// A tracepoint to be written into a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedTracepoint {
    /// The tracepoint's number.
    pub id: u64,
    /// Only records that satisfy this (`trace_event` filter syntax).
    pub filter: Option<String>,
    /// Whether each record comes with the kernel's call chain.
    pub chain: bool,
}

/// Frames of a call chain that are kept, from the innermost on. Deeper ones exist (the kernel
/// allows 127), but what asks for memory stands at the inner end.
const CHAIN_FRAMES: u16 = 48;

/// The ring of one CPU.
pub struct Ring {
    /// Its CPU.
    pub cpu: u16,
    /// Holds the ring; its event itself only reports processes' names and forks.
    sampler: Sampler,
    /// A counter per wanted tracepoint: its perf number, and whether it records chains.
    counters: Vec<(u64, bool, Counter)>,
}

impl Ring {
    /// Opens the events on one CPU, switched off. `bytes` is a power of two of pages.
    ///
    /// # Errors
    /// I/O errors of the system: no permission, or no memory that may be locked.
    pub fn open(cpu: u16, bytes: usize, wanted: &[RequestedTracepoint]) -> io::Result<Ring> {
        let mut builder = Builder::new(Software::DUMMY);
        prepare(&mut builder, cpu, bytes);
        builder.comm(true).task(true);
        let sampler = builder.build()?.sampled(bytes)?;
        let open = |wanted: &RequestedTracepoint| {
            let counter = open_tracepoint(cpu, bytes, wanted)?;
            // SAFETY: both descriptors are open perf events of the same CPU, which live as long as
            // this ring; the kernel checks everything else and keeps no pointer of ours.
            checked(unsafe { ioctls::SET_OUTPUT(counter.as_raw_fd(), sampler.as_raw_fd()) })?;
            Ok((counter.id(), wanted.chain, counter))
        };
        let counters = wanted.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Ring { cpu, sampler, counters })
    }

    /// The perf numbers of the tracepoints, in the order in which they were wanted.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.counters.iter().map(|&(id, ..)| id)
    }

    /// Starts writing.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn enable(&mut self) -> io::Result<()> {
        self.sampler.enable()?;
        self.counters.iter_mut().try_for_each(|(.., counter)| counter.enable())
    }

    /// Stops writing.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn disable(&mut self) -> io::Result<()> {
        self.counters.iter_mut().try_for_each(|(.., counter)| counter.disable())?;
        self.sampler.disable()
    }

    /// Hands every record that is in the ring now to `sink`, oldest first; records that make no
    /// sense as `None`.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Option<Record<'_>>)) {
        let counters = &self.counters;
        let chained = |id| counters.iter().any(|&(number, chain, _)| number == id && chain);
        while let Some(record) = self.sampler.next_record() {
            sink(perf_record::parse(record.ty(), &record.to_contiguous(), chained));
        }
    }

    /// Lost records so far, if the kernel reports them (since 6.0).
    pub fn lost(&mut self) -> Option<u64> {
        let lost = |counter: &mut Counter| counter.read_full().ok()?.lost();
        self.counters.iter_mut().map(|(.., counter)| lost(counter)).sum()
    }
}

/// What all events of a ring have in common.
fn prepare(builder: &mut Builder<'_>, cpu: u16, bytes: usize) {
    let fields = SampleFlag::IDENTIFIER | SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU;
    builder
        .any_pid()
        .one_cpu(cpu.into())
        .include_kernel()
        .include_hv()
        .sample(fields)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC)
        // The ring is checked in intervals. Waking the reader from within the page allocator
        // would cost the machine that is being measured.
        .wakeup_watermark(bytes);
}

fn open_tracepoint(cpu: u16, bytes: usize, wanted: &RequestedTracepoint) -> io::Result<Counter> {
    let mut builder = Builder::new(TracepointEvent::with_id(wanted.id));
    prepare(&mut builder, cpu, bytes);
    builder.sample_period(1).sample(SampleFlag::RAW);
    if wanted.chain {
        builder.sample(SampleFlag::CALLCHAIN).exclude_callchain_user(true);
        builder.sample_max_stack(CHAIN_FRAMES);
    }
    let counter = match builder.read_format(ReadFormat::LOST).build() {
        Ok(counter) => counter,
        // Kernels before 6.0 do not count losses apart from the ring's records of them.
        Err(_) => builder.read_format(ReadFormat::empty()).build()?,
    };
    if let Some(filter) = &wanted.filter {
        let filter = CString::new(filter.as_str()).map_err(io::Error::other)?;
        // SAFETY: the descriptor is an open tracepoint event, the string ends with a zero and
        // outlives the call, which copies it and does not write to it.
        checked(unsafe { ioctls::SET_FILTER(counter.as_raw_fd(), filter.as_ptr().cast_mut()) })?;
    }
    Ok(counter)
}

fn checked(returned: i32) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
