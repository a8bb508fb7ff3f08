//! Lock-free protocols between threads of the heap, each in a file of its own: the lock's word
//! itself, and all that is written by one thread and read by another without one.
//!
//! The files depend on nothing but [`atomic`], so that a test can put other atomics in its place:
//! `tests/interleavings` compiles these files a second time and checks all their interleavings, and
//! all values that the memory model lets a load return, as they are and with each ordering
//! weakened.

pub mod atomic;
pub mod deferred;
pub mod entry;
pub mod flag;
pub mod lock_word;
pub mod once;
pub mod place;
pub mod sequence;
pub mod slot;
pub mod window;
