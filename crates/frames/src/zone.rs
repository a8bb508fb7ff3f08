//! Zones: which addresses a request may be served from.

use core::fmt;

/// `enum zone_type` of `include/linux/mmzone.h`, lowest address first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ZoneKind {
    /// The first 16 MiB on x86.
    Dma = 0,
    /// Addresses below 4 GiB.
    Dma32 = 1,
    /// Memory that the kernel can use directly.
    Normal = 2,
    /// Memory that a 32-bit kernel must map first.
    HighMem = 3,
    /// Memory kept for movable allocations (`kernelcore=`, hotplug).
    Movable = 4,
    /// Memory of devices, which the page allocator does not allocate.
    Device = 5,
}

impl ZoneKind {
    /// Every kind, lowest address first.
    pub const ALL: [ZoneKind; 6] = [
        ZoneKind::Dma,
        ZoneKind::Dma32,
        ZoneKind::Normal,
        ZoneKind::HighMem,
        ZoneKind::Movable,
        ZoneKind::Device,
    ];

    /// The kind that `/proc/buddyinfo` and `/proc/zoneinfo` call by `name`.
    pub fn from_name(name: &str) -> Option<ZoneKind> {
        ZoneKind::ALL.into_iter().find(|z| z.name() == name)
    }

    /// The name in `/proc/buddyinfo` (`zone_names`, `mm/page_alloc.c`).
    pub const fn name(self) -> &'static str {
        match self {
            ZoneKind::Dma => "DMA",
            ZoneKind::Dma32 => "DMA32",
            ZoneKind::Normal => "Normal",
            ZoneKind::HighMem => "HighMem",
            ZoneKind::Movable => "Movable",
            ZoneKind::Device => "Device",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
