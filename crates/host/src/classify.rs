//! Classes of frames in a stream of runs: what a frame's own flags leave open, its neighbors
//! decide.

use prairie_frames::{Mobility, Order, Pfn};

use crate::{Error, FrameClass, FrameRun, PageFlags};

/// Consecutive frames of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRun {
    /// The first frame.
    pub start: Pfn,
    /// How many frames, at least one.
    pub frames: u64,
    /// What fills each.
    pub class: FrameClass,
    /// Whether each is unevictable or mlocked: it moves only while
    /// `vm.compact_unevictable_allowed` is 1.
    pub unevictable: bool,
}

impl ClassRun {
    /// One past the last frame.
    pub const fn end(&self) -> Pfn {
        Pfn(self.start.0 + self.frames)
    }

    /// Whether software could move what fills the frames.
    pub const fn mobility(&self) -> Mobility {
        self.class.mobility()
    }
}

/// The extent over which memory without any flag counts as never initialized: a section of the
/// sparse memory model with 4 KiB pages on x86-64 and arm64, 128 MiB.
pub const SECTION: Order = match Order::new(15) {
    Some(order) => order,
    None => unreachable!(),
};

/// Classifies frame runs as they pass, in ascending order of frames, keeping one run back.
///
/// Beyond [`FrameClass::of`] it knows that
/// - the tail of a compound page has the class of its head. Kernels before 6.10 or so show the
///   head's flags on the head alone, so a tail says little by itself;
/// - a hugetlb page larger than 4 MiB, counted from its head over all its tails, is gigantic;
/// - frames without flags that fill a whole aligned [`SECTION`] are uninitialized. The rest of
///   such a run, at its ends, stays unflagged.
///
/// Constant memory; one class run comes out for each change of class, so never more than
/// runs went in, but for the cuts at sections.
#[derive(Debug, Default)]
pub struct Classifier {
    /// Undecided frames: a hugetlb page that may grow, or frames without flags.
    pending: Option<ClassRun>,
    /// Class of the compound page that the last frame belongs to, and where it may go on.
    compound: Option<(Pfn, FrameClass)>,
    /// One past the last frame taken.
    end: u64,
}

impl Classifier {
    /// A classifier that has seen nothing.
    pub fn new() -> Classifier {
        Classifier::default()
    }

    /// Takes the next run; calls `out` with what is certain by now.
    ///
    /// # Errors
    /// [`Error::RunOrder`] where it starts before the end of the one before,
    /// [`Error::FrameLimit`] where it reaches beyond any machine's last frame (2^40).
    pub fn push(&mut self, run: FrameRun, out: &mut impl FnMut(ClassRun)) -> Result<(), Error> {
        if run.start.0 < self.end {
            return Err(Error::RunOrder { start: run.start.0, end: self.end });
        }
        let limit = Order::LIMIT.frames();
        let end = run.start.0.saturating_add(run.frames);
        if end > limit {
            let what = format!("the run of frames that starts at {}", run.start);
            return Err(Error::FrameLimit { what, frame: end, limit });
        }
        self.end = end;
        if run.frames == 0 {
            return Ok(());
        }
        let class = self.class_of(run);
        let unevictable = run.flags.intersects(PageFlags::UNEVICTABLE | PageFlags::MLOCKED);
        let next = ClassRun { start: run.start, frames: run.frames, class, unevictable };
        let starts_page = !run.flags.contains(PageFlags::COMPOUND_TAIL);
        match &mut self.pending {
            Some(held) if joins(held, &next, starts_page) => held.frames += next.frames,
            _ => {
                self.finish(out);
                self.pending = Some(next);
            }
        }
        Ok(())
    }

    /// The stream ended: calls `out` with what was kept back.
    pub fn finish(&mut self, out: &mut impl FnMut(ClassRun)) {
        match self.pending.take() {
            Some(run) if run.class == FrameClass::Unflagged => split_at_sections(run, out),
            Some(run) if run.class == FrameClass::Hugetlb => {
                let gigantic = run.frames > Order::LARGEST_FREE.frames();
                let class =
                    if gigantic { FrameClass::HugetlbGigantic } else { FrameClass::Hugetlb };
                out(ClassRun { class, ..run });
            }
            Some(run) => out(run),
            None => {}
        }
    }

    /// The class by the run's own flags, or by the head before it. A run of heads cannot be
    /// longer than one frame unless each is a compound page cut short by the clock, so the last
    /// frame of the run is the head.
    fn class_of(&mut self, run: FrameRun) -> FrameClass {
        let own = FrameClass::of(run.flags);
        let end = Pfn(run.start.0 + run.frames);
        let is_tail = run.flags.contains(PageFlags::COMPOUND_TAIL);
        let head = self.compound.take();
        if run.flags.contains(PageFlags::COMPOUND_HEAD) {
            self.compound = Some((end, own));
            return own;
        }
        match head {
            Some((expected, head)) if is_tail && expected == run.start => {
                self.compound = Some((end, head));
                if own == FrameClass::HwPoison { own } else { head }
            }
            _ => own,
        }
    }
}

