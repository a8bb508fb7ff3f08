//! The places in the kernel at which a task begins or ends to wait for memory.

/// A tracepoint on the path of a request that has to wait for memory.
///
/// The kernel has them since 4.6 at the latest (`include/trace/events/compaction.h` and `vmscan.h`),
/// and only where it was built with compaction and memory cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum StallPoint {
    /// `mm_compaction_try_to_compact_pages`: a request asks for compaction; the runs that follow
    /// are on its behalf.
    CompactRequest = 0,
    /// `mm_compaction_begin`: a run of compaction over a zone begins.
    CompactBegin = 1,
    /// `mm_compaction_end`: it ends; the value is the kernel's result code.
    CompactEnd = 2,
    /// `mm_vmscan_direct_reclaim_begin`: a request reclaims memory itself.
    ReclaimBegin = 3,
    /// `mm_vmscan_direct_reclaim_end`; the value is the number of reclaimed pages.
    ReclaimEnd = 4,
    /// `mm_vmscan_memcg_reclaim_begin`: a charge reclaims within its cgroup's limit.
    CgroupReclaimBegin = 5,
    /// `mm_vmscan_memcg_reclaim_end`; the value is the number of reclaimed pages.
    CgroupReclaimEnd = 6,
    /// `mm_compaction_kcompactd_wake`: the compaction daemon begins to work; the value is the node.
    DaemonWake = 7,
    /// `mm_compaction_kcompactd_sleep`: it waits again, perhaps without having worked; the value is
    /// the node.
    DaemonSleep = 8,
}

impl StallPoint {
    /// Every point, in the order of their numbers.
    pub const ALL: [StallPoint; 9] = [
        StallPoint::CompactRequest,
        StallPoint::CompactBegin,
        StallPoint::CompactEnd,
        StallPoint::ReclaimBegin,
        StallPoint::ReclaimEnd,
        StallPoint::CgroupReclaimBegin,
        StallPoint::CgroupReclaimEnd,
        StallPoint::DaemonWake,
        StallPoint::DaemonSleep,
    ];

    /// The tracepoint's directory below `events` in tracefs.
    pub const fn path(self) -> &'static str {
        match self {
            StallPoint::CompactRequest => "compaction/mm_compaction_try_to_compact_pages",
            StallPoint::CompactBegin => "compaction/mm_compaction_begin",
            StallPoint::CompactEnd => "compaction/mm_compaction_end",
            StallPoint::ReclaimBegin => "vmscan/mm_vmscan_direct_reclaim_begin",
            StallPoint::ReclaimEnd => "vmscan/mm_vmscan_direct_reclaim_end",
            StallPoint::CgroupReclaimBegin => "vmscan/mm_vmscan_memcg_reclaim_begin",
            StallPoint::CgroupReclaimEnd => "vmscan/mm_vmscan_memcg_reclaim_end",
            StallPoint::DaemonWake => "compaction/mm_compaction_kcompactd_wake",
            StallPoint::DaemonSleep => "compaction/mm_compaction_kcompactd_sleep",
        }
    }

    /// The tracepoint's field with the order of the request, if it has one.
    pub(crate) const fn order_field(self) -> Option<&'static str> {
        match self {
            StallPoint::CompactRequest
            | StallPoint::ReclaimBegin
            | StallPoint::CgroupReclaimBegin
            | StallPoint::DaemonWake => Some("order"),
            _ => None,
        }
    }

    /// The tracepoint's field with the flags of the request, if it has one.
    pub(crate) const fn gfp_field(self) -> Option<&'static str> {
        match self {
            StallPoint::CompactRequest => Some("gfp_mask"),
            StallPoint::ReclaimBegin | StallPoint::CgroupReclaimBegin => Some("gfp_flags"),
            _ => None,
        }
    }

    /// The tracepoint's field with the value of the event, if it has one.
    pub(crate) const fn value_field(self) -> Option<&'static str> {
        match self {
            StallPoint::CompactEnd => Some("status"),
            StallPoint::ReclaimEnd | StallPoint::CgroupReclaimEnd => Some("nr_reclaimed"),
            StallPoint::DaemonWake | StallPoint::DaemonSleep => Some("nid"),
            _ => None,
        }
    }

    /// For the end of a stall, its beginning.
    pub const fn begin(self) -> Option<StallPoint> {
        match self {
            StallPoint::CompactEnd => Some(StallPoint::CompactBegin),
            StallPoint::ReclaimEnd => Some(StallPoint::ReclaimBegin),
            StallPoint::CgroupReclaimEnd => Some(StallPoint::CgroupReclaimBegin),
            StallPoint::DaemonSleep => Some(StallPoint::DaemonWake),
            _ => None,
        }
    }

    /// Whether a stall begins here.
    pub(crate) const fn is_begin(self) -> bool {
        matches!(
            self,
            StallPoint::CompactBegin
                | StallPoint::ReclaimBegin
                | StallPoint::CgroupReclaimBegin
                | StallPoint::DaemonWake
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_list_and_ends_have_beginnings() {
        for (number, point) in StallPoint::ALL.into_iter().enumerate() {
            assert_eq!(point as usize, number);
            assert!(point.begin().is_none_or(StallPoint::is_begin));
        }
        let begins = StallPoint::ALL.into_iter().filter(|point| point.is_begin());
        let ends = StallPoint::ALL.into_iter().filter_map(StallPoint::begin);
        assert!(begins.eq(ends));
    }
}
