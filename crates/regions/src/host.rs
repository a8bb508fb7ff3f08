//! The kernel's files that are read again and again: opened once, parsed into samples and blocks.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use prairie_daemon::file::{Buffer, Held};
use prairie_frames::ZoneKind;
use prairie_host::memory_blocks::{self, Scanner};
use prairie_host::texts::{buddyinfo, fields, vmstat, zoneinfo};
use prairie_host::{MemoryBlocks, Occupancy, Roots, psi};

use crate::choice::{Block, Place};
use crate::operation::place;
use crate::rest::{Free, Glance};
use crate::sample::{self, Sample, Sources, page_bytes};

const MEMINFO: &str = "proc/meminfo";

/// What was read so far: the daemon's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Full samples of the zones.
    pub samples: u64,
    /// Glances at free memory alone.
    pub glances: u64,
    /// Blocks whose page flags were read, all of them.
    pub blocks: u64,
    /// Lists of all blocks.
    pub lists: u64,
}

/// A host's files.
#[derive(Debug)]
pub struct Host {
    roots: Roots,
    zoneinfo: Held,
    buddyinfo: Option<Held>,
    vmstat: Held,
    meminfo: Held,
    pressure: Option<Held>,
    scanner: Option<Scanner>,
    buffer: Buffer,
    reads: Reads,
    /// Blocks with only an estimate of their contents.
    sketched: BTreeSet<u64>,
    /// Frames of a block.
    pub block_frames: u64,
}

impl Host {
    /// Opens everything.
    ///
    /// # Errors
    /// Which file cannot be read, and why. `kpageflags`, `buddyinfo`, and PSI may be missing.
    pub fn open(roots: &Roots) -> io::Result<Host> {
        let MemoryBlocks { block_frames, .. } = read_blocks(roots)?;
        let open = |name: &str| {
            let path = roots.proc.join(name);
            Held::open(&path).map_err(|error| at(&path, &error))
        };
        Ok(Host {
            zoneinfo: open("zoneinfo")?,
            buddyinfo: open("buddyinfo").ok(),
            vmstat: open("vmstat")?,
            meminfo: open("meminfo")?,
            pressure: open("pressure/memory").ok(),
            scanner: Scanner::open(roots).ok(),
            buffer: Buffer::default(),
            reads: Reads::default(),
            sketched: BTreeSet::new(),
            block_frames,
            roots: roots.clone(),
        })
    }

    /// Whether blocks can be looked into.
    pub const fn has_flags(&self) -> bool {
        self.scanner.is_some()
    }

