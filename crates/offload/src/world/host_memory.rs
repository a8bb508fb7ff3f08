//! The host's own memory: room in swap, bytes written to it, and actual savings.

use std::io;
use std::path::Path;

use prairie_host::cgroup::swaps::{self, Swap};
use serde::Serialize;

use crate::observation::Room;
use prairie_daemon::file::{Buffer, Held};

/// Files that are read once a period for the whole host.
#[derive(Debug)]
pub struct HostMemory {
    meminfo: Held,
    swaps: Held,
    vmstat: Held,
    /// Not on every kernel.
    diskstats: Option<Held>,
}

/// What they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostFigures {
    /// Size of all swap, in bytes.
    pub swap_bytes: u64,
    /// The used part.
    pub swap_used_bytes: u64,
    /// Size of swap that is not compressed memory itself (zram), in bytes.
    pub device_bytes: u64,
    /// Pages in RAM that still have a slot in swap, in bytes.
    pub swap_cached_bytes: u64,
    /// Memory that zswap's pool takes, whole pages.
    pub pool_bytes: u64,
    /// The uncompressed size of its pages.
    pub pooled_bytes: u64,
    /// What was written to swap since boot; `None` if it was not read.
    pub writes: Option<SwapWrites>,
}

/// Bytes written to swap since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SwapWrites {
    /// To all of it; the kernel counts zram as a device.
    pub all_bytes: u64,
    /// To zram, which is memory and does not wear out.
    pub zram_bytes: u64,
}

impl SwapWrites {
    /// Bytes written to devices since `before`.
    pub fn device_bytes_since(&self, before: &SwapWrites) -> u64 {
        let zram = self.zram_bytes.saturating_sub(before.zram_bytes);
        self.all_bytes.saturating_sub(before.all_bytes).saturating_sub(zram)
    }
}

/// Below this a pool is too small to be judged.
const MIN_SAMPLE_BYTES: u64 = 16 << 20;

/// A pool that takes more than this share of what is in it gains nothing worth its faults.
const INCOMPRESSIBLE_SHARE: f64 = 0.9;

impl HostMemory {
    /// Opens the files below `proc`.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn open(proc: &Path) -> io::Result<HostMemory> {
        let held = |name: &str| {
            let path = proc.join(name);
            Held::open(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        Ok(HostMemory {
            meminfo: held("meminfo")?,
            swaps: held("swaps")?,
            vmstat: held("vmstat")?,
            diskstats: held("diskstats").ok(),
        })
    }

    /// Pages in RAM that still have a slot in swap, in bytes, and nothing else: for who looks often.
    ///
    /// # Errors
    /// As [`HostMemory::read`].
    pub fn swap_cached_bytes(&self, buffer: &mut Buffer) -> io::Result<u64> {
        let [bytes] = sizes(self.meminfo.read_piece(buffer)?, ["SwapCached"])?;
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "meminfo has no SwapCached");
        bytes.ok_or_else(missing)
    }

    fn writes(&self, swaps: &[Swap], buffer: &mut Buffer) -> io::Result<Option<SwapWrites>> {
        let Some(all_bytes) = swapped_out_bytes(self.vmstat.read(buffer)?) else { return Ok(None) };
        let zram = || swaps.iter().filter(|swap| swap.is_zram());
        let mut writes = SwapWrites { all_bytes, zram_bytes: 0 };
        if let Some(diskstats) = self.diskstats.as_ref().filter(|_| zram().next().is_some()) {
            let text = diskstats.read(buffer)?;
            let name = |swap: &Swap| swap.path.rsplit('/').next().unwrap_or_default().to_owned();
            let written = |name: String| text.lines().find_map(|line| written_bytes(line, &name));
            let bytes = zram().map(name).filter_map(written);
            writes.zram_bytes = bytes.fold(0, u64::saturating_add);
        }
        Ok(Some(writes))
    }

