//! Memory blocks: the units in which memory goes on- and offline
//! (`/sys/devices/system/memory`, `drivers/base/memory.c`), and what fills each of them.
//!
//! A block's directory names its state and its zone. What it holds comes from its part of
//! `/proc/kpageflags`, as an [`Occupancy`]: how much would have to be moved to empty it, and what
//! cannot be moved at all. Pins do not show there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use prairie_frames::{Pfn, ZoneKind};
use serde::Serialize;

use crate::error::ParseError;
use crate::{ClassRun, Classifier, Error, FrameClass, FrameRun, PageFlags, Roots};

/// The directory, as a capture names it.
pub const FOLDER: &str = "sys/devices/system/memory";

/// The blocks of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// Frames of a block.
    pub block_frames: u64,
    /// The blocks, by number. A block that is not there is a hole, or its driver took it away.
    pub blocks: Vec<MemoryBlock>,
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBlock {
    /// Its number: its first frame divided by the frames of a block.
    pub number: u64,
    /// Its state.
    pub state: BlockState,
    /// The zone of its frames while it is online.
    pub zone: BlockZone,
    /// Its NUMA node; 0 where the kernel names none.
    pub node: u32,
}

impl MemoryBlock {
    /// Its first frame.
    pub const fn start(&self, block_frames: u64) -> Pfn {
        Pfn(self.number * block_frames)
    }
}

/// `state` of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BlockState {
    /// In use.
    Online,
    /// Its memory cannot be allocated.
    Offline,
    /// On its way out.
    GoingOffline,
}

/// `valid_zones` of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BlockZone {
    /// Online in this zone.
    One(#[serde(serialize_with = "as_name")] ZoneKind),
    /// Online in several zones, or with a hole: it can never go offline (`none`).
    Several,
    /// Offline; or a kernel without `valid_zones`.
    Unknown,
}

fn as_name<S: serde::Serializer>(kind: &ZoneKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// Reads all blocks.
///
/// # Errors
/// [`Error::Io`] where the kernel has no memory hotplug (no such directory) or a file cannot be
/// read; [`Error::Parse`] for a text that no kernel writes. A block that vanishes meanwhile is left
/// out.
pub fn read(roots: &Roots) -> Result<MemoryBlocks, Error> {
    let name = format!("{FOLDER}/block_size_bytes");
    let text = roots.text(&name).map_err(|source| Error::Io { path: roots.path(&name), source })?;
    let block_frames = block_frames(&name, &text)?;
    let mut blocks = Vec::new();
    for entry in roots.list(FOLDER) {
        let Some(number) = entry.strip_prefix("memory").and_then(|n| n.parse::<u64>().ok()) else {
            continue;
        };
        if number.checked_mul(block_frames).is_none_or(|start| start >= 1 << 40) {
            return Err(wrong(&format!("{FOLDER}/{entry}"), "a block below frame 2^40", &entry));
        }
        blocks.extend(read_block(roots, number)?);
    }
    blocks.sort_by_key(|block| block.number);
    Ok(MemoryBlocks { block_frames, blocks })
}

/// Reads one block; nothing where it is gone.
///
/// # Errors
/// As [`read`].
pub fn read_block(roots: &Roots, number: u64) -> Result<Option<MemoryBlock>, Error> {
    let folder = format!("{FOLDER}/memory{number}");
    let file = |name: &str| -> Result<Option<String>, Error> {
        let name = format!("{folder}/{name}");
        match roots.text(&name) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => Err(Error::Io { path: roots.path(&name), source }),
        }
    };
    let Some(state) = file("state")? else { return Ok(None) };
    let state = match state.as_str() {
        "online" => BlockState::Online,
        "offline" => BlockState::Offline,
        "going-offline" => BlockState::GoingOffline,
        other => return Err(wrong(&format!("{folder}/state"), "online or offline", other)),
    };
    let zone = match (state, file("valid_zones")?.as_deref()) {
        (BlockState::Online, Some("none")) => BlockZone::Several,
        // Offline blocks list the zones that they may go to.
        (BlockState::Online, Some(name)) => {
            ZoneKind::from_name(name).map_or(BlockZone::Unknown, BlockZone::One)
        }
        _ => BlockZone::Unknown,
    };
    let node = roots.list(&folder).iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
    Ok(Some(MemoryBlock { number, state, zone, node: node.unwrap_or(0) }))
}

/// A file of a block that was taken away: no such file, or no such device while it is read.
fn is_gone(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ENODEV)
}

/// `block_size_bytes`: hexadecimal without a prefix.
fn block_frames(file: &str, text: &str) -> Result<u64, Error> {
    let bytes = u64::from_str_radix(text.trim(), 16).ok();
    // A section of the sparse memory model is the least, and no machine has blocks of more.
    let is_size = |bytes: &u64| bytes.is_power_of_two() && (1 << 22..=1 << 40).contains(bytes);
    let bytes = bytes.filter(is_size);
    bytes.map(|bytes| bytes / 4096).ok_or_else(|| {
        wrong(file, "a power of two of bytes in hexadecimal, such as 8000000", text.trim())
    })
}

