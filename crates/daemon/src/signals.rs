//! Signals as flags, and as a stream that wakes the loop.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// SIGTERM and SIGINT (stop), and SIGHUP (read the configuration again).
#[derive(Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    woken: UnixStream,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn catch() -> io::Result<Signals> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { stop, reload, woken })
    }

    /// Whether the daemon is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the configuration is to be read again; true once for each request.
    pub fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Forgets what woke the loop.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }
}

/// Readable when a signal has come.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_wakes_the_loop_and_is_taken_once() {
        let signals = Signals::catch().unwrap();
        assert!(!signals.take_reload());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        let mut byte = [0];
        signals.woken.set_nonblocking(false).unwrap();
        (&signals.woken).read_exact(&mut byte).unwrap();
        signals.woken.set_nonblocking(true).unwrap();
        assert!(signals.take_reload() && !signals.take_reload() && !signals.is_stopped());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(signals.is_stopped());
        signals.drain();
        let nothing = (&signals.woken).read(&mut byte).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
