//! Unmovable and movable memory on demand, and what it leaves: the load of `vm/tests/regions.sh`.
//!
//! ```text
//! kernel_load pipes MIB MIB_PER_SECOND KEEP_MIB SECONDS   pages in pipes; KEEP_MIB stay to the end
//! kernel_load tables MIB SECONDS                          page tables without pages
//! kernel_load anon MIB SECONDS                            anonymous memory, written once
//! kernel_load dentries FOLDER COUNT SECONDS               negative dentries: names that no file has
//! kernel_load forks COUNT MIB SECONDS                     processes with as much memory each
//! kernel_load pins MIB SECONDS                            buffers that io_uring pins
//! kernel_load splices MIB SECONDS                         memory that vmsplice lends to pipes
//! kernel_load areas                                       areas without unmovable frames
//! kernel_load blocks                                      what fills each memory block
//! kernel_load beside                                      what fills the pageblocks below the border
//! ```
//!
//! `pipes` prints the time of its worst write of 64 KiB, in microseconds. The loads from `tables` on
//! print `ready` when all is there, and stay for that many seconds.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use prairie_frames::{Pfn, ZoneKind};
use prairie_host::memory_blocks::{self, Scanner};
use prairie_host::{BlockZone, Roots};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};
use rustix::process::{Resource, Rlimit, setrlimit};

const MIB: u64 = 1 << 20;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let done = match words.first().map(String::as_str) {
        Some("pipes") => pipes(number(1), number(2), number(3), number(4)),
        Some("tables") => tables(number(1), number(2)),
        Some("anon") => anon(number(1), number(2)),
        Some("dentries") => {
            dentries(words.get(1).map_or("/", String::as_str), number(2), number(3))
        }
        Some("forks") => forks(number(1), number(2), number(3)),
        Some("pins") => pins(number(1), number(2)),
        Some("splices") => splices(number(1), number(2)),
        Some("areas") => areas(),
        Some("blocks") => blocks(),
        Some("beside") => beside(),
        _ => Err(io::Error::other("expected a load, areas, blocks, or beside")),
    };
    if let Err(error) = done {
        eprintln!("kernel_load: {error}");
        std::process::exit(1);
    }
}

/// Fills pipes of 1 MiB at a rate, then closes all but some of them.
fn pipes(mib: u64, rate: u64, keep: u64, seconds: u64) -> io::Result<()> {
    let many = Some(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: many, maximum: many })?;
    let piece = vec![1u8; 64 << 10];
    let mut open: Vec<(OwnedFd, File)> = Vec::new();
    let (started, mut worst) = (Instant::now(), Duration::ZERO);
    for filled in 0..mib {
        let (reader, writer) = rustix::pipe::pipe()?;
        rustix::pipe::fcntl_setpipe_size(writer.as_fd(), MIB as usize)?;
        let mut writer = File::from(writer);
        for _ in 0..MIB as usize / piece.len() {
            let before = Instant::now();
            writer.write_all(&piece)?;
            worst = worst.max(before.elapsed());
        }
        open.push((reader, writer));
        let due = Duration::from_secs_f64((filled + 1) as f64 / rate.max(1) as f64);
        sleep(due.saturating_sub(started.elapsed()));
    }
    println!("worst_us={} filled_ms={}", worst.as_micros(), started.elapsed().as_millis());
    sleep(Duration::from_secs(seconds));
    // Those that stay are spread over all of them.
    let every = (mib / keep.max(1)).max(1);
    let mut at = 0;
    open.retain(|_| {
        at += 1;
        keep > 0 && at % every == 0
    });
    if keep == 0 {
        return Ok(());
    }
    loop {
        sleep(Duration::from_secs(3600));
    }
}

/// Page tables that map the zero page: a page of them for each 2 MiB.
fn tables(mib: u64, seconds: u64) -> io::Result<()> {
    const HUGE: usize = 2 << 20;
    let len = mib as usize * 256 * HUGE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at a place of the kernel's choice; its bytes are only read.
    unsafe {
        let start = mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ, flags)?;
        let _ = madvise(start, len, Advice::LinuxNoHugepage);
        for at in (0..len).step_by(HUGE) {
            ptr::read_volatile(start.cast::<u8>().add(at));
        }
    }
    stay(seconds);
    Ok(())
}

