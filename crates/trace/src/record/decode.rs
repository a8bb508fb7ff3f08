//! From the kernel's tracepoint records to [`EventKind`].

use prairie_frames::{MigrateType, Order, Pfn};

use super::border::{BorderLayout, BorderPoint};
use super::pins::{PinCall, PinFlags, PinFunction, PinLayout};
use super::tracepoint::{Field, Format};
use crate::{Error, EventKind, GfpFlags, Result, StackId, StallPoint};

/// The tracepoints that can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tracepoint {
    Alloc,
    Free,
    FreeBatched,
    Extfrag,
    ZoneLocked,
    PcpuDrain,
    Stall(StallPoint),
    Border(BorderPoint),
    Pin(PinFunction, PinFlags),
}

impl Tracepoint {
    /// Fields of every record.
    pub const ALWAYS: [Tracepoint; 4] =
        [Tracepoint::Alloc, Tracepoint::Free, Tracepoint::FreeBatched, Tracepoint::Extfrag];

    /// What moves between the per-CPU lists and the zone.
    pub const PER_CPU_LISTS: [Tracepoint; 2] = [Tracepoint::ZoneLocked, Tracepoint::PcpuDrain];

    /// Who waits for memory. Kernels without compaction or memory cgroups lack some of them.
    pub fn stalls() -> impl Iterator<Item = Tracepoint> {
        StallPoint::ALL.into_iter().map(Tracepoint::Stall)
    }

    /// What a movable border does. Only kernels with one have them.
    pub fn border() -> impl Iterator<Item = Tracepoint> {
        BorderPoint::ALL.into_iter().map(Tracepoint::Border)
    }

    /// The event's directory below `events` in tracefs.
    pub const fn path(self) -> &'static str {
        match self {
            Tracepoint::Alloc => "kmem/mm_page_alloc",
            Tracepoint::Free => "kmem/mm_page_free",
            Tracepoint::FreeBatched => "kmem/mm_page_free_batched",
            Tracepoint::Extfrag => "kmem/mm_page_alloc_extfrag",
            Tracepoint::ZoneLocked => "kmem/mm_page_alloc_zone_locked",
            Tracepoint::PcpuDrain => "kmem/mm_page_pcpu_drain",
            Tracepoint::Stall(point) => point.path(),
            Tracepoint::Border(point) => point.path(),
            Tracepoint::Pin(function, _) => function.path(),
        }
    }
}

/// The offsets of one tracepoint's fields.
#[derive(Clone, Debug)]
enum Layout {
    Alloc { pfn: Field, order: Field, migrate_type: Field, gfp: Field },
    Free { pfn: Field, order: Field },
    FreeBatched { pfn: Field },
    Extfrag { pfn: Field, order: Field, fallback_order: Field, types: [Field; 2], change: Field },
    ZoneLocked { pfn: Field, order: Field, migrate_type: Field },
    PcpuDrain { pfn: Field, order: Field, migrate_type: Field },
    Stall(StallLayout),
    Border(BorderLayout),
    Pin(PinLayout),
}

/// The offsets of the fields of a point of [`StallPoint`], as far as it has them.
#[derive(Clone, Copy, Debug)]
struct StallLayout {
    point: StallPoint,
    task: Field,
    order: Option<Field>,
    gfp: Option<Field>,
    value: Option<Field>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// An event.
    Event(EventKind),
    /// A line of text.
    Note(String),
    /// A call that pins memory or gives a pin up.
    Pin(PinCall),
}

/// Decodes the records of one tracepoint of one kernel.
#[derive(Clone, Debug)]
pub struct Decoder {
    layout: Layout,
    /// The kernel's migrate types in the order of its own numbers.
    types: Vec<MigrateType>,
}

