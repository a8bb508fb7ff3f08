//! Threads that wait for the kernel, so that the daemon does not.
//!
//! Taking memory blocks for as long as the writes to a swap device do. A few threads do it; a
//! cgroup has at most one request under way, and one that exceeds its deadline is interrupted by a
//! signal, and the kernel ends its reclaim early. So one slow cgroup delays no other.
//!
//! Reclaim uses the CPU of the thread that asks for it, and a service that wakes up meanwhile must not
//! wait for it. The threads therefore run at nice 19: the scheduler takes the CPU from them as soon
//! as the kernel's code permits. They are not `SCHED_IDLE`, which gets next to nothing of a full CPU:
//! a thread that is preempted in the kernel can hold what the service waits for (a page's lock, the
//! CPU's compressor of zswap, `mmap_lock` while ages are marked), and has to come to its end. Nice
//! values count within a cgroup whose `cpu` controller is on; between cgroups `cpu.weight` does, which
//! the daemon's unit sets.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;

use super::clock::ThreadClock;
use super::reclaim::{Outcome, Work};

/// Something to be done, for whom, and until when.
#[derive(Debug)]
pub struct Job {
    /// The requester.
    pub id: u64,
    /// What for.
    pub work: Work,
    /// How long it may take.
    pub deadline: Duration,
}

/// A job that was done.
#[derive(Debug)]
pub struct FinishedJob {
    /// The requester.
    pub id: u64,
    /// The result.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// The threads, or, for tests and dry thinking, the caller's own.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs handed in and not yet collected.
    outstanding: Cell<usize>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Readable when something is done.
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Job>,
    done: Vec<FinishedJob>,
    /// When each thread's job is overdue.
    overdue_at: Vec<Option<Instant>>,
    stop: bool,
}

/// The signal that interrupts an overdue job. Its handler does nothing; that it came is enough.
const INTERRUPT: i32 = libc::SIGUSR2;

/// The nice value of the threads: the lowest priority that still gets its share of a full CPU, 1.4 %
/// beside one task of nice 0.
const NICE: i32 = 19;

/// An overdue job is interrupted again after this, should the signal have come between two calls.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

