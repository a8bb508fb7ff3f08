//! The lines of a report on zones and on the whole machine.

use std::collections::BTreeMap;

use prairie_frames::ZoneKind;

use super::FreeBlocksOfOrder;
use crate::ZoneId;

/// One line of the state of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemoryLine {
    /// `Node 0 DMA free:15908kB min:32kB …`
    Sizes(ZoneId, BTreeMap<String, u64>),
    /// `lowmem_reserve[]: 0 2815 3838`, of the zone before it.
    Reserve(Vec<u64>),
    /// `Node 0 DMA: 1*4kB (U) 0*8kB … = 15908kB`, and the size of a page in KiB.
    FreeBlocks(ZoneId, Vec<FreeBlocksOfOrder>, u64),
    /// `active_anon:12 inactive_anon:34 …`, in pages.
    Pages(BTreeMap<String, u64>),
    /// `262044 pages RAM`
    Ram(u64),
    /// `5234 pages reserved`
    Reserved(u64),
    /// `Free swap  = 0kB`
    SwapFree(u64),
    /// `Total swap = 0kB`
    SwapTotal(u64),
}

/// The line, if it is one of these.
pub fn parse(message: &str) -> Option<MemoryLine> {
    let line = message.trim();
    if let Some(rest) = line.strip_prefix("Node ") {
        return of_node(rest);
    }
    if let Some(rest) = line.strip_prefix("lowmem_reserve[]:") {
        let numbers = rest.split_ascii_whitespace().map(|word| word.parse().ok());
        return Some(MemoryLine::Reserve(numbers.collect::<Option<_>>()?));
    }
    let first = |text: &str| text.split_ascii_whitespace().next()?.parse().ok();
    let kib = |text: &str| text.trim().strip_suffix("kB")?.parse().ok();
    if let Some((key, value)) = line.split_once('=') {
        return match key.trim() {
            "Free swap" => kib(value).map(MemoryLine::SwapFree),
            "Total swap" => kib(value).map(MemoryLine::SwapTotal),
            _ => None,
        };
    }
    if line.ends_with(" pages RAM") {
        return first(line).map(MemoryLine::Ram);
    }
    if line.ends_with(" pages reserved") {
        return first(line).map(MemoryLine::Reserved);
    }
    pages(line)
}

/// What follows `Node `: `0 DMA free:…`, `0 DMA: 1*4kB …`; lines on the whole node are passed over.
fn of_node(rest: &str) -> Option<MemoryLine> {
    let (node, rest) = rest.split_once(' ')?;
    let node = node.parse().ok()?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
    let id = ZoneId { node, kind: ZoneKind::from_name(&rest[..end])? };
    let rest = &rest[end..];
    if let Some(blocks) = rest.strip_prefix(": ") {
        let (blocks, page_kib) = free_blocks(blocks)?;
        return Some(MemoryLine::FreeBlocks(id, blocks, page_kib));
    }
    let sizes: BTreeMap<String, u64> =
        rest.split_ascii_whitespace().filter_map(named_kib).collect();
    // `per-cpu:` and the like have no sizes.
    sizes.contains_key("free").then_some(MemoryLine::Sizes(id, sizes))
}

/// `free:15908kB`, `reserved_highatomic:0KB`
fn named_kib(word: &str) -> Option<(String, u64)> {
    let (name, value) = word.split_once(':')?;
    let value = value.strip_suffix("kB").or(value.strip_suffix("KB"))?;
    Some((name.to_owned(), value.parse().ok()?))
}

/// `1*4kB (U) 0*8kB 2*16kB (UM) = 36kB`
fn free_blocks(text: &str) -> Option<(Vec<FreeBlocksOfOrder>, u64)> {
    // The largest order of any kernel is 13 (arm64 with pages of 64 KiB).
    const LARGEST: usize = 20;
    let (blocks, _) = text.split_once('=').unwrap_or((text, ""));
    let mut found: Vec<FreeBlocksOfOrder> = Vec::new();
    let mut page_kib = None;
    for word in blocks.split_ascii_whitespace() {
        if let Some(types) = word.strip_prefix('(') {
            found.last_mut()?.types = types.trim_end_matches(')').to_owned();
            continue;
        }
        let (count, size) = word.split_once('*')?;
        let kib: u64 = size.strip_suffix("kB")?.parse().ok()?;
        let page = *page_kib.get_or_insert(kib);
        // Sizes double: a line that was cut or mixed with another is not believed.
        if found.len() >= LARGEST || page == 0 || page.checked_shl(found.len() as u32)? != kib {
            return None;
        }
        found.push(FreeBlocksOfOrder { blocks: count.parse().ok()?, types: String::new() });
    }
    Some((found, page_kib?))
}

