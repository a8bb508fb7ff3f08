//! What compaction does to the free lists has no tracepoint; `vm/record` puts probes there.
//!
//! ```text
//! prairie_isolate: (ffffffff94ef6860) page=0xffbc7b52803fc000 order=7 base=0xffbc7b5280000000
//! prairie_isolated: (ffffffff94ee1234 <- ffffffff94ef6860) frames=128
//! prairie_pageblock: (ffffffff94ef0000) pfn=0x4000 flags=0x1 mask=0x7 by=steal_suitable_fallback+0x2f6
//! ```
//!
//! The first is at the beginning of `__isolate_free_page`; the second at its end, after the
//! watermark check; the third in `set_pfnblock_flags_mask`, where `by` is the caller.
//!
//! A block is found in one of two ways: by the scanner, or by a search of the free lists, which
//! rotates the list of the block. The tracepoint at the end of a scan
//! (`mm_compaction_isolate_freepages`) distinguishes them, because it counts the frames that the
//! scan took: a thread's last blocks of that many frames were scanned.

use std::collections::HashMap;

use prairie_frames::placement::linux::Pageset;
use prairie_frames::{MigrateType, Order, Pfn};

use super::act::Resized;

/// Bytes of the kernel's record of one frame (`struct page`).
const PAGE_BYTES: u64 = 64;

/// Bits of a pageblock's flags that hold its type (`MIGRATETYPE_MASK`).
const TYPE_MASK: u64 = 0b111;

/// The bit that lets compaction skip a pageblock (`PB_migrate_skip`).
const SKIP: u64 = 0b1000;

/// Types by the kernel's numbers, where it has no contiguous areas. Isolation has another number
/// where it has, and shows in no recording.
const TYPES: [MigrateType; 4] = [
    MigrateType::Unmovable,
    MigrateType::Movable,
    MigrateType::Reclaimable,
    MigrateType::HighAtomic,
];

/// Functions in which a fallback retypes a pageblock for less than all of it, until 6.9 and since.
const FALLBACKS: [&str; 3] =
    ["steal_suitable_fallback", "try_to_steal_block", "try_to_claim_block"];

/// A change of the free lists that a probe reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeReading {
    /// Compaction took a free block.
    Isolated {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
    },
    /// A scan for free blocks ended.
    Scanned {
        /// Frames that it took.
        frames: u64,
    },
    /// A pageblock got another type, and not by a fallback that found something in it.
    Retyped {
        /// A frame of it.
        pfn: Pfn,
        /// The type.
        migrate_type: MigrateType,
        /// Whether what is free in it goes along.
        moves: bool,
    },
    /// An allocation in bulk begins.
    Bulk {
        /// The type of frames.
        migrate_type: MigrateType,
        /// How many are asked for.
        frames: u32,
        /// The node asked for, if the probe reports it.
        node: Option<u16>,
    },
    /// It ends.
    Bulked {
        /// Frames that it got, by itself or through an ordinary request.
        frames: u32,
    },
    /// A CPU's lists for a zone, read as the kernel updates its statistics.
    Decay(ListReading),
    /// The limits of per-CPU lists were set.
    Resized(Resized),
    /// A freed block comes to a per-CPU list.
    Listed {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
    },
    /// A freed block goes to the free lists past the per-CPU lists.
    PastLists {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
        /// Whether to the tail of its list.
        to_tail: bool,
    },
    /// Memory begins to go offline.
    Offline {
        /// Its first frame.
        pfn: Pfn,
    },
    /// Such memory was isolated.
    Closed {
        /// Its first frame.
        pfn: Pfn,
        /// How many.
        frames: u64,
    },
    /// Isolated memory leaves the free lists.
    Removed {
        /// Its first frame.
        pfn: Pfn,
        /// How many.
        frames: u64,
    },
    /// Memory that was to go offline stays.
    Stays,
    /// Compaction found a pageblock to empty by a free block in it, and turned that block's list.
    Picked {
        /// The free block's first frame.
        pfn: Pfn,
    },
}

/// The kernel's own numbers of a CPU's lists (`struct per_cpu_pages`), as statistics are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListReading {
    /// Where the kernel keeps the zone.
    pub zone: u64,
    /// Frames on the lists.
    pub count: u32,
    /// The high mark, which moves.
    pub high: u32,
    /// The limits.
    pub limits: Pageset,
    /// How often the size of a refill has doubled.
    pub alloc_factor: u8,
    /// Frames freed in a row.
    pub free_count: u32,
    /// Whether the last free was of a larger block.
    pub freed_larger: bool,
}

/// The flag of lists that keep a batch (`PCPF_FREE_HIGH_BATCH`).
const KEEPS_BATCH: u64 = 2;

