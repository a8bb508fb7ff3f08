//! The protocol of PostgreSQL, version 3: messages of a tag, a length, and a body.

use std::io;

use experiments::load::Noise;

use super::service::{Connection, Service, noise};

/// The longest message that is believed (*chosen*): a longer one is not one of PostgreSQL.
const MAX_MESSAGE: usize = 1 << 24;

/// A connection, as the user `postgres` without a password.
pub struct Postgres {
    connection: Connection,
    noise: Noise,
}

impl Postgres {
    /// Connects.
    pub fn open(socket: &str) -> io::Result<Postgres> {
        let mut postgres = Postgres { connection: Connection::open(socket)?, noise: noise() };
        let mut message = Vec::new();
        push(&mut message, b"\0\x03\0\0user\0postgres\0database\0postgres\0\0");
        postgres.connection.send(&message)?;
        postgres.until(b'Z')?;
        Ok(postgres)
    }

    /// Sends statements.
    fn query(&mut self, statements: &str) -> io::Result<()> {
        let mut message = vec![b'Q'];
        push(&mut message, format!("{statements}\0").as_bytes());
        self.connection.send(&message)
    }

    /// Reads up to the message `last`, and returns the length of the value in the last row, or 0.
    fn until(&mut self, last: u8) -> io::Result<usize> {
        let mut len = 0;
        loop {
            let (tag, body) = self.message()?;
            match tag {
                _ if tag == last => return Ok(len),
                b'D' => len = value_len(body)?,
                b'E' => return Err(fault(&error_text(body))),
                b'R' if body != [0; 4] => return Err(fault("the server asks for a password")),
                b'Z' => return Err(fault("the server has answered less than expected")),
                _ => {}
            }
        }
    }

    /// The next message: its tag and body.
    fn message(&mut self) -> io::Result<(u8, &[u8])> {
        let head: [u8; 5] = self.connection.read(5)?.try_into().expect("5 bytes");
        let [tag, len @ ..] = head;
        let body = (u32::from_be_bytes(len) as usize).checked_sub(4);
        match body.filter(|body| *body <= MAX_MESSAGE) {
            Some(body) => Ok((tag, self.connection.read(body)?)),
            None => Err(fault("a message has an impossible length")),
        }
    }
}

impl Service for Postgres {
    /// Values are not compressed. Vacuum would otherwise run during the test.
    fn fill(&mut self, keys: u64, bytes: usize) -> io::Result<()> {
        self.query(
            "CREATE TABLE t (k int PRIMARY KEY, v text); \
             ALTER TABLE t ALTER v SET STORAGE EXTERNAL; \
             COPY t FROM STDIN (FORMAT binary, FREEZE)",
        )?;
        self.until(b'G')?;
        let mut rows = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        let mut value = vec![b' '; bytes];
        for key in 0..keys {
            self.noise.fill(&mut value[..bytes / 2]);
            // A text has no zero bytes.
            value.iter_mut().for_each(|byte| *byte = (*byte).max(1));
            rows.extend_from_slice(b"\0\x02\0\0\0\x04");
            rows.extend_from_slice(&(key as u32).to_be_bytes());
            rows.extend_from_slice(&(bytes as u32).to_be_bytes());
            rows.extend_from_slice(&value);
            self.copy(&rows)?;
            rows.clear();
        }
        self.copy(b"\xff\xff")?;
        self.connection.send(b"c\0\0\0\x04")?;
        self.until(b'Z')?;
        for statement in ["VACUUM (FREEZE, ANALYZE) t", "CHECKPOINT"] {
            self.query(statement)?;
            self.until(b'Z')?;
        }
        Ok(())
    }

    fn request(&mut self, key: u64) -> io::Result<()> {
        self.query(&format!("SELECT v FROM t WHERE k = {key}"))
    }

    fn answer(&mut self) -> io::Result<usize> {
        self.until(b'Z')
    }
}

impl Postgres {
    /// Sends a piece of a copy.
    fn copy(&mut self, data: &[u8]) -> io::Result<()> {
        let mut message = vec![b'd'];
        push(&mut message, data);
        self.connection.send(&message)
    }
}

