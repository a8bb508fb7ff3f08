//! The flags of a failed request, by name, whatever the kernel printed.
//!
//! Kernels from 4.6 on print the names. Before, only a number was printed, and some flags had other
//! bits in 3.10 to 4.3 than in 4.4 and 4.5 ([`names`]).

use std::collections::BTreeSet;

use prairie_frames::placement::gfp::{GfpFlags, names};
use prairie_frames::placement::linux::version::GFP_RECLAIM;
use prairie_frames::{KernelVersion, MigrateType, ZoneKind};
use serde::Serialize;

/// The flags of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gfp {
    /// The number, as the kernel printed it.
    pub mask: u64,
    /// As the kernel printed them, or what the number stands for: `GFP_KERNEL|__GFP_COMP`.
    pub text: String,
    /// Whether the kernel printed the names.
    #[serde(skip)]
    pub named: bool,
    /// The single flags, by their names of Linux 6.1.
    pub flags: BTreeSet<String>,
}

impl Gfp {
    /// The flags that a report names: `names` is what stands in parentheses after the number, if
    /// anything does.
    pub fn new(mask: u64, names: Option<&str>, version: Option<KernelVersion>) -> Gfp {
        let mut flags = BTreeSet::new();
        if let Some(names) = names {
            names.split('|').for_each(|name| expand(name.trim(), &mut flags));
            return Gfp { mask, text: names.to_owned(), named: true, flags };
        }
        // Only 4.4 and 4.5 have these two bits and print no names.
        const RECLAIM_4_4: u64 = 0x240_0000;
        let is_new = version.map_or(mask & 0x200_0000 != 0, |v| v >= GFP_RECLAIM.since);
        let is_new = is_new || mask & RECLAIM_4_4 == RECLAIM_4_4;
        let numbered = if is_new { GFP_RECLAIM.since } else { KernelVersion::new(3, 10) };
        for name in &names::NAMES {
            let bit = name.unnamed_bit(numbered);
            if bit.is_some_and(|bit| mask >> bit & 1 != 0) {
                expand(name.name, &mut flags);
            }
        }
        // The daemon was woken unless a flag forbade it.
        if !is_new && !flags.contains("__GFP_NO_KSWAPD") {
            flags.insert("__GFP_KSWAPD_RECLAIM".to_owned());
        }
        Gfp { mask, text: compact(&flags), named: false, flags }
    }

    /// Whether a single flag is set.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Whether the request may wait for reclaim and compaction.
    pub fn can_wait(&self) -> bool {
        self.has("__GFP_DIRECT_RECLAIM")
    }

    /// The mobility that the flags ask for.
    pub fn migrate_type(&self) -> MigrateType {
        self.bits().migrate_type()
    }

    /// The highest zone that may serve the request (`gfp_zone`).
    pub fn highest_zone(&self) -> ZoneKind {
        self.bits().highest_zone()
    }

    /// In the numbers of Linux 6.1.
    fn bits(&self) -> GfpFlags {
        let known = self.flags.iter().filter_map(|flag| names::find(flag));
        GfpFlags(known.fold(0, |all, name| all | name.bits))
    }
}

fn expand(name: &str, flags: &mut BTreeSet<String>) {
    match names::find(name).filter(|known| !known.parts.is_empty()) {
        // Compounds name compounds further down the table only: no cycle.
        Some(known) => known.parts.iter().for_each(|part| expand(part, flags)),
        None if name.is_empty() || name == "none" || name == "(null)" => {}
        None => drop(flags.insert(name.to_owned())),
    }
}