fn wrong(file: &str, expected: &str, found: &str) -> Error {
    let (expected, found) = (expected.to_owned(), found.chars().take(60).collect());
    ParseError { file: file.to_owned(), line: 1, expected, found }.into()
}

/// What fills a block, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// On the free lists.
    pub free: u64,
    /// User memory that must be moved: anonymous memory and shared memory.
    pub movable: u64,
    /// Page cache: moved, or dropped where it is clean.
    pub cache: u64,
    /// Kernel memory, and what is broken: it stays.
    pub unmovable: u64,
    /// No flags: kernel memory without flags (pipes, stacks, vmalloc), which stays, or free
    /// frames parked on per-CPU lists.
    pub unflagged: u64,
    /// Withheld from the page allocator: the block never goes offline.
    pub reserved: u64,
    /// hugetlb pages, in use or in the pool.
    pub hugetlb: u64,
    /// Ballooned or unplugged by the hypervisor.
    pub offline: u64,
    /// No memory.
    pub absent: u64,
}

impl Occupancy {
    /// Adds `frames` of a class.
    pub fn add(&mut self, class: FrameClass, frames: u64) {
        let field = match class {
            FrameClass::Free => &mut self.free,
            FrameClass::Anonymous | FrameClass::AnonymousThp | FrameClass::Shmem => {
                &mut self.movable
            }
            FrameClass::File => &mut self.cache,
            FrameClass::Hugetlb | FrameClass::HugetlbGigantic => &mut self.hugetlb,
            FrameClass::Slab
            | FrameClass::PageTable
            | FrameClass::DriverMapped
            | FrameClass::KernelOther
            | FrameClass::ZeroPage
            | FrameClass::HwPoison => &mut self.unmovable,
            FrameClass::Reserved => &mut self.reserved,
            FrameClass::Offline => &mut self.offline,
            FrameClass::Unflagged | FrameClass::Uninitialized => &mut self.unflagged,
            FrameClass::Absent => &mut self.absent,
        };
        *field += frames;
    }

    /// Frames that would have to be moved or dropped to empty the block.
    pub const fn to_move(&self) -> u64 {
        self.movable + self.cache
    }

    /// All frames.
    pub const fn total(&self) -> u64 {
        let kernel = self.unmovable + self.unflagged + self.reserved;
        self.free + self.to_move() + kernel + self.hugetlb + self.offline + self.absent
    }
}

/// Reads what fills blocks, through one open file.
#[derive(Debug)]
pub struct Scanner {
    file: File,
    bytes: Vec<u8>,
}

/// Frames of one read: 64 KiB, which stay in the cache until they are classified.
const READ_FRAMES: usize = 8192;

impl Scanner {
    /// Opens `/proc/kpageflags`.
    ///
    /// # Errors
    /// The system's: no permission, or a kernel without `CONFIG_PROC_PAGE_MONITOR`.
    pub fn open(roots: &Roots) -> io::Result<Scanner> {
        let file = File::open(roots.path("proc/kpageflags"))?;
        Ok(Scanner { file, bytes: vec![0; READ_FRAMES * 8] })
    }

    /// What fills `frames` frames from `start` on. The kernel needs some 60 ns for each.
    ///
    /// # Errors
    /// The system's. Frames past the end of the file are absent.
    pub fn occupancy(&mut self, start: Pfn, frames: u64) -> io::Result<Occupancy> {
        let mut occupancy = Occupancy::default();
        self.classes(start, frames, &mut |run| occupancy.add(run.class, run.frames))?;
        Ok(occupancy)
    }

    /// The classes of `frames` frames from `start` on, in order.
    ///
    /// # Errors
    /// The system's. Frames past the end of the file are absent.
    pub fn classes(
        &mut self,
        start: Pfn,
        frames: u64,
        out: &mut dyn FnMut(ClassRun),
    ) -> io::Result<()> {
        let mut classifier = Classifier::new();
        self.runs(start, frames, &mut |run| {
            classifier.push(run, &mut |class| out(class)).map_err(io::Error::other)
        })?;
        classifier.finish(&mut |class| out(class));
        Ok(())
    }