/// Says that all is there, and waits.
fn stay(seconds: u64) {
    println!("ready");
    sleep(Duration::from_secs(seconds));
}

/// The kernel remembers in a dentry that there is no file of a name; tmpfs does not.
fn dentries(folder: &str, count: u64, seconds: u64) -> io::Result<()> {
    for number in 0..count {
        let _ =
            std::fs::metadata(format!("{folder}/no-file-has-such-a-long-name-as-this-{number}"));
    }
    let state = std::fs::read_to_string("/proc/sys/fs/dentry-state")?;
    println!("dentries {}", state.split_whitespace().next().unwrap_or_default());
    stay(seconds);
    Ok(())
}

/// Processes that live at the same time: stacks, page tables, and memory of their own.
fn forks(count: u64, mib: u64, seconds: u64) -> io::Result<()> {
    let own = env::current_exe()?;
    let words = ["anon".to_owned(), mib.to_string(), seconds.to_string()];
    let child = |_| Command::new(&own).args(&words).stdout(Stdio::piped()).spawn();
    let mut children: Vec<_> = (0..count).map(child).collect::<io::Result<_>>()?;
    for child in &mut children {
        let output = child.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut String::new())?;
    }
    println!("ready");
    for mut child in children {
        child.wait()?;
    }
    Ok(())
}

/// Memory that was used before it is pinned: the kernel migrates what lies in ZONE_MOVABLE.
fn pins(mib: u64, seconds: u64) -> io::Result<()> {
    use rustix::io_uring::{
        IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup, iovec,
    };
    let mut bytes = vec![1u8; (mib * MIB) as usize];
    let buffer = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: the parameters are those of a ring without memory of ours; the buffer outlives the ring.
    let ring = unsafe {
        let ring = io_uring_setup(4, &mut io_uring_params::default())?;
        let buffers = IoringRegisterOp::RegisterBuffers;
        io_uring_register(&ring, buffers, (&raw const buffer).cast(), 1)?;
        ring
    };
    stay(seconds);
    drop(ring);
    Ok(())
}

/// Pages that pipes refer to: to the kernel no pins for long, and yet they cannot be migrated.
fn splices(mib: u64, seconds: u64) -> io::Result<()> {
    const PAGE: usize = 4096;
    let many = Some(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: many, maximum: many })?;
    // A pipe refers to 16 pages at most: parts begin at a page.
    let mut bytes = vec![1u8; (mib * MIB) as usize + PAGE];
    let start = bytes.as_ptr().align_offset(PAGE);
    let mut open: Vec<(OwnedFd, OwnedFd)> = Vec::new();
    for part in bytes[start..][..(mib * MIB) as usize].chunks_mut(64 << 10) {
        let (reader, writer) = rustix::pipe::pipe()?;
        let length = part.len();
        let part = [IoSliceRaw::from_slice_mut(part)];
        // SAFETY: nobody writes to the memory while the pipes refer to it; both end with this call.
        let lent = unsafe { vmsplice(&writer, &part, SpliceFlags::empty())? };
        if lent != length {
            return Err(io::Error::other("vmsplice took less than was offered"));
        }
        open.push((reader, writer));
    }
    stay(seconds);
    Ok(())
}

fn anon(mib: u64, seconds: u64) -> io::Result<()> {
    let mut bytes = vec![0u8; (mib * MIB) as usize];
    for page in bytes.chunks_mut(4096) {
        page[0] = 1;
    }
    stay(seconds);
    drop(bytes);
    Ok(())
}

