//! Colors of memory classes on maps, the same in every command.
//!
//! Cool is memory that can move, warm is memory that cannot, faint is free, gray is unknown. A cell
//! that is mostly free or movable but holds an unmovable frame has a color of its own, because it
//! is what fragmentation is about: such a block can never become a huge page.

use prairie_frames::Mobility;
use prairie_host::FrameClass;
use prairie_report::palette::{FREE, INK, MOVABLE, UNKNOWN, UNMOVABLE};
use prairie_report::{MapClass, Paint};

/// The number of the class "polluted", which follows those of [`FrameClass::ALL`].
pub const POLLUTED: u8 = FrameClass::ALL.len() as u8;

/// Not initialized: between free and unknown.
const UNINITIALIZED: Paint = Paint::new(0xc3cad1, 0x3f4a54);
/// Held by the hypervisor.
const OFFLINE: Paint = Paint::new(0x6d7883, 0x929da8);
/// One shared page, of 2 MiB at most.
const ZERO_PAGE: Paint = Paint::new(0x8f6148, 0xb58468);

/// The classes of maps: those of [`FrameClass::ALL`] by [`FrameClass::index`], then
/// [`POLLUTED`].
pub fn map_classes() -> Vec<MapClass> {
    let frame_class = |class: FrameClass| MapClass {
        name: class.label().to_owned(),
        definition: definition(class),
        paint: paint(class),
        letter: letter(class),
    };
    let polluted = MapClass {
        name: "polluted by unmovable frames".to_owned(),
        definition: "mostly free, movable or unknown, with at least one unmovable frame".to_owned(),
        paint: Some(UNMOVABLE[6]),
        letter: '!',
    };
    FrameClass::ALL.into_iter().map(frame_class).chain([polluted]).collect()
}

/// The map class of a cell: what most of it is, or [`POLLUTED`].
pub fn map_class(most: FrameClass, unmovable_frames: u32) -> u8 {
    match most.mobility() {
        Mobility::Free | Mobility::Movable | Mobility::Unknown if unmovable_frames > 0 => POLLUTED,
        _ => most.index() as u8,
    }
}

fn definition(class: FrameClass) -> String {
    format!("{}: {}", class.mobility().name(), class.why())
}

/// The color of a class; `None` where there is no memory.
pub fn paint(class: FrameClass) -> Option<Paint> {
    Some(match class {
        FrameClass::Free => FREE,
        FrameClass::Anonymous => MOVABLE[0],
        FrameClass::AnonymousThp => MOVABLE[1],
        FrameClass::Shmem => MOVABLE[4],
        FrameClass::File => MOVABLE[2],
        FrameClass::Hugetlb => MOVABLE[3],
        FrameClass::HugetlbGigantic => UNMOVABLE[5],
        FrameClass::Slab => UNMOVABLE[0],
        FrameClass::PageTable => UNMOVABLE[4],
        FrameClass::DriverMapped => UNMOVABLE[2],
        FrameClass::KernelOther => UNMOVABLE[1],
        FrameClass::Reserved => UNMOVABLE[3],
        FrameClass::ZeroPage => ZERO_PAGE,
        FrameClass::Offline => OFFLINE,
        FrameClass::HwPoison => INK,
        FrameClass::Unflagged => UNKNOWN,
        FrameClass::Uninitialized => UNINITIALIZED,
        FrameClass::Absent => return None,
        // A class that has no color yet: the test below demands one.
        _ => UNKNOWN,
    })
}

/// The letter of a class on terminals without color: lower case for movable, upper case for
/// unmovable.
fn letter(class: FrameClass) -> char {
    match class {
        FrameClass::Free => '.',
        FrameClass::Anonymous => 'a',
        FrameClass::AnonymousThp => 'h',
        FrameClass::Shmem => 's',
        FrameClass::File => 'f',
        FrameClass::Hugetlb => 't',
        FrameClass::HugetlbGigantic => 'G',
        FrameClass::Slab => 'S',
        FrameClass::PageTable => 'P',
        FrameClass::DriverMapped => 'D',
        FrameClass::KernelOther => 'K',
        FrameClass::Reserved => 'R',
        FrameClass::ZeroPage => 'Z',
        FrameClass::Offline => 'o',
        FrameClass::HwPoison => 'X',
        FrameClass::Unflagged => '?',
        FrameClass::Uninitialized => '_',
        FrameClass::Absent => ' ',
        // As above.
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_class_is_distinguishable() {
        let classes = map_classes();
        assert_eq!(classes.len(), usize::from(POLLUTED) + 1);
        let paints: HashSet<_> = classes.iter().map(|class| class.paint).collect();
        let letters: HashSet<_> = classes.iter().map(|class| class.letter).collect();
        assert_eq!((paints.len(), letters.len()), (classes.len(), classes.len()));
    }

    #[test]
    fn one_unmovable_frame_pollutes_a_cell() {
        assert_eq!(map_class(FrameClass::Free, 0), FrameClass::Free.index() as u8);
        assert_eq!(map_class(FrameClass::Free, 1), POLLUTED);
        assert_eq!(map_class(FrameClass::File, 200), POLLUTED);
        assert_eq!(map_class(FrameClass::Slab, 512), FrameClass::Slab.index() as u8);
        assert_eq!(map_class(FrameClass::Absent, 0), FrameClass::Absent.index() as u8);
    }
}
