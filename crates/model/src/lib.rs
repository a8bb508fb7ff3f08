//! What Prairie's simulators share: the allocators by name, the zones of a simulated machine,
//! seeded random numbers, and the measurements that are taken of any allocator.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod compacting;
pub mod confining;
pub mod random;
pub mod regions_daemon;
pub mod sample;
pub mod samples;
pub mod zones;
