//! Which paint each class of memory has on maps, the same in every command.
//!
//! Cool is memory that can move, warm is memory that cannot, faint is free, grey is unknown. A cell
//! that is mostly free or movable and yet holds an unmovable frame has a paint of its own, because
//! it is what fragmentation is about: such a block can never be had whole.

use prairie_frames::Mobility;
use prairie_host::FrameClass;
use prairie_report::palette::{FREE, INK, MOVABLE, UNKNOWN, UNMOVABLE};
use prairie_report::{MapClass, Paint};

/// The number of the class "spoiled", which follows those of [`FrameClass::ALL`].
pub const SPOILED: u8 = FrameClass::ALL.len() as u8;

/// Initialised by nobody: between free and unknown.
const UNINITIALISED: Paint = Paint::new(0xc3cad1, 0x3f4a54);
/// With the hypervisor.
const OFFLINE: Paint = Paint::new(0x6d7883, 0x929da8);
/// One shared page, of 2 MiB at most.
const ZERO_PAGE: Paint = Paint::new(0x8f6148, 0xb58468);

/// The classes of maps: those of [`FrameClass::ALL`] by [`FrameClass::index`], then
/// [`SPOILED`].
pub fn map_classes() -> Vec<MapClass> {
    let frame_class = |class: FrameClass| MapClass {
        name: class.label().to_owned(),
        definition: definition(class),
        paint: paint(class),
        letter: letter(class),
    };
    let spoiled = MapClass {
        name: "spoiled by unmovable frames".to_owned(),
        definition: "mostly free, movable or unknown, with at least one unmovable frame".to_owned(),
        paint: Some(UNMOVABLE[6]),
        letter: '!',
    };
    FrameClass::ALL.into_iter().map(frame_class).chain([spoiled]).collect()
}

/// The map class of a cell: what most of it is, or [`SPOILED`].
pub fn map_class(most: FrameClass, unmovable_frames: u32) -> u8 {
    match most.mobility() {
        Mobility::Free | Mobility::Movable | Mobility::Unknown if unmovable_frames > 0 => SPOILED,
        _ => most.index() as u8,
    }
}

fn definition(class: FrameClass) -> String {
    format!(
        "{}: {}",
        prairie_host::survey::frame_report::mobility_name(class.mobility()),
        class.why()
    )
}

/// The paint of a class; `None` where there is no memory.
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
        FrameClass::Uninitialised => UNINITIALISED,
        FrameClass::Absent => return None,
    })
}

/// The letter of a class where there is no colour: small for what can move, large for what cannot.
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
        FrameClass::Uninitialised => '_',
        FrameClass::Absent => ' ',
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_class_can_be_told_from_every_other() {
        let classes = map_classes();
        assert_eq!(classes.len(), usize::from(SPOILED) + 1);
        let paints: HashSet<_> = classes.iter().map(|class| class.paint).collect();
        let letters: HashSet<_> = classes.iter().map(|class| class.letter).collect();
        assert_eq!((paints.len(), letters.len()), (classes.len(), classes.len()));
    }

    #[test]
    fn one_unmovable_frame_spoils_a_cell_that_could_have_been_had() {
        assert_eq!(map_class(FrameClass::Free, 0), FrameClass::Free.index() as u8);
        assert_eq!(map_class(FrameClass::Free, 1), SPOILED);
        assert_eq!(map_class(FrameClass::File, 200), SPOILED);
        assert_eq!(map_class(FrameClass::Slab, 512), FrameClass::Slab.index() as u8);
        assert_eq!(map_class(FrameClass::Absent, 0), FrameClass::Absent.index() as u8);
    }
}
