//! The simulated machine: every parameter with its source, read from TOML.
//!
//! The defaults are `machines/skylake-sp.toml`. A machine file states what differs from them:
//! a value alone, or with its source as `{ value = 20, source = "where from" }`. Unknown keys,
//! values of another kind and machines that cannot be are refused.

mod merge;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::Value;

use self::merge::{bare, merged, number};
use crate::lru;

/// The text of the default machine, with the source of each value.
pub const DEFAULT_MACHINE: &str = include_str!("../machines/skylake-sp.toml");

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// Maximum entries of the metadata table.
pub const MAX_ENTRIES: usize = 64;

/// Bytes of a base page.
pub const PAGE_BYTES: u64 = 4096;

/// Why a machine file is refused. The caller names the file.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// It is not TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key that no machine has.
    #[error("`{key}`: unknown parameter; did you mean `{nearest}`?")]
    Unknown {
        /// The dotted key.
        key: String,
        /// The known key that is spelt most alike.
        nearest: String,
    },
    /// A value of the wrong kind.
    #[error("`{key}`: expected {wanted}, found {found}")]
    Kind {
        /// The dotted key.
        key: String,
        /// The expected range.
        wanted: &'static str,
        /// The value.
        found: String,
    },
    /// The values describe no machine.
    #[error("`{key}` is {value}: {why}")]
    Impossible {
        /// The dotted key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What would be right.
        why: String,
    },
}

macro_rules! sections {
    ($($(#[$doc:meta])* $section:ident { $($(#[$field_doc:meta])* $field:ident),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $section { $($(#[$field_doc])* pub $field: u64),* }
        )*
    };
}

sections! {
    /// The processors.
    Cores {
        /// How many, 1 to 256, each with caches and TLBs of its own.
        count,
        /// Clock in MHz.
        mhz,
        /// Picoseconds an instruction takes when nothing misses.
        ps_per_instruction,
        /// Misses of sequential loads that overlap.
        line_fill_buffers,
        /// Misses of stores that overlap.
        stores_in_flight,
    }
    /// The private first-level data cache.
    L1 {
        /// Size in KiB.
        kib,
        /// Ways.
        ways,
        /// Cycles from load to use, which page walks pay.
        cycles,
    }
    /// The private second-level cache.
    L2 {
        /// Size in KiB.
        kib,
        /// Ways.
        ways,
        /// Cycles from load to use.
        cycles,
    }
    /// The last-level cache.
    Llc {
        /// Slices, spread over the mesh.
        slices,
        /// Size of a slice in KiB.
        kib_per_slice,
        /// Ways.
        ways,
        /// Cycles of a look-up, without the way there and back.
        cycles,
        /// Picoseconds for which a request occupies a slice.
        port_ps,
    }
    /// The directory of what private caches hold.
    Directory {
        /// Sets in each slice.
        sets_per_slice,
        /// Ways.
        ways,
    }
    /// The interconnect: a mesh of tiles, each with a core and a slice.
    Mesh {
        /// Tiles in a row.
        columns,
        /// Picoseconds from a tile to the next.
        hop_ps,
    }
    /// Main memory.
    Memory {
        /// Size in MiB.
        mib,
        /// Bandwidth in MB (10⁶ bytes) a second.
        mb_per_second,
        /// Nanoseconds from load to use on an idle machine.
        load_ns,
    }
    /// The two levels of TLB of each core.
    Tlb {
        /// First level, 4 KiB pages: entries.
        l1_4k_entries,
        /// First level, 4 KiB pages: ways.
        l1_4k_ways,
        /// First level, 2 MiB pages: entries.
        l1_2m_entries,
        /// First level, 2 MiB pages: ways.
        l1_2m_ways,
        /// First level, 1 GiB pages: entries.
        l1_1g_entries,
        /// First level, 1 GiB pages: ways.
        l1_1g_ways,
        /// Second level, 4 KiB and 2 MiB pages: entries.
        l2_entries,
        /// Second level, 4 KiB and 2 MiB pages: ways.
        l2_ways,
        /// Second level, 1 GiB pages: entries.
        l2_1g_entries,
        /// Second level, 1 GiB pages: ways.
        l2_1g_ways,
        /// Cycles that a hit in the second level takes.
        l2_cycles,
    }
    /// The page walkers of each core and the caches of upper levels of the page table.
    Walker {
        /// Page-directory entries kept.
        pde_entries,
        /// Page-directory-pointer entries kept.
        pdpte_entries,
        /// Top-level entries kept.
        pml4_entries,
        /// Walks at once, for accesses that overlap.
        parallel,
    }
    /// The IOMMU and the device behind it.
    Iommu {
        /// Entries of the IOTLB.
        entries,
        /// Ways of the IOTLB.
        ways,
        /// Nanoseconds of a hit.
        lookup_ns,
        /// Nanoseconds from the command to invalidate until it is done and drained.
        invalidate_ns,
        /// Nanoseconds from the device to memory.
        device_ns,
    }
    /// Contiguitas-HW.
    Migration {
        /// Entries of the metadata table.
        entries,
        /// Cycles that looking into the table adds to a request, while it is not empty.
        lookup_cycles,
        /// Picoseconds beyond the mesh to reach another slice than the request's own.
        crossing_ps,
        /// Lines that the engine copies at once for one page.
        lines_in_flight,
        /// Nanoseconds of a command to the table.
        command_ns,
        /// Nanoseconds until the operating system knows that a copy is done.
        notify_ns,
        /// Nanoseconds of one local TLB invalidation.
        invalidate_page_ns,
    }
    /// The costs of software migration's steps.
    Software {
        /// Lock, migration entries into the page tables.
        unmap_ns,
        /// Restore the entries, unlock.
        remap_ns,
        /// Copy 4 KiB.
        copy_4k_ns,
        /// Copy 2 MiB.
        copy_2m_ns,
        /// An interrupt's way to the first victim and back.
        ipi_deliver_ns,
        /// The initiator's additional wait for each victim.
        ipi_per_victim_ns,
        /// The interrupt's time on each victim.
        ipi_handler_ns,
        /// The time saved by an acknowledgement before the flush.
        early_ack_saves_ns,
        /// A broadcast invalidation, until all have done it.
        broadcast_ns,
        /// The broadcast's time on each victim.
        broadcast_stall_ns,
        /// A fault on a page under migration.
        fault_ns,
        /// Sleep until the page is back, and wake-up.
        wake_ns,
        /// Drain and stop a device's queue.
        device_stop_ns,
        /// Refill and start a device's queue.
        device_start_ns,
    }
}

/// A whole machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Params {
    pub name: String,
    pub cores: Cores,
    pub l1: L1,
    pub l2: L2,
    pub llc: Llc,
    pub directory: Directory,
    pub mesh: Mesh,
    pub memory: Memory,
    pub tlb: Tlb,
    pub walker: Walker,
    pub iommu: Iommu,
    pub migration: Migration,
    pub software: Software,
}

