//! What the load asks of a service, and the connection to one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use experiments::load::Noise;

/// A service under load.
pub trait Service {
    /// Gives all of `keys` keys values of `bytes`, half of each noise.
    fn fill(&mut self, keys: u64, bytes: usize) -> io::Result<()>;

    /// Asks for a key.
    fn request(&mut self, key: u64) -> io::Result<()>;

    /// Reads the answer, and returns the length of the value.
    fn answer(&mut self) -> io::Result<usize>;
}

/// A connection to a service.
pub struct Connection {
    stream: BufReader<UnixStream>,
    line: String,
    value: Vec<u8>,
}

impl Connection {
    /// Connects to a socket.
    pub fn open(socket: &str) -> io::Result<Connection> {
        Ok(Connection::new(UnixStream::connect(socket)?))
    }

    /// Over a stream.
    pub fn new(stream: UnixStream) -> Connection {
        let stream = BufReader::with_capacity(1 << 16, stream);
        Connection { stream, line: String::new(), value: Vec::new() }
    }

    /// Sends a request.
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(request)
    }

    /// The next line of an answer, without its end.
    pub fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        if self.stream.read_line(&mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.line.trim_end())
    }

    /// The `len` bytes that follow.
    pub fn read(&mut self, len: usize) -> io::Result<&[u8]> {
        self.value.resize(len, 0);
        self.stream.read_exact(&mut self.value)?;
        Ok(&self.value)
    }
}

/// What values are made of: the same in every run.
pub fn noise() -> Noise {
    Noise(0x9e37_79b9_7f4a_7c15)
}
