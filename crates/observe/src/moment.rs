//! The figures of a host at one moment that cost next to nothing to read.

use std::collections::BTreeMap;

use prairie_host::survey::{Counter, FreeLists, HugePages, counters};
use prairie_host::texts::{buddyinfo, fields, vmstat};
use prairie_host::{Capture, Contiguitas, Error, LeftOut, ZoneId, psi};

/// The moment's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// When: nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub machine: String,
    /// The free lists of every zone that has some.
    pub zones: Vec<ZoneFree>,
    /// Counters since boot that report fragmentation and stalls.
    pub counters: Vec<Counter>,
    /// Sizes of `/proc/meminfo` in bytes, by the kernel's names.
    pub sizes: BTreeMap<String, u64>,
    /// Huge pages in use.
    pub huge_pages: HugePages,
    /// Memory pressure; `None` without PSI.
    pub pressure: Option<psi::Pressure>,
    /// The regions of a kernel with a movable border; `None` on other kernels.
    pub contiguitas: Option<Contiguitas>,
    /// What is missing, with reason and remedy.
    pub left_out: Vec<LeftOut>,
}

/// One zone's free lists.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneFree {
    /// The zone.
    pub id: ZoneId,
    /// Its free blocks and indices.
    pub lists: FreeLists,
}

impl Moment {
    /// The figures of texts that [`reading::texts`](crate::reading::texts) took.
    ///
    /// # Errors
    /// [`Error::Parse`] where one is malformed; [`Error::PageSize`].
    pub fn of(capture: &Capture) -> Result<Moment, Error> {
        if capture.page_bytes != 4096 {
            return Err(Error::PageSize(capture.page_bytes));
        }
        let text = |file| capture.files.get(file).map(String::as_str);
        let zones = buddyinfo::parse(text(buddyinfo::FILE).unwrap_or_default())?;
        const PRESSURE: &str = "proc/pressure/memory";
        const MEMINFO: &str = "proc/meminfo";
        Ok(Moment {
            at_unix_ns: capture.taken_at_unix_ns,
            kernel_release: capture.kernel_release.clone(),
            machine: capture.machine.clone(),
            zones: zones
                .into_iter()
                .map(|zone| ZoneFree {
                    id: zone.id,
                    lists: FreeLists::new(zone.blocks, Vec::new()),
                })
                .collect(),
            counters: counters::counters(&vmstat::parse(text(vmstat::FILE).unwrap_or_default())?),
            sizes: fields::sizes(MEMINFO, text(MEMINFO).unwrap_or_default())?,
            huge_pages: HugePages::of(capture)?,
            pressure: text(PRESSURE).map(|text| psi::parse(PRESSURE, text)).transpose()?,
            contiguitas: Contiguitas::of(capture)?,
            left_out: capture.left_out.clone(),
        })
    }

    /// The free lists of all zones together.
    pub fn free_lists(&self) -> FreeLists {
        FreeLists::together(self.zones.iter().map(|zone| &zone.lists))
    }
}
