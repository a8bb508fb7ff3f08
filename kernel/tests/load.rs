//! Loads on memory for the guests of kernel/test and kernel/measure, each a command of one program.
//! Compiled alone, without crates. Every command prints `name value` lines.

use std::ffi::{c_int, c_long, c_void};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

unsafe extern "C" {
    fn pipe(ends: *mut c_int) -> c_int;
    fn write(file: c_int, from: *const c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
    fn mmap(at: *mut c_void, length: usize, prot: c_int, flags: c_int, file: c_int, offset: c_long)
    -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

const SET_MEMPOLICY: c_long = 238;
const BIND: c_long = 2;
const IO_URING_SETUP: c_long = 425;
const IO_URING_REGISTER: c_long = 427;
const REGISTER_BUFFERS: c_long = 0;
const DONT_NEED: c_int = 4;
const HUGE: c_int = 14;

/// Private anonymous memory; its pages come when they are touched.
struct Area {
    at: *mut u8,
    length: usize,
}

impl Area {
    fn new(length: usize) -> Option<Area> {
        // Readable and writable; private, anonymous, without reserve.
        // SAFETY: a new mapping, placed by the kernel.
        let at = unsafe { mmap(std::ptr::null_mut(), length, 3, 0x4022, -1, 0) };
        (at as isize != -1).then_some(Area { at: at.cast(), length })
    }

    fn touch(&self, step: usize) {
        for offset in (0..self.length).step_by(step) {
            // SAFETY: within the mapping.
            unsafe { self.at.add(offset).write_volatile(1) };
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping of this value, which nobody refers to any more.
        unsafe { munmap(self.at.cast(), self.length) };
    }
}

/// Small, and the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

struct Pipe([c_int; 2]);

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: both ends belong to this value.
            unsafe { close(end) };
        }
    }
}

/// A pipe with 16 pages in it; the longest write is noted.
fn full_pipe(page: &[u8; PAGE], longest: &mut Duration) -> Option<Pipe> {
    let mut ends = [0; 2];
    // SAFETY: room for two ends.
    if unsafe { pipe(ends.as_mut_ptr()) } != 0 {
        return None;
    }
    let full = Pipe(ends);
    for _ in 0..16 {
        let begun = Instant::now();
        // SAFETY: a page that is there.
        if unsafe { write(ends[1], page.as_ptr().cast(), PAGE) } != PAGE as isize {
            return None;
        }
        *longest = (*longest).max(begun.elapsed());
    }
    Some(full)
}

