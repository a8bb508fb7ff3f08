//! The protocol of Redis.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use experiments::load::Noise;

use super::service::Service;

/// Requests that are under way together while keys are set.
const PIPELINE: u64 = 64;

/// A connection.
pub struct Redis {
    stream: BufReader<UnixStream>,
    line: String,
    body: Vec<u8>,
    noise: Noise,
}

impl Redis {
    /// Connects.
    pub fn open(socket: &str) -> io::Result<Redis> {
        let stream = BufReader::with_capacity(1 << 16, UnixStream::connect(socket)?);
        let noise = Noise(0x9e37_79b9_7f4a_7c15);
        Ok(Redis { stream, line: String::new(), body: Vec::new(), noise })
    }

    fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        self.stream.read_line(&mut self.line)?;
        Ok(self.line.trim_end())
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
        self.stream.get_mut().write_all(&text)?;
        for _ in from..to {
            let line = self.line()?;
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
        write!(self.stream.get_mut(), "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())
    }

    fn answer(&mut self) -> io::Result<usize> {
        let line = self.line()?;
        let len = line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok());
        let len = len.ok_or_else(|| io::Error::other(format!("GET: {line}")))?;
        self.body.resize(len + 2, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(len)
    }
}
