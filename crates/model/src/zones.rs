//! The nodes, zones, and watermarks of a machine.

use prairie_frames::layout::{LayoutError, Watermarks, ZoneSpan};
use prairie_frames::{BlockCounts, Layout, Order, Pfn, ZoneKind};
use serde::{Deserialize, Serialize};

/// Which kernel's rules cut memory into zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// 64-bit PC: DMA below 16 MiB, DMA32 below 4 GiB, Normal above.
    #[default]
    X86_64,
    /// 32-bit PC: DMA below 16 MiB, Normal below 896 MiB, HighMem above.
    X86_32,
    /// 64-bit POWER: all of it is DMA (which is what 2.6 called it there).
    Ppc64,
}

impl Architecture {
    /// Frames that one page of page table entries maps.
    pub const fn frames_per_page_table(self) -> u64 {
        match self {
            Architecture::X86_32 => 1024,
            Architecture::X86_64 | Architecture::Ppc64 => 512,
        }
    }

    /// The first frame of each kind of zone, lowest first.
    const fn starts(self) -> &'static [(ZoneKind, u64)] {
        const MIB: u64 = 256;
        match self {
            Architecture::X86_64 => {
                &[(ZoneKind::Dma, 0), (ZoneKind::Dma32, 16 * MIB), (ZoneKind::Normal, 4096 * MIB)]
            }
            Architecture::X86_32 => {
                &[(ZoneKind::Dma, 0), (ZoneKind::Normal, 16 * MIB), (ZoneKind::HighMem, 896 * MIB)]
            }
            Architecture::Ppc64 => &[(ZoneKind::Dma, 0)],
        }
    }
}

/// The kernel version whose rules set the watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// `setup_per_zone_pages_min` of 2.6.16: low and high a quarter and a half above min.
    Linux2_6,
    /// `__setup_per_zone_wmarks` of 6.1, after khugepaged raised `min_free_kbytes`
    /// (`set_recommended_min_free_kbytes`) if transparent huge pages are on.
    Linux6 {
        /// `vm.watermark_scale_factor`, in ten-thousandths of a zone.
        scale_factor: u64,
        /// Whether khugepaged runs.
        huge_pages: bool,
    },
}

/// Frames of 4 GiB.
const FOUR_GIB: u64 = 1 << 20;

/// What there is of memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Frames of all nodes.
    pub frames: u64,
    /// NUMA nodes, which share memory evenly.
    pub nodes: u16,
    /// The architecture of the zones.
    pub architecture: Architecture,
    /// Frames of each node that stay outside the movable zone (`kernelcore=`); `None` for no
    /// such zone.
    pub kernelcore: Option<u64>,
    /// The version of the watermarks.
    pub marks: Marks,
    /// Frames below 4 GiB, where the rest lies above (`max-ram-below-4g` of QEMU); `None` for a
    /// machine without a hole. Of a machine with one node.
    pub low: Option<u64>,
    /// `vm.min_free_kbytes` in frames, where it is set by hand.
    pub min_free: Option<u64>,
}

/// The zones of a machine, with their watermarks and reserves.
///
/// # Errors
/// If there is no memory, or more than a layout supports.
pub fn layout(shape: &Shape) -> Result<Layout, LayoutError> {
    let mut spans = Vec::new();
    let node_frames = shape.frames / u64::from(shape.nodes.max(1)) / 512 * 512;
    for node in 0..shape.nodes.max(1) {
        let start = u64::from(node) * node_frames;
        let end = if node + 1 == shape.nodes.max(1) { shape.frames } else { start + node_frames };
        match shape.low.filter(|low| *low < end && shape.nodes <= 1) {
            Some(low) => {
                spans.extend(zones_of(shape, node, start, low));
                spans.extend(zones_of(shape, node, FOUR_GIB, FOUR_GIB + end - low));
            }
            None => spans.extend(zones_of(shape, node, start, end)),
        }
    }
    set_marks(&mut spans, shape);
    set_reserves(&mut spans);
    Layout::new(spans)
}

