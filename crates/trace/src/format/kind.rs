//! The kinds of rows and their numbers, which never change once released.

use crate::What;

/// What a row of a trace is; the number is what the column `kind` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A run of frames with equal flags, of the snapshot that precedes the events.
    Frames = 0,
    /// [`What::Alloc`]
    Alloc = 1,
    /// [`What::Free`]
    Free = 2,
    /// [`What::FreeBatched`]
    FreeBatched = 3,
    /// [`What::Extfrag`]
    Extfrag = 4,
    /// [`What::AllocFailed`]
    AllocFailed = 5,
    /// [`What::ZoneLocked`]
    ZoneLocked = 6,
    /// [`What::PcpuDrain`]
    PcpuDrain = 7,
    /// [`What::Process`]
    Process = 8,
    /// [`What::Stack`]
    Stack = 9,
    /// [`What::Lost`]
    Lost = 10,
    /// [`What::Marker`]
    Marker = 11,
    /// [`What::Pin`], since version 2.
    Pin = 12,
    /// [`What::Unpin`], since version 2.
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
    pub const fn of(what: &What) -> Kind {
        match what {
            What::Alloc { .. } => Kind::Alloc,
            What::AllocFailed { .. } => Kind::AllocFailed,
            What::Free { .. } => Kind::Free,
            What::FreeBatched { .. } => Kind::FreeBatched,
            What::Extfrag { .. } => Kind::Extfrag,
            What::ZoneLocked { .. } => Kind::ZoneLocked,
            What::PcpuDrain { .. } => Kind::PcpuDrain,
            What::Process { .. } => Kind::Process,
            What::Stack { .. } => Kind::Stack,
            What::Lost { .. } => Kind::Lost,
            What::Marker { .. } => Kind::Marker,
            What::Pin { .. } => Kind::Pin,
            What::Unpin { .. } => Kind::Unpin,
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