/// One parameter, its value and where the value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sourced {
    /// The dotted key.
    pub key: String,
    /// The value.
    pub value: u64,
    /// Its source; of a value without one, that the machine file states it.
    pub source: String,
}

impl Default for Params {
    fn default() -> Params {
        Params::read("").expect("the default machine is whole")
    }
}

impl Params {
    /// The machine that `text` describes, in TOML, by what differs from the default.
    ///
    /// # Errors
    /// [`enum@Error`] if it is not TOML, names what no machine has, or describes no machine.
    pub fn read(text: &str) -> Result<Params, Error> {
        let params: Params = Value::Table(bare(&merged(text)?))
            .try_into()
            .map_err(|error: toml::de::Error| Error::Syntax(error.to_string()))?;
        params.check()?;
        Ok(params)
    }

    /// Every parameter of the machine that `text` describes, with its source.
    ///
    /// # Errors
    /// As [`Params::read`].
    pub fn sources(text: &str) -> Result<Vec<Sourced>, Error> {
        Params::read(text)?;
        let mut found = Vec::new();
        for (section, values) in &merged(text)? {
            for (key, leaf) in values.as_table().into_iter().flatten() {
                let stated = || "stated by the machine file".to_owned();
                let source = leaf.get("source").and_then(Value::as_str);
                found.push(Sourced {
                    key: format!("{section}.{key}"),
                    value: number(leaf).unwrap_or_default(),
                    source: source.map_or_else(stated, str::to_owned),
                });
            }
        }
        Ok(found)
    }

    fn check(&self) -> Result<(), Error> {
        self.check_ranges()?;
        self.check_sets()?;
        let m = &self.memory;
        let llc_ps = self.cycles(self.llc.cycles);
        if m.load_ns * 1000 <= llc_ps {
            let why = format!("memory answers after the LLC, {} ns", llc_ps / 1000);
            return Err(Error::Impossible { key: "memory.load_ns", value: m.load_ns, why });
        }
        Ok(())
    }