impl Decoder {
    /// A decoder for records of `tracepoint` as `format` lays them out.
    ///
    /// # Errors
    /// [`Error::Record`] if the format lacks a field.
    pub fn new(
        tracepoint: Tracepoint,
        format: &Format,
        types: Vec<MigrateType>,
    ) -> Result<Decoder> {
        let field = |name| format.field(name);
        let layout = match tracepoint {
            Tracepoint::Alloc => Layout::Alloc {
                pfn: field("pfn")?,
                order: field("order")?,
                migrate_type: field("migratetype")?,
                gfp: field("gfp_flags")?,
            },
            Tracepoint::Free => Layout::Free { pfn: field("pfn")?, order: field("order")? },
            Tracepoint::FreeBatched => Layout::FreeBatched { pfn: field("pfn")? },
            Tracepoint::Extfrag => Layout::Extfrag {
                pfn: field("pfn")?,
                order: field("alloc_order")?,
                fallback_order: field("fallback_order")?,
                types: [field("alloc_migratetype")?, field("fallback_migratetype")?],
                change: field("change_ownership")?,
            },
            Tracepoint::ZoneLocked => Layout::ZoneLocked {
                pfn: field("pfn")?,
                order: field("order")?,
                migrate_type: field("migratetype")?,
            },
            Tracepoint::PcpuDrain => Layout::PcpuDrain {
                pfn: field("pfn")?,
                order: field("order")?,
                migrate_type: field("migratetype")?,
            },
            Tracepoint::Stall(point) => Layout::Stall(StallLayout::new(point, format)?),
            Tracepoint::Border(point) => Layout::Border(BorderLayout::new(point, format)?),
            Tracepoint::Pin(function, flags) => {
                Layout::Pin(PinLayout::new(function, flags, format)?)
            }
        };
        Ok(Decoder { layout, types })
    }

    /// What a record says. A failed allocation has PFN -1 (or 0 on kernels before 3.19, where frame
    /// 0 is never allocated either).
    ///
    /// # Errors
    /// [`Error::Record`] with the record if it is too short or a value has no meaning.
    pub fn decode(&self, raw: &[u8], stack: StackId) -> Result<Decoded> {
        let decoded = match &self.layout {
            Layout::Border(layout) => layout.decode(raw).map(Decoded::Note),
            Layout::Pin(layout) => layout.decode(raw).map(Decoded::Pin),
            _ => self.event(raw, stack).map(Decoded::Event),
        };
        decoded.ok_or_else(|| Error::Record {
            what: "a record of the kernel's memory management".into(),
            why: format!("it makes no sense: {raw:02x?}"),
            remedy: "this kernel's events are not understood; please report its release".into(),
        })
    }

    fn event(&self, raw: &[u8], stack: StackId) -> Option<EventKind> {
        let pfn = |field: Field| Some(Pfn(field.read(raw)? as u64));
        let order = |field: Field| Order::new(u8::try_from(field.read(raw)?).ok()?);
        let migrate_type = |field: Field| {
            let number = usize::try_from(field.read(raw)?).ok()?;
            self.types.get(number).copied()
        };
        Some(match self.layout {
            Layout::Alloc { pfn: at, order: j, migrate_type: t, gfp } => {
                let (order, migrate_type) = (order(j)?, migrate_type(t)?);
                let gfp = GfpFlags(gfp.read(raw)? as u32);
                match pfn(at)? {
                    Pfn(u64::MAX | 0) => EventKind::AllocFailed { order, migrate_type, gfp, stack },
                    pfn => EventKind::Alloc { pfn, order, migrate_type, gfp, stack },
                }
            }
            Layout::Free { pfn: at, order: j } => {
                EventKind::Free { pfn: pfn(at)?, order: order(j)? }
            }
            Layout::FreeBatched { pfn: at } => EventKind::FreeBatched { pfn: pfn(at)? },
            Layout::Extfrag { pfn: at, order: j, fallback_order, types, change } => {
                EventKind::Extfrag {
                    pfn: pfn(at)?,
                    order: order(j)?,
                    fallback_order: order(fallback_order)?,
                    migrate_type: migrate_type(types[0])?,
                    fallback_type: migrate_type(types[1])?,
                    change_ownership: change.read(raw)? != 0,
                }
            }
            Layout::ZoneLocked { pfn: at, order: j, migrate_type: t } => EventKind::ZoneLocked {
                pfn: pfn(at)?,
                order: order(j)?,
                migrate_type: migrate_type(t)?,
            },
            Layout::PcpuDrain { pfn: at, order: j, migrate_type: t } => EventKind::PcpuDrain {
                pfn: pfn(at)?,
                order: order(j)?,
                migrate_type: migrate_type(t)?,
            },
            Layout::Stall(layout) => layout.decode(raw, stack)?,
            Layout::Border(_) | Layout::Pin(_) => return None,
        })
    }
}

impl StallLayout {
    fn new(point: StallPoint, format: &Format) -> Result<StallLayout> {
        let field = |name: Option<&str>| name.map(|name| format.field(name)).transpose();
        Ok(StallLayout {
            point,
            task: format.field("common_pid")?,
            order: field(point.order_field())?,
            gfp: field(point.gfp_field())?,
            value: field(point.value_field())?,
        })
    }

