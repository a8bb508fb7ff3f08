//! Surveys of small memories drawn by hand, every figure worked out beside them.
#![allow(missing_docs)]

mod common;

use common::{drawn, drawn_coarse, flags, one_zone, run};
use prairie_frames::Order;
use prairie_host::{BlockMap, Capture, FrameClass, PageFlags, Survey};

fn frames_of(capture: &Capture) -> prairie_host::survey::FrameReport {
    Survey::of(capture).unwrap().frames.unwrap()
}

/// A letter a pageblock; capitals have one frame of slab at their start.
fn blocks(map: &str) -> Vec<prairie_host::FrameRun> {
    let mut frames = Vec::new();
    for (i, letter) in (0..).zip(map.chars().filter(|letter| !letter.is_whitespace())) {
        let start = i * 512;
        let polluted = u64::from(letter.is_uppercase());
        if polluted > 0 {
            frames.push(run(start, 1, flags('s')));
        }
        let rest = flags(letter.to_ascii_lowercase());
        frames.push(run(start + polluted, 512 - polluted, rest));
    }
    frames
}

#[test]
fn contiguity_there_is_and_could_be() {
    // 32 pageblocks: 64 MiB, two blocks of 32 MiB.
    // Free: 16 blocks, of which .... at 4 and the row of eight at 8 are larger than 2 MiB.
    let map = "a.a. .... ........ aaaa aaaa f.?F aa.a";
    let report = frames_of(&one_zone(blocks(map), "0"));
    assert_eq!(report.present_frames, 32 * 512);
    assert_eq!(report.by_mobility.free, 16 * 512);
    assert_eq!(report.by_mobility.unknown, 512);
    assert_eq!(report.by_mobility.unmovable, 1);
    let available: Vec<_> =
        report.available.iter().map(|a| (a.order, a.blocks, a.share_of_free)).collect();
    assert_eq!(available, [(9, 16, 1.0), (10, 6, 12.0 / 16.0), (13, 0, 0.0), (18, 0, 0.0)]);
    let potential: Vec<_> = report
        .potential
        .iter()
        .map(|p| (p.order, p.unknown_movable.blocks, p.unknown_unmovable.blocks))
        .collect();
    // One block is polluted by slab, one has nothing but unknown frames; both in the second half.
    assert_eq!(potential, [(9, 31, 30), (13, 1, 1), (18, 0, 0)]);
    assert_eq!(report.potential[0].unknown_movable.share_of_memory, 31.0 / 32.0);
    assert_eq!(report.potential[1].unknown_unmovable.share_of_memory, 0.5);
    // F_u beyond the lists: order 11 (4 blocks): 4..8, 8..12, 12..16; order 12: 8..16.
    let unusable: Vec<_> = report
        .unusable_beyond_lists
        .iter()
        .map(|u| (u.order, u.unusable_free_space_index))
        .collect();
    assert_eq!(unusable[..3], [(11, 4.0 / 16.0), (12, 8.0 / 16.0), (13, 1.0)]);
}

#[test]
fn few_frames_pollute_much() {
    // Blocks with 1, 1, 3, 512 frames of slab or page tables, one free, one unknown.
    let mut frames = blocks("A F");
    frames.extend([run(1024, 1, flags('p')), run(1025, 2, flags('s')), run(1027, 509, flags('a'))]);
    frames.extend([
        run(1536, 512, flags('s')),
        run(2048, 512, flags('.')),
        run(2560, 512, flags('?')),
    ]);
    let report = frames_of(&one_zone(frames, "0"));
    let polluted = &report.polluted;
    assert_eq!((polluted.whole_blocks, polluted.partial_blocks), (6, 0));
    assert_eq!((polluted.polluted_blocks, polluted.unmovable_frames), (4, 1 + 1 + 3 + 512));
    assert_eq!(polluted.polluted_share, 4.0 / 6.0);
    assert_eq!(polluted.median_unmovable_frames, 1);
    let buckets: Vec<_> = polluted
        .histogram
        .iter()
        .map(|b| (b.from_frames, b.to_frames, b.blocks, b.unmovable_frames, b.cumulative_share))
        .collect();
    assert_eq!(buckets[..2], [(1, 1, 2, 2, 0.5), (2, 3, 1, 3, 0.75)]);
    assert_eq!(buckets[8..], [(256, 511, 0, 0, 0.75), (512, 512, 1, 512, 1.0)]);
    assert_eq!(report.polluted_if_unknown_unmovable.polluted_blocks, 5);
    let sources: Vec<_> = report
        .unmovable_sources
        .iter()
        .map(|s| (s.class, s.frames, s.blocks, s.blocks_alone))
        .collect();
    assert_eq!(sources, [(FrameClass::Slab, 516, 4, 3), (FrameClass::PageTable, 1, 1, 0)]);
}