    #[rustfmt::skip]
    fn check_ranges(&self) -> Result<(), Error> {
        let ways = lru::MAX_WAYS as u64;
        let (l1, l2, llc, tlb) = (&self.l1, &self.l2, &self.llc, &self.tlb);
        for (key, value, low, high) in [
            ("cores.count", self.cores.count, 1, 256),
            ("cores.mhz", self.cores.mhz, 100, 10_000),
            ("cores.ps_per_instruction", self.cores.ps_per_instruction, 1, 10_000),
            ("cores.line_fill_buffers", self.cores.line_fill_buffers, 1, 1000),
            ("cores.stores_in_flight", self.cores.stores_in_flight, 1, 1000),
            ("l1.ways", l1.ways, 1, ways), ("l2.ways", l2.ways, 1, ways),
            ("llc.ways", llc.ways, 1, ways), ("directory.ways", self.directory.ways, 1, ways),
            ("tlb.l1_4k_ways", tlb.l1_4k_ways, 1, ways), ("tlb.l1_2m_ways", tlb.l1_2m_ways, 1, ways),
            ("tlb.l1_1g_ways", tlb.l1_1g_ways, 1, ways), ("tlb.l2_ways", tlb.l2_ways, 1, ways),
            ("tlb.l2_1g_ways", tlb.l2_1g_ways, 1, ways), ("iommu.ways", self.iommu.ways, 1, ways),
            ("llc.slices", llc.slices, 1, 256),
            ("mesh.columns", self.mesh.columns, 1, 256),
            ("memory.mib", self.memory.mib, 64, 128 << 10),
            ("memory.mb_per_second", self.memory.mb_per_second, 1, 100_000_000),
            ("walker.pde_entries", self.walker.pde_entries, 1, 1024),
            ("walker.pdpte_entries", self.walker.pdpte_entries, 1, 1024),
            ("walker.pml4_entries", self.walker.pml4_entries, 1, 1024),
            ("walker.parallel", self.walker.parallel, 1, 64),
            ("migration.entries", self.migration.entries, 1, MAX_ENTRIES as u64),
            ("migration.lines_in_flight", self.migration.lines_in_flight, 1, 64),
        ] {
            if !(low..=high).contains(&value) {
                return Err(Error::Impossible { key, value, why: format!("it is {low} to {high}") });
            }
        }
        Ok(())
    }

    #[rustfmt::skip]
    fn check_sets(&self) -> Result<(), Error> {
        let (l1, l2, llc, tlb) = (&self.l1, &self.l2, &self.llc, &self.tlb);
        let lines = |kib: u64| kib.saturating_mul(1024 / LINE_BYTES);
        for (key, value, entries, ways) in [
            ("l1.kib", l1.kib, lines(l1.kib), l1.ways),
            ("l2.kib", l2.kib, lines(l2.kib), l2.ways),
            ("llc.kib_per_slice", llc.kib_per_slice, lines(llc.kib_per_slice), llc.ways),
            ("directory.sets_per_slice", self.directory.sets_per_slice, self.directory.sets_per_slice, 1),
            ("tlb.l1_4k_entries", tlb.l1_4k_entries, tlb.l1_4k_entries, tlb.l1_4k_ways),
            ("tlb.l1_2m_entries", tlb.l1_2m_entries, tlb.l1_2m_entries, tlb.l1_2m_ways),
            ("tlb.l1_1g_entries", tlb.l1_1g_entries, tlb.l1_1g_entries, tlb.l1_1g_ways),
            ("tlb.l2_entries", tlb.l2_entries, tlb.l2_entries, tlb.l2_ways),
            ("tlb.l2_1g_entries", tlb.l2_1g_entries, tlb.l2_1g_entries, tlb.l2_1g_ways),
            ("iommu.entries", self.iommu.entries, self.iommu.entries, self.iommu.ways),
        ] {
            let sets = entries / ways;
            if entries % ways != 0 || !sets.is_power_of_two() || sets > 1 << 20 {
                let why = format!("{entries} entries in {ways} ways are no power of two of sets, at most 2^20");
                return Err(Error::Impossible { key, value, why });
            }
        }
        let walker = &self.walker;
        for (key, value) in [("walker.pde_entries", walker.pde_entries),
                             ("walker.pdpte_entries", walker.pdpte_entries),
                             ("walker.pml4_entries", walker.pml4_entries)] {
            if value > 16 && !value.is_power_of_two() {
                return Err(Error::Impossible { key, value, why: "beyond 16 it is a power of two".into() });
            }
        }
        for (key, value) in [("l1.kib", lines(l1.kib) / l1.ways), ("l2.kib", lines(l2.kib) / l2.ways),
                             ("llc.kib_per_slice", lines(llc.kib_per_slice) / llc.ways),
                             ("directory.sets_per_slice", self.directory.sets_per_slice)] {
            if value < 4 {
                return Err(Error::Impossible { key, value, why: "a cache has at least 4 sets".into() });
            }
        }
        if l1.kib > l2.kib {
            let why = format!("the L2 holds what the L1 holds, and is {} KiB", l2.kib);
            return Err(Error::Impossible { key: "l1.kib", value: l1.kib, why });
        }
        Ok(())
    }

