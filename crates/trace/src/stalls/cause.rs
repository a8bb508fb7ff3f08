//! Why a task waits for memory.

use std::fmt;

/// Why a task waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cause {
    /// Too little memory was free, and the task reclaimed some itself.
    DirectReclaim = 0,
    /// The task's cgroup was at its limit, and the task reclaimed some of the cgroup's memory.
    CgroupLimit = 1,
    /// No free block was large enough, and the task compacted memory: orders 1 to 8.
    Compaction = 2,
    /// The same for a huge page: order 9 and above.
    HugePage = 3,
    /// kcompactd, woken because of a request: no task waits for it.
    Kcompactd = 4,
    /// Compaction that no request asked for: proactive, or by `/proc/sys/vm/compact_memory`.
    Unrequested = 5,
    /// Any wait of khugepaged: it makes huge pages of small ones, and no task waits for it.
    Khugepaged = 6,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Cause; 7] = [
        Cause::DirectReclaim,
        Cause::CgroupLimit,
        Cause::Compaction,
        Cause::HugePage,
        Cause::Kcompactd,
        Cause::Unrequested,
        Cause::Khugepaged,
    ];

    /// The cause in words.
    pub const fn label(self) -> &'static str {
        match self {
            Cause::DirectReclaim => "direct reclaim",
            Cause::CgroupLimit => "reclaim at a cgroup's limit",
            Cause::Compaction => "direct compaction",
            Cause::HugePage => "direct compaction for a huge page",
            Cause::Kcompactd => "kcompactd",
            Cause::Unrequested => "compaction without a request",
            Cause::Khugepaged => "khugepaged",
        }
    }

    /// The cause as one word of JSON and of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::DirectReclaim => "direct_reclaim",
            Cause::CgroupLimit => "cgroup_limit",
            Cause::Compaction => "compaction",
            Cause::HugePage => "huge_page",
            Cause::Kcompactd => "kcompactd",
            Cause::Unrequested => "unrequested",
            Cause::Khugepaged => "khugepaged",
        }
    }

    /// Whether the work is done in the background, so that no request waits for it.
    pub const fn is_background(self) -> bool {
        matches!(self, Cause::Kcompactd | Cause::Unrequested | Cause::Khugepaged)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl serde::Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_list() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
        }
    }
}