/// The zones of one node. What `kernelcore` does not bound is movable, from the top down
/// (2006 paper, section 6, Figure 3).
fn zones_of(shape: &Shape, node: u16, start: u64, end: u64) -> Vec<ZoneSpan> {
    let starts = shape.architecture.starts();
    let movable_from = match shape.kernelcore {
        Some(kernel) => (start + kernel / u64::from(shape.nodes.max(1)))
            .next_multiple_of(1 << Order::LARGEST_FREE.get())
            .min(end),
        None => end,
    };
    let mut zones = Vec::new();
    let mut add = |kind, from: u64, to: u64| {
        if from < to {
            zones.push(ZoneSpan {
                node,
                kind,
                start: Pfn(from),
                spanned: to - from,
                managed: to - from,
                watermarks: Watermarks::default(),
                lowmem_reserve: [0; ZoneKind::ALL.len()],
            });
        }
    };
    for (at, &(kind, from)) in starts.iter().enumerate() {
        let to = starts.get(at + 1).map_or(u64::MAX, |next| next.1);
        add(kind, from.max(start), to.min(movable_from));
    }
    add(ZoneKind::Movable, movable_from.max(start), end);
    zones
}

const fn is_low(kind: ZoneKind) -> bool {
    !matches!(kind, ZoneKind::HighMem | ZoneKind::Movable | ZoneKind::Device)
}

/// `min_free_kbytes` in frames: sixteen times the square root of low memory in KiB, between
/// limits (`init_per_zone_pages_min` of 2.6.16, `calculate_min_free_kbytes` of 6.1).
fn min_free(spans: &[ZoneSpan], shape: &Shape) -> u64 {
    if let Some(frames) = shape.min_free {
        return frames;
    }
    let low: u64 = spans.iter().filter(|z| is_low(z.kind)).map(|z| z.managed).sum();
    let kib = (low * 4 * 16).isqrt();
    match shape.marks {
        Marks::Linux2_6 => kib.clamp(128, 65_536) / 4,
        Marks::Linux6 { huge_pages: false, .. } => kib.clamp(128, 262_144) / 4,
        Marks::Linux6 { huge_pages: true, .. } => {
            // Two free pageblocks a zone, and for each pair of the three types that per-CPU
            // lists know one in each zone for fallbacks; at most a twentieth of low memory.
            let zones = spans.iter().filter(|z| z.kind != ZoneKind::Movable).count() as u64;
            let recommended = u64::from(BlockCounts::FRAMES) * zones * (2 + 3 * 3);
            (kib.clamp(128, 262_144) / 4).max(recommended.min(low / 20))
        }
    }
}

fn set_marks(spans: &mut [ZoneSpan], shape: &Shape) {
    let all = min_free(spans, shape);
    let low_memory: u64 = spans.iter().filter(|z| is_low(z.kind)).map(|z| z.managed).sum();
    for zone in spans.iter_mut() {
        let share = zone.managed * all / low_memory.max(1);
        let min = if is_low(zone.kind) { share } else { (zone.managed / 1024).clamp(32, 128) };
        zone.watermarks = match shape.marks {
            Marks::Linux2_6 => {
                let basis = if is_low(zone.kind) { min } else { share };
                Watermarks { min, low: min + basis / 4, high: min + basis / 2 }
            }
            Marks::Linux6 { scale_factor, .. } => {
                let step = (share / 4).max(zone.managed * scale_factor / 10_000);
                Watermarks { min, low: min + step, high: min + 2 * step }
            }
        };
    }
}