/// The largest batch that is believed (*chosen*): a thousand times a kernel's.
const MOST_BATCH: u32 = 1 << 16;

/// How often a kernel doubles a batch at most (the bound of `CONFIG_PCP_BATCH_SCALE_MAX`).
const MOST_DOUBLINGS: u8 = 6;

/// The flag of frees to the tail of a list (`FPI_TO_TAIL`).
const TO_TAIL: u64 = 2;

/// Puts the probes' lines together.
#[derive(Debug, Default)]
pub struct Probes {
    asked: HashMap<i32, (Pfn, Order)>,
    /// By thread: memory that it puts offline.
    offline: HashMap<i32, (Pfn, u64)>,
}

impl Probes {
    /// The reading in a marker's text, if it is a probe's and complete, by itself or together with
    /// the one before it in the same thread.
    pub fn take(&mut self, thread: i32, text: &str) -> Option<ProbeReading> {
        let (name, rest) = text.split_once(':')?;
        let fields = Fields(rest);
        match name {
            "prairie_isolate" => {
                self.asked.insert(thread, fields.block()?);
                None
            }
            "prairie_isolated" => {
                let (pfn, order) = self.asked.remove(&thread)?;
                (fields.number("frames")? > 0).then_some(ProbeReading::Isolated { pfn, order })
            }
            "mm_compaction_isolate_freepages" => {
                Some(ProbeReading::Scanned { frames: fields.number("nr_taken")? })
            }
            "prairie_pageblock" => fields.pageblock(),
            "prairie_listed" => {
                let (pfn, order) = fields.block()?;
                Some(ProbeReading::Listed { pfn, order })
            }
            "prairie_passed" => {
                let pfn = Pfn(fields.number("pfn")?);
                let to_tail = fields.number("fpi")? & TO_TAIL != 0;
                Some(ProbeReading::PastLists { pfn, order: fields.order()?, to_tail })
            }
            "prairie_offline" | "prairie_isolation" | "prairie_removed" | "prairie_offlined" => {
                self.offlining(thread, name, &fields)
            }
            "prairie_bulk" => {
                // __GFP_MOVABLE and __GFP_RECLAIMABLE (`gfp_migratetype`).
                let number = fields.number("gfp")? >> 3 & 3;
                let migrate_type = *TYPES.get(usize::try_from(number).ok()?)?;
                let frames = fields.small("frames").unwrap_or(0);
                let node = fields.number("nid").and_then(|node| u16::try_from(node).ok());
                Some(ProbeReading::Bulk { migrate_type, frames, node })
            }
            "prairie_bulked" => Some(ProbeReading::Bulked { frames: fields.small("frames")? }),
            "prairie_decay" => fields.lists().map(ProbeReading::Decay),
            "prairie_limits" => {
                let min_free_kib = fields.number("min_free_kbytes")?;
                let scale_factor = fields.number("scale")?;
                Some(ProbeReading::Resized(Resized::Watermarks { min_free_kib, scale_factor }))
            }
            "prairie_fraction" => {
                Some(ProbeReading::Resized(Resized::Fraction(fields.number("fraction")?)))
            }
            "initcall_finish" => {
                let known = [
                    ("init_per_zone_wmark_min", Resized::Boot),
                    ("hugepage_init", Resized::HugePages),
                    ("cacheinfo_sysfs_init", Resized::Caches),
                ];
                let function = fields.get("func")?;
                let found = known.into_iter().find(|(name, _)| function.starts_with(name));
                found.map(|(_, resized)| ProbeReading::Resized(resized))
            }
            _ => None,
        }
    }

    /// The reading of memory that goes offline.
    fn offlining(&mut self, thread: i32, name: &str, fields: &Fields<'_>) -> Option<ProbeReading> {
        match name {
            "prairie_offline" => {
                let (pfn, frames) = (Pfn(fields.number("pfn")?), fields.number("frames")?);
                self.offline.insert(thread, (pfn, frames));
                Some(ProbeReading::Offline { pfn })
            }
            // Other memory is isolated as well, to be allocated in one piece.
            "prairie_isolation" => {
                let &(pfn, frames) = self.offline.get(&thread)?;
                (fields.get("failed")? == "0").then_some(ProbeReading::Closed { pfn, frames })
            }
            "prairie_removed" => {
                let (pfn, end) = (fields.number("pfn")?, fields.number("end")?);
                let frames = end.checked_sub(pfn)?;
                Some(ProbeReading::Removed { pfn: Pfn(pfn), frames })
            }
            _ => {
                self.offline.remove(&thread)?;
                (fields.get("failed")? != "0").then_some(ProbeReading::Stays)
            }
        }
    }
}

/// `key=value` pairs.
struct Fields<'a>(&'a str);

