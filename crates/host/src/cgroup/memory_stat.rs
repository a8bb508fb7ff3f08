//! `memory.stat`: what a cgroup's memory is, and what happened to it (`memory_stat_format`,
//! `mm/memcontrol.c`).

use serde::Serialize;

use crate::error::ParseError;
use crate::texts::lines;

/// The lines of `memory.stat` that offloading needs. A line that the kernel does not have is 0:
/// zswap's came in 5.19, a sum of `pgsteal` and `pgscan` is in every kernel with cgroup v2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStat {
    /// Bytes of anonymous memory in RAM.
    pub anon: u64,
    /// Bytes of page cache, tmpfs and shared memory included.
    pub file: u64,
    /// Bytes of tmpfs and shared memory, which go to swap although they count as file.
    pub shmem: u64,
    /// Bytes of page cache that processes have mapped.
    pub file_mapped: u64,
    /// Bytes of anonymous memory in transparent huge pages.
    pub anon_thp: u64,
    /// Bytes on the inactive file list.
    pub inactive_file: u64,
    /// Bytes on the active file list.
    pub active_file: u64,
    /// Bytes on the inactive anonymous list.
    pub inactive_anon: u64,
    /// Bytes on the active anonymous list.
    pub active_anon: u64,
    /// Bytes that are protected from reclaim.
    pub unevictable: u64,
    /// Bytes that zswap charges: compressed lengths, which is less than the pool takes.
    pub zswap: u64,
    /// Bytes of the pages that zswap holds, uncompressed.
    pub zswapped: u64,
    /// Bytes in RAM that still have a copy in swap.
    pub swapcached: u64,
    /// Anonymous pages that refaulted soon enough for the kernel to notice.
    pub workingset_refault_anon: u64,
    /// The same of the page cache.
    pub workingset_refault_file: u64,
    /// Pages that reclaim checked.
    pub pgscan: u64,
    /// Pages that reclaim took.
    pub pgsteal: u64,
    /// Faults that had to wait for a page's contents.
    pub pgmajfault: u64,
    /// Pages read from zswap.
    pub zswpin: u64,
    /// Pages stored in zswap.
    pub zswpout: u64,
    /// Pages read from swap devices; reported by cgroup since Linux 6.14.
    pub pswpin: u64,
    /// Pages written to swap devices; likewise.
    pub pswpout: u64,
}

/// Parses `memory.stat`, that was read from `file`; unknown lines are passed over.
///
/// # Errors
/// [`ParseError`] where a line is not a name and a number.
pub fn parse(file: &str, text: &str) -> Result<MemoryStat, ParseError> {
    const FORM: &str = "a name and a number";
    let mut stat = MemoryStat::default();
    for line in lines(file, text) {
        // Names are short: a plain search is over before a quicker one has begun.
        let space = line.text.bytes().position(|byte| byte == b' ');
        let (name, value) = line.text.split_at(space.ok_or_else(|| line.error(FORM))?);
        let value = &value[1..];
        if let Some(field) = stat.field(name) {
            *field = line.number(value.trim_end(), FORM)?;
        } else if !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(line.error(FORM));
        }
    }
    Ok(stat)
}

impl MemoryStat {
    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "anon" => &mut self.anon,
            "file" => &mut self.file,
            "shmem" => &mut self.shmem,
            "file_mapped" => &mut self.file_mapped,
            "anon_thp" => &mut self.anon_thp,
            "inactive_file" => &mut self.inactive_file,
            "active_file" => &mut self.active_file,
            "inactive_anon" => &mut self.inactive_anon,
            "active_anon" => &mut self.active_anon,
            "unevictable" => &mut self.unevictable,
            "zswap" => &mut self.zswap,
            "zswapped" => &mut self.zswapped,
            "swapcached" => &mut self.swapcached,
            "workingset_refault_anon" => &mut self.workingset_refault_anon,
            "workingset_refault_file" => &mut self.workingset_refault_file,
            "pgscan" => &mut self.pgscan,
            "pgsteal" => &mut self.pgsteal,
            "pgmajfault" => &mut self.pgmajfault,
            "zswpin" => &mut self.zswpin,
            "zswpout" => &mut self.zswpout,
            "pswpin" => &mut self.pswpin,
            "pswpout" => &mut self.pswpout,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_lines_are_kept_and_others_passed_over() {
        let text = "anon 104857600\nfile 4096\nsome_new_thing 7\npgsteal 12\nzswpin 3\n";
        let stat = parse("memory.stat", text).unwrap();
        let expected = MemoryStat {
            anon: 104_857_600,
            file: 4096,
            pgsteal: 12,
            zswpin: 3,
            ..MemoryStat::default()
        };
        assert_eq!(stat, expected);
        assert_eq!(parse("memory.stat", "").unwrap(), MemoryStat::default());
    }

    #[test]
    fn errors_say_where() {
        let error = parse("w/memory.stat", "anon 1\nfile x\n").unwrap_err();
        assert_eq!((error.file.as_str(), error.line), ("w/memory.stat", 2));
        for bad in ["anon", "anon -1", "unknown x", "anon 18446744073709551616"] {
            assert!(parse("memory.stat", bad).is_err(), "{bad:?}");
        }
    }
}
