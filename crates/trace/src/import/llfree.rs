//! The binary traces that LLFree's `replay` reads.
//!
//! The file is made of pages of 4096 bytes, little-endian. The first begins with three 32-bit
//! numbers: pages, CPUs, the largest frame number. Each other page belongs to one CPU, whose number
//! its first 4 bytes hold; from byte 16 on it has up to 255 entries of 128 bits, ended by one whose
//! frame number is 0. An entry holds, from the lowest bit: 38 bits of time in microseconds, 24 of
//! frame number, 1 that is set for an allocation, 4 of order, 29 of GFP flags, 32 of process number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prairie_frames::{Order, Pfn};

use crate::{Error, Event, EventKind, EventSource, GfpFlags, Result, StackId, Texts};

const PAGE: usize = 4096;
const FIRST_ENTRY: usize = 16;
const ENTRY: usize = 16;
const ENTRIES: usize = (PAGE - FIRST_ENTRY) / ENTRY;
const BATCH: usize = 4096;

/// An open trace of LLFree's.
///
/// The CPUs' pages are merged by time, those of one CPU in the order of the file; memory is one
/// page a CPU and 4 bytes a page. (LLFree itself loads and sorts everything, and keeps times as
/// 32-bit floats, so its order of events of different CPUs is coarser.)
pub struct LlfreeTrace {
    path: PathBuf,
    file: File,
    frames: u64,
    cpus: Vec<Cpu>,
    /// The next time of each CPU that has events left, earliest first, then by CPU.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    batch: Vec<Event>,
    texts: Texts,
}

/// The pages of one CPU, and where it is in them.
struct Cpu {
    number: u16,
    /// Pages in reverse, so that the next one is at the end.
    pages: Vec<u32>,
    events: std::vec::IntoIter<Event>,
}

impl LlfreeTrace {
    /// Opens a trace and finds each CPU's pages.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Import`].
    pub fn open(path: &Path) -> Result<LlfreeTrace> {
        let bad = |place: &str, what: String| Error::Import {
            path: path.into(),
            place: place.into(),
            what,
        };
        let file = File::open(path).map_err(Error::read(path))?;
        let bytes = file.metadata().map_err(Error::read(path))?.len();
        let pages = u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX);
        if bytes == 0 || bytes % PAGE as u64 != 0 || pages == u32::MAX {
            let what = format!("{bytes} bytes: expected an LLFree trace in pages of {PAGE} bytes");
            return Err(bad("its size", what));
        }
        let mut header = [0; 12];
        file.read_exact_at(&mut header, 0).map_err(Error::read(path))?;
        let cores = u32_at(&header, 4);
        if cores == 0 || cores > 1 << 16 {
            return Err(bad("byte 4", format!("{cores} CPUs; expected 1 to 65536")));
        }
        let mut by_cpu: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for page in 1..pages {
            let mut number = [0; 4];
            let at = u64::from(page) * PAGE as u64;
            file.read_exact_at(&mut number, at).map_err(Error::read(path))?;
            let cpu = u32_at(&number, 0);
            if cpu >= cores {
                let what = format!("CPU {cpu}; the header says that there are {cores}");
                return Err(bad(&format!("byte {at}"), what));
            }
            by_cpu.entry(cpu as u16).or_default().push(page);
        }
        let cpus = by_cpu.into_iter().map(|(number, mut pages)| {
            pages.reverse();
            Cpu { number, pages, events: Vec::new().into_iter() }
        });
        let mut trace = LlfreeTrace {
            path: path.into(),
            file,
            frames: u64::from(u32_at(&header, 8)) + 1,
            cpus: cpus.collect(),
            next: BinaryHeap::new(),
            batch: Vec::with_capacity(BATCH),
            texts: Texts::default(),
        };
        for cpu in 0..trace.cpus.len() {
            trace.schedule(cpu)?;
        }
        Ok(trace)
    }

    /// Frames of the recorded machine: one more than the largest frame number.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Puts the next event of a CPU in line, reading its next page if need be.
    fn schedule(&mut self, cpu: usize) -> Result<()> {
        let state = &mut self.cpus[cpu];
        while state.events.as_slice().is_empty() {
            let Some(page) = state.pages.pop() else { return Ok(()) };
            let mut bytes = [0; PAGE];
            let at = u64::from(page) * PAGE as u64;
            self.file.read_exact_at(&mut bytes, at).map_err(Error::read(&self.path))?;
            state.events = parse_page(&bytes, state.number).into_iter();
        }
        self.next.push(Reverse((state.events.as_slice()[0].time_ns, cpu)));
        Ok(())
    }
}

