//! Readings of objectives: a thread for each, so that a server that does not answer delays no
//! other.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::objective::{Objective, STALE_FACTOR, Source, value_of_file, value_of_response};

/// A server that takes longer to answer is given up until the next interval.
const PATIENCE: Duration = Duration::from_secs(5);

/// No file with a value, and no answer with one, is longer.
const MAX_BYTES: u64 = 1 << 20;

/// A value, or why there is none.
pub type Reading = Result<Sample, String>;

/// A value that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The value.
    pub value: f64,
    /// How old it was when it was read: the time since a file was written.
    pub age: Duration,
}

/// Reads the value of an objective again and again.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    every: Duration,
    /// A thread's; without one the caller reads.
    shared: Option<Arc<Shared>>,
    next: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reading: Option<Reading>,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Reads in a thread of its own from now on, or, for tests, in [`Reader::poll`].
    ///
    /// # Errors
    /// I/O errors of the system: no threads.
    pub fn start(objective: &Objective, in_thread: bool) -> io::Result<Reader> {
        let Objective { source, every, .. } = objective.clone();
        let mut reader = Reader { source, every, shared: None, next: Duration::ZERO };
        if in_thread {
            let shared = Arc::new(Shared::default());
            let (theirs, source) = (shared.clone(), reader.source.clone());
            let builder = thread::Builder::new().name("objective".into());
            builder.stack_size(512 << 10).spawn(move || follow(&theirs, &source, every))?;
            reader.shared = Some(shared);
        }
        Ok(reader)
    }

    /// The reading since the last call; never waits for a thread.
    pub fn poll(&mut self, now: Duration) -> Option<Reading> {
        if let Some(shared) = &self.shared {
            return shared.lock().reading.take();
        }
        // Due, or so far ahead that the clock must have gone back.
        let due = now >= self.next || now + self.every < self.next;
        due.then(|| {
            self.next = now + self.every;
            read(&self.source, self.every)
        })
    }
}

impl Drop for Reader {
    /// Tells the thread to end. It is not waited for: it may wait for its server.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.lock().ended = true;
            shared.ended.notify_all();
        }
    }
}