/// Whether `next` continues `held`: the same class without a gap, and for hugetlb the same page.
fn joins(held: &ClassRun, next: &ClassRun, starts_page: bool) -> bool {
    if held.end() != next.start || held.unevictable != next.unevictable {
        return false;
    }
    match held.class {
        FrameClass::Hugetlb => next.class == FrameClass::Hugetlb && !starts_page,
        class => class == next.class,
    }
}

/// Splits frames without flags into those that fill whole sections and the rest.
fn split_at_sections(run: ClassRun, out: &mut impl FnMut(ClassRun)) {
    let section = SECTION.frames();
    let first = run.start.0.div_ceil(section) * section;
    let last = run.end().align_down(SECTION).0;
    if first >= last {
        return out(run);
    }
    let mut part = |start: u64, end: u64, class| {
        if start < end {
            out(ClassRun { start: Pfn(start), frames: end - start, class, ..run });
        }
    };
    part(run.start.0, first, FrameClass::Unflagged);
    part(first, last, FrameClass::Uninitialized);
    part(last, run.end().0, FrameClass::Unflagged);
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageFlags as F;

    fn classify(runs: &[(u64, u64, PageFlags)]) -> Vec<(u64, u64, FrameClass)> {
        let mut found = Vec::new();
        let mut out = |run: ClassRun| found.push((run.start.0, run.frames, run.class));
        let mut classifier = Classifier::new();
        for &(start, frames, flags) in runs {
            let run = FrameRun { start: Pfn(start), frames, flags, read_at_ns: 0 };
            classifier.push(run, &mut out).unwrap();
        }
        classifier.finish(&mut out);
        found
    }

    const HEAD: PageFlags = F::COMPOUND_HEAD;
    const TAIL: PageFlags = F::COMPOUND_TAIL;

    #[test]
    fn a_tail_belongs_to_its_head() {
        // Linux 6.1 shows a file folio's flags on its head alone.
        let runs = [
            (0, 1, HEAD | F::LRU | F::UPTODATE | F::THP),
            (1, 3, TAIL | F::THP),
            (4, 1, HEAD),
            (5, 1, TAIL),
            (6, 2, F::NONE),
            (8, 1, TAIL),
        ];
        assert_eq!(
            classify(&runs),
            [
                (0, 4, FrameClass::File),
                (4, 2, FrameClass::KernelOther),
                (6, 2, FrameClass::Unflagged),
                (8, 1, FrameClass::KernelOther),
            ]
        );
    }

    #[test]
    fn a_poisoned_tail_stays_alone() {
        let runs = [
            (0, 1, HEAD | F::LRU | F::ANON | F::THP),
            (1, 1, TAIL | F::THP),
            (2, 1, TAIL | F::THP | F::HWPOISON),
            (3, 1, TAIL | F::THP),
        ];
        assert_eq!(
            classify(&runs),
            [
                (0, 2, FrameClass::AnonymousThp),
                (2, 1, FrameClass::HwPoison),
                (3, 1, FrameClass::AnonymousThp),
            ]
        );
    }

    #[test]
    fn hugetlb_pages_are_gigantic_by_their_length() {
        let huge = F::HUGE | F::UPTODATE;
        let gib = Order::GIGANTIC.frames();
        let runs = [
            (0, 1, HEAD | huge),
            // Tails split where the reader started a new buffer, or where flags differ.
            (1, 8191, TAIL | huge),
            (8192, gib - 8192, TAIL | F::HUGE),
            (gib, 1, HEAD | huge),
            (gib + 1, 511, TAIL | huge),
            (gib + 512, 1, HEAD | huge),
            (gib + 513, 511, TAIL | huge),
        ];
        assert_eq!(
            classify(&runs),
            [
                (0, gib, FrameClass::HugetlbGigantic),
                (gib, 512, FrameClass::Hugetlb),
                (gib + 512, 512, FrameClass::Hugetlb),
            ]
        );
    }

    #[test]
    fn a_whole_section_without_flags_was_never_initialized() {
        let section = SECTION.frames();
        let runs = [
            (0, 100, F::BUDDY),
            (100, section, F::NONE),
            (section + 100, section, F::NONE),
            (2 * section + 100, 50, F::RESERVED),
            (2 * section + 150, section - 200, F::NONE),
        ];
        assert_eq!(
            classify(&runs),
            [
                (0, 100, FrameClass::Free),
                (100, section - 100, FrameClass::Unflagged),
                (section, section, FrameClass::Uninitialized),
                (2 * section, 100, FrameClass::Unflagged),
                (2 * section + 100, 50, FrameClass::Reserved),
                (2 * section + 150, section - 200, FrameClass::Unflagged),
            ]
        );
    }

    #[test]
    fn a_gap_ends_everything() {
        let runs = [(0, 1, HEAD), (2, 1, TAIL | F::MMAP), (10, 5, F::BUDDY), (20, 5, F::BUDDY)];
        assert_eq!(
            classify(&runs),
            [
                (0, 1, FrameClass::KernelOther),
                (2, 1, FrameClass::DriverMapped),
                (10, 5, FrameClass::Free),
                (20, 5, FrameClass::Free),
            ]
        );
    }
}
