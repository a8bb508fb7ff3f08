//! The allocators that are compared.

use prairie_frames::Layout;
use prairie_model::allocator::{Allocator, AnyPlacement, Site, World};

/// CPUs that share Linux's per-CPU lists.
const CPUS: u16 = 16;

/// All of them, Linux first. Contiguitas gathers its movable region in no other way than by moving
/// the border.
pub const ALLOCATORS: [&str; 11] = [
    "linux",
    "linux+no-compaction",
    "linux-defrag",
    "zones+kernelcore=12%",
    "zones+kernelcore=25%",
    "lists",
    "classes",
    "classes+tree=1G",
    "superpageblocks",
    "contiguitas+no-compaction",
    "contiguitas-hw+no-compaction",
];

/// The placement of the allocator of this name on a server.
pub fn build(name: &str, layout: &Layout) -> AnyPlacement {
    let site = Site { cpus_per_node: CPUS, ..Site::new(layout, World::Fleet) };
    Allocator::named(name).build(&site)
}
