//! Comparison of a replayed machine with the kernel's counters.

use prairie_frames::placement::Placement;
use prairie_frames::placement::linux::Linux;
use prairie_frames::{Layout, MigrateType};
use serde::Serialize;

use super::snapshot::Snapshot;

/// A number that is not the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The zone, by its place in the layout.
    pub zone: usize,
    /// The quantity.
    pub what: DifferenceKind,
    /// The kernel's count.
    pub kernel: u64,
    /// The replay's.
    pub replay: u64,
}

/// The quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Free blocks of an order on the lists of a type.
    FreeBlocks {
        /// The order.
        order: u8,
        /// The type's number in [`MigrateType::ALL`].
        migrate_type: u8,
    },
    /// Frames on one CPU's lists.
    PerCpu {
        /// The CPU.
        cpu: u16,
    },
    /// Pageblocks of a type.
    Pageblocks {
        /// The type's number in [`MigrateType::ALL`].
        migrate_type: u8,
    },
}

impl Difference {
    /// Frames by which the counts differ, for free blocks and per-CPU lists.
    pub fn frames(&self) -> u64 {
        let by = self.kernel.abs_diff(self.replay);
        match self.what {
            DifferenceKind::FreeBlocks { order, .. } => by << order,
            DifferenceKind::PerCpu { .. } => by,
            DifferenceKind::Pageblocks { .. } => 0,
        }
    }
}

/// All differences between a snapshot and the replayed placement.
pub fn of(layout: &Layout, linux: &Linux, snapshot: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    for zone in 0..layout.zones().len() {
        let mut compare = |what, kernel, replay| {
            if kernel != replay {
                found.push(Difference { zone, what, kernel, replay });
            }
        };
        let replayed = linux.free_blocks(zone);
        for (migrate_type, blocks) in snapshot.free_blocks(layout, zone) {
            let known = replayed.iter().find(|(t, _)| *t == migrate_type);
            for (order, &kernel) in blocks.iter().enumerate() {
                let replay = known.and_then(|(_, blocks)| blocks.get(order)).copied().unwrap_or(0);
                let (order, migrate_type) = (order as u8, migrate_type as u8);
                compare(DifferenceKind::FreeBlocks { order, migrate_type }, kernel, replay);
            }
        }
        for (cpu, kernel) in snapshot.per_cpu(layout, zone).into_iter().enumerate() {
            let replay = linux.cached_count(zone, cpu as u16);
            compare(DifferenceKind::PerCpu { cpu: cpu as u16 }, kernel, replay);
        }
        let (kernel, replay) = (snapshot.pageblocks(layout, zone), linux.pageblocks(zone));
        for migrate_type in MigrateType::ALL {
            let at = migrate_type.index();
            let what = DifferenceKind::Pageblocks { migrate_type: at as u8 };
            compare(what, kernel[at], replay.map_or(0, |counts| counts[at]));
        }
    }
    found
}
