//! The associativities of TLBs and caches for which code is compiled.
//!
//! A look-up compares all keys of a set at once; their number should be known when it is
//! compiled. It is for the default machine and those like it. Every other machine is simulated by
//! the same code, compiled for as many ways as there can be.

use std::fmt::Debug;

use crate::lru::{Fours, Shape};
use crate::params::Params;

/// How much room the sets of each TLB and cache have.
pub trait Geometry: Clone + Debug + Send + 'static {
    /// First-level TLBs.
    type FirstTlb: Shape;
    /// Second-level TLBs.
    type SecondTlb: Shape;
    /// The L1.
    type L1: Shape;
    /// The L2.
    type L2: Shape;
    /// The data of the last-level cache.
    type Llc: Shape;
    /// The directory.
    type Directory: Shape;
}

/// Room for what the default machine has: a Skylake-SP.
#[derive(Clone, Debug)]
pub struct Usual;

impl Geometry for Usual {
    type FirstTlb = Fours<1>;
    type SecondTlb = Fours<3>;
    type L1 = Fours<2>;
    type L2 = Fours<4>;
    type Llc = Fours<3>;
    type Directory = Fours<3>;
}

/// Room for what any machine can have.
#[derive(Clone, Debug)]
pub struct Any;

impl Geometry for Any {
    type FirstTlb = Fours<4>;
    type SecondTlb = Fours<4>;
    type L1 = Fours<4>;
    type L2 = Fours<4>;
    type Llc = Fours<4>;
    type Directory = Fours<4>;
}

/// Whether `G` has room for a machine.
pub fn has_room<G: Geometry>(params: &Params) -> bool {
    let t = &params.tlb;
    let room = [
        (G::FirstTlb::WAYS, t.l1_4k_ways.max(t.l1_2m_ways).max(t.l1_1g_ways)),
        (G::SecondTlb::WAYS, t.l2_ways.max(t.l2_1g_ways)),
        (G::L1::WAYS, params.l1.ways),
        (G::L2::WAYS, params.l2.ways),
        (G::Llc::WAYS, params.llc.ways),
        (G::Directory::WAYS, params.directory.ways),
    ];
    room.into_iter().all(|(most, ways)| ways <= most as u64)
}
