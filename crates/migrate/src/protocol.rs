//! The protocol as data and pure transition functions, shared by the checker and the simulator.
//!
//! - [`table`] is the metadata table in the last-level cache: which pages migrate, how far each
//!   copy has come, and hence where the data of a line is at this moment.
//! - [`machine`] puts it into a machine whose every step the checker can take: [`state`],
//!   requests at the last-level cache in `llc`, and what cores, devices, the engine and the
//!   operating system do in a file each.
//! - [`message`] is the layer below: the same, message by message.
//! - [`coarse`] delays requests until they can be distinguished from later ones, for large machines.
//! - [`at_random`] walks machines that are too large to be visited.
//! - [`design`] says what is modeled, [`variant`] which injected bug is built in, [`property`] what
//!   must hold, [`action`] how a step reads.

pub mod action;
pub mod at_random;
pub mod coarse;
mod core_steps;
pub mod design;
mod device_steps;
pub mod liveness;
mod llc;
pub mod machine;
pub mod message;
pub mod property;
pub mod state;
mod system_steps;
pub mod table;
pub mod variant;