impl Fields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    fn number(&self, key: &str) -> Option<u64> {
        let text = self.get(key)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn small(&self, key: &str) -> Option<u32> {
        self.number(key)?.try_into().ok()
    }

    fn lists(&self) -> Option<ListReading> {
        let batch = self.small("batch").filter(|batch| (1..=MOST_BATCH).contains(batch))?;
        let factor = u8::try_from(self.number("factor")?).ok();
        Some(ListReading {
            zone: self.number("zone")?,
            count: self.small("count")?,
            high: self.small("high")?,
            limits: Pageset {
                batch,
                high: self.small("min")?,
                high_max: self.small("max")?,
                keeps_batch: self.number("flags")? & KEEPS_BATCH != 0,
            },
            alloc_factor: factor.filter(|factor| *factor <= MOST_DOUBLINGS)?,
            free_count: self.small("freed")?,
            freed_larger: self.number("flags")? & 1 != 0,
        })
    }

    fn block(&self) -> Option<(Pfn, Order)> {
        let offset = self.number("page")?.checked_sub(self.number("base")?)?;
        Some((Pfn(offset / PAGE_BYTES), self.order()?))
    }

    fn order(&self) -> Option<Order> {
        u8::try_from(self.number("order")?).ok().and_then(Order::new)
    }