impl Workers {
    /// Starts `threads` threads; with none, `submit` does the job itself before it returns.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn new(threads: usize) -> io::Result<Workers> {
        Workers::with_threads(threads, work)
    }

    /// Starts threads that run `body` with their shared state and their index.
    fn with_threads(
        threads: usize,
        body: impl Fn(&Shared, usize) + Clone + Send + 'static,
    ) -> io::Result<Workers> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let state = State { overdue_at: vec![None; threads], ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), event });
        if threads > 0 {
            signal_hook::flag::register(INTERRUPT, Arc::new(AtomicBool::new(false)))?;
        }
        let spawn = |at: usize| {
            let (shared, body) = (shared.clone(), body.clone());
            // Reclaim runs on the kernel's stack; ours needs little.
            let builder = thread::Builder::new().name(format!("reclaim-{at}"));
            builder.stack_size(128 << 10).spawn(move || {
                // For this thread alone. Lowering the priority needs no privilege.
                let _ = setpriority_process(None, NICE);
                body(&shared, at)
            })
        };
        let threads = (0..threads).map(spawn).collect::<io::Result<_>>()?;
        Ok(Workers { shared, threads, outstanding: Cell::new(0) })
    }

    /// Hands in a job.
    pub fn submit(&self, job: Job) {
        self.outstanding.set(self.outstanding.get() + 1);
        if self.threads.is_empty() {
            let done = perform(&job);
            self.lock().done.push(done);
            return;
        }
        self.lock().pending.push_back(job);
        self.shared.work.notify_one();
    }

    /// Moves what is done to the end of `done`.
    pub fn collect(&self, done: &mut Vec<FinishedJob>) {
        if self.outstanding.get() == 0 {
            return;
        }
        // Read under the lock under which it is written: it never outlives what it reported.
        let mut state = self.lock();
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.event, &mut count);
        self.outstanding.set(self.outstanding.get() - state.done.len());
        done.append(&mut state.done);
    }

    /// Interrupts jobs that take longer than they may.
    pub fn interrupt_overdue(&self, now: Instant) {
        let mut state = self.lock();
        for (thread, overdue_at) in self.threads.iter().zip(&mut state.overdue_at) {
            if overdue_at.is_some_and(|at| at <= now) {
                *overdue_at = Some(now + RETRY_INTERVAL);
                // SAFETY: the thread has not been joined, since that takes `self` whole, so its
                // handle is valid; the signal has a handler, installed before any thread began.
                let _ = unsafe {
                    libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, INTERRUPT)
                };
            }
        }
    }

    /// Readable when a job is done and no more are waiting.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A worker that panicked has left the lists whole: they are changed by single calls.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Workers {
    /// Waits for what is under way, which is interrupted; what has not begun is dropped.
    fn drop(&mut self) {
        {
            let mut state = self.lock();
            state.stop = true;
            state.pending.clear();
            let now = Instant::now();
            state.overdue_at.iter_mut().flatten().for_each(|at| *at = (*at).min(now));
        }
        self.shared.work.notify_all();
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            self.interrupt_overdue(Instant::now());
            thread::sleep(Duration::from_millis(5));
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn perform(job: &Job) -> FinishedJob {
    let started = Instant::now();
    let outcome = job.work.perform(job.deadline, &ThreadClock);
    FinishedJob { id: job.id, outcome, took: started.elapsed() }
}

fn work(shared: &Shared, at: usize) {
    let mut state = shared.lock();
    loop {
        if state.stop {
            return;
        }
        let Some(job) = state.pending.pop_front() else {
            state = shared.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            continue;
        };
        state.overdue_at[at] = Some(Instant::now() + job.deadline);
        drop(state);
        let done = perform(&job);
        state = shared.lock();
        state.overdue_at[at] = None;
        state.done.push(done);
        // One wake-up is enough: finished jobs are also collected whenever a container is due.
        if state.pending.is_empty() {
            let _ = rustix::io::write(&shared.event, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_size::{CallSize, Lists};
    use prairie_daemon::file::Held;
    use std::path::Path;

    fn reclaim(directory: &Path, id: u64, bytes: u64) -> Job {
        let file = Arc::new(Held::open_for_writing(&directory.join("memory.reclaim")).unwrap());
        let current = Arc::new(Held::open(&directory.join("memory.current")).unwrap());
        let size = CallSize::new(Duration::from_secs(1), Lists::Classic);
        let work = Work::Reclaim { file, current, bytes, swappiness: None, size };
        Job { id, work, deadline: Duration::from_secs(1) }
    }

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("memory.reclaim"), "").unwrap();
        std::fs::write(root.path().join("memory.current"), "4096000\n").unwrap();
        root
    }

    #[test]
    fn jobs_are_finished_and_reported() {
        let root = tree();
        for threads in [0, 2] {
            let workers = Workers::new(threads).unwrap();
            workers.submit(reclaim(root.path(), 7, 8192));
            let mut done = Vec::new();
            while done.is_empty() {
                workers.collect(&mut done);
            }
            assert_eq!(done[0].id, 7);
            assert!(matches!(done[0].outcome, Outcome::Asked { bytes: 8192, partial: false, .. }));
            assert_eq!(
                std::fs::read_to_string(root.path().join("memory.reclaim")).unwrap(),
                "8192\n"
            );
        }
    }

    #[test]
    fn workers_run_at_the_lowest_priority_and_the_caller_does_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let (tell, told) = std::sync::mpsc::channel();
        let workers = Workers::with_threads(1, move |shared, at| {
            tell.send(rustix::process::getpriority_process(None)).unwrap();
            work(shared, at);
        });
        let workers = workers.unwrap();
        assert_eq!(told.recv().unwrap().unwrap(), 19);
        assert_eq!(priority(), before);
        drop(workers);
    }

    #[test]
    fn a_job_that_hangs_is_interrupted_and_holds_up_nobody() {
        let root = tree();
        // Opening a FIFO for reading hangs until it has a writer: a kernel that does not answer.
        let fifo = root.path().join("cgroup.procs");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let workers = Workers::new(2).unwrap();
        let (proc, directory) = ("/proc".into(), root.path().to_owned());
        let hang = Work::Measure { proc, directory, cleared: Arc::default() };
        workers.submit(Job { id: 1, work: hang, deadline: Duration::from_millis(20) });
        workers.submit(reclaim(root.path(), 2, 4096));
        let mut done = Vec::new();
        while done.is_empty() {
            workers.collect(&mut done);
        }
        assert_eq!(done[0].id, 2);
        // Only now may the first one end.
        let writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        drop(writer);
        while done.len() < 2 {
            workers.collect(&mut done);
        }
        assert_eq!(done[1].id, 1);
    }
}
