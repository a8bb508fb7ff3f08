//! The kinds of rows and their numbers, which never change once released.

use crate::{EventKind, StallPoint};

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
    /// [`EventKind::Stall`] at [`StallPoint::CompactRequest`], since version 3.
    CompactRequest = 14,
    /// [`EventKind::Stall`] at [`StallPoint::CompactBegin`], since version 3.
    CompactBegin = 15,
    /// [`EventKind::Stall`] at [`StallPoint::CompactEnd`], since version 3.
    CompactEnd = 16,
    /// [`EventKind::Stall`] at [`StallPoint::ReclaimBegin`], since version 3.
    ReclaimBegin = 17,
    /// [`EventKind::Stall`] at [`StallPoint::ReclaimEnd`], since version 3.
    ReclaimEnd = 18,
    /// [`EventKind::Stall`] at [`StallPoint::CgroupReclaimBegin`], since version 3.
    CgroupReclaimBegin = 19,
    /// [`EventKind::Stall`] at [`StallPoint::CgroupReclaimEnd`], since version 3.
    CgroupReclaimEnd = 20,
    /// [`EventKind::Stall`] at [`StallPoint::DaemonWake`], since version 3.
    DaemonWake = 21,
    /// [`EventKind::Stall`] at [`StallPoint::DaemonSleep`], since version 3.
    DaemonSleep = 22,
    /// [`EventKind::Cgroup`], since version 3.
    Cgroup = 23,
    /// [`EventKind::Exit`], since version 3.
    Exit = 24,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 25] = [
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
        Kind::CompactRequest,
        Kind::CompactBegin,
        Kind::CompactEnd,
        Kind::ReclaimBegin,
        Kind::ReclaimEnd,
        Kind::CgroupReclaimBegin,
        Kind::CgroupReclaimEnd,
        Kind::DaemonWake,
        Kind::DaemonSleep,
        Kind::Cgroup,
        Kind::Exit,
    ];

    /// The version of the format that brought it.
    pub const fn since(self) -> u32 {
        match self {
            Kind::Pin | Kind::Unpin => 2,
            kind if kind as u8 > Kind::Unpin as u8 => 3,
            _ => 1,
        }
    }

    /// The kind with this number.
    pub(crate) fn from_number(number: i32) -> Option<Kind> {
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
            EventKind::Stall { point, .. } => Kind::at(*point),
            EventKind::Cgroup { .. } => Kind::Cgroup,
            EventKind::Exit => Kind::Exit,
        }
    }

    /// The kind of a stall's row.
    const fn at(point: StallPoint) -> Kind {
        match point {
            StallPoint::CompactRequest => Kind::CompactRequest,
            StallPoint::CompactBegin => Kind::CompactBegin,
            StallPoint::CompactEnd => Kind::CompactEnd,
            StallPoint::ReclaimBegin => Kind::ReclaimBegin,
            StallPoint::ReclaimEnd => Kind::ReclaimEnd,
            StallPoint::CgroupReclaimBegin => Kind::CgroupReclaimBegin,
            StallPoint::CgroupReclaimEnd => Kind::CgroupReclaimEnd,
            StallPoint::DaemonWake => Kind::DaemonWake,
            StallPoint::DaemonSleep => Kind::DaemonSleep,
        }
    }

    /// The point of a stall's row; `None` for the other kinds.
    pub(crate) const fn stall_point(self) -> Option<StallPoint> {
        Some(match self {
            Kind::CompactRequest => StallPoint::CompactRequest,
            Kind::CompactBegin => StallPoint::CompactBegin,
            Kind::CompactEnd => StallPoint::CompactEnd,
            Kind::ReclaimBegin => StallPoint::ReclaimBegin,
            Kind::ReclaimEnd => StallPoint::ReclaimEnd,
            Kind::CgroupReclaimBegin => StallPoint::CgroupReclaimBegin,
            Kind::CgroupReclaimEnd => StallPoint::CgroupReclaimEnd,
            Kind::DaemonWake => StallPoint::DaemonWake,
            Kind::DaemonSleep => StallPoint::DaemonSleep,
            _ => return None,
        })
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
            Kind::CompactRequest => "compact_request",
            Kind::CompactBegin => "compact_begin",
            Kind::CompactEnd => "compact_end",
            Kind::ReclaimBegin => "reclaim_begin",
            Kind::ReclaimEnd => "reclaim_end",
            Kind::CgroupReclaimBegin => "cgroup_reclaim_begin",
            Kind::CgroupReclaimEnd => "cgroup_reclaim_end",
            Kind::DaemonWake => "kcompactd_wake",
            Kind::DaemonSleep => "kcompactd_sleep",
            Kind::Cgroup => "cgroup",
            Kind::Exit => "exit",
        }
    }
}
