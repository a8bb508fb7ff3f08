//! Requests to the running daemon: it alone may change blocks, so `prairie regions reserve` hands
//! its request to it. One line of JSON each way over a socket beside the record, for root only.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// No request and no answer is longer than this.
const MAX_BYTES: u64 = 4096;

/// A client has to send its request within this time: the next one waits behind it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Huge pages that a node's pool should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Bytes of a page.
    pub bytes: u64,
    /// Pages that the pool should have.
    pub pages: u64,
    /// The NUMA node.
    pub node: u32,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The pool has this many pages, and why not more.
    Pages(u64, String),
    /// It was not even tried, and why.
    Refused(String),
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Waiting {
    /// What is wanted.
    pub request: Request,
    answer: Sender<Answer>,
}

impl Waiting {
    /// Answers. A client that is gone does not matter.
    pub fn answer(&self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// The socket's file beside a record.
pub fn path(record: &Path) -> PathBuf {
    record.with_extension("request")
}

/// Listens beside `record` from now on, in a thread of its own: one request at a time.
///
/// # Errors
/// I/O errors of the system.
pub fn serve(record: &Path) -> io::Result<Receiver<Waiting>> {
    let path = path(record);
    // The socket of a killed daemon: the lock says that there is no other.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let (sender, requests) = channel();
    thread::Builder::new().name("request".into()).stack_size(128 << 10).spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = take(&stream, &sender);
            let text = serde_json::to_string(&answer).unwrap_or_default();
            let _ = (&stream).write_all(format!("{text}\n").as_bytes());
        }
    })?;
    Ok(requests)
}

/// Reads a request, hands it on, and waits for its answer.
fn take(stream: &UnixStream, sender: &Sender<Waiting>) -> Answer {
    let refused = |error: &dyn std::fmt::Display| Answer::Refused(error.to_string());
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let mut line = String::new();
    if let Err(error) = BufReader::new(stream.take(MAX_BYTES)).read_line(&mut line) {
        return refused(&error);
    }
    let request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(error) => return refused(&format!("request: {error}")),
    };
    let (answer, answers) = channel();
    if sender.send(Waiting { request, answer }).is_err() {
        return refused(&"the daemon ends");
    }
    answers.recv().unwrap_or_else(|_| refused(&"the daemon ends"))
}

/// Hands a request to the daemon with this `record`, and waits until it has been carried out.
///
/// # Errors
/// I/O errors of the system where no daemon answers; `InvalidData` where the answer is none.
pub fn ask(record: &Path, request: Request) -> io::Result<Answer> {
    let path = path(record);
    let at = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("{}: the daemon does not answer: {error}", path.display()),
        )
    };
    let mut stream = UnixStream::connect(&path).map_err(at)?;
    let text = serde_json::to_string(&request).map_err(io::Error::other)?;
    stream.write_all(format!("{text}\n").as_bytes()).map_err(at)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_BYTES)).read_line(&mut line).map_err(at)?;
    if line.is_empty() {
        return Err(at(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended")));
    }
    let wrong = |error| at(io::Error::new(io::ErrorKind::InvalidData, error));
    serde_json::from_str(&line).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { bytes: 1 << 30, pages: 2, node: 0 };

    #[test]
    fn a_request_is_answered() {
        let root = tempfile::tempdir().unwrap();
        let record = root.path().join("regions.record");
        fs::write(path(&record), "left by another").unwrap();
        let requests = serve(&record).unwrap();
        let mode = fs::metadata(path(&record)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for root only");
        let daemon = thread::spawn(move || {
            let waiting = requests.recv().unwrap();
            waiting.answer(Answer::Pages(waiting.request.pages, String::new()));
            // From here on, no daemon answers.
        });
        assert_eq!(ask(&record, REQUEST).unwrap(), Answer::Pages(2, String::new()));
        daemon.join().unwrap();
        assert_eq!(ask(&record, REQUEST).unwrap(), Answer::Refused("the daemon ends".into()));
        // A daemon that is killed meanwhile.
        let killed = root.path().join("killed.record");
        let listener = UnixListener::bind(path(&killed)).unwrap();
        let end = thread::spawn(move || drop(listener.accept().unwrap()));
        let ended = ask(&killed, REQUEST).unwrap_err().to_string();
        assert!(ended.contains("the daemon does not answer: "), "{ended}");
        end.join().unwrap();
        let nobody = ask(&root.path().join("other.record"), REQUEST).unwrap_err();
        assert!(nobody.to_string().contains("other.request: the daemon does not answer"));
    }

    #[test]
    fn garbage_is_refused_and_the_next_request_is_heard() {
        let root = tempfile::tempdir().unwrap();
        let record = root.path().join("record");
        let requests = serve(&record).unwrap();
        let long = "9".repeat(10_000);
        for text in ["\n", "{}\n", "{\"bytes\":-1}\n", "\u{1F600}\n", &long, "[1]\n"] {
            let mut stream = UnixStream::connect(path(&record)).unwrap();
            // The daemon may have refused before everything was sent.
            let _ = stream.write_all(text.as_bytes());
            let mut line = String::new();
            let read = BufReader::new(stream).read_line(&mut line);
            let refused = serde_json::from_str::<Answer>(&line);
            assert!(
                matches!(refused, Ok(Answer::Refused(_))) || read.is_err(),
                "{text:?}: {line:?}"
            );
        }
        let daemon = thread::spawn(move || {
            requests.recv().unwrap().answer(Answer::Refused("no".into()));
        });
        assert_eq!(ask(&record, REQUEST).unwrap(), Answer::Refused("no".into()));
        daemon.join().unwrap();
    }
}