/// `active_anon:12 inactive_anon:34 isolated_anon:0`: every word is a name and a number.
fn pages(line: &str) -> Option<MemoryLine> {
    const FIRST: [&str; 8] = [
        "active_anon",
        "active_file",
        "unevictable",
        "slab_reclaimable",
        "mapped",
        "free",
        "free_cma",
        "kernel_misc_reclaimable",
    ];
    let mut found = BTreeMap::new();
    for word in line.split_ascii_whitespace() {
        let (name, value) = word.split_once(':')?;
        if found.is_empty() && !FIRST.contains(&name) {
            return None;
        }
        found.insert(name.to_owned(), value.parse().ok()?);
    }
    (!found.is_empty()).then_some(MemoryLine::Pages(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_every_era() {
        let old = "Node 0 DMA free:15908kB min:32kB low:40kB high:48kB active_anon:0kB present:15992kB managed:15908kB all_unreclaimable? yes";
        let Some(MemoryLine::Sizes(id, sizes)) = parse(old) else { panic!() };
        assert_eq!(id, ZoneId { node: 0, kind: ZoneKind::Dma });
        assert_eq!((sizes["min"], sizes["managed"]), (32, 15908));
        let new = "Node 1 Normal free:1kB boost:2kB min:3kB low:4kB high:5kB reserved_highatomic:6KB free_highatomic:7KB free_cma:0kB";
        let Some(MemoryLine::Sizes(_, sizes)) = parse(new) else { panic!() };
        assert_eq!(
            (sizes["boost"], sizes["reserved_highatomic"], sizes["free_highatomic"]),
            (2, 6, 7)
        );
        assert_eq!(
            parse("lowmem_reserve[]: 0 2815 3838 3838"),
            Some(MemoryLine::Reserve(vec![0, 2815, 3838, 3838]))
        );
    }

    #[test]
    fn free_lists() {
        let line = "Node 0 Normal: 3*4kB (UE) 0*8kB 1*16kB (M) = 28kB";
        let Some(MemoryLine::FreeBlocks(_, blocks, 4)) = parse(line) else { panic!() };
        assert_eq!(blocks.len(), 3);
        assert_eq!((blocks[0].blocks, blocks[0].types.as_str()), (3, "UE"));
        assert_eq!((blocks[2].blocks, blocks[2].types.as_str()), (1, "M"));
        // Cut in the middle, or mixed with another line.
        for line in
            ["Node 0 Normal: 3*4kB (UE) 0*8k", "Node 0 Normal: 3*4kB 5*16kB", "Node 0 Normal: x"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
        let Some(MemoryLine::FreeBlocks(_, blocks, 64)) = parse("Node 0 DMA32: 2*64kB 1*128kB")
        else {
            panic!()
        };
        assert_eq!(blocks[1].blocks, 1);
    }

    #[test]
    fn the_whole_machine() {
        assert_eq!(parse("262044 pages RAM"), Some(MemoryLine::Ram(262_044)));
        assert_eq!(parse("Free swap  = 12kB"), Some(MemoryLine::SwapFree(12)));
        let Some(MemoryLine::Pages(pages)) = parse(" slab_reclaimable:7 slab_unreclaimable:8")
        else {
            panic!()
        };
        assert_eq!(pages["slab_unreclaimable"], 8);
        for other in [
            "",
            "Node 0 active_anon:5kB",
            "Node 0 DMA per-cpu:",
            "CPU: 0 PID: 1",
            "a:1 b:2",
            "Node 0 hugepages_total=0",
            "0 pages in swap cache",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
