//! What the kernel says about NUMA nodes, and what it is told about them.

use crate::system_call::system_call;
use crate::units::HugeRange;

/// Words of a mask of nodes, for the most nodes that a kernel may have (`CONFIG_NODES_SHIFT` is at
/// most 10).
pub const MASK_WORDS: usize = 1024 / 64;
/// A set of nodes by the kernel's numbers: a bit each.
pub type NodeMask = [u64; MASK_WORDS];

/// The nodes whose memory the process may use: those that have memory, without those that its
/// cpuset forbids. `None` where the kernel has no NUMA or a sandbox refuses the call.
pub fn allowed_nodes() -> Option<NodeMask> {
    const MPOL_F_MEMS_ALLOWED: usize = 4;
    let mut mask = [0; MASK_WORDS];
    let place = (&raw mut mask) as usize;
    let arguments = [0, place, MASK_WORDS * 64, 0, MPOL_F_MEMS_ALLOWED, 0];
    // SAFETY: the kernel writes at most as many bits as the mask has.
    let result = unsafe { system_call(libc::SYS_get_mempolicy, arguments) };
    (result == 0).then_some(mask)
}

/// The CPU that the thread runs on and the node of that CPU, by the kernel's numbers.
pub fn cpu_and_node() -> Option<(u32, u32)> {
    let (mut cpu, mut node) = (0u32, 0u32);
    let places = [(&raw mut cpu) as usize, (&raw mut node) as usize];
    // SAFETY: the kernel writes both numbers.
    let result = unsafe { system_call(libc::SYS_getcpu, [places[0], places[1], 0, 0, 0, 0]) };
    (result == 0).then_some((cpu, node))
}

/// Has the kernel back a range with memory of a node, or with that of others once it has none
/// (`MPOL_PREFERRED`). If the kernel refuses, the first touch decides, as without this.
pub fn prefer(range: HugeRange, node: u32) {
    const MPOL_PREFERRED: usize = 1;
    let mut mask: NodeMask = [0; MASK_WORDS];
    let Some(word) = mask.get_mut(node as usize / 64) else { return };
    *word = 1 << (node % 64);
    let (start, size) = (range.start.address() as usize, range.len.bytes() as usize);
    let place = (&raw const mask) as usize;
    // The kernel reads one bit less than it is told.
    let arguments = [start, size, MPOL_PREFERRED, place, MASK_WORDS * 64 + 1, 0];
    // SAFETY: the range lies in a mapping of the heap's own, whose contents stay; the mask is read.
    unsafe { system_call(libc::SYS_mbind, arguments) };
}