/// The reserve of each zone against requests that can use a higher one
/// (`setup_per_zone_lowmem_reserve`): the frames of all higher zones of the node, divided by 256,
/// or by 32 in Normal.
fn set_reserves(spans: &mut [ZoneSpan]) {
    for at in 0..spans.len() {
        let (node, kind) = (spans[at].node, spans[at].kind);
        let ratio = match kind {
            ZoneKind::Dma | ZoneKind::Dma32 => 256,
            ZoneKind::Normal => 32,
            _ => continue,
        };
        for highest in ZoneKind::ALL {
            let above = |z: &&ZoneSpan| z.node == node && z.kind > kind && z.kind <= highest;
            let higher: u64 = spans.iter().filter(above).map(|z| z.managed).sum();
            spans[at].lowmem_reserve[highest as usize] = higher / ratio;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(mib: u64, architecture: Architecture) -> Shape {
        Shape {
            frames: mib * 256,
            nodes: 1,
            architecture,
            kernelcore: None,
            marks: Marks::Linux2_6,
            low: None,
            min_free: None,
        }
    }

    fn kinds(layout: &Layout) -> Vec<(ZoneKind, u64)> {
        layout.zones().iter().map(|z| (z.span.kind, z.span.managed / 256)).collect()
    }

    #[test]
    fn the_machines_of_the_2006_paper() {
        let x86 = layout(&shape(1518, Architecture::X86_32)).unwrap();
        assert_eq!(
            kinds(&x86),
            [(ZoneKind::Dma, 16), (ZoneKind::Normal, 880), (ZoneKind::HighMem, 622)]
        );
        // Section 7: some of HighMem is left for page tables.
        let with_core = Shape { kernelcore: Some(1024 * 256), ..shape(1518, Architecture::X86_32) };
        assert_eq!(
            kinds(&layout(&with_core).unwrap())[2..],
            [(ZoneKind::HighMem, 128), (ZoneKind::Movable, 494)]
        );
        let half = Shape { kernelcore: Some(2048 * 256), ..shape(4019, Architecture::Ppc64) };
        assert_eq!(
            kinds(&layout(&half).unwrap()),
            [(ZoneKind::Dma, 2048), (ZoneKind::Movable, 1971)]
        );
    }

    /// A stock 6.1 with 2 GiB and THP shows min_free_kbytes 45056: two zones and 11 pageblocks
    /// each. Its DMA zone of 3840 managed frames there is 4096 here.
    #[test]
    fn khugepaged_raises_the_watermarks() {
        let marks = Marks::Linux6 { scale_factor: 10, huge_pages: true };
        let shape = Shape { marks, ..shape(2048, Architecture::X86_64) };
        let layout = layout(&shape).unwrap();
        let min: u64 = layout.zones().iter().map(|z| z.span.watermarks.min).sum();
        assert_eq!(min * 4, 45_056);
        let dma32 = &layout.zones()[1].span;
        assert_eq!(dma32.watermarks.low - dma32.watermarks.min, dma32.watermarks.min / 4);
        // All of DMA32's 2032 MiB above 16 MiB: 520192 frames / 256.
        assert_eq!(layout.zones()[0].span.lowmem_reserve[ZoneKind::Dma32 as usize], 2032);
    }

    #[test]
    fn a_hole_leaves_little_below_4_gib() {
        let low = Some(256 * 256);
        let layout = layout(&Shape { low, ..shape(4096, Architecture::X86_64) }).unwrap();
        assert_eq!(
            kinds(&layout),
            [(ZoneKind::Dma, 16), (ZoneKind::Dma32, 240), (ZoneKind::Normal, 3840)]
        );
        assert_eq!(layout.zones()[2].span.start, Pfn(1 << 20));
    }

    #[test]
    fn without_it_they_follow_the_square_root() {
        let layout = layout(&shape(1518, Architecture::X86_32)).unwrap();
        // sqrt(896 MiB in KiB * 16) = 3831 KiB = 957 frames over DMA and Normal.
        let low: u64 = layout.zones()[..2].iter().map(|z| z.span.watermarks.min).sum();
        assert!((956..=957).contains(&low), "{low}");
        assert_eq!(layout.zones()[2].span.watermarks.min, 128);
        // HighMem keeps Normal's frames from requests that can use HighMem: 622 MiB / 32.
        let reserve = layout.zones()[1].span.lowmem_reserve;
        assert_eq!(reserve[ZoneKind::HighMem as usize], 622 * 256 / 32);
        assert_eq!(reserve[ZoneKind::Normal as usize], 0);
    }
}
