//! Huge pages on request: while blocks are emptied and pages taken on a thread of its own, the loop
//! goes on to sample, and ends the reservation if memory runs short.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use prairie_daemon::log::Log;

use super::Daemon;
use crate::huge::Reserve;
use crate::request::{Answer, Waiting};
use crate::timer::Timer;

/// A reservation may take this long (*chosen*): the kernel compacts while it looks for pages, and
/// each block has a limit of its own.
const LIMIT: Duration = Duration::from_secs(600);

/// Requests, and the one that is being carried out.
#[derive(Debug, Default)]
pub(super) struct Requests {
    from: Option<Receiver<Waiting>>,
    current: Option<Reserving>,
}

#[derive(Debug)]
struct Reserving {
    waiting: Waiting,
    timer: Timer<io::Result<u64>>,
    stop: Arc<AtomicBool>,
    /// When it ends with what it has.
    until: Duration,
    why: &'static str,
}

impl Requests {
    /// Whether a reservation is under way.
    pub(super) const fn is_busy(&self) -> bool {
        self.current.is_some()
    }
}

impl Daemon {
    /// Carries out requests for huge pages from now on.
    pub fn listen(&mut self, requests: Receiver<Waiting>) {
        self.requests.from = Some(requests);
    }

    /// Begins a reservation if one was requested, and ends the one that is over.
    pub(super) fn reserve(&mut self, now: Duration) {
        if self.requests.is_busy() {
            return self.finish_reservation(now);
        }
        let Some(waiting) = self.requests.from.as_ref().and_then(|from| from.try_recv().ok())
        else {
            return;
        };
        let refusal = match (self.dry_run, !self.pause.is_over(now)) {
            (true, _) => Some("this daemon runs dry and writes to no kernel file"),
            (_, true) => Some("memory blocks cannot be written; see the daemon's log"),
            _ => None,
        };
        if let Some(why) = refusal {
            return waiting.answer(Answer::Refused(why.to_owned()));
        }
        match self.begin_reservation(&waiting) {
            Ok((timer, stop)) => {
                self.policy.reserving(true);
                self.requests.current =
                    Some(Reserving { waiting, timer, stop, until: now + LIMIT, why: "" });
            }
            Err(error) => waiting.answer(Answer::Refused(error.to_string())),
        }
    }

    fn begin_reservation(
        &self,
        waiting: &Waiting,
    ) -> io::Result<(Timer<io::Result<u64>>, Arc<AtomicBool>)> {
        let request = waiting.request;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let record = self.record.clone();
        let (roots, files) = (self.host.roots().clone(), self.files.clone());
        let log = Log::new(self.log.format(), Default::default(), Box::new(io::stdout()));
        let operation_time = self.config.limits.operation_time;
        let mut timer = Timer::start()?;
        timer.begin(LIMIT, move || {
            let work = Reserve {
                roots: &roots,
                files,
                log: &log,
                node: request.node,
                operation_time,
                stop: &|| asked.load(Ordering::Relaxed),
            };
            work.reserve(&record, request.bytes, request.pages)
        });
        Ok((timer, stop))
    }

    /// Ends the reservation under way: what it has is what it gets.
    pub(super) fn stop_reservation(&mut self, why: &'static str) {
        if let Some(current) = &mut self.requests.current
            && !current.stop.swap(true, Ordering::Relaxed)
        {
            current.why = why;
            current.timer.hurry();
        }
    }

    fn finish_reservation(&mut self, now: Duration) {
        if self.requests.current.as_ref().is_some_and(|current| now >= current.until) {
            self.stop_reservation("stopped: out of time");
        }
        let Some(current) = &mut self.requests.current else { return };
        let Some(result) = current.timer.poll() else { return };
        self.end_reservation(result);
        // Pages of a pool look like kernel memory: this sample is not compared with those before.
        if let Ok(sample) = self.host.sample(now) {
            self.policy.sample(&sample);
        }
        self.policy.reserving(false);
        (self.listed, self.sampled) = (None, None);
    }

    fn end_reservation(&mut self, result: io::Result<u64>) {
        let Some(current) = self.requests.current.take() else { return };
        let Reserving { waiting, why, .. } = current;
        let request = waiting.request;
        let answer = match result {
            Ok(pages) => {
                let why = if pages < request.pages { why } else { "" };
                let (node, wanted, mib) = (request.node, request.pages, request.bytes >> 20);
                let separator = if why.is_empty() { "" } else { ": " };
                self.log.note(
                    "reserve",
                    format_args!(
                        "node {node}: {pages} of {wanted} pages of {mib} MiB{separator}{why}"
                    ),
                );
                Answer::Pages(pages, why.to_owned())
            }
            Err(error) => Answer::Refused(error.to_string()),
        };
        waiting.answer(answer);
    }

    /// Waits for the reservation under way, at the daemon's end.
    pub(super) fn drop_reservation(&mut self) {
        self.stop_reservation("the daemon ends");
        let result = self.requests.current.as_mut().and_then(|current| current.timer.wait());
        if let Some(result) = result {
            self.end_reservation(result);
        }
    }
}
