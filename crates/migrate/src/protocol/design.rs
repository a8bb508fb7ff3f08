//! The modeled machine: the capabilities of its agents, and the injected bug, if any.

use super::property::Property;
use super::table::Caching;
use super::variant::Variant;

/// Pages of the machine that random walks run, which can all migrate at once: more than any
/// machine has whose states are all visited.
pub const MAX_MIGRATIONS: usize = 4;

/// The capabilities of a machine and its operating system.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Which of the two protocols.
    pub caching: Caching,
    /// The injected bug, for a broken protocol.
    pub variant: Option<Variant>,
    /// Pages, from 1 to as many as the machine has room for. One page migrates again and again,
    /// into the frame that it left before. Several pages migrate one after another: the first stops
    /// its traffic when it is done, and its frame is the second's destination.
    pub pages: u8,
    /// Whether all pages are in use at once, and migrate whenever they like.
    pub together: bool,
    /// Whether a page that was migrated may migrate again.
    pub again: bool,
    /// Whether the operating system may take a migration back.
    pub aborts: bool,
    /// Whether prefetchers fetch lines by a physical name that translations no longer have.
    pub prefetch: bool,
    /// Whether devices write parts of lines.
    pub partial: bool,
    /// Whether cores execute locked instructions.
    pub locks: bool,
    /// Whether a page walk takes two steps: reading the table, filling the TLB.
    pub split_walks: bool,
    /// Whether devices have their own TLBs (ATS).
    pub ats: bool,
    /// Whether the last-level cache is modeled separately from memory.
    pub llc: bool,
    /// Whether the last-level cache may call a line back from a core at any time, as a snoop
    /// filter does that has no room for it.
    pub recalls: bool,
    /// Whether an agent with nothing under the old name on its way may take a step more to notice.
    pub slow_drain: bool,
    /// Whether acknowledgements travel to the operating system as messages ([`super::message`]).
    pub messages: bool,
    /// Whether a cache may hold the destination's lines modified when a migration starts.
    pub dirty_destination: bool,
    /// Whether an empty TLB entry is a state of its own, and not what a walk would find.
    pub empty_tlb: bool,
    /// Values of data: 0 for one bit that says whether a copy is the last write, or 2 to 63.
    pub values: u8,
    /// Whether states that differ in the cores' names count as one.
    pub symmetry: bool,
    /// Whether requests are delayed until they can be distinguished from later ones
    /// ([`super::coarse`]).
    pub coarse: bool,
    /// The one property of states that is checked, or all.
    pub only: Option<Property>,
    /// Whether a finished page keeps its copies, translations and requests.
    pub keep_finished: bool,
}

impl Default for Design {
    /// One page, one migration, everything that all machines have.
    fn default() -> Self {
        Design {
            caching: Caching::Cacheable,
            variant: None,
            pages: 1,
            together: false,
            again: false,
            aborts: false,
            prefetch: false,
            partial: false,
            locks: false,
            split_walks: false,
            ats: false,
            llc: false,
            recalls: false,
            slow_drain: false,
            messages: false,
            dirty_destination: false,
            empty_tlb: false,
            values: 0,
            symmetry: true,
            coarse: false,
            only: None,
            keep_finished: false,
        }
    }
}

impl Variant {
    /// The protocol with this bug injected, and with the features that the bug needs to show.
    #[must_use]
    pub fn design(self) -> Design {
        let mut design = Design { variant: Some(self), ..Design::default() };
        match self {
            Variant::PartialMergesOwnName => design.partial = true,
            Variant::PrefetchServed => design.prefetch = true,
            Variant::WalkSurvives => (design.split_walks, design.empty_tlb) = (true, true),
            Variant::DeviceTlbKept => design.ats = true,
            Variant::DirtyDestination => design.dirty_destination = true,
            Variant::CopyReadsMemory | Variant::CheckNeedsTag => design.llc = true,
            Variant::LockIgnored => design.locks = true,
            Variant::AbortHalfWay
            | Variant::AbortKeepsTranslations
            | Variant::LateAcknowledgement => design.aborts = true,
            Variant::NoncacheableKeepsCopies | Variant::NoncacheableClearsEarly => {
                design.caching = Caching::Noncacheable;
            }
            _ => {}
        }
        design
    }
}

impl Design {
    /// Four pages that migrate whenever they like, with everything that a machine may do but give
    /// up, against a reference memory: each write puts a new value there, and every read is
    /// compared with it. At random nearly every migration would be given up before it is copied.
    #[must_use]
    pub fn everything(caching: Caching, variant: Option<Variant>) -> Design {
        Design {
            caching,
            variant,
            pages: MAX_MIGRATIONS as u8,
            together: true,
            again: true,
            prefetch: true,
            partial: true,
            locks: true,
            split_walks: true,
            ats: true,
            llc: true,
            empty_tlb: true,
            values: 61,
            symmetry: false,
            ..Design::default()
        }
    }

    /// Whether requests can be delayed: an agent's copy of a line that it asks for must not come to
    /// be there by a prefetch meanwhile, nor its page go out of use.
    #[must_use]
    pub fn can_be_coarse(&self) -> bool {
        !self.prefetch && !self.keep_finished
    }

    /// Whether this injected bug is built in.
    #[inline]
    #[must_use]
    pub fn breaks(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }

    /// Whether a page may be part of two migrations.
    #[must_use]
    pub(super) fn chains(&self) -> bool {
        self.breaks(Variant::ChainAccepted)
    }

    /// The value of a copy that is not the last write, or not of this page.
    #[inline]
    #[must_use]
    pub fn stale(&self) -> u8 {
        if self.values == 0 { 0 } else { 63 }
    }
}
