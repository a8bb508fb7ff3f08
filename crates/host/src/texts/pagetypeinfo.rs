//! `/proc/pagetypeinfo`: free blocks and pageblocks by migrate type (`pagetypeinfo_show`,
//! `mm/vmstat.c`). Root only.

use prairie_frames::{MigrateType, Order};

use super::{Line, ZoneId, buddyinfo, ends_early, lines};
use crate::error::ParseError;

/// The file, as a capture names it.
pub const FILE: &str = "proc/pagetypeinfo";

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// The order of the kernel's pageblocks.
    pub pageblock_order: Order,
    /// The first table: free blocks, a row a zone and type.
    pub free: Vec<TypeFreeBlocks>,
    /// The second: pageblocks by type.
    pub pageblocks: Vec<ZonePageblocks>,
    /// The third, on kernels that run with `page_owner=on`: pageblocks that hold allocations of
    /// another type than their own.
    pub mixed: Vec<ZonePageblocks>,
}

/// The free blocks of one migrate type in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFreeBlocks {
    /// The zone.
    pub id: ZoneId,
    /// The type.
    pub migrate_type: MigrateType,
    /// Free blocks by order, ascending from order 0.
    pub blocks: Vec<u64>,
    /// By order: whether there may be more. The kernel stops counting a list at 100,000 and
    /// writes `>100000`.
    pub more: Vec<bool>,
}

/// Pageblocks of one zone by migrate type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePageblocks {
    /// The zone.
    pub id: ZoneId,
    /// Number of pageblocks of each type, in the columns' order.
    pub blocks: Vec<(MigrateType, u64)>,
}

/// Which table the lines belong to.
enum Table {
    Free { orders: usize },
    Blocks(Vec<MigrateType>),
    Mixed(Vec<MigrateType>),
}

/// Parses the whole file.
///
/// # Errors
/// [`ParseError`] where a line has none of the forms, names an unknown zone or type, or has
/// another number of columns than its table's heading.
pub fn parse(text: &str) -> Result<PageTypeInfo, ParseError> {
    let mut order = None;
    let mut info = PageTypeInfo {
        pageblock_order: Order::HUGE,
        free: Vec::new(),
        pageblocks: Vec::new(),
        mixed: Vec::new(),
    };
    let mut table = None;
    for line in lines(FILE, text) {
        if let Some(value) = line.text.strip_prefix("Page block order:") {
            let value = line.number(value.trim(), "an order")?;
            order = Some(Order::new(value).ok_or_else(|| line.error("an order up to 40"))?);
        } else if line.text.starts_with("Pages per block:") {
            // Two to the order above: says nothing new.
        } else if let Some(next) = heading(line)? {
            table = Some(next);
        } else {
            match &table {
                Some(Table::Free { orders }) => info.free.push(free_row(line, *orders)?),
                Some(Table::Blocks(types)) => info.pageblocks.push(block_row(line, types)?),
                Some(Table::Mixed(types)) => info.mixed.push(block_row(line, types)?),
                None => return Err(line.error("a table's heading")),
            }
        }
    }
    info.pageblock_order = order.ok_or_else(|| ends_early(FILE, text, "\"Page block order:\""))?;
    Ok(info)
}

/// A table's heading, if the line is one.
fn heading(line: Line<'_>) -> Result<Option<Table>, ParseError> {
    let types = |columns: &str| -> Result<Vec<MigrateType>, ParseError> {
        let known = |name| MigrateType::from_name(name).ok_or_else(|| line.error("migrate types"));
        columns.split_ascii_whitespace().map(known).collect()
    };
    if let Some(columns) = line.text.strip_prefix("Free pages count per migrate type at order") {
        let orders = line.numbers(columns, "orders")?;
        if orders.is_empty() || !orders.iter().copied().eq(0..orders.len() as u64) {
            return Err(line.error("orders from 0 up"));
        }
        return Ok(Some(Table::Free { orders: orders.len() }));
    }
    if let Some(columns) = line.text.strip_prefix("Number of blocks type") {
        return Ok(Some(Table::Blocks(types(columns)?)));
    }
    if let Some(columns) = line.text.strip_prefix("Number of mixed blocks") {
        return Ok(Some(Table::Mixed(types(columns)?)));
    }
    Ok(None)
}

