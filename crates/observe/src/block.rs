//! The classes of one pageblock's frames, read without those around it.
//!
//! A frame's class may depend on frames outside its pageblock: the head of a compound page, the
//! size of a hugetlb page, a section in which no frame has a flag. What is needed of these is read
//! frame by frame and given to the same [`Classifier`] that a full walk uses.

use std::io;

use prairie_frames::{Order, Pfn};
use prairie_host::classify::SECTION;
use prairie_host::{ClassRun, Classifier, Error, FrameClass, FrameRun, PageFlags, kpageflags};

/// Bytes of the flags of a pageblock.
pub const BLOCK_BYTES: usize = 8 * Order::HUGE.frames() as usize;

/// Where flags come from: fills the buffer with the words of frames from the given one on; fewer
/// bytes where the file ends.
pub trait Flags {
    /// Reads.
    ///
    /// # Errors
    /// I/O errors of the system.
    fn read(&mut self, from: Pfn, words: &mut [u8]) -> io::Result<usize>;
}

/// Reads pageblocks, in ascending order for speed.
pub struct BlockReader<F> {
    flags: F,
    runs: Vec<FrameRun>,
    /// The last section that was probed, and whether a flag was found in it.
    section: Option<(Pfn, bool)>,
}

impl<F: Flags> BlockReader<F> {
    /// A reader that has read nothing.
    pub fn new(flags: F) -> BlockReader<F> {
        BlockReader { flags, runs: Vec::new(), section: None }
    }

