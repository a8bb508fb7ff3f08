//! A model checker that visits every state of a protocol, level by level.
//!
//! - [`model`]: the interface of a protocol: states, steps, properties.
//! - [`fingerprint`]: 8 bytes represent a visited state; the collision probability is reported.
//! - [`search`]: breadth first, so that a counterexample is as short as any; its levels may be
//!   divided among threads.
//! - [`trace`]: the counterexample as a sequence of steps.
//! - [`graph`]: the states kept with their edges, for what can still happen; [`fair`]: for what
//!   must happen some day.
//! - [`walk`]: random walks, for machines too large for all that.
//! - [`german`]: the protocol that model checkers are compared by. Its counts are known from
//!   independent checkers; they are what makes this one believable.

pub mod fair;
pub mod fingerprint;
pub mod german;
pub mod graph;
mod level;
pub mod model;
mod origins;
pub mod search;
pub mod trace;
pub mod walk;