/// `pipes MIB ROUNDS KEEP RATE HOLD`: bursts of pipe buffers, of which KEEP percent are kept each
/// time, at most RATE MiB a second (0: no limit); then waits.
fn pipes(mib: usize, rounds: usize, keep: usize, rate: usize, hold: usize) -> Option<()> {
    let page = [7u8; PAGE];
    let (mut kept, mut longest) = (Vec::new(), Duration::ZERO);
    let mut random = Random(88_172_645_463_325_252);
    let begun = Instant::now();
    for _ in 0..rounds {
        let mut burst = Vec::new();
        let began = Instant::now();
        for number in 0..mib * MIB / (16 * PAGE) {
            burst.push(full_pipe(&page, &mut longest)?);
            if rate > 0 {
                let due = Duration::from_micros((number * 16 * PAGE) as u64 / rate as u64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
        kept.extend(burst.into_iter().filter(|_| random.below(100) < keep));
    }
    println!("pipes_longest_us {}", longest.as_micros());
    println!("pipes_ms {}", begun.elapsed().as_millis());
    std::thread::sleep(Duration::from_secs(hold as u64));
    Some(())
}

/// `anonymous MIB SECONDS`: areas of 64 KiB to 4 MiB come and go.
fn anonymous(mib: usize, seconds: usize) -> Option<()> {
    let mut areas: Vec<Area> = Vec::new();
    let (mut used, mut touched) = (0, 0u64);
    let mut random = Random(2_463_534_242);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds as u64) {
        let length = (64 << 10) << random.below(7);
        while used + length > mib * MIB {
            used -= areas.swap_remove(random.below(areas.len())).length;
        }
        let area = Area::new(length)?;
        area.touch(PAGE);
        touched += (length / PAGE) as u64;
        used += length;
        areas.push(area);
    }
    println!("anonymous_pages {touched}");
    Some(())
}

/// `hold MIB SECONDS HUGE`: memory that is used and stays, with huge pages if HUGE is 1.
fn hold(mib: usize, seconds: usize, huge: usize) -> Option<()> {
    let area = Area::new(mib * MIB)?;
    if huge == 1 {
        // SAFETY: the mapping of this value.
        unsafe { madvise(area.at.cast(), area.length, HUGE) };
    }
    area.touch(PAGE);
    println!("held_mib {mib}");
    std::thread::sleep(Duration::from_secs(seconds as u64));
    Some(())
}

/// `holes MIB SECONDS`: memory of which every other page is given back.
fn holes(mib: usize, seconds: usize) -> Option<()> {
    let area = Area::new(mib * MIB)?;
    area.touch(PAGE);
    for offset in (0..area.length).step_by(2 * PAGE) {
        // SAFETY: a page of the mapping of this value.
        unsafe { madvise(area.at.add(offset).cast(), PAGE, DONT_NEED) };
    }
    println!("holes_mib {mib}");
    std::thread::sleep(Duration::from_secs(seconds as u64));
    Some(())
}

/// `odd MIB SECONDS`: memory of which the odd frames of the lowest third are given back.
fn odd(mib: usize, seconds: usize) -> Option<()> {
    let area = Area::new(mib * MIB)?;
    area.touch(PAGE);
    let mut map = File::open("/proc/self/pagemap").ok()?;
    map.seek(SeekFrom::Start((area.at as usize / PAGE * 8) as u64)).ok()?;
    let mut entries = vec![0u8; area.length / PAGE * 8];
    map.read_exact(&mut entries).ok()?;
    // The lower 55 bits of an entry are the frame.
    let words = entries.chunks_exact(8).map(|entry| u64::from_le_bytes(entry.try_into().unwrap()));
    let frames: Vec<u64> = words.map(|word| word & ((1 << 55) - 1)).collect();
    let (first, last) = (frames.iter().min()?, frames.iter().max()?);
    let end = first + (last - first) / 3;
    for (page, frame) in frames.iter().enumerate() {
        if frame % 2 == 1 && *frame < end {
            // SAFETY: a page of the mapping of this value.
            unsafe { madvise(area.at.add(page * PAGE).cast(), PAGE, DONT_NEED) };
        }
    }
    println!("odd_mib {mib}");
    std::thread::sleep(Duration::from_secs(seconds as u64));
    Some(())
}

/// `bound NODE MIB`: memory of one node alone.
fn bound(node: usize, mib: usize) -> Option<()> {
    let nodes = [1u64 << node];
    // SAFETY: a mask of 64 nodes.
    let error = unsafe { syscall(SET_MEMPOLICY, BIND, nodes.as_ptr(), 64usize) };
    if error != 0 {
        return None;
    }
    hold(mib, 0, 0)
}

/// A new io_uring.
fn ring() -> c_long {
    let mut parameters = [0u64; 15];
    // SAFETY: room for struct io_uring_params.
    unsafe { syscall(IO_URING_SETUP, 4u32, parameters.as_mut_ptr()) }
}

/// Pins memory long-term as a buffer of a ring. The kernel's result.
fn register(ring: c_long, at: *mut u8, length: usize) -> c_long {
    let buffers = [at as usize, length];
    // SAFETY: one struct iovec, of memory that outlives the ring.
    unsafe { syscall(IO_URING_REGISTER, ring, REGISTER_BUFFERS, buffers.as_ptr(), 1u32) }
}

/// `repins MIB SECONDS`: memory and a ring's own memory, pinned long-term; the first again after a while.
fn repins(mib: usize, seconds: usize) -> Option<()> {
    let area = Area::new(mib * MIB)?;
    area.touch(PAGE);
    let (first, second, third) = (ring(), ring(), ring());
    // Readable and writable, shared.
    // SAFETY: a new mapping, placed by the kernel.
    let own = unsafe { mmap(std::ptr::null_mut(), PAGE, 3, 1, first as c_int, 0) };
    println!("first_result {}", register(first, area.at, area.length));
    std::thread::sleep(Duration::from_secs(seconds as u64));
    println!("second_result {}", register(second, area.at, area.length));
    println!("ring_result {}", register(third, own.cast(), PAGE));
    Some(())
}

/// `pins MIB SECONDS`: memory used, then pinned long-term as a buffer of io_uring.
fn pins(mib: usize, seconds: usize) -> Option<()> {
    let area = Area::new(mib * MIB)?;
    area.touch(PAGE);
    let ring = ring();
    let begun = Instant::now();
    let error = register(ring, area.at, area.length);
    println!("pins_result {error}");
    println!("pins_ms {}", begun.elapsed().as_millis());
    std::thread::sleep(Duration::from_secs(seconds as u64));
    (error == 0).then_some(())
}

/// `tables MIB SECONDS`: so much memory in page tables, one entry in each.
fn tables(mib: usize, seconds: usize) -> Option<()> {
    let area = Area::new(mib * MIB / PAGE * 2 * MIB)?;
    for offset in (0..area.length).step_by(2 * MIB) {
        // Reading maps the zero page.
        // SAFETY: within the mapping.
        unsafe { area.at.add(offset).read_volatile() };
    }
    println!("tables_mib {mib}");
    std::thread::sleep(Duration::from_secs(seconds as u64));
    Some(())
}

/// `names COUNT`: COUNT directory entries for names that do not exist.
fn names(count: usize) -> Option<()> {
    for number in 0..count {
        let _ = fs::metadata(format!("/tmp/there-is-no-file-of-such-a-name-{number}"));
    }
    println!("names {count}");
    Some(())
}

/// `files FOLDER COUNT KEEP`: new files, of which all but every KEEPth are removed; 1 keeps all. The longest that
/// one took.
fn files(folder: usize, count: usize, keep: usize) -> Option<()> {
    let folder = format!("/tmp/files-{folder}");
    fs::create_dir_all(&folder).ok()?;
    let mut longest = Duration::ZERO;
    for number in 0..count {
        let begun = Instant::now();
        File::create(format!("{folder}/{number}")).ok()?;
        longest = longest.max(begun.elapsed());
    }
    for number in (0..count).filter(|number| number % keep != 0) {
        fs::remove_file(format!("{folder}/{number}")).ok()?;
    }
    println!("files_longest_us {}", longest.as_micros());
    Some(())
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The bits of /proc/kpageflags that only unmovable memory has: slab, page table.
const UNMOVABLE: u64 = 1 << 7 | 1 << 26;
const BUDDY: u64 = 1 << 10;
const NOPAGE: u64 = 1 << 20;
const RESERVED: u64 = 1 << 32;

/// Flags of every frame.
fn flags() -> Option<Vec<u64>> {
    let mut file = File::open("/proc/kpageflags").ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes.chunks_exact(8).map(|eight| u64::from_ne_bytes(eight.try_into().unwrap())).collect())
}

/// `scan SECONDS`: looks each second for unmovable frames above the border. What is reserved since
/// boot is counted apart. The border may move while frames are read, hence the higher of two.
fn scan(seconds: usize) -> Option<()> {
    let border = || number_in("/sys/kernel/mm/contiguitas/node0/border_pfn");
    let (mut scans, mut strays, mut reserved) = (0u64, 0u64, 0u64);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds as u64) {
        let before = border()?;
        let flags = flags()?;
        let above = before.max(border()?) as usize;
        let found = flags.iter().skip(above).filter(|&&flags| flags & UNMOVABLE != 0).count();
        reserved = flags.iter().skip(above).filter(|&&flags| flags & RESERVED != 0).count() as u64;
        strays += found as u64;
        scans += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
    println!("scans {scans}\nscan_strays {strays}\nscan_reserved {reserved}");
    Some(())
}

/// Bits of memory that is free or can be moved: on an LRU list, free, anonymous, hugetlb, THP.
const MOVABLE: u64 = 1 << 5 | BUDDY | 1 << 12 | 1 << 17 | 1 << 22;

/// `blocks FIRST`: how many aligned areas of each size, from frame FIRST on, are free of frames that
/// cannot be moved: what compaction could make of memory at best.
fn blocks(first: usize) -> Option<()> {
    let flags = flags()?;
    for (name, frames) in [("2m", 512), ("32m", 8192), ("1g", 262_144)] {
        // Memory ends somewhere: an area with a hole was never one.
        let areas = flags.chunks_exact(frames).skip(first.div_ceil(frames));
        let areas = areas.filter(|area| !area.iter().any(|&flags| flags & NOPAGE != 0));
        let areas: Vec<&[u64]> = areas.collect();
        let whole = areas.iter().filter(|area| area.iter().all(|&flags| flags & MOVABLE != 0));
        println!("potential_{name} {}\nareas_{name} {}", whole.count(), areas.len());
    }
    Some(())
}

/// Bits of page tables, and of memory on an LRU list.
const TABLE: u64 = 1 << 26;
const LISTED: u64 = 1 << 5;

/// `within FIRST LAST`: how many frames from FIRST up to LAST hold page tables, and user memory.
fn within(first: usize, last: usize) -> Option<()> {
    let flags = flags()?;
    let count = |bit| flags[first..last].iter().filter(|&&flags| flags & bit != 0).count();
    println!("within_tables {}\nwithin_users {}", count(TABLE), count(LISTED));
    Some(())
}

/// `near FIRST`: what the pageblock before frame FIRST holds, by flags, and who allocated it if the
/// kernel was booted with page_owner=on.
fn near(first: usize) -> Option<()> {
    let flags = flags()?;
    let mut kinds = std::collections::BTreeMap::new();
    for flags in &flags[first - 512..first] {
        *kinds.entry(flags & ((1 << 27) - 1)).or_insert(0) += 1;
    }
    for (kind, frames) in kinds {
        println!("near_{kind:#x} {frames}");
    }
    for owner in owners(first - 512).into_iter().flatten().take_while(|owner| owner.frame < first) {
        println!("{}", owner.text);
    }
    Some(())
}

/// Who allocated a block, by a kernel that was booted with page_owner=on.
struct Owner {
    frame: usize,
    text: String,
}

impl Owner {
    /// Whether the request was of movable memory.
    fn is_movable(&self) -> bool {
        self.text.contains(" type Movable Block ")
    }
}

/// The owners of all blocks from a frame on; none if the kernel does not keep them.
fn owners(first: usize) -> Option<impl Iterator<Item = Owner>> {
    let mut file = File::open("/sys/kernel/debug/page_owner").ok()?;
    file.seek(SeekFrom::Start(first as u64)).ok()?;
    let mut buffer = vec![0; 8 * PAGE];
    Some(std::iter::from_fn(move || {
        // A read gives one block's owner.
        let length = file.read(&mut buffer).ok().filter(|&length| length > 0)?;
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let frame = text.split("PFN ").nth(1)?.split(' ').next()?;
        let frame = match frame.strip_prefix("0x") {
            Some(hex) => usize::from_str_radix(hex, 16).ok()?,
            None => frame.parse().ok()?,
        };
        Some(Owner { frame, text })
    }))
}

/// `owners FIRST LAST`: how many blocks from frame FIRST up to LAST were allocated for unmovable memory, and
/// how many elsewhere; shows the first few of the former.
fn owned(first: usize, last: usize) -> Option<()> {
    let (mut above, mut elsewhere, mut movable) = (0u64, 0u64, 0u64);
    for owner in owners(0)? {
        match (owner.is_movable(), (first..last).contains(&owner.frame)) {
            (true, _) => movable += 1,
            (false, false) => elsewhere += 1,
            (false, true) => {
                above += 1;
                if above <= 5 {
                    println!("{}", owner.text);
                }
            }
        }
    }
    println!("owned_above {above}\nowned_elsewhere {elsewhere}\nowned_movable {movable}");
    Some(())
}

/// `poisons FIRST FRAMES SECONDS`: takes free frames from FIRST on off the free lists, as memory that begins to
/// fail, and puts each back at once. The pauses leave time in which none is missing and the border can move.
fn poisons(first: usize, frames: usize, seconds: usize) -> Option<()> {
    let open = |path| File::options().write(true).open(path).ok();
    let mut offline = open("/sys/devices/system/memory/soft_offline_page")?;
    let mut unpoison = open("/sys/kernel/debug/hwpoison/unpoison-pfn")?;
    let (mut poisoned, mut refused, mut kept) = (0u64, 0u64, 0u64);
    let mut random = Random(88_172_645_463_325_252);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds as u64) {
        std::thread::sleep(Duration::from_micros(random.below(1000) as u64));
        let frame = first + random.below(frames);
        // The kernel takes each write for a number.
        if offline.write_all((frame * PAGE).to_string().as_bytes()).is_err() {
            refused += 1;
            continue;
        }
        poisoned += 1;
        kept += u64::from(unpoison.write_all(frame.to_string().as_bytes()).is_err());
    }
    println!("poisoned {poisoned}\npoison_refused {refused}\npoison_kept {kept}");
    Some(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, numbers) = match words.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("", &[][..]),
    };
    let numbers: Vec<usize> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
    let done = match (name, numbers[..].as_ref()) {
        ("pipes", &[mib, rounds, keep, rate, wait]) => pipes(mib, rounds, keep, rate, wait),
        ("anonymous", &[mib, seconds]) => anonymous(mib, seconds),
        ("hold", &[mib, seconds, huge]) => hold(mib, seconds, huge),
        ("holes", &[mib, seconds]) => holes(mib, seconds),
        ("odd", &[mib, seconds]) => odd(mib, seconds),
        ("bound", &[node, mib]) => bound(node, mib),
        ("pins", &[mib, seconds]) => pins(mib, seconds),
        ("repins", &[mib, seconds]) => repins(mib, seconds),
        ("tables", &[mib, seconds]) => tables(mib, seconds),
        ("names", &[count]) => names(count),
        ("files", &[folder, count, keep]) => files(folder, count, keep),
        ("poisons", &[first, frames, seconds]) => poisons(first, frames, seconds),
        ("scan", &[seconds]) => scan(seconds),
        ("near", &[first]) => near(first),
        ("owners", &[first, last]) => owned(first, last),
        ("within", &[first, last]) => within(first, last),
        ("blocks", &[above]) => blocks(above),
        _ => {
            eprintln!("load: {words:?}: no such load");
            return ExitCode::from(2);
        }
    };
    if done.is_some() {
        return ExitCode::SUCCESS;
    }
    eprintln!("load: {name}: {}", std::io::Error::last_os_error());
    ExitCode::FAILURE
}