    /// Refuses to work on blocks that cannot be looked into.
    ///
    /// # Errors
    /// Without `kpageflags`.
    pub fn require_flags(&self) -> io::Result<()> {
        match self.has_flags() {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{}: cannot be read; hugetlb pages would not show, and emptying them never \
                     ends",
                    self.roots.proc.join("kpageflags").display()
                ),
            )),
        }
    }

    /// Where the files are.
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// What was read so far.
    pub const fn reads(&self) -> Reads {
        self.reads
    }

    /// What is free and how much page cache there is; nothing where that cannot be read.
    pub fn glance(&mut self) -> Option<Glance> {
        let text = self.meminfo.read(&mut self.buffer).ok()?;
        let is_cache = |name: &str| name == "Active(file)" || name == "Inactive(file)";
        let cache_bytes: u64 = fields::sizes_only(MEMINFO, text, is_cache).ok()?.values().sum();
        Some(Glance { nodes: self.free()?, cache: cache_bytes / page_bytes() })
    }

    /// What is free; nothing where that cannot be read.
    pub fn free(&mut self) -> Option<Vec<Free>> {
        let text = self.buddyinfo.as_ref()?.read(&mut self.buffer).ok()?;
        self.reads.glances += 1;
        let mut nodes: Vec<Free> = Vec::new();
        for zone in buddyinfo::parse(text).ok()? {
            let free = zone.blocks.iter().enumerate().map(|(order, count)| count << order);
            let frames: u64 = free.sum();
            if nodes.last().is_none_or(|last| last.node != zone.id.node) {
                nodes.push(Free { node: zone.id.node, ..Free::default() });
            }
            let node = nodes.last_mut()?;
            match zone.id.kind {
                ZoneKind::Dma32 | ZoneKind::Normal => node.kernel += frames,
                ZoneKind::Movable => node.movable = frames,
                _ => {}
            }
        }
        (!nodes.is_empty()).then_some(nodes)
    }

    /// The zones as they are at `now`.
    ///
    /// # Errors
    /// I/O errors of the system, and texts that no kernel writes.
    pub fn sample(&mut self, now: Duration) -> io::Result<Sample> {
        let wrong = |error: prairie_host::ParseError| io::Error::other(error);
        self.reads.samples += 1;
        let text = self.zoneinfo.read(&mut self.buffer)?;
        let zones = zoneinfo::parse_only(text, sample::is_zone_counter).map_err(wrong)?;
        if zones.is_empty() {
            return Err(io::Error::other("proc/zoneinfo: expected at least one zone"));
        }
        let text = self.vmstat.read(&mut self.buffer)?;
        let vmstat = vmstat::parse_only(text, sample::is_event).map_err(wrong)?;
        let text = self.meminfo.read(&mut self.buffer)?;
        let is_needed = |name: &str| name == "SwapFree" || name == "Hugetlb";
        let sizes = fields::sizes_only(MEMINFO, text, is_needed).map_err(wrong)?;
        let psi_us = match &self.pressure {
            Some(file) => file
                .read(&mut self.buffer)
                .ok()
                .and_then(|text| psi::parse("proc/pressure/memory", text).ok())
                .map_or(0, |pressure| pressure.some.total_us),
            None => 0,
        };
        let size = |name: &str| sizes.get(name).copied().unwrap_or(0);
        let sources = Sources {
            zones: &zones,
            vmstat: &vmstat,
            psi_us,
            swap_free_bytes: size("SwapFree"),
            hugetlb_bytes: size("Hugetlb"),
        };
        Ok(Sample::of(now, sources))
    }

    /// The blocks as they are, with what `known` says of those that are where they were.
    ///
    /// # Errors
    /// I/O errors of the system, and texts that no kernel writes.
    pub fn blocks(&mut self, known: &[Block]) -> io::Result<Vec<Block>> {
        self.reads.lists += 1;
        let read = read_blocks(&self.roots)?;
        let block = |now: &prairie_host::MemoryBlock| {
            let place = place(now);
            let found = known.binary_search_by_key(&now.number, |block| block.number);
            let same = found.ok().map(|at| known[at]).filter(|before| before.place == place);
            let fresh = Block {
                number: now.number,
                node: now.node,
                place,
                occupancy: None,
                scanned: Duration::ZERO,
            };
            same.unwrap_or(fresh)
        };
        Ok(read.blocks.iter().map(block).collect())
    }

    /// Lets the kernel free empty slabs, which it keeps for later: one of them holds a whole block.
    /// What cannot be written is passed over.
    pub fn drain_slabs(&self) {
        let entries = fs::read_dir(self.roots.sys.join("kernel/slab"));
        for entry in entries.into_iter().flatten().flatten() {
            // Merged caches are links to one that stands for all of them.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let file = OpenOptions::new().write(true).open(entry.path().join("shrink"));
                let _ = file.and_then(|mut file| file.write_all(b"1"));
            }
        }
    }

    /// Reads what fills a block. Where that fails, its contents are unknown.
    pub fn scan(&mut self, block: &mut Block, now: Duration) {
        block.scanned = now;
        self.sketched.remove(&block.number);
        block.occupancy = match (block.place, &mut self.scanner) {
            (Place::Kernel | Place::Movable, Some(scanner)) => {
                self.reads.blocks += 1;
                let start = prairie_frames::Pfn(block.number * self.block_frames);
                scanner.occupancy(start, self.block_frames).ok()
            }
            _ => None,
        };
    }

    /// Notes that a block has just come online at `place`, so that it was empty. It is not read for
    /// that, and counts as unread: before it is converted again, it is read.
    pub fn came_online(&mut self, block: &mut Block, place: Place) {
        self.sketched.remove(&block.number);
        let empty = Occupancy { free: self.block_frames, ..Occupancy::default() };
        let occupancy = matches!(place, Place::Kernel | Place::Movable).then_some(empty);
        *block = Block { place, occupancy, scanned: Duration::ZERO, ..*block };
    }

    /// Whether what is known of a block is an estimate.
    pub fn is_sketched(&self, number: u64) -> bool {
        self.sketched.contains(&number)
    }

    /// Estimates what fills a block from one frame in `SKETCHED`, spread over the block. Frames of a
    /// kind lie together, so that this suffices to rank blocks, not to convert one.
    pub fn sketch(&mut self, block: &mut Block, now: Duration) {
        let piece = self.block_frames / SKETCH_PIECES;
        let read = piece / SKETCHED;
        let (Place::Kernel | Place::Movable, Some(scanner), 1..) =
            (block.place, &mut self.scanner, read)
        else {
            return self.scan(block, now);
        };
        block.scanned = now;
        self.sketched.insert(block.number);
        let start = block.number * self.block_frames;
        let mut found = Occupancy::default();
        for at in (start..start + self.block_frames).step_by(piece as usize) {
            let classes = scanner.classes(prairie_frames::Pfn(at), read, &mut |run| {
                found.add(run.class, run.frames * SKETCHED);
            });
            if classes.is_err() {
                block.occupancy = None;
                return;
            }
        }
        block.occupancy = Some(found);
    }
}

/// A sketch reads 1 in N frames (*chosen*): the flags of a whole block of 128 MiB take 16 ms in
/// an emulated machine (*measured*), a sketch a fiftieth of it.
const SKETCHED: u64 = 64;

/// Places of a block that a sketch looks at (*chosen*): 8 MiB apart in a block of 128 MiB.
const SKETCH_PIECES: u64 = 16;

fn read_blocks(roots: &Roots) -> io::Result<MemoryBlocks> {
    memory_blocks::read(roots).map_err(|error| match error {
        prairie_host::Error::Io { path, source } => at(&path, &source),
        other => io::Error::other(other),
    })
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