    /// Picoseconds of `cycles` cycles.
    pub fn cycles(&self, cycles: u64) -> u64 {
        cycles * 1_000_000 / self.cores.mhz
    }

    /// Frames of memory.
    pub fn frames(&self) -> u32 {
        (self.memory.mib << 20 >> 12) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        Params::read(text).unwrap_err().to_string()
    }

    #[test]
    fn the_default_machine_is_whole_and_every_value_has_a_source() {
        let params = Params::default();
        assert_eq!((params.cores.count, params.l2.kib, params.cycles(5)), (28, 1024, 2000));
        let sources = Params::sources("").unwrap();
        assert!(sources.len() > 60);
        assert!(sources.iter().all(|sourced| sourced.source.len() > 5));
    }

    #[test]
    fn a_machine_states_what_differs() {
        let text = "name = \"small\"\n[cores]\ncount = { value = 4, source = \"mine\" }\n[llc]\nslices = 2";
        let params = Params::read(text).unwrap();
        assert_eq!((params.name.as_str(), params.cores.count, params.llc.slices), ("small", 4, 2));
        assert_eq!(params.l1, Params::default().l1);
        let sources = Params::sources(text).unwrap();
        let of = |key: &str| &sources.iter().find(|s| s.key == key).unwrap().source;
        assert_eq!(
            (of("cores.count").as_str(), of("llc.slices").as_str()),
            ("mine", "stated by the machine file")
        );
    }

    #[test]
    fn invalid_machines_are_refused_in_one_line() {
        assert_eq!(refused("l2.kibb = 1"), "`l2.kibb`: unknown parameter; did you mean `l2.kib`?");
        assert_eq!(refused("core = 1"), "`core`: unknown parameter; did you mean `cores`?");
        assert!(refused("l2 = 1").starts_with("`l2`: expected a table, found 1"));
        assert!(refused("l2.kib = \"big\"").starts_with("`l2.kib`: expected a whole number"));
        assert!(refused("l2.kib = -1").ends_with("found -1"));
        assert!(refused("l2.kib = { value = 4, sauce = \"\" }").starts_with("`l2.kib`: expected"));
        assert!(!refused("l2.kib = = 1").contains('\n'));
    }

    #[test]
    fn machines_that_cannot_be_are_refused() {
        for (text, wanted) in [
            ("l1.kib = 33", "`l1.kib` is 33: 528 entries in 8 ways are no power of two of sets"),
            ("l1.ways = 0", "`l1.ways` is 0: it is 1 to 16"),
            ("llc.ways = 17", "`llc.ways` is 17: it is 1 to 16"),
            ("cores.count = 257", "`cores.count` is 257: it is 1 to 256"),
            ("migration.entries = 65", "`migration.entries` is 65: it is 1 to 64"),
            ("l1.kib = 2048\nl1.ways = 16", "`l1.kib` is 2048: the L2 holds what the L1 holds"),
            ("memory.load_ns = 10", "`memory.load_ns` is 10: memory answers after the LLC"),
            ("tlb.l2_entries = 1500", "`tlb.l2_entries` is 1500: 1500 entries in 12 ways"),
        ] {
            assert!(refused(text).starts_with(wanted), "{}", refused(text));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = Params::read(&text);
        }

        #[test]
        fn no_number_panics(key in 0usize..70, value in any::<i64>()) {
            let sources = Params::sources("").unwrap();
            let key = &sources[key % sources.len()].key;
            let _ = Params::read(&format!("{key} = {value}"));
        }
    }
}
