//! What the daemon reports: operations and troubles, to the log, the status, and the time series.

use std::io;
use std::time::Duration;

use prairie_daemon::log::{Line, Verbosity};
use serde::Serialize;

use super::Daemon;
use super::trouble::Topic;
use crate::choice::{Block, Place};
use crate::operation::{Done, Outcome};
use crate::policy::Reason;
use crate::series::Row;

/// Operations that `status` lists.
const RECENT: usize = 16;

/// One operation, for the log.
#[derive(Serialize)]
struct Operation<'a> {
    event: &'static str,
    block: u64,
    node: u32,
    to: Place,
    reason: Reason,
    outcome: &'a Outcome,
    took_ms: u64,
    moved_frames: u64,
    kernel_available_frames: u64,
    reserve_frames: u64,
    rate_frames_per_second: u64,
    dry_run: bool,
}

impl Operation<'_> {
    fn sentence(&self) -> String {
        let mib = |frames: u64| frames / 256;
        let verb = if self.dry_run { "would convert" } else { "convert" };
        let to = if self.to == Place::Kernel { "kernel" } else { "movable" };
        format!(
            "node {}: {verb} block {} to {to}: {} [{}, {} ms, {} MiB moved; kernel available {} \
             MiB, reserve {} MiB, rate {} MiB/s]",
            self.node,
            self.block,
            self.outcome.words(),
            self.reason.words(),
            self.took_ms,
            mib(self.moved_frames),
            mib(self.kernel_available_frames),
            mib(self.reserve_frames),
            mib(self.rate_frames_per_second),
        )
    }
}

impl Line for Operation<'_> {
    fn text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(self.sentence().as_bytes())
    }
}

impl Daemon {
    /// Counts an operation.
    pub(super) fn count(&mut self, done: &Done, succeeded: bool) {
        let mut status = self.status.lock();
        match succeeded {
            true => status.operations += 1,
            false => status.operations_failed += 1,
        }
        status.operation_seconds += done.took.as_secs_f64();
    }

    /// Reports an operation to the log, the status, and the series.
    pub(super) fn tell(&mut self, done: &Done, block: Block, reason: Reason) {
        let reports = self.policy.reports();
        let report = reports.iter().find(|report| report.sample.node == block.node);
        let line = Operation {
            event: "operation",
            block: done.block,
            node: block.node,
            to: done.to,
            reason,
            outcome: &done.outcome,
            took_ms: done.took.as_millis() as u64,
            moved_frames: block.occupancy.map_or(0, |found| found.to_move()),
            kernel_available_frames: report.map_or(0, |r| r.sample.kernel.usable()),
            reserve_frames: report.map_or(0, |r| r.reserve),
            rate_frames_per_second: report.map_or(0, |r| r.rate),
            dry_run: self.dry_run,
        };
        self.log.say(Verbosity::Changes, &line);
        self.recent.push_back(line.sentence());
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.status.lock().recent = self.recent.iter().cloned().collect();
        if let Some(report) = report {
            let row = Row {
                block: done.block as i64,
                took_ms: done.took.as_millis() as i64,
                to: if done.to == Place::Kernel { "kernel" } else { "movable" }.to_owned(),
                reason: reason.words().to_owned(),
                outcome: done.outcome.words(),
                ..Row::of(report)
            };
            self.push(row);
        }
    }

    fn push(&mut self, row: Row) {
        if let Some(series) = &mut self.series
            && let Err(error) = series.push(row)
        {
            self.log.note("warning", format_args!("time series stopped: {error}"));
            self.series = None;
        }
    }

    /// Brings status and series up to date.
    pub(super) fn report(&mut self, now: Duration) {
        let rows: Vec<Row> = self.policy.reports().iter().map(Row::of).collect();
        rows.into_iter().for_each(|row| self.push(row));
        let count = |place| self.blocks.iter().filter(|block| block.place == place).count() as u64;
        let converted = self.record().state().blocks.len() as u64;
        let mut status = self.status.lock();
        status.update(&self.policy, now);
        status.blocks_kernel = count(Place::Kernel);
        status.blocks_movable = count(Place::Movable);
        status.blocks_fixed = count(Place::Fixed);
        status.blocks_offline = count(Place::Offline);
        status.blocks_converted = converted;
        status.movable_gigabytes = whole_gigabytes(&self.blocks, self.host.block_frames);
        status.cpu_seconds = cpu_seconds();
        let reads = self.host.reads();
        (status.samples, status.glances) = (reads.samples, reads.glances);
        status.blocks_read = reads.blocks;
        let (movable, offline) = (status.blocks_movable, status.blocks_offline);
        drop(status);
        if offline == 0 {
            self.settled(Topic::Offline);
        }
        let set_up = self.policy.reports().iter().all(|node| node.set_up);
        if movable > 0 {
            self.settled(Topic::Confined);
        } else if set_up && !self.dry_run && self.listed.is_some() {
            self.trouble(
                Topic::Confined,
                "no memory can be confined: every block holds what cannot move; `prairie regions \
                 check` names it",
            );
        }
    }
}

/// Aligned gigabytes with only movable blocks. `blocks` are sorted by number.
pub fn whole_gigabytes(blocks: &[Block], block_frames: u64) -> u64 {
    const GIGABYTE: u64 = 1 << 18;
    let each = (GIGABYTE / block_frames).max(1);
    let is_whole = |own: &&[Block]| {
        own.len() as u64 == each && own.iter().all(|block| block.place == Place::Movable)
    };
    let gigabytes = blocks.chunk_by(|a, b| a.number / each == b.number / each);
    gigabytes.filter(is_whole).count() as u64 * (block_frames.max(GIGABYTE) / GIGABYTE)
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
