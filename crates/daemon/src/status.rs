//! The status that a daemon reports: updated in place, sent as JSON to whoever connects to a
//! socket, and as Prometheus metrics over HTTP.

use std::io::{self, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::metrics::{Family, Server, encode};

/// No status document is longer than this.
const MAX_BYTES: u64 = 16 << 20;

/// A client that neither reads nor writes for this long is given up: the next one waits behind it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a daemon reports.
pub trait Status: Serialize + Send + 'static {
    /// Its metrics.
    fn metrics(&self) -> Vec<Family>;

    /// Completes what is not worth computing unless a client asks. Called before each answer on
    /// the socket.
    fn prepare(&mut self) {}
}

/// A status that several threads see.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T: Status> Shared<T> {
    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // A thread that panicked has left plain figures behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers at `path` from now on, in a thread of its own: one JSON document a connection.
    ///
    /// # Errors
    /// I/O errors of the system: no such directory, or another daemon answers there.
    pub fn serve(&self, path: &Path) -> io::Result<()> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::other("another daemon answers there"));
        }
        // The socket of a killed daemon.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        let shared = self.clone();
        thread::Builder::new().name("status".into()).stack_size(128 << 10).spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let mut status = shared.lock();
                status.prepare();
                let text = serde_json::to_string(&*status).unwrap_or_default();
                drop(status);
                let _ = (&stream).write_all(text.as_bytes());
            }
        })?;
        Ok(())
    }

    /// Answers Prometheus at `address`, path `/metrics`, from now on, in a thread of its own.
    ///
    /// # Errors
    /// I/O errors of the system: the port is taken.
    pub fn serve_metrics(&self, address: SocketAddr) -> io::Result<()> {
        let server = Server::bind(address)?;
        let shared = self.clone();
        thread::Builder::new().name("metrics".into()).stack_size(256 << 10).spawn(move || {
            server.run_forever(|| {
                let families = shared.lock().metrics();
                Ok(encode(families))
            });
        })?;
        Ok(())
    }
}

/// Asks the daemon that answers at `path`.
///
/// # Errors
/// I/O errors of the system where none does; `InvalidData` where the answer is not a status.
pub fn ask<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = String::new();
    BufReader::new(stream).take(MAX_BYTES).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::metrics::{Kind, Series};

    #[derive(Clone, Debug, Default, PartialEq, Serialize, serde::Deserialize)]
    struct Small {
        count: u64,
        reason: String,
    }

    impl Status for Small {
        fn metrics(&self) -> Vec<Family> {
            let count = Series::number(Vec::new(), self.count as f64);
            vec![Family::named("small_count", "Number of things", Kind::Gauge, vec![count])]
        }

        fn prepare(&mut self) {
            self.reason = format!("counted to {}", self.count);
        }
    }

    fn shared() -> Shared<Small> {
        let shared = Shared::default();
        *shared.lock() = Small { count: 7, ..Small::default() };
        shared
    }

    #[test]
    fn a_client_gets_the_complete_status() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("socket");
        std::fs::write(&path, "left by another").unwrap();
        shared().serve(&path).unwrap();
        let expected = Small { count: 7, reason: "counted to 7".into() };
        assert_eq!(ask::<Small>(&path).unwrap(), expected);
        assert!(shared().serve(&path).is_err(), "it is taken");
        assert!(ask::<Small>(&root.path().join("none")).is_err());
        let wrong = ask::<Vec<u8>>(&path).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn metrics_are_served_on_request() {
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = probe.local_addr().unwrap();
        drop(probe);
        shared().serve_metrics(address).unwrap();
        let get = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        assert!(get("/metrics").contains("\nsmall_count 7"));
        assert!(get("/other").contains("404"));
    }
}
