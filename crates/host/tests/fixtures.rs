//! A captured host, read as `--proc DIR` does: texts of Linux 6.18 on 24 GiB, and the flags of
//! its first 8192 frames (zone DMA and a bit of DMA32).
#![allow(missing_docs)]

mod common;

use common::{fixture, take};
use prairie_frames::Order;
use prairie_host::layout::Layout;
use prairie_host::texts::{buddyinfo, iomem, pagetypeinfo, zoneinfo};
use prairie_host::{Capture, FrameClass, FrameOptions, FrameTally, Roots, Survey};

fn captured() -> Capture {
    take(&Roots::at(&fixture("linux-6.18/proc"))).unwrap()
}

#[test]
fn the_tree_is_taken_whole() {
    let capture = captured();
    assert_eq!((capture.kernel_release.as_str(), capture.machine.as_str()), ("6.18.44", "x86_64"));
    let left_out = capture.left_out.iter().map(|left| left.why.as_str()).collect::<Vec<_>>();
    assert_eq!(left_out, ["/proc/kpageflags: ends there, and zones at 25.00 GiB"]);
    assert_eq!(capture.frames.as_ref().unwrap().iter().map(|run| run.frames).sum::<u64>(), 8192);
    assert!(capture.files.contains_key("proc/7/smaps_rollup"));
    assert!(capture.files.contains_key("sys/kernel/mm/transparent_hugepage/khugepaged/defrag"));
    assert!(!capture.files.keys().any(|name| name.contains("kpageflags")));
}

#[test]
fn the_dma_zone_to_the_frame() {
    let survey = Survey::of(&captured()).unwrap();
    let dma = &survey.zones[0];
    let extent = dma.extent.as_ref().unwrap();
    assert_eq!(
        (extent.spanned_frames, extent.present_frames, extent.managed_frames),
        (4095, 3998, 3840)
    );
    // 0 to 8: nothing; 1 block of order 8, 1 of 9, 3 of 10.
    let lists = dma.free_lists.as_ref().unwrap();
    assert_eq!(lists.free_frames, 3840);
    assert_eq!(lists.indices[9].unusable_free_space_index, 256.0 / 3840.0);
    assert_eq!(lists.indices[10].unusable_free_space_index, 768.0 / 3840.0);
    assert_eq!(lists.blocks_by_type.iter().map(|t| t.blocks_by_order[10]).sum::<u64>(), 3);
    // The frames agree: free ones with the lists, all with zoneinfo, reserved ones with what is
    // not managed.
    let frames = dma.frames.as_ref().unwrap();
    assert_eq!(frames.present_frames, 3998);
    assert_eq!(frames.by_mobility.free, 3840);
    let reserved = frames.by_class.iter().find(|c| c.class == FrameClass::Reserved).unwrap();
    assert_eq!(reserved.frames, 3998 - 3840);
    assert_eq!(frames.available[0].blocks, 7);
    assert_eq!(frames.available[1].blocks, 3);
}

#[test]
fn free_lists_and_types_agree() {
    let capture = captured();
    let zones = buddyinfo::parse(&capture.files[buddyinfo::FILE]).unwrap();
    let types = pagetypeinfo::parse(&capture.files[pagetypeinfo::FILE]).unwrap();
    assert_eq!(types.pageblock_order, Order::HUGE);
    for zone in zones.iter().filter(|zone| zone.id.kind != prairie_frames::ZoneKind::Normal) {
        let rows = types.free.iter().filter(|row| row.id == zone.id);
        let sum = |order: usize| rows.clone().map(|row| row.blocks[order]).sum::<u64>();
        assert_eq!((0..11).map(sum).collect::<Vec<_>>(), zone.blocks, "{}", zone.id);
    }
}

#[test]
fn zones_and_the_memory_map_agree() {
    let capture = captured();
    let zones = zoneinfo::parse(&capture.files[zoneinfo::FILE]).unwrap();
    let memory = iomem::system_ram(&capture.files[iomem::FILE]).unwrap();
    let present: u64 = zones.iter().map(|zone| zone.present_frames).sum();
    assert_eq!(memory.iter().map(|range| range.end - range.start).sum::<u64>(), present);
    let layout = Layout::of(&capture).unwrap();
    let populated = zones.iter().filter(|zone| zone.present_frames > 0);
    assert_eq!(layout.frames_by_zone(), populated.map(|z| z.present_frames).collect::<Vec<_>>());
}

#[test]
fn json_names_what_it_holds() {
    let survey = Survey::of(&captured()).unwrap();
    let json = serde_json::to_value(&survey).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["zones"][0]["node"], 0);
    assert_eq!(json["zones"][0]["zone"], "DMA");
    assert_eq!(json["zones"][0]["free_lists"]["indices"][10]["block_bytes"], 4 << 20);
    assert_eq!(json["zones"][0]["frames"]["by_class"][0]["class"], "free");
    assert_eq!(json["huge_pages"]["processes"][0]["name"], "worker");
    assert!(json["counters"].as_array().unwrap().iter().any(|c| c["name"] == "thp_fault_fallback"));
    let enabled = &json["settings"][0];
    assert_eq!(enabled["path"], "/sys/kernel/mm/transparent_hugepage/enabled");
    assert_eq!(enabled["value"], "madvise");
    // Shares are numbers: nothing of 0 by 0 gets through as null.
    assert!(!json["frames"].to_string().contains("null"));
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let capture = take(&Roots::at(dir.path())).unwrap();
    assert!(capture.frames.is_none());
    let whats: Vec<_> = capture.left_out.iter().map(|left| left.what.as_str()).collect();
    assert!(whats.contains(&"free blocks by order"), "{whats:?}");
    assert_eq!(capture.left_out.last().unwrap().remedy, "a kernel with CONFIG_PROC_PAGE_MONITOR");
    let survey = Survey::of(&capture).unwrap();
    assert_eq!(survey.left_out, capture.left_out);
    assert!(matches!(
        take(&Roots::at(&dir.path().join("none"))),
        Err(prairie_host::Error::Io { .. })
    ));
}

#[test]
fn streaming_gives_the_same_survey() {
    let roots = Roots::at(&fixture("linux-6.18/proc"));
    let kept = captured();
    let mut streamed = prairie_host::capture_texts(&roots, 5).unwrap();
    let mut tally = FrameTally::new(Layout::of(&streamed).unwrap(), Order::HUGE);
    let (mut seen, mut told) = (0, 0);
    let options = FrameOptions {
        threads: 3,
        interrupted: &std::sync::atomic::AtomicBool::new(false),
        progress: &mut |frames, of| (seen, told) = (frames, of),
    };
    prairie_host::read_frames(&roots, &mut streamed, options, &mut |runs| {
        runs.iter().for_each(|run| tally.push(*run).unwrap());
    })
    .unwrap();
    assert_eq!((seen, told), (8192, 0x64_0000));
    streamed.taken_at_unix_ns = kept.taken_at_unix_ns;
    assert!(streamed.frames.is_none());
    let counts = tally.finish();
    assert_eq!(Survey::with_counts(&streamed, Some(&counts)).unwrap(), Survey::of(&kept).unwrap());
    assert_eq!(counts.map, prairie_host::BlockMap::of(&kept, Order::HUGE).unwrap().unwrap());
}

#[test]
fn the_page_on_definitions_says_what_the_code_does() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/concepts/definitions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for class in FrameClass::ALL {
        let mobility = class.mobility().name();
        let told =
            rows.iter().any(|row| row.len() == 4 && row[1] == class.label() && row[2] == mobility);
        assert!(told, "no row for {class:?}: {} and {mobility}", class.label());
    }
}
