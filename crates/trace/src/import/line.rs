//! One line of a tracing tool's text.
//!
//! All three tools print the same parts, with different spacing:
//!
//! ```text
//!             bash-25447 [000]  4042.983165: mm_page_alloc:        page=… pfn=0x368ca4 order=1 …
//!             bash 25447 [000]  4042.983165456:      kmem:mm_page_alloc: page=… pfn=0x368ca4 …
//!             bash-25447   [000] .....  4042.983165: mm_page_alloc: page=… pfn=0x368ca4 order=1 …
//! ```
//!
//! A process may call itself anything, so the line is read from the CPU's bracket on. `page=` is
//! never checked: it is hashed, or computed from a base that the tool does not know.

use prairie_frames::{MigrateType, Order, Pfn};

use super::gfp_names;
use crate::{EventKind, GfpFlags, StackId};

/// Events of reclaim and compaction, and the probes of `vm/record`, which report what has no event of
/// the page allocator. They become markers.
const SHORTAGE: [&str; 18] = [
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_direct_reclaim_begin",
    "mm_compaction_isolate_freepages",
    "mm_compaction_end",
    "prairie_isolate",
    "prairie_isolated",
    "prairie_pageblock",
    "prairie_bulk",
    "prairie_bulked",
    "prairie_limits",
    "prairie_fraction",
    "prairie_decay",
    "prairie_listed",
    "prairie_passed",
    "prairie_offline",
    "prairie_isolation",
    "prairie_removed",
    "prairie_offlined",
];

/// Steps of the kernel's boot that set the limits of per-CPU lists. They become markers, too.
const INITCALLS: [&str; 3] = ["init_per_zone_wmark_min", "hugepage_init", "cacheinfo_sysfs_init"];

/// How events of a kernel with a movable border (`kernel/`) begin.
const BORDER: &str = "contiguitas_";

/// The increment of a pin to the reference count of a small page (`GUP_PIN_COUNTING_BIAS`).
const PIN: i64 = 1024;
/// Bytes of a page's descriptor (`struct page`) on 64-bit kernels as distributions build them.
const PAGE_DESCRIPTOR: u64 = 64;

/// The parts of a line that reports the page allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// The name of the thread that ran.
    pub name: &'a str,
    /// Its number. These tools know threads, not processes.
    pub pid: i32,
    /// The CPU.
    pub cpu: u16,
    /// The time in nanoseconds.
    pub time_ns: u64,
    /// The content.
    pub content: LineContent<'a>,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LineContent<'a> {
    /// Something about pages.
    EventKind(EventKind),
    /// A note written to `trace_marker`, or an event of reclaim, of compaction, or of a movable border
    /// with its fields.
    Marker(&'a str),
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// An event of the page allocator, or a marker.
    Line(Line<'a>),
    /// `CPU:1 [LOST 23 EVENTS]`
    Lost {
        /// The CPU.
        cpu: u16,
        /// How many events.
        count: u64,
    },
    /// A heading, a comment, an event of something else.
    Other,
    /// An event of the page allocator that makes no sense; what is wrong with it.
    Bad(String),
}

/// Parses a line. `types` are the migrate types in the order of the recorded kernel's numbers.
pub fn parse<'a>(line: &'a str, types: &[MigrateType]) -> Parsed<'a> {
    if let Some(lost) = parse_lost(line) {
        return lost;
    }
    let Some(head) = parse_head(line) else { return Parsed::Other };
    let Head { task, cpu, time_ns, event, rest, told } = head;
    let content = match event.rsplit(':').next().unwrap_or(event) {
        "tracing_mark_write" => LineContent::Marker(rest.trim()),
        "print" => LineContent::Marker(marker(rest)),
        name if SHORTAGE.contains(&name) || name.starts_with(BORDER) => {
            LineContent::Marker(told.trim())
        }
        "initcall_finish" if INITCALLS.iter().any(|call| rest.contains(call)) => {
            LineContent::Marker(told.trim())
        }
        name => match parse_event(name, rest, types) {
            None => return Parsed::Other,
            Some(Ok(what)) => LineContent::EventKind(what),
            Some(Err(why)) => return Parsed::Bad(why),
        },
    };
    let Some((name, pid)) = parse_task(task) else {
        return Parsed::Bad(format!("no process number before the CPU in {:?}", task.trim()));
    };
    Parsed::Line(Line { name, pid, cpu, time_ns, content })
}

