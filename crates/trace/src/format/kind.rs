//! The kinds of rows and their numbers, which never change once released.

use crate::EventKind;

/// The kind of a row; the number is the value of the column `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A run of frames with equal flags, of the snapshot that precedes the events.
    Frames = 0,
    /// [`EventKind::Alloc`]
    Alloc = 1,
    /// [`EventKind::Free`]
    Free = 2,
    /// [`EventKind::FreeBatched`]
    FreeBatched = 3,
    /// [`EventKind::Extfrag`]
    Extfrag = 4,
    /// [`EventKind::AllocFailed`]
    AllocFailed = 5,
    /// [`EventKind::ZoneLocked`]
    ZoneLocked = 6,
    /// [`EventKind::PcpuDrain`]
    PcpuDrain = 7,
    /// [`EventKind::Process`]
    Process = 8,
    /// [`EventKind::Stack`]
    Stack = 9,
    /// [`EventKind::Lost`]
    Lost = 10,
    /// [`EventKind::Marker`]
    Marker = 11,
    /// [`EventKind::Pin`], since version 2.
    Pin = 12,
    /// [`EventKind::Unpin`], since version 2.
    Unpin = 13,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 14] = [
        Kind::Frames,
        Kind::Alloc,
        Kind::Free,
        Kind::FreeBatched,
        Kind::Extfrag,
        Kind::AllocFailed,
        Kind::ZoneLocked,
        Kind::PcpuDrain,
        Kind::Process,
        Kind::Stack,
        Kind::Lost,
        Kind::Marker,
        Kind::Pin,
        Kind::Unpin,
    ];

    /// The version of the format that brought it.
    pub const fn since(self) -> u32 {
        match self {
            Kind::Pin | Kind::Unpin => 2,
            _ => 1,
        }
    }

    /// The kind with this number.
    pub fn from_number(number: i32) -> Option<Kind> {
        Kind::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The kind of an event's row.
    pub const fn of(what: &EventKind) -> Kind {
        match what {
            EventKind::Alloc { .. } => Kind::Alloc,
            EventKind::AllocFailed { .. } => Kind::AllocFailed,
            EventKind::Free { .. } => Kind::Free,
            EventKind::FreeBatched { .. } => Kind::FreeBatched,
            EventKind::Extfrag { .. } => Kind::Extfrag,
            EventKind::ZoneLocked { .. } => Kind::ZoneLocked,
            EventKind::PcpuDrain { .. } => Kind::PcpuDrain,
            EventKind::Process { .. } => Kind::Process,
            EventKind::Stack { .. } => Kind::Stack,
            EventKind::Lost { .. } => Kind::Lost,
            EventKind::Marker { .. } => Kind::Marker,
            EventKind::Pin { .. } => Kind::Pin,
            EventKind::Unpin { .. } => Kind::Unpin,
        }
    }

    /// The name that the file's metadata gives the number.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Frames => "frames",
            Kind::Alloc => "alloc",
            Kind::Free => "free",
            Kind::FreeBatched => "free_batched",
            Kind::Extfrag => "extfrag",
            Kind::AllocFailed => "alloc_failed",
            Kind::ZoneLocked => "zone_locked",
            Kind::PcpuDrain => "pcpu_drain",
            Kind::Process => "process",
            Kind::Stack => "stack",
            Kind::Lost => "lost",
            Kind::Marker => "marker",
            Kind::Pin => "pin",
            Kind::Unpin => "unpin",
        }
    }
}
