//! Maps as SVG: small ones to the letter, larger ones by their cells.

use prairie_report::palette::{FREE, MOVABLE, UNMOVABLE};
use prairie_report::{MapClass, MapError, MapSegment, MapSheet, MapZone, MemoryMap, Paint, Theme};
use proptest::prelude::*;

fn class(name: &str, paint: Option<Paint>) -> MapClass {
    MapClass { name: name.into(), definition: String::new(), paint, letter: 'x' }
}

fn map(cells: Vec<u8>) -> MemoryMap {
    MemoryMap {
        title: "host".into(),
        frame_bytes: 4096,
        frames_per_cell: 512,
        segments: vec![MapSegment { start_pfn: 0, cells }],
        classes: vec![
            class("free", Some(FREE)),
            class("movable", Some(MOVABLE[0])),
            class("unmovable", Some(UNMOVABLE[0])),
            class("absent", None),
        ],
        ..MemoryMap::default()
    }
}

/// The cells that the path of each class covers, read back from the drawing.
fn drawn(svg: &str) -> Vec<(usize, i64, i64)> {
    let mut cells = Vec::new();
    for path in svg.split("<path data-c=\"").skip(1) {
        let (class, rest) = path.split_once('"').unwrap();
        let d = rest.split_once(" d=\"").unwrap().1.split_once('"').unwrap().0;
        let (mut x, mut y) = (0, 0);
        for run in d.split(['m', 'M']).skip(1) {
            let (start, length) = run.split_once('h').unwrap();
            let (dx, dy) = start.split_once(' ').unwrap();
            x += dx.parse::<i64>().unwrap();
            y += dy.trim_end_matches(".5").parse::<i64>().unwrap();
            for _ in 0..length.parse::<i64>().unwrap() {
                cells.push((class.parse().unwrap(), x, y));
                x += 1;
            }
        }
    }
    cells
}

#[test]
fn eight_cells_by_hand() {
    // Four by two: the curve goes down and up again, twice.
    //   0 3 4 7
    //   1 2 5 6
    let svg = MapSheet::from(map(vec![0, 0, 1, 1, 2, 3, 1, 1])).svg(Theme::Light).unwrap();
    let path = |class: usize| {
        let start = svg.split_once(&format!("<path data-c=\"{class}\"")).unwrap().1;
        start.split_once(" d=\"").unwrap().1.split_once('"').unwrap().0
    };
    assert_eq!(path(0), "M0 0.5h1m-1 1h1");
    assert_eq!(path(1), "M1 0.5h1m1 0h1m-3 1h1m1 0h1");
    assert_eq!(path(2), "M2 0.5h1");
    assert!(!svg.contains("data-c=\"3\""), "absent memory is left blank");
    // Of seven cells that are there, four are movable.
    assert!(svg.contains("8\u{202f}MiB, 57.1\u{202f}%"), "{svg}");
}

#[test]
fn a_zone_is_outlined_and_named() {
    let mut map = map(vec![0; 8]);
    map.zones = vec![MapZone { label: "A & B".into(), start_pfn: 0, end_pfn: 4 * 512 }];
    let svg = MapSheet::from(map).svg(Theme::Auto).unwrap();
    // The left two columns.
    assert!(svg.contains("d=\"M0 0h2m-2 2h2m-2 -2v2m2 -2v2\""), "{svg}");
    assert!(svg.contains(">A &amp; B</text>"));
    assert!(svg.contains("light-dark("));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let error = |map: MemoryMap| MapSheet::from(map).svg(Theme::Light).unwrap_err();
    assert_eq!(error(map(vec![])), MapError::Empty("host".into()));
    let unknown = MapError::UnknownClass { map: "host".into(), classes: 4, class: 9, pfn: 512 };
    assert_eq!(error(map(vec![0, 9])), unknown);
    let scaleless = MemoryMap { frames_per_cell: 0, ..map(vec![0]) };
    assert_eq!(error(scaleless), MapError::Scale("host".into()));
    let mut beyond = map(vec![0, 0]);
    beyond.segments[0].start_pfn = u64::MAX - 600;
    assert_eq!(error(beyond), MapError::Scale("host".into()));
    assert_eq!(MapSheet::default().svg(Theme::Light), Err(MapError::NoMaps));
    let other = MemoryMap { frames_per_cell: 1, title: "other".into(), ..map(vec![0]) };
    let sheet = MapSheet { maps: vec![map(vec![0]), other], ..MapSheet::default() };
    assert_eq!(sheet.svg(Theme::Light), Err(MapError::Unlike("host".into(), "other".into())));
    let far_too_large = MapSheet::from(map(vec![0; 64])).png(Theme::Light, 1e6);
    assert!(matches!(far_too_large, Err(MapError::Render(_))));
}

#[test]
fn a_png_is_as_large_as_asked_for() {
    let sheet = MapSheet::from(map(vec![0; 64]));
    let size = |scale| {
        let png = sheet.png(Theme::Dark, scale).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        (side(16), side(20))
    };
    let (width, height) = size(1.0);
    assert_eq!(size(2.0), (2 * width, 2 * height));
}

proptest! {
    #[test]
    fn every_cell_is_drawn_once_in_its_class(cells in prop::collection::vec(0u8..4, 1..3000)) {
        let svg = MapSheet::from(map(cells.clone())).svg(Theme::Light).unwrap();
        let mut drawn = drawn(&svg);
        for class in 0..3u8 {
            let expected = cells.iter().filter(|c| **c == class).count();
            prop_assert_eq!(drawn.iter().filter(|d| d.0 == usize::from(class)).count(), expected);
        }
        let all = drawn.len();
        drawn.sort_by_key(|&(_, x, y)| (y, x));
        drawn.dedup_by_key(|&mut (_, x, y)| (y, x));
        prop_assert_eq!(drawn.len(), all);
    }

    #[test]
    fn any_zones_are_no_harm(
        cells in prop::collection::vec(0u8..4, 1..400),
        zones in prop::collection::vec((any::<u64>(), any::<u64>()), 0..6),
    ) {
        let mut map = map(cells);
        map.zones = zones.into_iter().map(|(start_pfn, end_pfn)| MapZone {
            label: "zone".into(), start_pfn: start_pfn % 300_000, end_pfn: end_pfn % 300_000,
        }).collect();
        MapSheet::from(map).svg(Theme::Light).unwrap();
    }
}