    /// Frames of equal flags, in order.
    fn runs(
        &mut self,
        start: Pfn,
        frames: u64,
        out: &mut dyn FnMut(FrameRun) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = start.0 + frames;
        let mut at = start.0;
        let mut run: Option<FrameRun> = None;
        while at < end {
            let wanted = (end - at).min(READ_FRAMES as u64) as usize * 8;
            let read = self.file.read_at(&mut self.bytes[..wanted], at * 8)? / 8;
            let words = self.bytes[..read * 8].chunks_exact(8);
            let words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
            let rest = if read == 0 { end - at } else { 0 };
            let flags = words.map(|word| (PageFlags(word), 1)).chain(
                // Past the end of the file.
                (rest > 0).then_some((PageFlags::NOPAGE, rest)),
            );
            for (flags, frames) in flags {
                match &mut run {
                    Some(run) if run.flags == flags => run.frames += frames,
                    _ => {
                        let next = FrameRun { start: Pfn(at), frames, flags, read_at_ns: 0 };
                        run.replace(next).map_or(Ok(()), &mut *out)?;
                    }
                }
                at += frames;
            }
        }
        run.map_or(Ok(()), out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const FRAMES: u64 = 32_768;

    fn block(root: &Path, number: u64, state: &str, zones: Option<&str>, node: u32) {
        let folder = root.join(FOLDER).join(format!("memory{number}"));
        fs::create_dir_all(folder.join(format!("node{node}"))).unwrap();
        fs::write(folder.join("state"), format!("{state}\n")).unwrap();
        if let Some(zones) = zones {
            fs::write(folder.join("valid_zones"), format!("{zones}\n")).unwrap();
        }
    }

    fn tree() -> (tempfile::TempDir, Roots) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join(FOLDER).join("block_size_bytes"), "8000000\n").unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        (root, roots)
    }

    #[test]
    fn blocks_have_a_state_a_zone_and_a_node() {
        let (root, roots) = tree();
        block(root.path(), 10, "online", Some("Movable"), 1);
        block(root.path(), 2, "online", Some("none"), 0);
        block(root.path(), 0, "online", Some("DMA32"), 0);
        block(root.path(), 3, "offline", Some("Normal Movable"), 0);
        block(root.path(), 4, "going-offline", None, 0);
        fs::create_dir(root.path().join(FOLDER).join("power")).unwrap();
        let read = read(&roots).unwrap();
        assert_eq!(read.block_frames, FRAMES);
        let found: Vec<_> =
            read.blocks.iter().map(|b| (b.number, b.state, b.zone, b.node)).collect();
        use BlockState::*;
        assert_eq!(
            found,
            [
                (0, Online, BlockZone::One(ZoneKind::Dma32), 0),
                (2, Online, BlockZone::Several, 0),
                (3, Offline, BlockZone::Unknown, 0),
                (4, GoingOffline, BlockZone::Unknown, 0),
                (10, Online, BlockZone::One(ZoneKind::Movable), 1),
            ]
        );
        assert_eq!(read.blocks[1].start(FRAMES), Pfn(2 * FRAMES));
        assert_eq!(read_block(&roots, 7).unwrap(), None, "gone");
    }

    #[test]
    fn errors_name_the_file() {
        let (root, roots) = tree();
        block(root.path(), 1, "strange", None, 0);
        let error = read(&roots).unwrap_err().to_string();
        assert!(error.contains("memory1/state") && error.contains("strange"), "{error}");
        for size in ["", "0", "8000001", "x", "fffffffffffffffff", "1000"] {
            fs::write(root.path().join(FOLDER).join("block_size_bytes"), size).unwrap();
            let error = read(&roots).unwrap_err().to_string();
            assert!(error.contains("block_size_bytes"), "{size}: {error}");
        }
        let none = Roots::at(Path::new("/nowhere/proc"));
        assert!(matches!(read(&none), Err(Error::Io { .. })));
    }

    #[test]
    fn occupancy_counts_each_frame_once() {
        let (root, roots) = tree();
        let mut words = vec![PageFlags::BUDDY.0; FRAMES as usize];
        let anon = PageFlags::ANON | PageFlags::LRU | PageFlags::SWAPBACKED;
        let head = PageFlags::HUGE | PageFlags::COMPOUND_HEAD;
        for (range, flags) in [
            (0..100, anon),
            (100..150, PageFlags::LRU | PageFlags::UPTODATE),
            (150..157, PageFlags::SLAB),
            (160..163, PageFlags::RESERVED),
            (200..210, PageFlags::NONE),
            (512..513, head),
            (513..1024, PageFlags::COMPOUND_TAIL),
            (2000..2005, PageFlags::OFFLINE),
        ] {
            words[range].fill(flags.0);
        }
        // The second block ends early.
        words.extend(vec![PageFlags::BUDDY.0; 1000]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        fs::write(root.path().join("proc/kpageflags"), bytes).unwrap();
        let mut scanner = Scanner::open(&roots).unwrap();
        let found = scanner.occupancy(Pfn(0), FRAMES).unwrap();
        let expected = Occupancy {
            free: FRAMES - 100 - 50 - 7 - 3 - 10 - 512 - 5,
            movable: 100,
            cache: 50,
            unmovable: 7,
            unflagged: 10,
            reserved: 3,
            hugetlb: 512,
            offline: 5,
            absent: 0,
        };
        assert_eq!(found, expected);
        assert_eq!((found.total(), found.to_move()), (FRAMES, 150));
        let second = scanner.occupancy(Pfn(FRAMES), FRAMES).unwrap();
        assert_eq!((second.free, second.absent, second.total()), (1000, FRAMES - 1000, FRAMES));
    }
}
