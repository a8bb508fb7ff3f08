//! The protocol as data and pure transition functions, shared by the checker and the simulator.
//!
//! [`table`] is the metadata table in the last-level cache: which pages migrate, how far each copy
//! has come, and hence where the data of a line is at this moment.

pub mod table;