/// The text of a marker as trace-cmd prints it, without the function that wrote it.
fn marker(rest: &str) -> &str {
    let text = rest.trim();
    text.split_once(": ").filter(|(by, _)| by.starts_with("tracing_mark")).map_or(text, |p| p.1)
}

struct Head<'a> {
    task: &'a str,
    cpu: u16,
    time_ns: u64,
    event: &'a str,
    rest: &'a str,
    /// The event without its subsystem, and the rest.
    told: &'a str,
}

/// Finds the first bracketed number after which a time and an event follow.
fn parse_head(line: &str) -> Option<Head<'_>> {
    line.match_indices('[').find_map(|(at, _)| {
        let (digits, after) = line[at + 1..].split_once(']')?;
        let cpu = digits.parse().ok().filter(|_| digits.len() >= 3)?;
        let (time_ns, after) = parse_time(after)?;
        let after = after.trim_start();
        // The event's name has no space; perf puts the subsystem and a colon before it.
        let end = after.find(|c: char| c.is_whitespace()).unwrap_or(after.len());
        let event = after[..end].strip_suffix(':')?;
        let told = &after[event.rfind(':').map_or(0, |colon| colon + 1)..];
        Some(Head { task: &line[..at], cpu, time_ns, event, rest: &after[end..], told })
    })
}

/// The time, which may have a word of interrupt flags before it.
fn parse_time(text: &str) -> Option<(u64, &str)> {
    let mut rest = text.trim_start();
    for _ in 0..2 {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if let Some(time) = word.strip_suffix(':').and_then(parse_seconds) {
            return Some((time, after));
        }
        rest = after.trim_start();
    }
    None
}

/// `4042.983165`, to any number of digits up to nine.
fn parse_seconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()? * scale;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// `name-123`, `name-123 ( 120)`, `name 123`, `name 120/123`; the name may hold anything.
fn parse_task(task: &str) -> Option<(&str, i32)> {
    let mut task = task.trim();
    if let Some((before, group)) = task.rsplit_once('(') {
        let group = group.trim_end_matches(')').trim();
        if task.ends_with(')') && group.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            task = before.trim_end();
        }
    }
    let before = task.trim_end_matches(|c: char| c.is_ascii_digit());
    let pid = task[before.len()..].parse().ok()?;
    let separator = before.chars().next_back()?;
    let name = &before[..before.len() - separator.len_utf8()];
    match separator {
        '-' => Some((name.trim(), pid)),
        '/' => {
            let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
            Some((name.trim(), pid))
        }
        c if c.is_whitespace() => Some((name.trim(), pid)),
        _ => None,
    }
}

/// `CPU:1 [LOST 23 EVENTS]`
fn parse_lost(line: &str) -> Option<Parsed<'_>> {
    let (cpu, rest) = line.trim().strip_prefix("CPU:")?.split_once(" [LOST ")?;
    let count = rest.strip_suffix(" EVENTS]")?.parse().ok()?;
    Some(Parsed::Lost { cpu: cpu.trim().parse().ok()?, count })
}

/// The event called `name`; `None` if it is none of the page allocator's.
fn parse_event(
    name: &str,
    fields: &str,
    types: &[MigrateType],
) -> Option<Result<EventKind, String>> {
    let fields = Fields { text: fields, types };
    Some(match name {
        "mm_page_alloc" => fields.alloc(),
        "mm_page_free" => fields.block().map(|(pfn, order)| EventKind::Free { pfn, order }),
        // References come and go all the time; only those that count as pins are taken.
        "page_ref_mod" | "page_ref_mod_and_test" => return fields.reference().transpose(),
        "prairie_pin" => fields.probed().map(|pfn| EventKind::Pin { pfn, order: Order::BASE }),
        "prairie_unpin" => fields.probed().map(|pfn| EventKind::Unpin { pfn, order: Order::BASE }),
        "mm_page_free_batched" => fields.pfn().map(|pfn| EventKind::FreeBatched { pfn }),
        "mm_page_alloc_extfrag" => fields.extfrag(),
        "mm_page_alloc_zone_locked" => fields
            .typed_block()
            .map(|(pfn, order, migrate_type)| EventKind::ZoneLocked { pfn, order, migrate_type }),
        "mm_page_pcpu_drain" => fields
            .typed_block()
            .map(|(pfn, order, migrate_type)| EventKind::PcpuDrain { pfn, order, migrate_type }),
        _ => return None,
    })
}

/// `key=value` pairs.
struct Fields<'a> {
    text: &'a str,
    types: &'a [MigrateType],
}

