//! Proactive reclaim: page cache is freed for a block's contents before they move.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use prairie_host::{Occupancy, Roots};

use crate::sample::{MovableSample, page_bytes};

/// Frames of one request (*chosen*): between two requests a signal is noticed, and the kernel frees
/// little more than was requested.
const PIECE: u64 = 4096;

/// The root cgroup's `memory.reclaim` (since Linux 5.19, where cgroup v2 has the memory controller).
/// It reclaims from all nodes.
#[derive(Debug)]
pub struct Reclaim {
    file: File,
    refused: AtomicBool,
}

impl Reclaim {
    /// Opens the file; nothing where there is none.
    pub fn open(roots: &Roots) -> Option<Reclaim> {
        let path = roots.sys.join("fs/cgroup/memory.reclaim");
        let file = OpenOptions::new().write(true).open(path).ok()?;
        Some(Reclaim { file, refused: AtomicBool::new(false) })
    }

    /// Whether the kernel has taken every request so far.
    pub fn works(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    /// Frees frames, as far as there are any. A signal ends it early.
    pub fn free(&self, frames: u64) {
        let mut left = frames;
        while left > 0 {
            let piece = left.min(PIECE);
            let request = (piece * page_bytes()).to_string();
            if let Err(error) = self.file.write_at(request.as_bytes(), 0) {
                let ends = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
                self.refused.store(!ends, Ordering::Relaxed);
                return;
            }
            left -= piece;
        }
    }
}

/// Frames that have to be freed in the movable zone until a block's contents fit there above the high
/// watermark, with an eighth of them to spare: without that room the migration waits for reclaim,
/// frame by frame, and wakes kswapd.
pub fn needed(block: &Occupancy, movable: &MovableSample) -> u64 {
    let to_move = block.to_move();
    if to_move == 0 {
        return 0;
    }
    let elsewhere = movable.free.saturating_sub(block.free);
    let wanted = to_move + to_move / 8 + movable.high;
    wanted.saturating_sub(elsewhere).min(movable.cache)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_block_needs_room_for_what_it_holds() {
        let of = |free, movable, zone_free, cache| {
            let block = Occupancy { free, movable, ..Occupancy::default() };
            let zone = MovableSample { managed: 1 << 20, free: zone_free, high: 1000, cache };
            needed(&block, &zone)
        };
        let (all, eighth) = (32_768, 4096);
        assert_eq!(of(0, all, 0, 1 << 19), all + eighth + 1000);
        assert_eq!(of(0, all, all + 1000, 1 << 19), eighth);
        assert_eq!(of(0, all, all + eighth + 1000, 1 << 19), 0);
        assert_eq!(of(8768, 24_000, 8768, 1 << 19), 27_000 + 1000, "its own free frames go");
        assert_eq!(of(all, 0, all, 1 << 19), 0, "it holds nothing");
        assert_eq!(of(0, all, 0, 500), 500, "there is no more cache");
    }

    #[test]
    fn requests_are_bytes_and_errors_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        assert!(Reclaim::open(&roots).is_none());
        let path = root.path().join("sys/fs/cgroup/memory.reclaim");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        let reclaim = Reclaim::open(&roots).unwrap();
        reclaim.free(0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        reclaim.free(PIECE + 1);
        let (first, last) = ((PIECE * page_bytes()).to_string(), page_bytes().to_string());
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{last}{}", &first[last.len()..]));
        assert!(reclaim.works());
        fs::remove_file(&path).unwrap();
        // No device takes it.
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let reclaim = Reclaim::open(&roots).unwrap();
        reclaim.free(1);
        assert!(!reclaim.works());
    }
}
