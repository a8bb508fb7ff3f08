//! Reports of the kernel's log about memory that could not be had: failed page allocations and
//! calls of the OOM killer.
//!
//! ```text
//! lines ──► line: prefixes off ──► Parser ──► Incident ──► diagnosis: why, by which numbers
//! ```
//!
//! [`Parser`] takes lines one at a time, from any source (`dmesg`, `journalctl`, syslog, a serial
//! console), and understands the formats of Linux 3.10 to 7.3. [`diagnosis::diagnose`] compares
//! each zone's numbers with what the page allocator demands and says which demand failed.
//!
//! The formats are those of `warn_alloc` and `show_free_areas` (`mm/page_alloc.c`, later
//! `mm/show_mem.c`), `dump_header` (`mm/oom_kill.c`) and `mem_cgroup_print_oom_info`
//! (`mm/memcontrol.c`).

pub mod diagnosis;
mod gfp;
mod header;
mod incident;
mod line;
mod parser;
mod zones;

pub use diagnosis::{Diagnosis, Verdict, diagnose};
pub use gfp::Gfp;
pub use incident::{
    CgroupLimit, FreeBlocksOfOrder, Incident, IncidentKind, MemoryState, Request, SlabCache, Task,
    Victim, ZoneState,
};
pub use parser::Parser;