    fn pageblock(&self) -> Option<ProbeReading> {
        let (pfn, by) = (Pfn(self.number("pfn")?), self.get("by")?);
        match (self.number("mask")?, self.number("flags")?) {
            // A fallback retypes what the replay retypes at the same fallback.
            (TYPE_MASK, _) if FALLBACKS.iter().any(|name| by.starts_with(name)) => None,
            (TYPE_MASK, number) => {
                let migrate_type = *TYPES.get(usize::try_from(number).ok()?)?;
                let moves = by.starts_with("move_freepages_block");
                Some(ProbeReading::Retyped { pfn, migrate_type, moves })
            }
            // Set where the search for a pageblock to empty ends (`fast_find_migrateblock`), which
            // the compiler makes part of its caller.
            (SKIP, SKIP) if by.starts_with("compact_zone") || by.starts_with("fast_find") => {
                Some(ProbeReading::Picked { pfn })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(lines: &[&str]) -> Vec<ProbeReading> {
        let mut probes = Probes::default();
        lines.iter().filter_map(|line| probes.take(1, line)).collect()
    }

    #[test]
    fn a_freed_block_arrives_with_its_size() {
        let listed = "prairie_listed: (a) page=0xffbe3a4f4012fc00 order=2 base=0xffbe3a4f40000000";
        let order = Order::new(2).unwrap();
        let pfn = Pfn(0x12_fc00 / 64);
        assert_eq!(readings(&[listed]), [ProbeReading::Listed { pfn, order }]);
        let passed = |fpi, to_tail| {
            let line = format!("prairie_passed: (a) pfn=0x5024 order=2 fpi={fpi}");
            let pfn = Pfn(0x5024);
            assert_eq!(readings(&[&line]), [ProbeReading::PastLists { pfn, order, to_tail }]);
        };
        passed("0x0", false);
        passed("0x2", true);
        passed("0x8", false);
    }

    #[test]
    fn a_block_is_isolated_where_frames_were_in_use() {
        let ask = "prairie_isolate:  (ffffffff94ef6860) page=0xffbc7b52803fc000 order=7 \
                   base=0xffbc7b5280000000";
        let order = Order::new(7).unwrap();
        let isolated = ProbeReading::Isolated { pfn: Pfn(0x3f_c000 / 64), order };
        assert_eq!(readings(&[ask, "prairie_isolated: (a <- b) frames=128"]), [isolated]);
        assert_eq!(readings(&[ask, "prairie_isolated: (a <- b) frames=0"]), []);
        assert_eq!(readings(&["prairie_isolated: (a <- b) frames=128"]), [], "not asked before");
    }

    #[test]
    fn a_scan_ends_with_what_it_took() {
        let scan = "mm_compaction_isolate_freepages: range=(0x8e00 ~ 0x8e25) nr_scanned=37 \
                    nr_taken=12";
        assert_eq!(readings(&[scan]), [ProbeReading::Scanned { frames: 12 }]);
    }

    #[test]
    fn only_types_that_no_fallback_gave_count() {
        let stolen = "prairie_pageblock: (a) pfn=0x4000 flags=0x1 mask=0x7 \
                      by=steal_suitable_fallback+0x2f6";
        let reserved = "prairie_pageblock: (a) pfn=0x4000 flags=0x3 mask=0x7 \
                        by=get_page_from_freelist+0x9";
        let skipped = "prairie_pageblock: (a) pfn=0x4000 flags=0x8 mask=0x8 \
                       by=isolate_migratepages_block+0x9";
        let picked = "prairie_pageblock: (a) pfn=0x4010 flags=0x8 mask=0x8 by=compact_zone+0x9";
        let highatomic = MigrateType::HighAtomic;
        assert_eq!(
            readings(&[stolen, reserved, skipped, picked]),
            [
                ProbeReading::Retyped { pfn: Pfn(0x4000), migrate_type: highatomic, moves: false },
                ProbeReading::Picked { pfn: Pfn(0x4010) }
            ]
        );
    }

    #[test]
    fn a_bulk_allocation_says_what_it_got() {
        assert_eq!(
            readings(&[
                "prairie_bulk: (ffffffff81) gfp=0xdc2 nid=1 frames=4",
                "prairie_bulked: (ffffffff81 <- ffffffff82) frames=4",
                "prairie_bulk: (ffffffff81) gfp=0x8 nid=-1 frames=-1",
                "prairie_bulked: (a <- b) frames=-1",
            ]),
            [
                ProbeReading::Bulk {
                    migrate_type: MigrateType::Unmovable,
                    frames: 4,
                    node: Some(1)
                },
                ProbeReading::Bulked { frames: 4 },
                ProbeReading::Bulk { migrate_type: MigrateType::Movable, frames: 0, node: None },
            ]
        );
    }

    #[test]
    fn limits_are_read_where_the_kernel_sets_and_uses_them() {
        let decay = "prairie_decay: (ffffffff81) zone=0xffff888007fd6000 count=120 high=248 min=60 \
                     max=2040 batch=15 flags=2 factor=3 freed=7";
        let Some(&ProbeReading::Decay(lists)) = readings(&[decay]).first() else { panic!() };
        assert_eq!((lists.zone, lists.count, lists.high), (0xffff_8880_07fd_6000, 120, 248));
        assert_eq!((lists.alloc_factor, lists.free_count), (3, 7));
        let limits = Pageset { batch: 15, high: 60, high_max: 2040, keeps_batch: true };
        assert_eq!(lists.limits, limits);
        let written = "prairie_limits: (a <- b) min_free_kbytes=65536 scale=10";
        let boot = "initcall_finish: func=init_per_zone_wmark_min+0x0 ret=0";
        let watermarks = Resized::Watermarks { min_free_kib: 65_536, scale_factor: 10 };
        assert_eq!(
            readings(&[
                written,
                boot,
                "prairie_fraction: (a <- b) fraction=8",
                "initcall_finish: x"
            ]),
            [watermarks, Resized::Boot, Resized::Fraction(8)].map(ProbeReading::Resized)
        );
    }

    #[test]
    fn memory_goes_offline_in_three_steps_or_stays() {
        let offline = "prairie_offline: (a) pfn=0x8000 frames=32768";
        let isolated = "prairie_isolation: (a <- b) failed=0";
        let (pfn, frames) = (Pfn(0x8000), 32_768);
        let begun = ProbeReading::Offline { pfn };
        assert_eq!(
            readings(&[
                offline,
                isolated,
                "prairie_removed: (a) pfn=0x8000 end=0x10000",
                "prairie_offlined: (a <- b) failed=0",
                isolated,
            ]),
            [begun, ProbeReading::Closed { pfn, frames }, ProbeReading::Removed { pfn, frames }],
            "what is isolated later is isolated by others"
        );
        let failed =
            ["prairie_isolation: (a <- b) failed=-16", "prairie_offlined: (a <- b) failed=-16"];
        let stays = ProbeReading::Stays;
        assert_eq!(readings(&[offline, failed[0], failed[1]]), [begun, stays]);
    }

    #[test]
    fn invalid_markers_are_ignored() {
        for text in [
            "",
            ":",
            "prairie_isolate: page=0x80 order=99 base=0x40",
            "prairie_isolate: page=0x40 order=0 base=0x80",
            "prairie_pageblock: pfn=-1 flags= mask=7 by=",
            "prairie_pageblock: pfn=1 flags=7 mask=7 by=x",
            "prairie_removed: pfn=9 end=8",
            "prairie_isolation: failed=0",
            "prairie_decay: zone=1 count=9 high=4 min=4 max=8 batch=0 flags=0 factor=0 freed=0",
            "prairie_decay: zone=1 count=9 high=4 min=4 max=8 batch=4294967295 flags=0 factor=0 freed=0",
            "prairie_decay: zone=1 count=9 high=4 min=4 max=8 batch=7 flags=0 factor=32 freed=0",
        ] {
            assert_eq!(readings(&[text, "prairie_isolated: frames=1"]), [], "{text}");
        }
    }
}