    /// What a record says. An order that is none (-1: all of the zone) counts as order 0.
    fn decode(self, raw: &[u8], stack: StackId) -> Option<EventKind> {
        let number = |field: Option<Field>| field.map_or(Some(0), |field| field.read(raw));
        Some(EventKind::Stall {
            point: self.point,
            task: self.task.read(raw)? as i32,
            order: u8::try_from(number(self.order)?).ok().and_then(Order::new).unwrap_or_default(),
            gfp: GfpFlags(number(self.gfp)? as u32),
            stack,
            value: u32::try_from(number(self.value)?).unwrap_or(u32::MAX),
        })
    }
}

/// The kernel's migrate types in the order of its own numbers, which is the order of the rows of
/// the first table in `/proc/pagetypeinfo` (`pagetypeinfo_showfree`, `mm/vmstat.c`). Without that
/// file, those of a kernel without CMA (`enum migratetype`, `include/linux/mmzone.h`); only
/// `extfrag` ever names one that depends on the configuration.
pub fn kernel_types(pagetypeinfo: Option<&str>) -> Vec<MigrateType> {
    let info = pagetypeinfo.and_then(|text| prairie_host::texts::pagetypeinfo::parse(text).ok());
    let mut types: Vec<MigrateType> = Vec::new();
    for row in info.iter().flat_map(|info| &info.free) {
        if types.contains(&row.migrate_type) {
            break;
        }
        types.push(row.migrate_type);
    }
    if types.is_empty() {
        types = MigrateType::ALL.to_vec();
        types.retain(|&t| t != MigrateType::Cma);
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(tracepoint: Tracepoint, text: &str) -> Decoder {
        let format = Format::parse(text).unwrap();
        Decoder::new(tracepoint, &format, kernel_types(None)).unwrap()
    }

    fn record(fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut raw = vec![0; 40];
        for (at, bytes) in fields {
            raw[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        raw
    }

    #[test]
    fn allocations_and_failures_are_distinguished() {
        let text = include_str!("../../tests/fixtures/formats/mm_page_alloc-6.18");
        let alloc = decoder(Tracepoint::Alloc, text);
        let mut raw = record(&[
            (8, &0x1_2345_6789_u64.to_ne_bytes()),
            (16, &3u32.to_ne_bytes()),
            (24, &0x14000c0_u64.to_ne_bytes()),
            (32, &2i32.to_ne_bytes()),
        ]);
        let order = Order::new(3).unwrap();
        let (migrate_type, gfp) = (MigrateType::Reclaimable, GfpFlags(0x14000c0));
        let stack = StackId(4);
        let what = EventKind::Alloc { pfn: Pfn(0x1_2345_6789), order, migrate_type, gfp, stack };
        assert_eq!(alloc.decode(&raw, stack).unwrap(), Decoded::Event(what));
        raw[8..16].fill(0xff);
        let what = EventKind::AllocFailed { order, migrate_type, gfp, stack };
        assert_eq!(alloc.decode(&raw, stack).unwrap(), Decoded::Event(what));
        raw[32] = 9;
        assert!(alloc.decode(&raw, stack).unwrap_err().to_string().contains("no sense"));
    }

    #[test]
    fn a_fallback_has_both_types() {
        let text = include_str!("../../tests/fixtures/formats/mm_page_alloc_extfrag-6.18");
        let raw = record(&[
            (8, &512u64.to_ne_bytes()),
            (20, &9i32.to_ne_bytes()),
            (28, &1i32.to_ne_bytes()),
            (32, &1i32.to_ne_bytes()),
        ]);
        let what = EventKind::Extfrag {
            pfn: Pfn(512),
            order: Order::BASE,
            fallback_order: Order::HUGE,
            migrate_type: MigrateType::Unmovable,
            fallback_type: MigrateType::Movable,
            change_ownership: true,
        };
        let decoder = decoder(Tracepoint::Extfrag, text);
        assert_eq!(decoder.decode(&raw, StackId::NONE).unwrap(), Decoded::Event(what));
    }

    #[test]
    fn the_kernel_numbers_its_types() {
        let row = |name: &str| format!("Node    0, zone      DMA, type {name} 0 1\n");
        let table: String = ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"]
            .into_iter()
            .map(row)
            .collect();
        let head = "Page block order: 9\nPages per block:  512\n\n\
                    Free pages count per migrate type at order 0 1\n";
        let text = format!("{head}{table}{table}");
        assert_eq!(kernel_types(Some(&text)), MigrateType::ALL);
        let without: String =
            text.lines().filter(|l| !l.contains("CMA")).map(|l| format!("{l}\n")).collect();
        assert_eq!(kernel_types(Some(&without))[4], MigrateType::Isolate);
        assert_eq!(kernel_types(Some("garbage")), kernel_types(None));
    }
}