impl Fields<'_> {
    fn get(&self, key: &str) -> Result<&str, String> {
        let pairs = self.text.split_ascii_whitespace();
        let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key);
        value.map(|(_, value)| value).ok_or_else(|| format!("no {key}= in it"))
    }

    /// A frame number: hexadecimal with `0x`, as kernels since 5.9 print it, else decimal.
    fn pfn(&self) -> Result<Pfn, String> {
        let text = self.get("pfn")?;
        let number = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None if text == "-1" => Ok(u64::MAX),
            None => text.parse(),
        };
        let expected = || format!("pfn={text}: expected a decimal number, or 0x and a hexadecimal");
        number.map(Pfn).map_err(|_| expected())
    }

    /// A change of a page's reference count that is a pin or the end of one: a pin of a small page
    /// counts 1,024 (`GUP_PIN_COUNTING_BIAS`), 1,023 where one reference was taken before
    /// (`try_grab_folio`). Several pins at once are recorded as one, which has the same effect on the page.
    fn reference(&self) -> Result<Option<EventKind>, String> {
        let text = self.get("val")?;
        let value: i64 = text.parse().map_err(|_| format!("val={text}: expected a number"))?;
        let order = Order::BASE;
        Ok(match value {
            0 => None,
            _ if value % PIN == 0 && value < 0 => {
                Some(EventKind::Unpin { pfn: self.pfn()?, order })
            }
            _ if value % PIN == 0 || (value > 0 && value % (PIN - 1) == 0) => {
                Some(EventKind::Pin { pfn: self.pfn()?, order })
            }
            _ => None,
        })
    }

    /// The frame of a probe: `pfn=`, or `page=` and `base=`, the addresses of its descriptor and of
    /// the first one (`vmemmap_base`).
    fn probed(&self) -> Result<Pfn, String> {
        if self.get("pfn").is_ok() {
            return self.pfn();
        }
        let address = |key: &str| {
            let text =
                self.get(key).map_err(|_| "no pfn= and no page= with base= in it".to_owned())?;
            let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            hex.ok_or_else(|| format!("{key}={text}: expected 0x and a hexadecimal number"))
        };
        let (page, base) = (address("page")?, address("base")?);
        let within = page.checked_sub(base).filter(|offset| offset % PAGE_DESCRIPTOR == 0);
        let within = within.ok_or_else(|| {
            format!("page={page:#x} is no descriptor of an array that begins at base={base:#x}")
        })?;
        Ok(Pfn(within / PAGE_DESCRIPTOR))
    }

    fn order(&self, key: &str) -> Result<Order, String> {
        let text = self.get(key)?;
        let order = text.parse().ok().and_then(Order::new);
        order.ok_or_else(|| format!("{key}={text}: expected an order up to {}", Order::LIMIT))
    }

    fn migrate_type(&self, key: &str) -> Result<MigrateType, String> {
        let text = self.get(key)?;
        let found = text.parse::<usize>().ok().and_then(|number| self.types.get(number).copied());
        found.ok_or_else(|| format!("{key}={text}: expected a number below {}", self.types.len()))
    }

    fn gfp(&self) -> Result<GfpFlags, String> {
        let text = self.get("gfp_flags")?;
        gfp_names::parse(text)
            .ok_or_else(|| format!("gfp_flags={text}: expected names like GFP_KERNEL"))
    }

    fn block(&self) -> Result<(Pfn, Order), String> {
        Ok((self.pfn()?, self.order("order")?))
    }

    fn typed_block(&self) -> Result<(Pfn, Order, MigrateType), String> {
        Ok((self.pfn()?, self.order("order")?, self.migrate_type("migratetype")?))
    }

    /// A failed allocation has frame 0, which no kernel allocates, or -1.
    fn alloc(&self) -> Result<EventKind, String> {
        let (pfn, order, migrate_type) = self.typed_block()?;
        let (gfp, stack) = (self.gfp()?, StackId::NONE);
        Ok(match pfn {
            Pfn(0 | u64::MAX) => EventKind::AllocFailed { order, migrate_type, gfp, stack },
            pfn => EventKind::Alloc { pfn, order, migrate_type, gfp, stack },
        })
    }

    fn extfrag(&self) -> Result<EventKind, String> {
        Ok(EventKind::Extfrag {
            pfn: self.pfn()?,
            order: self.order("alloc_order")?,
            fallback_order: self.order("fallback_order")?,
            migrate_type: self.migrate_type("alloc_migratetype")?,
            fallback_type: self.migrate_type("fallback_migratetype")?,
            change_ownership: self.get("change_ownership")? != "0",
        })
    }
}
