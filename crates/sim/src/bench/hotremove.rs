//! HotRemove-Capability: the number of memory sections that can be taken offline at rest.
//!
//! The paper's kernel could not do it at all. Here a section goes offline if every page in it can
//! be reclaimed, or moved where the system can move pages.

use prairie_frames::Order;
use serde::Serialize;

use super::{Bench, Preset};

/// The results.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HotRemove {
    /// Size of a section in MiB.
    pub section_mib: u64,
    /// Sections of memory.
    pub sections: u64,
    /// Sections that went offline.
    pub offlined: u64,
}

impl HotRemove {
    /// Sections that went offline, in percent.
    pub fn percent(&self) -> u64 {
        self.offlined * 100 / self.sections.max(1)
    }
}

/// Runs it: each section, from the lowest. Offlined sections stay offline until the end.
pub(super) fn run(bench: &mut Bench<'_>) -> HotRemove {
    // Section sizes of the architectures: 64 MiB, 16 MiB, 128 MiB.
    let order = match bench.preset {
        Preset::X86 => 14,
        Preset::Ppc64 | Preset::Small => 12,
        Preset::Modern => 15,
    };
    let order = Order::new(order).expect("a small order");
    let (sections, offlined) = bench.machine.offline_sections(order);
    HotRemove { section_mib: order.bytes() >> 20, sections, offlined }
}