/// `Node    0, zone      DMA, type    Unmovable      0      0 …`
fn free_row(line: Line<'_>, orders: usize) -> Result<TypeFreeBlocks, ParseError> {
    let (id, rest) = line.zone()?;
    let wanted = "\", type NAME\" and a number of free blocks for each order";
    let rest = rest.trim_start_matches(',').trim_start();
    let rest = rest.strip_prefix("type").ok_or_else(|| line.error(wanted))?;
    let mut words = rest.split_ascii_whitespace();
    let migrate_type = words
        .next()
        .and_then(MigrateType::from_name)
        .ok_or_else(|| line.error("a migrate type's name"))?;
    let (mut blocks, mut more) = (Vec::new(), Vec::new());
    for word in words {
        more.push(word.starts_with('>'));
        blocks.push(line.number(word.trim_start_matches('>'), wanted)?);
    }
    if blocks.len() != orders || !buddyinfo::is_plausible(&blocks) {
        return Err(line.error(format!("{orders} plausible numbers, one an order")));
    }
    Ok(TypeFreeBlocks { id, migrate_type, blocks, more })
}

/// `Node 0, zone      DMA            1            7 …`
fn block_row(line: Line<'_>, types: &[MigrateType]) -> Result<ZonePageblocks, ParseError> {
    let (id, rest) = line.zone()?;
    // The table of mixed blocks has a comma after the zone's name.
    let counts = line.numbers(rest.trim_start_matches(','), "a number of pageblocks a type")?;
    if counts.len() != types.len() {
        return Err(line.error(format!("{} numbers, one a migrate type", types.len())));
    }
    Ok(ZonePageblocks { id, blocks: types.iter().copied().zip(counts).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::ZoneKind;

    const TEXT: &str = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2
Node    0, zone   Normal, type    Unmovable      0    662    314
Node    0, zone   Normal, type      Movable >100000   3135   1952

Number of blocks type     Unmovable      Movable   HighAtomic
Node 0, zone   Normal           60          843            0

Number of mixed blocks    Unmovable      Movable   HighAtomic
Node 0, zone   Normal            4           11            0
";

    #[test]
    fn three_tables() {
        let info = parse(TEXT).unwrap();
        assert_eq!(info.pageblock_order, Order::HUGE);
        assert_eq!(info.free.len(), 2);
        assert_eq!(info.free[1].migrate_type, MigrateType::Movable);
        assert_eq!(info.free[1].blocks, [100_000, 3135, 1952]);
        assert_eq!(info.free[1].more, [true, false, false]);
        let id = ZoneId { node: 0, kind: ZoneKind::Normal };
        let blocks = |counts: [u64; 3]| ZonePageblocks {
            id,
            blocks: [MigrateType::Unmovable, MigrateType::Movable, MigrateType::HighAtomic]
                .into_iter()
                .zip(counts)
                .collect(),
        };
        assert_eq!(info.pageblocks, [blocks([60, 843, 0])]);
        assert_eq!(info.mixed, [blocks([4, 11, 0])]);
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = parse(&TEXT.replace("Movable >", "Moveable >")).unwrap_err();
        assert_eq!((error.line, error.expected.as_str()), (6, "a migrate type's name"));
        let error =
            parse(&TEXT.replace("           60          843", "           60")).unwrap_err();
        assert_eq!((error.line, error.expected.as_str()), (9, "3 numbers, one a migrate type"));
        assert_eq!(parse("").unwrap_err().found, "the end");
        assert!(parse("Page block order: 99\n").is_err());
        assert!(parse("Node 0, zone DMA 1\n").is_err());
    }
}
