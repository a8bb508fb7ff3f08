//! A whole captured host of Linux 6.1, frame by frame: what older kernels tell in other ways.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use common::{fixture, take};
use prairie_frames::Order;
use prairie_host::survey::FrameReport;
use prairie_host::{BlockMap, Capture, FrameClass, Roots, Survey};

/// Writes `kpageflags` from its runs and copies the rest of `tree` beside it.
fn unpacked() -> tempfile::TempDir {
    let from = fixture("linux-6.1");
    let to = tempfile::tempdir().unwrap();
    copy(&from, to.path());
    let runs = fs::read_to_string(from.join("kpageflags.runs")).unwrap();
    let words = runs.lines().flat_map(|line| {
        let (flags, frames) = line.split_once(' ').unwrap();
        let flags = u64::from_str_radix(flags, 16).unwrap();
        std::iter::repeat_n(flags, frames.parse().unwrap())
    });
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    fs::write(to.path().join("proc/kpageflags"), bytes).unwrap();
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn captured() -> Capture {
    take(&Roots::at(&unpacked().path().join("proc"))).unwrap()
}

fn frames_of(report: &FrameReport, class: FrameClass) -> u64 {
    report.by_class.iter().find(|found| found.class == class).map_or(0, |found| found.frames)
}

#[test]
fn flags_and_files_agree() {
    let survey = Survey::of(&captured()).unwrap();
    let frames = survey.frames.as_ref().unwrap();
    // One gigantic page, four of 2 MiB, none of them mapped.
    assert_eq!(frames_of(frames, FrameClass::HugetlbGigantic), 1 << 18);
    assert_eq!(frames_of(frames, FrameClass::Hugetlb), 4 * 512);
    let pages: Vec<_> = survey.huge_pages.hugetlb_pools.iter().map(|pool| pool.pages).collect();
    assert_eq!(pages, [4, 1]);
    // 24 transparent huge pages; their tails say ANON and THP but not LRU.
    assert_eq!(frames_of(frames, FrameClass::AnonymousThp), 24 * 512);
    // The file of 60 MiB in tmpfs, and what else the initial file system holds.
    assert!(frames_of(frames, FrameClass::Shmem) > 60 * 256);
    assert_eq!(frames_of(frames, FrameClass::Uninitialized), 0);
    let check = |what: &str| {
        let found = survey.cross_checks.iter().find(|check| check.what == what).unwrap();
        (found.by_flags_frames, found.by_kernel_frames)
    };
    assert_eq!(check("frames that exist"), (917_374, 917_374));
    // 44,614 reserved frames and the zero page are what zones have beyond what they manage.
    assert_eq!(check("uninitialized and reserved frames"), (44_615, 44_615));
    let (flags, lists) = check("free frames");
    assert!(flags.abs_diff(lists) < lists / 50, "{flags} and {lists}");
}

#[test]
fn the_gigantic_page_takes_a_gigabyte_of_potential() {
    let report = Survey::of(&captured()).unwrap().frames.unwrap();
    let source = &report.unmovable_sources[0];
    assert_eq!(source.class, FrameClass::HugetlbGigantic);
    assert_eq!((source.blocks, source.blocks_alone), (512, 512));
    // Counted beside this by a script that knows nothing of the crate.
    let polluted = &report.polluted;
    assert_eq!((polluted.whole_blocks, polluted.polluted_blocks), (1790, 620));
    assert_eq!(polluted.histogram[9].blocks, 600);
    assert_eq!(report.potential[2].unknown_movable.blocks, 0);
}

#[test]
fn nopage_frames_are_the_holes_of_the_memory_map() {
    let with_map = captured();
    let mut without = with_map.clone();
    without.files.remove("proc/iomem");
    let present = |capture: &Capture| Survey::of(capture).unwrap().frames.unwrap().present_frames;
    // Zones DMA and DMA32 span 97 and 32 reserved frames that are no memory, and the gigabyte
    // below 4 GiB of which the kernel says NOPAGE.
    assert_eq!(present(&without) - present(&with_map), 97 + 32);
}

#[test]
fn the_map_draws_the_hole_and_the_gigantic_page() {
    let map = BlockMap::of(&captured(), Order::HUGE).unwrap().unwrap();
    let dma32 =
        map.zones.iter().find(|zone| zone.id.kind == prairie_frames::ZoneKind::Dma32).unwrap();
    let gigantic =
        dma32.cells.iter().filter(|cell| cell.class == FrameClass::HugetlbGigantic).count();
    assert_eq!(gigantic, 512);
    assert!(dma32.cells.iter().all(|cell| cell.class != FrameClass::Uninitialized));
}