fn follow(shared: &Shared, source: &Source, every: Duration) {
    let mut state = shared.lock();
    while !state.ended {
        drop(state);
        let reading = read(source, every);
        state = shared.lock();
        state.reading = Some(reading);
        let is_on = |state: &mut State| !state.ended;
        let waited = shared.ended.wait_timeout_while(state, every, is_on);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Reads a source once.
fn read(source: &Source, every: Duration) -> Reading {
    match source {
        Source::File(path) => {
            sample_of_file(path, every).map_err(|reason| format!("{}: {reason}", path.display()))
        }
        Source::Query { server, query } => ask(server, query, every.min(PATIENCE))
            .and_then(|text| value_of_response(&text))
            .map(|value| Sample { value, age: Duration::ZERO })
            .map_err(|reason| format!("{server}: {reason}")),
    }
}

/// The value in a file that was written a short while ago: a program that has died leaves its last
/// value behind.
fn sample_of_file(path: &Path, every: Duration) -> Reading {
    let (text, age) = read_file(path).map_err(|error| error.to_string())?;
    let value = value_of_file(&text)?;
    if age > every * STALE_FACTOR {
        let (age, every) = (age.as_secs(), every.as_secs());
        return Err(format!("written {age} s ago, expected a new value every {every} s"));
    }
    Ok(Sample { value, age })
}

/// The text of a file, and the whole seconds since it was written: none after a wall clock that
/// went back, and none of a kernel file, which has no blocks and is written when it is read.
fn read_file(path: &Path) -> io::Result<(String, Duration)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let age = match metadata.blocks() {
        0 => 0,
        _ => metadata.modified()?.elapsed().unwrap_or_default().as_secs(),
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok((text, Duration::from_secs(age)))
}

fn ask(server: &str, query: &str, patience: Duration) -> Result<String, String> {
    let url = format!("{}/api/v1/query", server.trim_end_matches('/'));
    // An answer with an error status says which error; a redirection has no value.
    let request = minreq::get(url).with_param("query", query).with_follow_redirects(false);
    let request = request.with_timeout(patience.as_secs().max(1));
    let response = request.send_lazy().map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = response.take(MAX_BYTES).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn objective(source: Source) -> Objective {
        Objective { source, at_most: 1.0, every: Duration::from_secs(1) }
    }

    #[test]
    fn a_file_is_read_once_an_interval() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("p99");
        let source = Source::File(path.clone());
        let mut reader = Reader::start(&objective(source), false).unwrap();
        let ms = Duration::from_millis;
        let error = reader.poll(ms(0)).unwrap().unwrap_err();
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
        std::fs::write(&path, "0.5\n").unwrap();
        assert_eq!(reader.poll(ms(999)), None);
        assert_eq!(reader.poll(ms(1_000)).unwrap().unwrap().value, 0.5);
        assert_eq!(reader.poll(ms(1_001)), None);
    }

    #[test]
    fn a_value_is_as_old_as_its_file_but_a_kernel_files() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("p99");
        std::fs::write(&path, "0.5\n").unwrap();
        let every = Duration::from_secs(10);
        let write_ago = |seconds| {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(seconds)).unwrap();
            sample_of_file(&path, every)
        };
        let sample = write_ago(25).unwrap();
        assert!(sample.value == 0.5 && (25..=26).contains(&sample.age.as_secs()), "{sample:?}");
        let error = write_ago(90).unwrap_err();
        assert!(error.ends_with("s ago, expected a new value every 10 s"), "{error}");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() + every).unwrap();
        assert_eq!(
            sample_of_file(&path, every).unwrap().age,
            Duration::ZERO,
            "the clock went back"
        );
        let kernels = sample_of_file(Path::new("/proc/self/stat"), every).unwrap();
        assert_eq!(kernels.age, Duration::ZERO);
    }

    #[test]
    fn prometheus_is_asked() {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let address = server.server_addr().to_ip().unwrap();
        let answers = thread::spawn(move || {
            let request = server.recv().unwrap();
            let url = request.url().to_owned();
            let text = r#"{"status":"success","data":{"resultType":"vector","result":
                          [{"metric":{},"value":[1763899200.1,"0.25"]}]}}"#;
            request.respond(tiny_http::Response::from_string(text)).unwrap();
            let refused = server.recv().unwrap();
            let text = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
            refused.respond(tiny_http::Response::from_string(text).with_status_code(400)).unwrap();
            url
        });
        let (server, query) = (format!("http://{address}/"), "max(p99{job=\"web\"}) + 1".into());
        let source = Source::Query { server: server.clone(), query };
        let mut reader = Reader::start(&objective(source), false).unwrap();
        let age = Duration::ZERO;
        assert_eq!(reader.poll(Duration::ZERO), Some(Ok(Sample { value: 0.25, age })));
        let failed = reader.poll(Duration::from_secs(1)).unwrap();
        assert_eq!(failed, Err(format!("{server}: the query failed: parse error")));
        let url = answers.join().unwrap();
        assert!(url.starts_with("/api/v1/query?query=max"), "{url}");
        assert!(!url.contains([' ', '"', '{']) && url.contains("%2B"), "{url}");
    }

    #[test]
    fn a_server_that_never_answers_delays_nobody() {
        // Connections wait in the listener's queue.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let source = Source::Query { server, query: "up".into() };
        let mut reader = Reader::start(&objective(source), true).unwrap();
        // Had this waited for the server, there would be an error.
        assert_eq!(reader.poll(Duration::ZERO), None);
        let reading = loop {
            match reader.poll(Duration::ZERO) {
                Some(reading) => break reading,
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(reading.unwrap_err().contains("timeout"));
        drop(reader);
    }
}
