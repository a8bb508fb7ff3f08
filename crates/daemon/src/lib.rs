//! What Prairie's daemons share, and any small Linux daemon may use: [`Signals`] and a [clock](monotonic) for
//! the loop, a [`log`] as text or JSON, [`config`] in TOML with errors in one line, a [`status`] for
//! other programs, [`metrics`] for Prometheus, messages to the service manager ([`notify`]), kernel files that
//! stay open ([`file`](mod@file)), a [`lock`] against a second daemon, and the [`finding`]s of a check.

mod clock;
pub mod config;
pub mod file;
pub mod finding;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod notify;
mod signals;
pub mod status;

pub use clock::monotonic;
pub use signals::Signals;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
