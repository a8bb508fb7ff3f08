//! Figures from free lists: free blocks, and the two indices of fragmentation.

use prairie_frames::indices::{
    FreeBlocks, fragmentation_index, kernel_fragmentation_index, unusable_free_space,
};
use prairie_frames::{MigrateType, Order};
use serde::Serialize;

use crate::ZoneId;
use crate::texts::pagetypeinfo::PageTypeInfo;

/// The free lists of one zone, or of all zones together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FreeLists {
    /// Free frames on the lists.
    pub free_frames: u64,
    /// Free blocks by order, from order 0.
    pub blocks_by_order: Vec<u64>,
    /// The same by migrate type; empty where the types are not known.
    pub blocks_by_type: Vec<TypeBlocks>,
    /// F_u and F_i for every order on the lists.
    pub indices: Vec<Indices>,
}

/// Free blocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TypeBlocks {
    /// The type, by the kernel's name.
    pub migrate_type: &'static str,
    /// Free blocks by order, from order 0.
    pub blocks_by_order: Vec<u64>,
    /// Whether some count is only a lower bound, because the kernel stops counting a list at
    /// 100,000 and more than one type's list is that long.
    pub at_least: bool,
}

/// The indices at one order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Indices {
    /// The order.
    pub order: u8,
    /// The block's size.
    pub block_bytes: u64,
    /// F_u: share of free memory in blocks too small, 0 to 1 (2006 paper, section 3).
    pub unusable_free_space_index: f64,
    /// F_i: only where no free block is large enough, so that a request would fail.
    pub at_failure: Option<FailureIndices>,
}

/// The fragmentation index at the failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailureIndices {
    /// F_i: towards 0 for lack of memory, towards 1 for fragmentation (2006 paper, section 3).
    pub fragmentation_index: f64,
    /// The kernel's version of it, in thousandths; compaction is not tried below
    /// `vm.extfrag_threshold`.
    pub kernel_index_thousandths: i64,
}

impl FreeLists {
    /// The lists by their blocks.
    pub fn new(blocks_by_order: Vec<u64>, blocks_by_type: Vec<TypeBlocks>) -> FreeLists {
        let free = FreeBlocks { counts: &blocks_by_order };
        let orders = (0..blocks_by_order.len() as u8).filter_map(Order::new);
        let indices = orders.map(|order| Indices {
            order: order.get(),
            block_bytes: order.bytes(),
            unusable_free_space_index: unusable_free_space(free, order),
            at_failure: (free.frames_from(order) == 0).then(|| FailureIndices {
                fragmentation_index: fragmentation_index(free, order),
                kernel_index_thousandths: kernel_fragmentation_index(free, order),
            }),
        });
        let (free_frames, indices) = (free.frames(), indices.collect());
        FreeLists { free_frames, blocks_by_order, blocks_by_type, indices }
    }

    /// All zones' lists together.
    pub fn together<'a>(zones: impl Iterator<Item = &'a FreeLists>) -> FreeLists {
        let mut blocks = Vec::new();
        let mut by_type: Vec<TypeBlocks> = Vec::new();
        for zone in zones {
            add(&mut blocks, &zone.blocks_by_order);
            for row in &zone.blocks_by_type {
                match by_type.iter_mut().find(|sum| sum.migrate_type == row.migrate_type) {
                    Some(sum) => {
                        add(&mut sum.blocks_by_order, &row.blocks_by_order);
                        sum.at_least |= row.at_least;
                    }
                    None => by_type.push(row.clone()),
                }
            }
        }
        FreeLists::new(blocks, by_type)
    }
}

/// Adds counts by order.
fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(sum.len().max(counts.len()), 0);
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// The rows of one zone in `pagetypeinfo`. A count that the kernel cut at 100,000 is completed
/// from `blocks_by_order` (all types together) where it is the only one of its order.
pub(super) fn by_type(info: &PageTypeInfo, id: ZoneId, blocks_by_order: &[u64]) -> Vec<TypeBlocks> {
    let rows: Vec<_> = info.free.iter().filter(|row| row.id == id).collect();
    let complete = |migrate_type: MigrateType, order: usize, count: u64| -> (u64, bool) {
        let others = rows.iter().filter(|row| row.migrate_type != migrate_type);
        let others_cut = others.clone().any(|row| row.more.get(order) == Some(&true));
        let others: u64 = others.filter_map(|row| row.blocks.get(order)).sum();
        let all = blocks_by_order.get(order).copied().unwrap_or(0);
        match all.checked_sub(others) {
            Some(rest) if !others_cut && rest >= count => (rest, false),
            _ => (count, true),
        }
    };
    let row = |row: &&crate::texts::pagetypeinfo::TypeFreeBlocks| {
        let mut at_least = false;
        let counts = row.blocks.iter().zip(&row.more).enumerate();
        let blocks_by_order = counts
            .map(|(order, (&count, &more))| {
                let (count, bound) =
                    if more { complete(row.migrate_type, order, count) } else { (count, false) };
                at_least |= bound;
                count
            })
            .collect();
        TypeBlocks { migrate_type: row.migrate_type.name(), blocks_by_order, at_least }
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::pagetypeinfo;

    #[test]
    fn indices_only_where_a_request_would_fail() {
        let lists = FreeLists::new(vec![4, 2, 0, 1, 0], Vec::new());
        assert_eq!(lists.free_frames, 16);
        assert_eq!(lists.indices[1].unusable_free_space_index, 0.25);
        assert_eq!(lists.indices[3].at_failure, None);
        let at_failure = lists.indices[4].at_failure.unwrap();
        assert_eq!(at_failure.kernel_index_thousandths, 715);
        assert_eq!(at_failure.fragmentation_index, 1.0 - 1.0 / 7.0);
        let both = FreeLists::together([&lists, &FreeLists::new(vec![1], Vec::new())].into_iter());
        assert_eq!(both.blocks_by_order, [5, 2, 0, 1, 0]);
    }

    #[test]
    fn a_cut_count_is_completed_from_the_total() {
        let text = "Page block order: 9\n\
            Free pages count per migrate type at order 0 1\n\
            Node 0, zone Normal, type Unmovable 7 >100000\n\
            Node 0, zone Normal, type Movable >100000 >100000\n";
        let info = pagetypeinfo::parse(text).unwrap();
        let rows = by_type(&info, info.free[0].id, &[250_007, 300_000]);
        assert_eq!(rows[0].blocks_by_order, [7, 100_000]);
        assert_eq!(rows[1].blocks_by_order, [250_000, 100_000]);
        assert!(rows[0].at_least && rows[1].at_least);
        // The two files are read one after the other: a total that cannot be right is not used.
        let rows = by_type(&info, info.free[0].id, &[50, 0]);
        assert_eq!(rows[1].blocks_by_order, [100_000, 100_000]);
    }
}
