//! The IOMMU: translations for devices, with its own TLB.
//!
//! A device addresses the same virtual pages as the program (shared virtual addressing), through a
//! table of the IOMMU's own that the operating system updates apart from the program's.

use crate::address::{Frame, Vpn};
use crate::lru::Fours;
use crate::params::Params;
use crate::tlb::Level;

/// The IOTLB and its cost.
#[derive(Clone, Debug)]
pub struct Iommu {
    entries: Level<Fours<4>>,
    lookup_ps: u64,
    invalidate_ps: u64,
}

impl Iommu {
    /// An empty IOTLB.
    pub fn new(params: &Params) -> Iommu {
        let i = &params.iommu;
        Iommu {
            entries: Level::new(1, i.entries, i.ways),
            lookup_ps: i.lookup_ns * 1000,
            invalidate_ps: i.invalidate_ns * 1000,
        }
    }

    /// The first frame of the page of `vpn`, if the IOTLB has it.
    pub fn find(&mut self, vpn: Vpn) -> Option<Frame> {
        self.entries.find(0, vpn.first(), vpn.size())
    }

    /// Takes the translation that a walk found.
    pub fn fill(&mut self, vpn: Vpn, frame: Frame) {
        self.entries.insert(0, vpn.first(), vpn.size(), frame);
    }

    /// Forgets a page.
    pub fn invalidate(&mut self, vpn: Vpn) -> bool {
        self.entries.invalidate(0, vpn.first(), vpn.size())
    }

    /// Picoseconds of a look-up.
    pub fn lookup_ps(&self) -> u64 {
        self.lookup_ps
    }

    /// Picoseconds from the command to invalidate until it is done and posted writes have drained.
    pub fn invalidate_ps(&self) -> u64 {
        self.invalidate_ps
    }

    /// All translations.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, Frame)> + '_ {
        self.entries.iter()
    }
}