/// Adds a length, which counts itself, and a body to a message.
fn push(message: &mut Vec<u8>, body: &[u8]) {
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
}

/// The length of the value in a row of one column.
fn value_len(row: &[u8]) -> io::Result<usize> {
    match row {
        [0, 1, a, b, c, d, value @ ..]
            if u32::from_be_bytes([*a, *b, *c, *d]) as usize == value.len() =>
        {
            Ok(value.len())
        }
        _ => Err(fault("a row is not one value")),
    }
}

/// What an error says: its field `M`.
fn error_text(fields: &[u8]) -> String {
    let text = fields.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(text.unwrap_or(b"an error without a text")).into_owned()
}

fn fault(text: &str) -> io::Error {
    io::Error::other(format!("postgres: {text}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The description of a row, a row of `value`, the end of the command, and of the answer.
    fn answer_with(value: &[u8]) -> Vec<u8> {
        let mut row = b"\0\x01".to_vec();
        row.extend_from_slice(&(value.len() as u32).to_be_bytes());
        row.extend_from_slice(value);
        messages(&[(b'T', b"\0\x01v\0"), (b'D', &row), (b'C', b"SELECT 1\0"), (b'Z', b"I")])
    }

    fn messages(messages: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (tag, body) in messages {
            bytes.push(*tag);
            push(&mut bytes, body);
        }
        bytes
    }

    /// What is read of a server that sends `bytes` and closes the connection.
    fn read(bytes: &[u8]) -> Result<usize, String> {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        theirs.write_all(bytes).expect("the socket takes them");
        drop(theirs);
        let mut postgres = Postgres { connection: Connection::new(ours), noise: noise() };
        postgres.answer().map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_the_length_of_its_value() {
        assert_eq!(read(&answer_with(&[b'x'; 16000])), Ok(16000));
        assert_eq!(read(&answer_with(b"")), Ok(0));
    }

    #[test]
    fn no_row_is_an_answer_without_a_value() {
        assert_eq!(read(&messages(&[(b'C', b"SELECT 0\0"), (b'Z', b"I")])), Ok(0));
    }

    #[test]
    fn a_truncated_answer_is_an_error() {
        let answer = answer_with(b"value");
        for len in 0..answer.len() {
            assert!(read(&answer[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn any_changed_byte_is_read_without_a_panic() {
        let answer = answer_with(b"value");
        for at in 0..answer.len() {
            for byte in [0, 1, 3, 0x7f, 0x80, 0xff] {
                let mut hostile = answer.clone();
                hostile[at] = byte;
                let _ = read(&hostile);
            }
        }
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for len in [0, 3, MAX_MESSAGE as u32 + 5, u32::MAX] {
            let mut message = vec![b'D'];
            message.extend_from_slice(&len.to_be_bytes());
            let error = read(&message).unwrap_err();
            assert_eq!(error, "postgres: a message has an impossible length", "{len}");
        }
    }

    #[test]
    fn a_row_that_is_not_one_value_is_an_error() {
        let rows: [&[u8]; 6] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\x01\xff\xff\xff\xff",
            b"\0\x01\0\0\0\x05four",
            b"\0\x02\0\0\0\0\0\0\0\0",
        ];
        for row in rows {
            let error = read(&messages(&[(b'D', row), (b'Z', b"I")])).unwrap_err();
            assert_eq!(error, "postgres: a row is not one value", "{row:?}");
        }
    }

    #[test]
    fn what_a_server_refuses_is_said() {
        let refusals: [(u8, &[u8], &str); 4] = [
            (b'E', b"SERROR\0Mno table t\0\0", "no table t"),
            (b'E', b"", "an error without a text"),
            (b'E', b"M\xff", "\u{fffd}"),
            (b'R', b"\0\0\0\x05salt", "the server asks for a password"),
        ];
        for (tag, body, text) in refusals {
            let error = read(&messages(&[(tag, body), (b'Z', b"I")])).unwrap_err();
            assert_eq!(error, format!("postgres: {text}"));
        }
    }
}
