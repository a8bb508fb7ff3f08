//! The protocol of Redis.

use std::io::{self, Write};

use experiments::load::Noise;

use super::service::{Connection, Service, noise};

/// Requests that are under way together while keys are set.
const PIPELINE: u64 = 64;

/// A connection.
pub struct Redis {
    connection: Connection,
    noise: Noise,
}

impl Redis {
    /// Connects.
    pub fn open(socket: &str) -> io::Result<Redis> {
        Ok(Redis { connection: Connection::open(socket)?, noise: noise() })
    }

    /// Sets the keys `from..to` to values of `bytes`.
    fn set(&mut self, from: u64, to: u64, bytes: usize) -> io::Result<()> {
        let mut value = vec![b' '; bytes];
        let mut text = Vec::new();
        for key in from..to {
            self.noise.fill(&mut value[..bytes / 2]);
            let key = format!("key:{key}");
            write!(text, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())?;
            text.extend_from_slice(&value);
            text.extend_from_slice(b"\r\n");
        }
        self.connection.send(&text)?;
        for _ in from..to {
            let line = self.connection.line()?;
            assert_eq!(line, "+OK", "SET");
        }
        Ok(())
    }
}

impl Service for Redis {
    fn fill(&mut self, keys: u64, bytes: usize) -> io::Result<()> {
        for from in (0..keys).step_by(PIPELINE as usize) {
            self.set(from, (from + PIPELINE).min(keys), bytes)?;
        }
        Ok(())
    }

    fn request(&mut self, key: u64) -> io::Result<()> {
        let key = format!("key:{key}");
        let request = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
        self.connection.send(request.as_bytes())
    }

    fn answer(&mut self) -> io::Result<usize> {
        let line = self.connection.line()?;
        let len = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok());
        let len = len.ok_or_else(|| io::Error::other(format!("GET: {line}")))?;
        self.connection.read(len + 2)?;
        Ok(len)
    }
}