#[test]
fn a_zone_that_starts_and_ends_within_a_block() {
    // Frames 256 to 1279: half a block, a whole one, half a block.
    let frames =
        vec![run(256, 256, flags('s')), run(512, 512, flags('.')), run(1024, 256, flags('.'))];
    let report = frames_of(&one_zone(frames, "0"));
    assert_eq!(report.present_frames, 1024);
    assert_eq!((report.polluted.whole_blocks, report.polluted.partial_blocks), (1, 2));
    assert_eq!(report.polluted.polluted_blocks, 0);
    assert_eq!(report.unmovable_sources[0].blocks, 0);
    assert_eq!(report.available[0].blocks, 1);
    assert_eq!(report.available[0].share_of_free, 512.0 / 768.0);
}

#[test]
fn blocks_do_not_reach_across_zones() {
    let mut capture = one_zone(blocks(".... ...."), "0");
    let zoneinfo = "Node 0, zone DMA32\n spanned 1536\n present 1536\n start_pfn: 0\n\
                    Node 0, zone Normal\n spanned 2560\n present 2560\n start_pfn: 1536\n";
    capture.files.insert("proc/zoneinfo".into(), zoneinfo.into());
    let survey = Survey::of(&capture).unwrap();
    // ...|. .... : order 10 in DMA32 one of 0-1, in Normal those at 4-5 and 6-7.
    assert_eq!(survey.frames.unwrap().available[1].blocks, 3);
    let in_zone = |i: usize| survey.zones[i].frames.as_ref().unwrap().available[0].blocks;
    assert_eq!((in_zone(0), in_zone(1)), (3, 5));
}

#[test]
fn holes_are_no_memory_whatever_their_flags() {
    // The kernel shows the second block without flags; the memory map says there is none.
    let mut capture = one_zone(drawn_coarse(".?.-", 512), "0");
    let before = frames_of(&capture);
    assert_eq!((before.present_frames, before.by_mobility.unknown), (1536, 512));
    let iomem = "00000000-001fffff : System RAM\n00400000-007fffff : System RAM\n";
    capture.files.insert("proc/iomem".into(), iomem.into());
    let after = frames_of(&capture);
    assert_eq!((after.present_frames, after.by_mobility.unknown), (1024, 0));
}

#[test]
fn unevictable_frames_are_movable_and_counted() {
    let frames = vec![
        run(0, 10, flags('a') | PageFlags::UNEVICTABLE | PageFlags::MLOCKED),
        run(10, 6, flags('a')),
    ];
    let report = frames_of(&one_zone(frames, "0"));
    assert_eq!((report.by_mobility.movable, report.unevictable_frames), (16, 10));
}

#[test]
fn the_map_shows_what_fills_each_cell() {
    let capture = one_zone(drawn("aaas ..f? ---- ssff p"), "0");
    let map = BlockMap::of(&capture, Order::new(2).unwrap()).unwrap().unwrap();
    let [zone] = &map.zones[..] else { panic!("{map:?}") };
    let cells: Vec<_> = zone
        .cells
        .iter()
        .map(|c| (c.class, c.class_frames, c.present_frames, c.unmovable_frames))
        .collect();
    assert_eq!(
        cells,
        [
            (FrameClass::Anonymous, 3, 4, 1),
            (FrameClass::Free, 2, 4, 0),
            (FrameClass::Absent, 0, 0, 0),
            // Equal numbers: page cache stands before slab in the list of classes.
            (FrameClass::File, 2, 4, 2),
            (FrameClass::PageTable, 1, 1, 1),
        ]
    );
    let coarse = BlockMap::of(&capture, Order::HUGE).unwrap().unwrap();
    assert_eq!(coarse.zones[0].cells.len(), 1);
    assert_eq!(coarse.zones[0].cells[0].present_frames, 13);
}

#[test]
fn impossible_mappings_are_refused() {
    let overlap = one_zone(vec![run(0, 10, flags('a')), run(5, 10, flags('a'))], "0");
    assert!(matches!(
        Survey::of(&overlap),
        Err(prairie_host::Error::RunOrder { start: 5, end: 10 })
    ));
    let mut beyond = one_zone(vec![run(0, 10, flags('a'))], "0");
    beyond.frames.as_mut().unwrap().push(run(u64::MAX - 3, 9, flags('a')));
    assert!(matches!(Survey::of(&beyond), Err(prairie_host::Error::FrameLimit { .. })));
    let mut pages = one_zone(Vec::new(), "0");
    pages.page_bytes = 65536;
    assert_eq!(
        Survey::of(&pages).unwrap_err().to_string(),
        "the capture has pages of 65536 bytes; expected base pages of 4096 bytes"
    );
}

#[test]
fn a_survey_without_anything_is_empty_and_not_wrong() {
    let survey = Survey::of(&Capture { page_bytes: 4096, ..Capture::default() }).unwrap();
    assert_eq!((survey.zones.len(), survey.cross_checks.len()), (0, 0));
    assert!(survey.free_lists.is_none() && survey.frames.is_none());
}