impl EventSource for LlfreeTrace {
    fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        self.batch.clear();
        while self.batch.len() < BATCH {
            let Some(Reverse((_, cpu))) = self.next.pop() else { break };
            self.batch.extend(self.cpus[cpu].events.next());
            if let Err(error) = self.schedule(cpu) {
                self.next.clear();
                return Err(error);
            }
        }
        Ok((!self.batch.is_empty()).then_some(&self.batch))
    }

    fn texts(&self) -> &Texts {
        &self.texts
    }
}

/// The events of a CPU's page.
fn parse_page(page: &[u8; PAGE], cpu: u16) -> Vec<Event> {
    let entries = page[FIRST_ENTRY..].chunks_exact(ENTRY).take(ENTRIES);
    let entries = entries.map(|bytes| u128::from_le_bytes(bytes.try_into().unwrap()));
    entries.map_while(|entry| parse_entry(entry, cpu)).collect()
}

/// The event of an entry; `None` if it is the end of its page.
fn parse_entry(entry: u128, cpu: u16) -> Option<Event> {
    let bits = |from: u32, count: u32| (entry >> from) as u64 & ((1 << count) - 1);
    let pfn = Pfn(bits(38, 24));
    if pfn == Pfn(0) {
        return None;
    }
    let order = Order::new(bits(63, 4) as u8)?;
    let gfp = GfpFlags(bits(67, 29) as u32);
    let what = if bits(62, 1) != 0 {
        let (migrate_type, stack) = (gfp.migrate_type(), StackId::NONE);
        EventKind::Alloc { pfn, order, migrate_type, gfp, stack }
    } else {
        EventKind::Free { pfn, order }
    };
    Some(Event { time_ns: bits(0, 38) * 1000, pid: bits(96, 32) as i32, cpu, what })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_us: u64, pfn: u32, alloc: bool, order: u8, flags: u32, pid: u32) -> [u8; 16] {
        let fields: [(u128, u32); 6] = [
            (time_us.into(), 0),
            (pfn.into(), 38),
            (alloc.into(), 62),
            (order.into(), 63),
            (flags.into(), 67),
            (pid.into(), 96),
        ];
        fields.iter().fold(0u128, |all, (value, shift)| all | value << shift).to_le_bytes()
    }

    fn page(cpu: u32, entries: &[[u8; 16]]) -> Vec<u8> {
        let mut page = cpu.to_le_bytes().to_vec();
        page.resize(FIRST_ENTRY, 0);
        page.extend(entries.concat());
        page.resize(PAGE, 0);
        page
    }

    fn header(cores: u32, max_pfn: u32) -> Vec<u8> {
        let mut page = [3, cores, max_pfn].map(u32::to_le_bytes).concat();
        page.resize(PAGE, 0);
        page
    }

    fn events(bytes: &[u8]) -> Result<Vec<Event>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut trace = LlfreeTrace::open(file.path())?;
        let mut events = Vec::new();
        while let Some(batch) = trace.next_batch()? {
            events.extend_from_slice(batch);
        }
        Ok(events)
    }

    #[test]
    fn pages_of_several_cpus_are_merged_by_time() {
        // Two times that a 32-bit float of seconds cannot tell apart after four hours.
        let hours = 14_400_000_000;
        let movable = GfpFlags::MOVABLE.0;
        let bytes = [
            header(2, 0xff_ffff),
            page(1, &[entry(hours + 1, 0xabcdef, true, 9, movable, 7)]),
            page(0, &[entry(5, 1, true, 0, 0, 8), entry(hours, 1, false, 0, 0, 8)]),
            page(1, &[entry(hours + 2, 0xabcdef, false, 9, 0, u32::MAX)]),
        ]
        .concat();
        let events = events(&bytes).unwrap();
        let seen: Vec<_> = events.iter().map(|e| (e.time_ns / 1000, e.cpu, e.pid)).collect();
        assert_eq!(seen, [(5, 0, 8), (hours, 0, 8), (hours + 1, 1, 7), (hours + 2, 1, -1)]);
        let EventKind::Alloc { pfn, order, migrate_type, .. } = events[2].what else { panic!() };
        assert_eq!((pfn, order), (Pfn(0xabcdef), Order::HUGE));
        assert_eq!(migrate_type, prairie_frames::MigrateType::Movable);
        assert_eq!(events[3].what, EventKind::Free { pfn: Pfn(0xabcdef), order: Order::HUGE });
    }

    #[test]
    fn foreign_files_are_refused() {
        for bytes in [vec![0; 100], vec![0; PAGE], [header(1, 9), page(1, &[])].concat()] {
            assert!(matches!(events(&bytes), Err(Error::Import { .. })));
        }
        assert!(events(&header(1, 9)).unwrap().is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_page_is_survived(seed in proptest::collection::vec(proptest::prelude::any::<u8>(), 64)) {
            let page: Vec<u8> = seed.into_iter().cycle().take(PAGE).collect();
            let events = parse_page(&page.try_into().unwrap(), 0);
            assert!(events.len() <= ENTRIES);
        }
    }
}
