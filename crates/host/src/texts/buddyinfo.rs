//! `/proc/buddyinfo`: free blocks by zone and order (`frag_show`, `mm/vmstat.c`).

use super::{ZoneId, lines};
use crate::error::ParseError;
use prairie_frames::Order;

/// The file, as a capture names it.
pub const FILE: &str = "proc/buddyinfo";

/// The free blocks of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFreeBlocks {
    /// The zone.
    pub id: ZoneId,
    /// Number of free blocks by order, ascending from order 0.
    pub blocks: Vec<u64>,
}

/// Parses the whole file: a line a populated zone, in the kernel's order.
///
/// # Errors
/// [`ParseError`] where a line has another form or number of orders than the first, a zone occurs
/// twice, or a count is so large that no memory could hold the blocks.
pub fn parse(text: &str) -> Result<Vec<ZoneFreeBlocks>, ParseError> {
    let mut zones: Vec<ZoneFreeBlocks> = Vec::new();
    for line in lines(FILE, text) {
        let (id, rest) = line.zone()?;
        let blocks = line.numbers(rest, "a number of free blocks for each order")?;
        let orders = zones.first().map_or(blocks.len(), |zone| zone.blocks.len());
        if blocks.is_empty() || blocks.len() != orders || orders > Order::LIMIT.index() {
            return Err(line.error(format!("{} numbers, one an order", orders.max(1))));
        }
        if !is_plausible(&blocks) {
            return Err(line.error("fewer free frames than any machine has (2^40)"));
        }
        if zones.iter().any(|zone| zone.id == id) {
            return Err(line.error(format!("one line for {id}")));
        }
        zones.push(ZoneFreeBlocks { id, blocks });
    }
    Ok(zones)
}

/// Whether the blocks are at most as many frames as [`Order::LIMIT`] allows, so that sums over
/// them cannot overflow.
pub(super) fn is_plausible(blocks: &[u64]) -> bool {
    let frames = |(order, &count): (usize, &u64)| count.checked_mul(1 << order);
    let total = blocks
        .iter()
        .enumerate()
        .try_fold(0u64, |sum, block| frames(block).and_then(|frames| sum.checked_add(frames)));
    total.is_some_and(|total| total <= Order::LIMIT.frames())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::ZoneKind;
    use proptest::prelude::*;

    #[test]
    fn a_line_a_zone() {
        let text = "Node 0, zone      DMA      0      0      1 \n\
                    Node 1, zone   Normal   1479   3798   2266 \n";
        let zones = parse(text).unwrap();
        assert_eq!(zones[0].id, ZoneId { node: 0, kind: ZoneKind::Dma });
        assert_eq!(zones[1].id, ZoneId { node: 1, kind: ZoneKind::Normal });
        assert_eq!(zones[1].blocks, [1479, 3798, 2266]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = parse("Node 0, zone DMA 1 2\nNode 0, zone DMA32 1 x\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "proc/buddyinfo, line 2: expected a number of free blocks for each order, \
             found \"Node 0, zone DMA32 1 x\""
        );
        for bad in [
            "Node 0, zone DMA 1 2\nNode 0, zone DMA32 1\n",
            "Node 0, zone DMA 1\nNode 0, zone DMA 1\n",
            "Node 0, zone DMA\n",
            "Node 0, zone Nowhere 1\n",
            "Node 0, zone DMA 18446744073709551615 1\n",
            "Knot 0, zone DMA 1\n",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            blocks in prop::collection::vec(prop::collection::vec(0u64..1 << 20, 11), 0..6)
        ) {
            let mut text = String::new();
            for (kind, blocks) in prairie_frames::ZoneKind::ALL.into_iter().zip(&blocks) {
                text += &format!("Node {:>4}, zone {:>8} ", 3, kind.name());
                text.extend(blocks.iter().map(|count| format!("{count:6} ")));
                text.push('\n');
            }
            let zones = parse(&text).unwrap();
            prop_assert_eq!(zones.into_iter().map(|zone| zone.blocks).collect::<Vec<_>>(), blocks);
        }
    }
}
