//! A thread for calls that may block forever, and the signal that ends them.
//!
//! Offlining a block retries without limit until a signal comes. It is done by one thread, so that
//! the daemon goes on to sample, and is interrupted when it is overdue or when memory runs short
//! meanwhile. One call at a time is all there is.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

/// The signal that interrupts. Its handler does nothing; that it came is enough.
const INTERRUPT: i32 = libc::SIGUSR2;

/// An overdue call is interrupted again after this, should the signal have come before it.
const AGAIN: Duration = Duration::from_millis(100);

type Call<T> = Box<dyn FnOnce() -> T + Send>;

/// The thread.
#[derive(Debug)]
pub struct Timer<T> {
    calls: Option<Sender<Call<T>>>,
    results: Receiver<T>,
    thread: Option<JoinHandle<()>>,
    event: OwnedFd,
    /// When the call under way is to be interrupted next, if one is.
    due: Option<Instant>,
}

impl<T: Send + 'static> Timer<T> {
    /// Starts the thread, which waits.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn start() -> io::Result<Timer<T>> {
        install_handler()?;
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (calls, receiver) = channel::<Call<T>>();
        let (sender, results) = channel();
        let told = event.try_clone()?;
        let work = move || {
            for call in receiver {
                if sender.send(call()).is_err() {
                    return;
                }
                let _ = rustix::io::write(&told, &1u64.to_ne_bytes());
            }
        };
        let builder = thread::Builder::new().name("convert".into()).stack_size(256 << 10);
        let thread = Some(builder.spawn(work)?);
        Ok(Timer { calls: Some(calls), results, thread, event, due: None })
    }

    /// Begins a call that may take `limit`.
    ///
    /// # Panics
    /// If another one is under way.
    pub fn begin(&mut self, limit: Duration, call: impl FnOnce() -> T + Send + 'static) {
        assert!(self.due.is_none(), "one call at a time");
        self.due = Some(Instant::now() + limit);
        let calls = self.calls.as_ref().expect("a thread that has not been stopped");
        calls.send(Box::new(call)).expect("a thread that waits for calls");
    }

    /// Whether a call is under way.
    pub const fn is_busy(&self) -> bool {
        self.due.is_some()
    }

    /// The result, if the call has ended. Interrupts it if it is overdue.
    pub fn poll(&mut self) -> Option<T> {
        self.due?;
        match self.results.try_recv() {
            Ok(result) => {
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.event, &mut count);
                self.due = None;
                Some(result)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                let now = Instant::now();
                if self.due.is_some_and(|due| due <= now) {
                    self.interrupt();
                    self.due = Some(now + AGAIN);
                }
                None
            }
        }
    }

    /// Lets the call under way be interrupted from now on.
    pub fn hurry(&mut self) {
        if let Some(due) = &mut self.due {
            *due = (*due).min(Instant::now());
        }
    }

    /// Waits for the call under way, which is interrupted when it is overdue.
    pub fn wait(&mut self) -> Option<T> {
        self.wait_unless(&|| false)
    }

    /// Waits as [`Timer::wait`] does, but lets the call be interrupted as soon as `stop` says so.
    pub fn wait_unless(&mut self, stop: &dyn Fn() -> bool) -> Option<T> {
        let mut hurried = false;
        while self.is_busy() {
            if let Some(result) = self.poll() {
                return Some(result);
            }
            if !hurried && stop() {
                self.hurry();
                hurried = true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Readable when a call has ended.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn interrupt(&self) {
        let Some(thread) = self.thread.as_ref().filter(|thread| !thread.is_finished()) else {
            return;
        };
        // SAFETY: the thread has not been joined, which only `drop` does, so its handle is valid;
        // the signal has a handler, installed before the thread began.
        let _ = unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, INTERRUPT) };
    }
}

impl<T> Drop for Timer<T> {
    fn drop(&mut self) {
        // A call that hangs in the kernel must not hold up the end of the process.
        drop(self.calls.take());
        if let Some(thread) = self.thread.take()
            && self.due.is_none()
        {
            let _ = thread.join();
        }
    }
}

/// Installs the handler, without `SA_RESTART`: an interrupted call has to end.
fn install_handler() -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a zeroed sigaction is a valid one without flags and with an empty mask; the handler
    // does nothing and so is safe to call at any point.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn results_come_back() {
        let mut timer = Timer::start().unwrap();
        assert!(timer.poll().is_none() && !timer.is_busy());
        for n in 0..3 {
            timer.begin(Duration::from_secs(10), move || n);
            assert!(timer.is_busy());
            assert_eq!(timer.wait(), Some(n));
        }
    }

    #[test]
    fn a_call_that_hangs_is_interrupted() {
        let (mut reader, _writer) = UnixStream::pair().unwrap();
        let mut timer = Timer::start().unwrap();
        let hang = move || {
            let ended = reader.read(&mut [0]);
            ended.is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
        };
        timer.begin(Duration::from_millis(20), hang);
        assert_eq!(timer.wait(), Some(true));
        // Hurrying brings the end forward.
        let (mut reader, _writer) = UnixStream::pair().unwrap();
        timer.begin(Duration::from_secs(3600), move || reader.read(&mut [0]).is_err());
        timer.hurry();
        assert_eq!(timer.wait(), Some(true));
        let (mut reader, _writer) = UnixStream::pair().unwrap();
        timer.begin(Duration::from_secs(3600), move || reader.read(&mut [0]).is_err());
        assert_eq!(timer.wait_unless(&|| true), Some(true));
    }
}