/// The shortest way to name the flags.
fn compact(flags: &BTreeSet<String>) -> String {
    let mut rest = flags.clone();
    let mut words = Vec::new();
    let compounds = names::NAMES.iter().filter(|name| !name.parts.is_empty());
    for name in compounds.map(|compound| compound.name) {
        if matches!(name, "__GFP_WAIT" | "__GFP_REPEAT" | "GFP_TEMPORARY") {
            continue;
        }
        let mut parts = BTreeSet::new();
        expand(name, &mut parts);
        if parts.is_subset(&rest) {
            rest.retain(|flag| !parts.contains(flag));
            words.push(name.to_owned());
        }
    }
    if words.iter().any(|word| word == "GFP_ATOMIC") {
        // Part of it on the kernels that have this flag.
        rest.remove("__GFP_ATOMIC");
    }
    words.extend(rest);
    if words.is_empty() { "0".to_owned() } else { words.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_old_kernels() {
        let old = Some(KernelVersion::new(3, 10));
        for (mask, version, text) in [
            (0xd0, old, "GFP_KERNEL"),
            (0x20, old, "GFP_ATOMIC"),
            (0x4020, old, "GFP_ATOMIC|__GFP_COMP"),
            (0x201da, old, "GFP_HIGHUSER_MOVABLE|__GFP_COLD"),
            (0x280da, old, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO"),
            (0x24000c0, None, "GFP_KERNEL"),
            (0x24201ca, Some(KernelVersion::new(4, 4)), "GFP_HIGHUSER_MOVABLE|__GFP_COLD"),
            (0x2080020, Some(KernelVersion::new(4, 5)), "GFP_ATOMIC"),
        ] {
            assert_eq!(Gfp::new(mask, None, version).text, text, "{mask:#x}");
        }
    }

    /// 4.13 renamed the flag and kept its number. Before 4.6 there is only the number.
    #[test]
    fn repeat_is_read_as_retry_mayfail() {
        let since = KernelVersion::new(4, 13);
        let new = Gfp::new(0x140_04c0, Some("GFP_KERNEL|__GFP_RETRY_MAYFAIL"), Some(since));
        assert!(new.can_wait() && new.has("__GFP_RETRY_MAYFAIL") && !new.has("__GFP_REPEAT"));
        for (mask, names, version) in [
            (0x140_04c0, Some("GFP_KERNEL|__GFP_REPEAT"), KernelVersion::new(4, 12)),
            (0x240_04c0, None, KernelVersion::new(4, 5)),
            (0x4d0, None, KernelVersion::new(3, 10)),
        ] {
            assert_eq!(Gfp::new(mask, names, Some(version)).flags, new.flags, "{version}");
        }
    }

    /// Up to 6.2 the number has the flag and the name stands for it. From 6.3 on `GFP_ATOMIC` is
    /// 0x820, and what cannot wait is what lacks `__GFP_DIRECT_RECLAIM`.
    #[test]
    fn atomic_requests_are_recognized_without_their_former_flag() {
        let old = Gfp::new(0x208_0020, None, Some(KernelVersion::new(4, 5)));
        assert!(old.has("__GFP_ATOMIC") && !old.can_wait());
        for (mask, minor) in [(0xa20, 2), (0x820, 3)] {
            let version = KernelVersion::new(6, minor);
            let gfp = Gfp::new(mask, Some("GFP_ATOMIC"), Some(version));
            assert!(!gfp.has("__GFP_ATOMIC") && gfp.has("__GFP_HIGH"), "{version}");
            assert!(!gfp.can_wait() && gfp.has("__GFP_KSWAPD_RECLAIM"), "{version}");
        }
    }

    #[test]
    fn names_are_single_flags() {
        let gfp = Gfp::new(0x100cca, Some("GFP_HIGHUSER_MOVABLE"), None);
        assert!(gfp.can_wait() && gfp.has("__GFP_HARDWALL"));
        assert_eq!(
            (gfp.highest_zone(), gfp.migrate_type()),
            (ZoneKind::Movable, MigrateType::Movable)
        );
        let atomic = Gfp::new(0x820, Some("GFP_ATOMIC|__GFP_FUTURE"), None);
        assert!(!atomic.can_wait() && atomic.has("__GFP_HIGH") && atomic.has("__GFP_FUTURE"));
        assert_eq!(atomic.highest_zone(), ZoneKind::Normal);
        let light = Gfp::new(0, Some("GFP_TRANSHUGE_LIGHT"), None);
        assert!(!light.can_wait() && Gfp::new(0, Some("GFP_TRANSHUGE"), None).can_wait());
        assert_eq!(Gfp::new(1, Some("GFP_KERNEL|GFP_DMA"), None).highest_zone(), ZoneKind::Dma);
    }
}
