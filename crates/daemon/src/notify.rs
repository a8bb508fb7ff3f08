//! Telling systemd how it goes: `sd_notify`'s protocol, datagrams to the socket in
//! `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// Half of the time within which the manager wants to hear something.
    pub watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment says: `NOTIFY_SOCKET`, and `WATCHDOG_USEC` if `WATCHDOG_PID` is ours.
    pub fn from_env() -> Notify {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path));
        let ours =
            std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let usec = std::env::var("WATCHDOG_USEC").ok().and_then(|usec| usec.parse().ok());
        let watchdog = usec.filter(|_| ours && socket.is_some());
        Notify { socket, watchdog: watchdog.map(|usec: u64| Duration::from_micros(usec / 2)) }
    }

    /// Sends a state: `READY=1`, `RELOADING=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=…`. A manager
    /// that does not listen is no reason to stop.
    pub fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(state.as_bytes());
        }
    }
}

fn connect(path: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok()?,
        None => SocketAddr::from_pathname(path).ok()?,
    };
    socket.connect_addr(&address).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let notify = Notify { socket: connect(path.as_os_str()), watchdog: None };
        notify.tell("READY=1");
        let mut buffer = [0; 32];
        let len = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
        Notify::default().tell("READY=1");
    }
}
