//! Who waits for memory, how long, and why.
//!
//! ```text
//! events ──► Matcher ──► Stall ──► Stalls: histograms by cause, order, process and cgroup
//!   ▲         begin and end,          │
//!   │         task by task            └──► metrics(): Prometheus histograms
//! Watch (this machine), or a recording
//! ```
//!
//! A *stall* is the time between two tracepoints of a task: it reclaims memory itself, reclaims
//! within its cgroup's limit, or compacts memory, because nothing could serve its request at once.
//! One request can stall several times, once for each zone and attempt. No task waits for
//! background work of the kernel's own daemons, which is counted apart.
//!
//! `Matcher` and [`Stalls`] are values without a clock; [`Watch`] observes a machine.

mod cause;
mod matcher;
mod metrics;
mod summary;
mod tally;
mod watch;

pub use cause::Cause;
use matcher::Matcher;
pub use matcher::{Mismatches, Stall};
pub use metrics::{BUCKETS_SECONDS, StallHistogram};
pub use summary::{HugePages, ProcessStalls, Stalls};
pub use tally::Tally;
pub use watch::{RING_BYTES, Watch, WatchOptions};
