//! Answers Prometheus over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::text_format::{OPENMETRICS, PROMETHEUS, prometheus};

/// How long a request to stop may go unnoticed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server that is bound, but does not answer yet.
pub struct Server(tiny_http::Server);

impl Server {
    /// Binds to `address`.
    ///
    /// # Errors
    /// I/O errors of the system: the port is taken.
    pub fn bind(address: SocketAddr) -> io::Result<Server> {
        tiny_http::Server::http(address).map(Server).map_err(io::Error::other)
    }

    /// The address, whose port the system may have chosen.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.server_addr().to_ip()
    }

    /// Answers `/metrics` with the OpenMetrics text of `metrics`, with the older format if the
    /// client does not ask for OpenMetrics, or with its error, until `stop` is set. One request
    /// after another: a scrape takes less than a millisecond.
    ///
    /// # Errors
    /// I/O errors of the listening socket.
    pub fn run(
        &self,
        stop: &AtomicBool,
        mut metrics: impl FnMut() -> Result<String, String>,
    ) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            if let Some(request) = self.0.recv_timeout(PATIENCE)? {
                answer(request, &mut metrics);
            }
        }
        Ok(())
    }

    /// The same until the process ends. It wakes for requests alone.
    pub fn run_forever(&self, mut metrics: impl FnMut() -> Result<String, String>) {
        for request in self.0.incoming_requests() {
            answer(request, &mut metrics);
        }
    }
}

fn answer(request: tiny_http::Request, metrics: &mut impl FnMut() -> Result<String, String>) {
    let path = request.url().split('?').next().unwrap_or_default();
    // A client that has hung up gets no answer.
    let _ = match (request.method(), path) {
        (tiny_http::Method::Get | tiny_http::Method::Head, "/metrics") => {
            let openmetrics = accepts_openmetrics(&request);
            request.respond(match metrics() {
                Ok(text) if openmetrics => response(text, OPENMETRICS),
                Ok(text) => response(prometheus(&text), PROMETHEUS),
                Err(why) => response(why, "text/plain").with_status_code(500),
            })
        }
        (tiny_http::Method::Get | tiny_http::Method::Head, "/") => {
            request.respond(response("see /metrics\n".into(), PROMETHEUS))
        }
        _ => request.respond(tiny_http::Response::empty(404)),
    };
}

fn accepts_openmetrics(request: &tiny_http::Request) -> bool {
    request.headers().iter().any(|header| {
        header.field.equiv("Accept")
            && header.value.as_str().contains("application/openmetrics-text")
    })
}

fn response(text: String, kind: &str) -> tiny_http::Response<io::Cursor<Vec<u8>>> {
    let response = tiny_http::Response::from_string(text);
    match tiny_http::Header::from_bytes("Content-Type", kind) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_client_gets_the_format_that_it_asks_for() {
        let server = Server::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let text = "# TYPE a counter\na_total 1\n# EOF\n";
        let thread = std::thread::spawn(move || server.run(&stopped, || Ok(text.to_owned())));
        let get = |path: &str, accept: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let new = get("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        assert!(new.contains("openmetrics-text") && new.ends_with(text), "{new}");
        let old = get("/metrics?x=1", "*/*");
        assert!(old.contains("version=0.0.4"), "{old}");
        assert!(old.ends_with("# TYPE a_total counter\na_total 1\n"), "{old}");
        assert!(get("/other", "*/*").starts_with("HTTP/1.0 404"));
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap().unwrap();
    }
}