    /// Gives the classes of the pageblock's frames to `out`, as far as the file goes.
    ///
    /// # Errors
    /// I/O errors of the system; [`Error::FrameLimit`] as an I/O error of kind `InvalidData`.
    pub fn classes(&mut self, start: Pfn, out: &mut impl FnMut(ClassRun)) -> io::Result<()> {
        let mut bytes = [0; BLOCK_BYTES];
        let read = self.flags.read(start, &mut bytes)?;
        let end = Pfn(start.0 + (read / 8) as u64);
        self.runs.clear();
        let mut runs = std::mem::take(&mut self.runs);
        let mut block = Vec::new();
        kpageflags::encode(start, &bytes[..read], 0, &mut block);
        let (Some(first), Some(last)) = (block.first().copied(), block.last().copied()) else {
            return Ok(());
        };
        self.before(first, &mut runs)?;
        runs.extend_from_slice(&block);
        self.after(&mut runs, last, end)?;
        let result = classify(&runs, start, end, out);
        self.runs = runs;
        result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// What precedes a block that begins inside a compound page or a section without flags.
    fn before(&mut self, first: FrameRun, runs: &mut Vec<FrameRun>) -> io::Result<()> {
        if first.flags.contains(PageFlags::COMPOUND_TAIL) {
            if let Some((head, flags)) = self.head_before(first.start)? {
                runs.push(run(head, Pfn(head.0 + 1), flags));
                push(runs, Pfn(head.0 + 1), first.start, first.flags);
            }
        } else if self.is_untouched(first)? {
            push(runs, first.start.align_down(SECTION), first.start, PageFlags::NONE);
        }
        Ok(())
    }

    /// What follows a block that ends inside a hugetlb page or a section without flags.
    fn after(&mut self, runs: &mut Vec<FrameRun>, last: FrameRun, end: Pfn) -> io::Result<()> {
        if last.flags.contains(PageFlags::HUGE) {
            let heads = |run: &&FrameRun| run.flags.contains(PageFlags::COMPOUND_HEAD);
            let head = runs.iter().rev().find(heads).map(|run| Pfn(run.start.0 + run.frames - 1));
            // A page that reaches this frame is larger than the buddy lists hold.
            let Some(beyond) = head.map(|head| Pfn(head.0 + Order::LARGEST_FREE.frames())) else {
                return Ok(());
            };
            let gigantic = PageFlags::HUGE | PageFlags::COMPOUND_TAIL;
            let goes_on = beyond >= end && self.word(end)?.contains(gigantic);
            if goes_on && self.word(beyond)?.contains(gigantic) {
                push(runs, end, Pfn(beyond.0 + 1), gigantic);
            }
        } else if self.is_untouched(last)? {
            push(runs, end, Pfn(section_end(last.start)), PageFlags::NONE);
        }
        Ok(())
    }

    /// The head of the compound page that a pageblock begins inside of. Compound pages are aligned
    /// to their size, so the head is at one of a few frames.
    fn head_before(&mut self, start: Pfn) -> io::Result<Option<(Pfn, PageFlags)>> {
        for order in Order::up_to(Order::GIGANTIC).skip(Order::LARGEST_FREE.index()) {
            let head = start.align_down(order);
            if head == start {
                continue;
            }
            let flags = self.word(head)?;
            if flags.contains(PageFlags::COMPOUND_HEAD) {
                return Ok(Some((head, flags)));
            }
        }
        Ok(None)
    }

    /// Whether a pageblock without flags lies in a section without flags, by one frame of each of
    /// the section's pageblocks.
    fn is_untouched(&mut self, run_of_block: FrameRun) -> io::Result<bool> {
        let whole = run_of_block.frames == Order::HUGE.frames();
        if !whole || FrameClass::of(run_of_block.flags) != FrameClass::Unflagged {
            return Ok(false);
        }
        let section = run_of_block.start.align_down(SECTION);
        if let Some((known, touched)) = self.section
            && known == section
        {
            return Ok(!touched);
        }
        let step = Order::HUGE.frames() as usize;
        let mut touched = false;
        for at in (section.0..section_end(section)).step_by(step) {
            let mut word = [0; 8];
            let read = self.flags.read(Pfn(at), &mut word)?;
            let flags = PageFlags(u64::from_ne_bytes(word));
            touched = read < 8 || FrameClass::of(flags) != FrameClass::Unflagged;
            if touched {
                break;
            }
        }
        self.section = Some((section, touched));
        Ok(!touched)
    }

    /// One frame's flags; none beyond the file's end.
    fn word(&mut self, at: Pfn) -> io::Result<PageFlags> {
        let mut word = [0; 8];
        self.flags.read(at, &mut word)?;
        Ok(PageFlags(u64::from_ne_bytes(word)))
    }
}

/// One past the last frame of the section of `at`.
fn section_end(at: Pfn) -> u64 {
    at.align_down(SECTION).0 + SECTION.frames()
}

fn run(start: Pfn, end: Pfn, flags: PageFlags) -> FrameRun {
    FrameRun { start, frames: end.0 - start.0, flags, read_at_ns: 0 }
}

/// Adds a run unless it is empty.
fn push(runs: &mut Vec<FrameRun>, start: Pfn, end: Pfn, flags: PageFlags) {
    if start < end {
        runs.push(run(start, end, flags));
    }
}

/// The classes of the frames from `start` to `end`.
fn classify(
    runs: &[FrameRun],
    start: Pfn,
    end: Pfn,
    out: &mut impl FnMut(ClassRun),
) -> Result<(), Error> {
    let mut classifier = Classifier::new();
    let mut clipped = |class: ClassRun| {
        let (from, to) = (class.start.max(start), class.end().min(end));
        if from < to {
            out(ClassRun { start: from, frames: to.0 - from.0, ..class });
        }
    };
    for run in runs {
        classifier.push(*run, &mut clipped)?;
    }
    classifier.finish(&mut clipped);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use PageFlags as F;
    use proptest::prelude::*;

    use super::*;

    /// Flags in memory.
    pub(crate) struct Words(pub Vec<u64>);

    impl Flags for &Words {
        fn read(&mut self, from: Pfn, words: &mut [u8]) -> io::Result<usize> {
            let rest = self.0.get(from.0 as usize..).unwrap_or_default();
            let bytes = rest.iter().flat_map(|word| word.to_ne_bytes());
            Ok(words.iter_mut().zip(bytes).map(|(to, byte)| *to = byte).count())
        }
    }

    /// The class of every frame by a full walk.
    fn by_walk(words: &Words) -> Vec<FrameClass> {
        let bytes: Vec<u8> = words.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut runs = Vec::new();
        kpageflags::encode(Pfn(0), &bytes, 0, &mut runs);
        let mut classes = Vec::new();
        let mut out =
            |run: ClassRun| classes.extend(std::iter::repeat_n(run.class, run.frames as usize));
        classify(&runs, Pfn(0), Pfn(words.0.len() as u64), &mut out).unwrap();
        classes
    }

    /// The class of every frame, pageblock by pageblock, each by a reader of its own.
    fn by_blocks(words: &Words) -> Vec<FrameClass> {
        let mut classes = Vec::new();
        for start in (0..words.0.len() as u64).step_by(512) {
            let mut out = |run: ClassRun| {
                assert_eq!(run.start.0, classes.len() as u64);
                classes.extend(std::iter::repeat_n(run.class, run.frames as usize));
            };
            BlockReader::new(words).classes(Pfn(start), &mut out).unwrap();
        }
        classes
    }

    /// A compound page of `frames`, its tails with or without the head's flags.
    fn compound(words: &mut Vec<u64>, frames: usize, flags: F, old_kernel: bool) {
        words.push((F::COMPOUND_HEAD | flags).0);
        let tail = if old_kernel { F::NONE } else { flags };
        words.extend(std::iter::repeat_n((F::COMPOUND_TAIL | tail).0, frames - 1));
    }

    #[test]
    fn a_page_that_begins_before_the_block_has_its_heads_class() {
        for old_kernel in [false, true] {
            let mut words = vec![F::BUDDY.0; 1024];
            compound(&mut words, 1024, F::LRU | F::UPTODATE, old_kernel);
            compound(&mut words, 1024, F::SLAB, old_kernel);
            words.extend([0; 512]);
            let words = Words(words);
            assert_eq!(by_blocks(&words), by_walk(&words), "old kernel: {old_kernel}");
            assert_eq!(by_blocks(&words)[1600], FrameClass::File);
        }
    }

    #[test]
    fn hugetlb_pages_are_recognized_by_their_size() {
        let mut words = Vec::new();
        for _ in 0..4 {
            compound(&mut words, 512, F::HUGE, false);
        }
        words.resize(1 << 18, F::BUDDY.0);
        compound(&mut words, 1 << 18, F::HUGE, false);
        compound(&mut words, 1024, F::HUGE, false);
        let words = Words(words);
        let found = by_blocks(&words);
        assert!(found == by_walk(&words));
        assert_eq!(found[600], FrameClass::Hugetlb);
        assert!(found[1 << 18..2 << 18].iter().all(|c| *c == FrameClass::HugetlbGigantic));
        assert_eq!(found[2 << 18], FrameClass::Hugetlb);
    }

    #[test]
    fn sections_without_flags_are_not_initialized() {
        let section = SECTION.frames() as usize;
        let mut words = vec![F::BUDDY.0; section];
        words.extend(vec![0; section]);
        words.extend(vec![0; section / 2]);
        words.extend(vec![F::ANON.0; section / 2]);
        // The file ends inside a section, which then is no whole one.
        words.extend(vec![0; 2048]);
        let words = Words(words);
        let found = by_blocks(&words);
        assert!(found == by_walk(&words));
        assert_eq!(found[section + 5], FrameClass::Uninitialized);
        assert_eq!(found[2 * section + 5], FrameClass::Unflagged);
        assert_eq!(found[3 * section + 5], FrameClass::Unflagged);
    }

    proptest! {
        /// Pages of all orders, placed as the page allocator places them.
        #[test]
        fn blocks_equal_the_walk(
            pages in prop::collection::vec((0u32..=11, 0usize..7, any::<bool>()), 1..60),
        ) {
            const KINDS: [F; 7] = [
                F::BUDDY, F::NONE, F::SLAB, F::ANON, F::LRU, F::HUGE, F::RESERVED,
            ];
            let mut words = Vec::new();
            for (order, kind, is_compound) in pages {
                let frames = 1usize << order;
                while words.len() % frames != 0 {
                    words.push(0);
                }
                let is_compound = is_compound || KINDS[kind] == F::HUGE;
                if is_compound && frames > 1 && KINDS[kind] != F::BUDDY {
                    compound(&mut words, frames, KINDS[kind], false);
                } else {
                    words.extend(std::iter::repeat_n(KINDS[kind].0, frames));
                }
            }
            let words = Words(words);
            prop_assert!(by_blocks(&words) == by_walk(&words));
        }

        #[test]
        fn nonsense_does_not_panic(words in prop::collection::vec(any::<u64>(), 0..2000)) {
            let words = Words(words);
            prop_assert_eq!(by_blocks(&words).len(), words.0.len());
        }
    }
}
