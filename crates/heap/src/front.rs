//! The fast path and the cache levels: everything between a program's malloc and the page heap.
//!
//! Files import only those above them:
//!
//! ```text
//! size_class, protocol, sync, fatal, file, tls, weak     no state of the heap
//! control, mark, code, slab, rseq                        what the fast path reads
//! cache, cpu, thread, entry                              caches without locks, the fast path
//! span, page_map, transfer, central, limit, pages        the shared levels
//! heap                                                   what passes between the levels
//! ```

pub mod cache;
pub mod central;
pub mod choice;
pub mod code;
pub mod control;
pub mod cpu;
pub mod decline;
pub mod emergency;
pub mod entry;
pub mod fatal;
pub mod file;
pub mod guard;
pub mod heap;
pub mod inside;
pub mod lifetimes;
pub mod limit;
pub mod mark;
pub mod misuse;
pub mod page_map;
pub mod pages;
pub mod profile;
pub mod protocol;
pub mod record;
pub mod rseq;
pub mod size_class;
pub mod slab;
pub mod span;
pub mod sync;
pub mod thread;
pub mod tls;
pub mod transfer;
pub mod weak;