/// Counts aligned areas of 2 and 32 MiB and 1 GiB that exist, and those without an unmovable
/// frame. Free frames on per-CPU lists carry no flags: up to 64 of them in 32 MiB pass, and in
/// ZONE_MOVABLE, which has no kernel memory, any number. On a kernel with Contiguitas, areas above
/// the border are counted apart, whole ones only, and unmovable frames there are strays.
fn areas() -> io::Result<()> {
    let roots = Roots::live();
    let blocks = memory_blocks::read(&roots).map_err(io::Error::other)?;
    let mut scanner = Scanner::open(&roots)?;
    let first = border();
    // Unmovable frames and frames without flags, by the first frame of each area.
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for block in &blocks.blocks {
        let start = block.start(blocks.block_frames).0;
        for start in (start..start + blocks.block_frames).step_by(SMALLEST as usize) {
            // A block keeps the zone that it had at boot; the border does not.
            let movable = match first {
                Some(border) => start >= border,
                None => block.zone == BlockZone::One(ZoneKind::Movable),
            };
            let found = scanner.occupancy(Pfn(start), SMALLEST)?;
            let unflagged = if movable { 0 } else { found.unflagged };
            counts.insert(start, (found.unmovable + found.reserved + found.absent, unflagged));
        }
    }
    for (name, frames) in SIZES {
        let (all, clean) = count_areas(&counts, frames, 1);
        print!("areas_{name}={all} clean_{name}={clean} ");
    }
    if let Some(before) = first {
        // The border may have moved while frames were read: above is what lies above both.
        let border = before.max(border().unwrap_or(before));
        let above = counts.split_off(&border);
        for (name, frames) in SIZES {
            let (all, clean) = count_areas(&above, frames, frames / SMALLEST);
            print!("above_{name}={all} clean_above_{name}={clean} ");
        }
        let strays: u64 = above.values().map(|(unmovable, _)| unmovable).sum();
        print!("strays={strays} border={border}");
    }
    println!();
    Ok(())
}

/// Frames of the smallest area.
const SMALLEST: u64 = 512;

/// Names and frames of the areas that are counted.
const SIZES: [(&str, u64); 3] = [("2m", SMALLEST), ("32m", 8192), ("1g", 1 << 18)];

/// The first frame above the border, on a kernel with Contiguitas.
fn border() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/kernel/mm/contiguitas/node0/border_pfn").ok()?;
    text.trim().parse().ok()
}

/// How many aligned areas have at least `least` of their smallest areas, and how many of these are
/// clean.
fn count_areas(counts: &BTreeMap<u64, (u64, u64)>, frames: u64, least: u64) -> (usize, usize) {
    let mut areas: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for (start, (kernel, unflagged)) in counts {
        let area = areas.entry(start / frames).or_default();
        *area = (area.0 + kernel, area.1 + unflagged, area.2 + 1);
    }
    areas.retain(|_, (_, _, parts)| *parts >= least);
    let is_clean =
        |(kernel, unflagged, _): &&(u64, u64, u64)| *kernel == 0 && *unflagged <= frames / 128;
    (areas.len(), areas.values().filter(is_clean).count())
}

/// What fills each block: its zone, and frames by class.
fn blocks() -> io::Result<()> {
    let roots = Roots::live();
    let read = memory_blocks::read(&roots).map_err(io::Error::other)?;
    let mut scanner = Scanner::open(&roots)?;
    for block in &read.blocks {
        print!("block={} zone={:?}", block.number, block.zone);
        let mut classes = BTreeMap::new();
        scanner.classes(block.start(read.block_frames), read.block_frames, &mut |run| {
            *classes.entry(format!("{:?}", run.class)).or_insert(0) += run.frames;
        })?;
        for (class, frames) in classes {
            print!(" {class}={frames}");
        }
        println!();
    }
    Ok(())
}

/// What fills each of the four pageblocks right below the border: runs of frames, as CLASS@FIRST=FRAMES.
/// A page that stays there keeps the border from going down.
fn beside() -> io::Result<()> {
    let border = border().ok_or_else(|| io::Error::other("the kernel has no border"))?;
    let mut scanner = Scanner::open(&Roots::live())?;
    for block in 1..=4 {
        let start = border - block * SMALLEST;
        print!("pageblock={start:#x}");
        scanner.classes(Pfn(start), SMALLEST, &mut |run| {
            print!(" {:?}@{:#x}={}", run.class, run.start.0, run.frames);
        })?;
        println!();
    }
    Ok(())
}