    /// Reads them. The swapped-out bytes cost the kernel most, and are read only if `with_writes`.
    /// Swap that was added since, such as zram, is included at once.
    ///
    /// # Errors
    /// The system's, or a text that is not the kernel's (`InvalidData`).
    pub fn read(&self, with_writes: bool, buffer: &mut Buffer) -> io::Result<HostFigures> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let swaps = swaps::parse(self.swaps.read(buffer)?).map_err(invalid)?;
        let sum = |of: fn(&Swap) -> u64| swaps.iter().map(of).fold(0, u64::saturating_add);
        let (swap_bytes, swap_used_bytes) = (sum(|s| s.size_bytes), sum(|s| s.used_bytes));
        let device_bytes = sum(|s| if s.is_zram() { 0 } else { s.size_bytes });
        let wanted = ["SwapCached", "Zswap", "Zswapped"];
        let [cached, pool, pooled] = sizes(self.meminfo.read_piece(buffer)?, wanted)?;
        let writes = if with_writes { self.writes(&swaps, buffer)? } else { None };
        Ok(HostFigures {
            swap_bytes,
            swap_used_bytes,
            device_bytes,
            swap_cached_bytes: cached.unwrap_or(0),
            pool_bytes: pool.unwrap_or(0),
            pooled_bytes: pooled.unwrap_or(0),
            writes,
        })
    }
}

/// Bytes written to swap since boot, as in `/proc/vmstat`.
fn swapped_out_bytes(vmstat: &str) -> Option<u64> {
    let pages = vmstat.lines().find_map(|line| line.strip_prefix("pswpout "))?;
    pages.trim().parse::<u64>().ok().map(|pages| pages.saturating_mul(4096))
}

/// Bytes written to one block device since boot, by its line of `/proc/diskstats`: two numbers, the
/// name, four numbers about reads, two about writes, and the sectors of 512 bytes.
fn written_bytes(line: &str, name: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let sectors = words.next().filter(|word| *word == name).and_then(|_| words.nth(6))?;
    sectors.parse::<u64>().ok().map(|sectors| sectors.saturating_mul(512))
}

/// The lines of `/proc/meminfo` with these names, in bytes; what follows the last is not sampled.
fn sizes<const N: usize>(text: &str, names: [&str; N]) -> io::Result<[Option<u64>; N]> {
    let mut found = [None; N];
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let Some(at) = names.iter().position(|wanted| *wanted == name) else { continue };
        let kib = rest.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
        let bytes = kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("meminfo: {line:?} is no size"))
        })?;
        found[at] = Some(bytes);
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(found)
}

impl HostFigures {
    /// Room for offloaded memory as far as the host has any. `writes` are the bytes that may be
    /// written to swap devices, and the share of requests that is withheld.
    pub fn room(&self, writes: Option<(u64, f64)>) -> Room {
        Room {
            swap_bytes: self.swap_bytes,
            swap_free_bytes: self.swap_bytes.saturating_sub(self.swap_used_bytes),
            write_budget_bytes: writes.map(|writes| writes.0),
            write_scarcity: writes.map_or(0.0, |writes| writes.1),
            pool_gains_nothing: self.pooled_bytes >= MIN_SAMPLE_BYTES
                && self.pool_bytes as f64 > self.pooled_bytes as f64 * INCOMPRESSIBLE_SHARE,
        }
    }
}

/// The claimed savings, and the real ones.
///
/// A cgroup is charged for the compressed lengths of its pages, but the pool takes whole pages: a
/// pool that packs badly makes a container look smaller and gains the host nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Savings {
    /// By the cgroups' own figures: swapped out, less the compressed lengths.
    pub claimed_bytes: u64,
    /// Of the host: swapped out, less the pool's share that holds it, less what is back in RAM and
    /// still has its slot. Below zero where the pool and slots cost more than they free.
    pub gained_bytes: i64,
    /// They disagree by more than a tenth: believe the host.
    pub disagree: bool,
}

/// One cgroup's part in the savings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// `memory.swap.current`.
    pub swap_bytes: u64,
    /// Compressed lengths, as charged.
    pub zswap_bytes: u64,
    /// The pages in the pool, uncompressed.
    pub zswapped_bytes: u64,
    /// Pages in RAM that still have a slot.
    pub swap_cached_bytes: u64,
}

