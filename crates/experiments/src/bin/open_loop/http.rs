//! HTTP/1.1, on one connection that is kept.

use std::fs;
use std::io;
use std::path::PathBuf;

use experiments::load::Noise;

use super::service::{Connection, Service, noise};

/// A connection to a server of the files in a folder.
pub struct Http {
    connection: Connection,
    folder: PathBuf,
    noise: Noise,
}

impl Http {
    /// Connects.
    pub fn open(socket: &str, folder: PathBuf) -> io::Result<Http> {
        Ok(Http { connection: Connection::open(socket)?, folder, noise: noise() })
    }
}

impl Service for Http {
    /// The files are written and leave the page cache. Then each is requested once, so that the page
    /// cache with them belongs to the server's container.
    fn fill(&mut self, keys: u64, bytes: usize) -> io::Result<()> {
        let mut value = vec![b' '; bytes];
        for key in 0..keys {
            self.noise.fill(&mut value[..bytes / 2]);
            fs::write(self.folder.join(key.to_string()), &value)?;
        }
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3")?;
        for key in 0..keys {
            self.request(key)?;
            self.answer()?;
        }
        Ok(())
    }

    fn request(&mut self, key: u64) -> io::Result<()> {
        let request = format!("GET /{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.connection.send(request.as_bytes())
    }

    fn answer(&mut self) -> io::Result<usize> {
        let status = self.connection.line()?;
        if !status.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(format!("GET: {status}")));
        }
        let mut len = 0;
        loop {
            let line = self.connection.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        self.connection.read(len)?;
        Ok(len)
    }
}
