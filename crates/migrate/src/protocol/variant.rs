//! Broken protocols, each with one injected bug. A checker is worth what it can find.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! variants {
    ($($(#[doc = $words:literal])+ $name:ident = $kebab:literal,)+) => {
        /// One injected bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Variant {
            $($(#[doc = $words])+ $name,)+
        }

        impl Variant {
            /// All of them.
            pub const ALL: &[Variant] = &[$(Variant::$name),+];

            /// Its name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Variant::$name => $kebab,)+ }
            }

            /// The injected bug of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<Variant> {
                Variant::ALL.iter().copied().find(|variant| variant.name() == name)
            }

            /// The injected bug, in a sentence.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self { $(Variant::$name => concat!($($words),+).trim_ascii(),)+ }
            }
        }
    };
}

variants! {
    /// A miss is served without a look for the line under the opposite name.
    NoOppositeCheck = "no-opposite-check",
    /// Requests go to their address, ignoring Ptr.
    NoRedirection = "no-redirection",
    /// Ptr moves when the line is read, before it is written to the destination.
    PtrBeforeWrite = "ptr-before-write",
    /// The engine reads a line without recalling private copies of it.
    NoRecall = "no-recall",
    /// The engine's line is written although the line was written in between.
    WrittenWhileHeld = "written-while-held",
    /// A victim is written back under the name it was cached by, and not redirected.
    WriteBackUnderOwnName = "write-back-under-own-name",
    /// The engine reads a line while a victim of it is on its way.
    CopyPastVictim = "copy-past-victim",
    /// A core acknowledges its invalidation with a miss under the old name under way.
    CoreAcksWithMiss = "core-acks-with-miss",
    /// A device's invalidation is acknowledged with a read under the old name under way.
    DeviceAcksWithRead = "device-acks-with-read",
    /// A device's invalidation is acknowledged with a posted write under the old name under way.
    PostedNotDrained = "posted-not-drained",
    /// The invalidations count as complete without the IOMMU's.
    IommuNotWaited = "iommu-not-waited",
    /// A device's own translation survives the IOMMU's invalidation (ATS).
    DeviceTlbKept = "device-tlb-kept",
    /// A core invalidates before the page table has changed, and refills the old translation.
    FlushBeforeTable = "flush-before-table",
    /// A page walk that has read the old translation survives the invalidation.
    WalkSurvives = "walk-survives",
    /// A prefetch by the source's physical name is served while its lines are copied.
    PrefetchServed = "prefetch-served",
    /// Readers may share a line under both names; a store to a shared copy, which is no miss,
    /// looks for copies of its own name only.
    UpgradeUnchecked = "upgrade-unchecked",
    /// A device's write of part of a line is merged with the line of the name it was posted to.
    PartialMergesOwnName = "partial-merges-own-name",
    /// A page that is being migrated starts a second migration before the first is cleared.
    ChainAccepted = "chain-accepted",
    /// The destination's old lines are left in private caches when a migration starts.
    DirtyDestination = "dirty-destination",
    /// The engine reads memory, past a newer line in the last-level cache.
    CopyReadsMemory = "copy-reads-memory",
    /// The look for the opposite name sees only lines that the last-level cache holds itself.
    CheckNeedsTag = "check-needs-tag",
    /// The engine takes a line from the middle of a locked instruction.
    LockIgnored = "lock-ignored",
    /// A migration is given up half-way, and what was written below Ptr with it.
    AbortHalfWay = "abort-half-way",
    /// A migration is given up while translations to its destination are left.
    AbortKeepsTranslations = "abort-keeps-translations",
    /// The slices of the two names keep a Ptr each, and one hears of a move later.
    TwoPtrs = "two-ptrs",
    /// For the destination's name, Ptr is compared with a hashed line number.
    PtrByHashedIndex = "ptr-by-hashed-index",
    /// Ptr cannot hold the number of lines: at the last line it wraps to zero.
    PtrWraps = "ptr-wraps",
    /// The line at Ptr counts as copied.
    PtrInclusive = "ptr-inclusive",
    /// The table of the destination's slice was full: only the source's slice has the entry.
    EntryInOneSlice = "entry-in-one-slice",
    /// The copy begins while translations to the source are left (cacheable).
    CopyStartsEarly = "copy-starts-early",
    /// Clear is accepted while lines are still to be copied.
    ClearUnfinished = "clear-unfinished",
    /// An acknowledgement of an earlier change of a translation counts for a later one.
    LateAcknowledgement = "late-acknowledgement",
    /// Lines that were cached before a noncacheable migration began are not recalled.
    NoncacheableKeepsCopies = "noncacheable-keeps-copies",
    /// A noncacheable migration is cleared once it is copied, with old translations left.
    NoncacheableClearsEarly = "noncacheable-clears-early",
    /// Requests for the line that the engine has read wait until it is written.
    HeldLineWaits = "held-line-waits",
    /// Requests for a page that migrates wait until it is copied.
    PageWaits = "page-waits",
    /// A line that is requested while the engine holds it is copied again.
    CopyAgain = "copy-again",
    /// The engine waits until no private cache holds the line modified.
    CopyWaitsForOwner = "copy-waits-for-owner",
    /// The next request for a line is taken while the line is still on its way to the last one.
    GrantNotAwaited = "grant-not-awaited",
    /// A line is granted for writing once the others are asked to give it up, before they answer.
    AnswersNotAwaited = "answers-not-awaited",
    /// The engine reads a line once the cores are asked to give it up, before they answer.
    CopyPastAnswers = "copy-past-answers",
    /// A core that asks to write a line that it shares gets permission without data; it may have
    /// dropped the line meanwhile.
    UpgradeWithoutData = "upgrade-without-data",
    /// A core's answer that it has no copy is believed while its victim is on its way.
    VictimNotAwaited = "victim-not-awaited",
    /// Each slice orders the requests by its own name, those for one line side by side.
    TwoOrderers = "two-orderers",
    /// The entry ends while the source's slice is serving a line, and the other slice begins.
    ClearNotDrained = "clear-not-drained",
    /// Ptr moves when the line is sent to the destination, before word of its arrival.
    PtrBeforeLanded = "ptr-before-landed",
    /// The opposite name is looked for in every private cache but that of the core that asks.
    RequesterSpared = "requester-spared",
    /// A victim is not taken while its line is in service; the service waits for it.
    VictimRefused = "victim-refused",
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Variant {
    /// The smallest machine that shows it: cores, devices, lines of a page.
    #[must_use]
    pub fn shape(self) -> (u8, u8, u8) {
        match self {
            Variant::PtrByHashedIndex | Variant::AbortHalfWay => (1, 0, 2),
            _ => (2, 1, 1),
        }
    }

    /// Whether it is one of single messages, which the transaction layer does not have.
    #[must_use]
    pub fn is_of_messages(self) -> bool {
        matches!(
            self,
            Variant::GrantNotAwaited
                | Variant::AnswersNotAwaited
                | Variant::CopyPastAnswers
                | Variant::UpgradeWithoutData
                | Variant::VictimNotAwaited
                | Variant::TwoOrderers
                | Variant::ClearNotDrained
                | Variant::PtrBeforeLanded
                | Variant::RequesterSpared
                | Variant::VictimRefused
        )
    }

    /// Whether the message layer can have it.
    #[must_use]
    pub fn shows_in_messages(self) -> bool {
        self.is_of_messages()
            || matches!(
                self,
                Variant::NoOppositeCheck
                    | Variant::NoRedirection
                    | Variant::NoRecall
                    | Variant::WrittenWhileHeld
                    | Variant::WriteBackUnderOwnName
                    | Variant::CoreAcksWithMiss
                    | Variant::DeviceAcksWithRead
                    | Variant::PostedNotDrained
                    | Variant::IommuNotWaited
                    | Variant::FlushBeforeTable
                    | Variant::AbortKeepsTranslations
                    | Variant::PtrByHashedIndex
                    | Variant::PtrWraps
                    | Variant::PtrInclusive
                    | Variant::CopyStartsEarly
                    | Variant::LateAcknowledgement
                    | Variant::NoncacheableClearsEarly
                    | Variant::HeldLineWaits
                    | Variant::PageWaits
                    | Variant::CopyAgain
                    | Variant::CopyWaitsForOwner
            )
    }

    /// The smallest machine that shows it message by message: cores, devices, lines of a page.
    #[must_use]
    pub fn shape_of_messages(self) -> (u8, u8, u8) {
        match self {
            Variant::DeviceAcksWithRead
            | Variant::PostedNotDrained
            | Variant::IommuNotWaited
            | Variant::GrantNotAwaited
            | Variant::ClearNotDrained => (1, 1, 1),
            Variant::PtrByHashedIndex => (1, 0, 2),
            _ => (1, 0, 1),
        }
    }

    /// Whether it is about what must happen some day, and shows in no single state.
    #[must_use]
    pub fn is_about_liveness(self) -> bool {
        matches!(
            self,
            Variant::HeldLineWaits
                | Variant::PageWaits
                | Variant::CopyAgain
                | Variant::CopyWaitsForOwner
                | Variant::VictimRefused
        )
    }
}