impl Savings {
    /// Of the cgroups whose shares these are.
    pub fn of(shares: impl Iterator<Item = Share>, host: &HostFigures) -> Savings {
        let pool = match host.pooled_bytes {
            0 => 0.0,
            pooled => host.pool_bytes as f64 / pooled as f64,
        };
        let mut savings = Savings::default();
        let mut gained = 0.0;
        for share in shares {
            let claimed = share.swap_bytes.saturating_sub(share.zswap_bytes);
            savings.claimed_bytes = savings.claimed_bytes.saturating_add(claimed);
            // The host was read at another instant: a part is never more than the whole.
            let pooled = (share.zswapped_bytes as f64 * pool).min(host.pool_bytes as f64);
            gained += share.swap_bytes as f64 - pooled - share.swap_cached_bytes as f64;
        }
        savings.gained_bytes = gained as i64;
        let apart = (savings.claimed_bytes as f64 - gained).abs();
        savings.disagree = apart > (savings.claimed_bytes as f64 * 0.1).max(f64::from(1 << 20));
        savings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn zbud_claims_and_gains_nothing() {
        // Measured on 6.1: half-random pages in zbud, 201 MB of pages in 201 MB of pool, while the
        // cgroup was charged 109 MB.
        let host =
            HostFigures { pool_bytes: 201 * MB, pooled_bytes: 201 * MB, ..Default::default() };
        let share = Share {
            swap_bytes: 201 * MB,
            zswap_bytes: 109 * MB,
            zswapped_bytes: 201 * MB,
            swap_cached_bytes: 0,
        };
        let savings = Savings::of([share].into_iter(), &host);
        assert_eq!((savings.claimed_bytes, savings.gained_bytes), (92 * MB, 0));
        assert!(savings.disagree && host.room(None).pool_gains_nothing);
    }

    #[test]
    fn zsmalloc_gains_most_of_what_is_claimed_and_a_disk_all() {
        let host =
            HostFigures { pool_bytes: 134 * MB, pooled_bytes: 235 * MB, ..Default::default() };
        let share = Share {
            swap_bytes: 235 * MB,
            zswap_bytes: 119 * MB,
            zswapped_bytes: 235 * MB,
            swap_cached_bytes: 0,
        };
        let savings = Savings::of([share].into_iter(), &host);
        assert_eq!(savings.claimed_bytes, 116 * MB);
        assert!((savings.gained_bytes - 101 * MB as i64).abs() < 2, "{savings:?}");
        assert!(!host.room(None).pool_gains_nothing);
        let disk = Share { swap_bytes: 50 * MB, ..Share::default() };
        let savings = Savings::of([disk].into_iter(), &HostFigures::default());
        assert_eq!((savings.claimed_bytes, savings.gained_bytes), (50 * MB, 50 * MB as i64));
        assert!(!savings.disagree);
    }

    /// A container of 62 MB in the pool that ended between two looks: the pool had 0.2 MB left
    /// for 0.08 MB of pages.
    #[test]
    fn a_part_is_never_more_than_the_pool() {
        let host = HostFigures { pool_bytes: 180_224, pooled_bytes: 77_824, ..Default::default() };
        let share = Share {
            swap_bytes: 62 * MB,
            zswap_bytes: 31 * MB,
            zswapped_bytes: 62 * MB,
            swap_cached_bytes: 0,
        };
        let savings = Savings::of([share].into_iter(), &host);
        assert_eq!(savings.gained_bytes, (62 * MB - 180_224) as i64);
    }

    #[test]
    fn pages_that_are_back_keep_their_slots_and_gain_nothing() {
        let back = Share { swap_bytes: 50 * MB, swap_cached_bytes: 50 * MB, ..Share::default() };
        let savings = Savings::of([back].into_iter(), &HostFigures::default());
        assert_eq!(savings.gained_bytes, 0);
        assert!(savings.disagree);
    }
}
