//! Steps, with descriptions, and senders and receivers for a sequence chart.

use std::fmt;

use serde::Serialize;

/// The agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agent {
    /// The operating system.
    System,
    /// A core with its private cache and TLB.
    Core(u8),
    /// The last-level cache with the metadata table, and memory.
    Cache,
    /// The engine that copies.
    Engine,
    /// A device with its IOMMU.
    Device(u8),
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Agent::System => f.write_str("OS"),
            Agent::Core(core) => write!(f, "core {core}"),
            Agent::Cache => f.write_str("LLC"),
            Agent::Engine => f.write_str("engine"),
            Agent::Device(device) => write!(f, "device {device}"),
        }
    }
}

/// The verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "said by Display")]
pub enum Verb {
    // Cores.
    LoadHit,
    StoreHit,
    LoadMiss,
    StoreMiss,
    LockMiss,
    LockHit,
    Unlock,
    Drop,
    Evict,
    EvictTranslation,
    BeginWalk,
    EndWalk,
    Prefetch,
    // Devices.
    DmaRead,
    DmaWrite,
    DmaWritePart,
    EvictIoTranslation,
    EvictOwnTranslation,
    // Caches, network and memory.
    Serve,
    ServeVictim,
    ServeDmaRead,
    ServePosted,
    EvictLlc,
    CallBack,
    Downgrade,
    HearOfPtr,
    // The same as messages.
    Take,
    TakeDmaRead,
    TakePosted,
    Snooped,
    Gather,
    Receive,
    Told,
    ReceiveDma,
    HearLanded,
    CopyLand,
    CopyHear,
    EndEntry,
    // Invalidations.
    Invalidate,
    Drained,
    Acknowledge,
    AcknowledgeLate,
    InvalidateIo,
    DrainedIo,
    // The engine.
    CopyAsk,
    CopyAnswer,
    CopyRead,
    CopyWrite,
    CopyTake,
    CopySend,
    // The operating system.
    Migrate,
    SetTable,
    SetIoTable,
    Notify,
    Clear,
    AskClear,
    StartAbort,
    ClearAborted,
    MigrateAgain,
}

/// The agent of a step, for fairness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A program or a device wants something; it need never do.
    Demand,
    /// Caches, network and memory: what was asked is served.
    Service,
    /// A core's or the IOMMU's invalidation.
    Invalidation,
    /// The engine.
    Engine,
    /// The operating system.
    System,
}

/// One step: agent, verb, and page, line, and frame if it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The verb.
    pub verb: Verb,
    /// The core or device; the slot of the table for the engine.
    pub agent: u8,
    /// The virtual page.
    pub page: u8,
    /// The line in it.
    pub line: u8,
    /// The frame.
    pub frame: u8,
}

impl Action {
    /// The agent of the step.
    #[must_use]
    pub fn class(&self) -> Class {
        use Verb::*;
        match self.verb {
            LoadHit | StoreHit | LoadMiss | StoreMiss | LockMiss | LockHit | Drop | Evict
            | EvictTranslation | BeginWalk | Prefetch | DmaRead | DmaWrite | DmaWritePart
            | EvictIoTranslation | EvictOwnTranslation | EvictLlc | CallBack | Downgrade => {
                Class::Demand
            }
            Serve | ServeVictim | ServeDmaRead | ServePosted | HearOfPtr | Unlock | EndWalk
            | CopyAnswer | Take | TakeDmaRead | TakePosted | Snooped | Gather | Receive | Told
            | ReceiveDma | HearLanded | CopyLand | CopyHear | EndEntry => Class::Service,
            Invalidate | Drained | Acknowledge | AcknowledgeLate | InvalidateIo | DrainedIo => {
                Class::Invalidation
            }
            CopyAsk | CopyRead | CopyWrite | CopyTake | CopySend => Class::Engine,
            Migrate | SetTable | SetIoTable | Notify | Clear | AskClear | StartAbort
            | ClearAborted | MigrateAgain => Class::System,
        }
    }

    /// Sender and receiver; equal for an internal step.
    #[must_use]
    pub fn ends(&self) -> (Agent, Agent) {
        use Verb::*;
        let core = Agent::Core(self.agent);
        let device = Agent::Device(self.agent);
        match self.verb {
            LoadHit | StoreHit | LockHit | Unlock | Drop | EvictTranslation | BeginWalk
            | EndWalk | Invalidate => (core, core),
            LoadMiss | StoreMiss | LockMiss | Evict | Prefetch => (core, Agent::Cache),
            Serve => (Agent::Cache, core),
            ServeVictim | EvictLlc | HearOfPtr | EndEntry => (Agent::Cache, Agent::Cache),
            CallBack | Downgrade | Receive => (Agent::Cache, core),
            Snooped => (Agent::Cache, core),
            Take | Gather | Told => (core, Agent::Cache),
            TakeDmaRead | TakePosted => (device, Agent::Cache),
            ReceiveDma | HearLanded => (Agent::Cache, device),
            CopyTake | CopySend | CopyLand => (Agent::Engine, Agent::Cache),
            CopyHear => (Agent::Cache, Agent::Engine),
            Drained | Acknowledge | AcknowledgeLate => (core, Agent::System),
            DmaRead | DmaWrite | DmaWritePart => (device, Agent::Cache),
            ServeDmaRead => (Agent::Cache, device),
            ServePosted => (Agent::Cache, Agent::Cache),
            EvictIoTranslation | EvictOwnTranslation | InvalidateIo => (device, device),
            DrainedIo => (device, Agent::System),
            CopyAsk => (Agent::Engine, Agent::Cache),
            CopyAnswer | CopyRead => (Agent::Cache, Agent::Engine),
            CopyWrite => (Agent::Engine, Agent::Cache),
            Migrate | Clear | AskClear | ClearAborted | MigrateAgain => {
                (Agent::System, Agent::Cache)
            }
            Notify => (Agent::System, Agent::Engine),
            SetTable | SetIoTable | StartAbort => (Agent::System, Agent::System),
        }
    }

    /// The label of the arrow, without the agents.
    #[must_use]
    pub fn words(&self) -> String {
        use Verb::*;
        let page = ["X", "Y"][usize::from(self.page & 1)];
        let frame = match self.frame {
            frame @ 0..=3 => ["A", "B", "C", "D"][usize::from(frame)],
            _ => "?",
        };
        let line = self.line;
        match self.verb {
            LoadHit => format!("loads {page}.{line}, hits {frame}.{line}"),
            StoreHit => format!("stores to {page}.{line}, hits {frame}.{line}"),
            LoadMiss => format!("loads {page}.{line}, asks for {frame}.{line}"),
            StoreMiss => format!("stores to {page}.{line}, asks to own {frame}.{line}"),
            LockMiss => format!("locks {page}.{line}, asks to own {frame}.{line}"),
            LockHit => format!("locks {page}.{line}, owns {frame}.{line}"),
            Unlock => format!("writes {frame}.{line} and unlocks it"),
            Drop => format!("drops its clean copy of {frame}.{line}"),
            Evict => format!("evicts {frame}.{line}: victim sent"),
            EvictTranslation => format!("evicts {page} → {frame}; a walk finds another"),
            BeginWalk => format!("walks: the table says {page} → {frame}"),
            EndWalk => format!("fills its TLB: {page} → {frame}"),
            Prefetch => format!("prefetches {frame}.{line} by its physical name"),
            DmaRead => format!("reads {page}.{line}, asks for {frame}.{line}"),
            DmaWrite => format!("writes {page}.{line}, posts to {frame}.{line}"),
            DmaWritePart => format!("writes part of {page}.{line}, posts to {frame}.{line}"),
            EvictIoTranslation => format!("IOMMU evicts {page} → {frame}"),
            EvictOwnTranslation => format!("evicts its own {page} → {frame}"),
            Serve => format!("serves {frame}.{line}"),
            ServeVictim => format!("takes the victim {frame}.{line} of core {}", self.agent),
            ServeDmaRead => format!("serves the read of {frame}.{line}"),
            ServePosted => format!("takes the post to {frame}.{line} of device {}", self.agent),
            EvictLlc => format!("evicts {frame}.{line} to memory"),
            CallBack => format!("calls {frame}.{line} back"),
            Downgrade => format!("takes the right to write {frame}.{line} back"),
            Take => format!("the request for {frame}.{line} arrives and is taken up"),
            TakeDmaRead => format!("the read of {frame}.{line} arrives and is taken up"),
            TakePosted => format!("the post to {frame}.{line} arrives and is taken up"),
            Snooped => format!("told to give {frame}.{line} up, answers"),
            Gather => format!("its answer for {frame}.{line} arrives"),
            Receive => format!("{frame}.{line} arrives, and is used"),
            Told => format!("word that {frame}.{line} has arrived"),
            ReceiveDma => format!("the data of {frame}.{line} arrives"),
            HearLanded => format!("word that the post to {frame}.{line} is done"),
            CopyTake => format!("begins to read {frame}.{line}"),
            CopySend => format!("sends {frame}.{line} to the destination"),
            CopyLand => format!("{frame}.{line} is written"),
            CopyHear => format!("word that {frame}.{line} is written; Ptr moves on"),
            AskClear => format!("asks for the end of the migration of {page}"),
            EndEntry => format!("nothing of {page} is in service: the entry ends"),
            HearOfPtr => "the other slice hears of Ptr".to_owned(),
            Invalidate => format!("invalidates its translation of {page}"),
            Drained => format!("has nothing under {page}'s old name left: acknowledges"),
            Acknowledge => format!("its acknowledgement for {page} arrives"),
            AcknowledgeLate => format!("an acknowledgement for {page} arrives late"),
            InvalidateIo => format!("IOMMU invalidates {page}"),
            DrainedIo => format!("has nothing under {page}'s old name left: acknowledges"),
            CopyAsk => format!("asks for {frame}.{line}, which is locked"),
            CopyAnswer | CopyRead => format!("read of {frame}.{line}, private copies recalled"),
            CopyWrite => format!("write of {frame}.{line}, Ptr moves on"),
            Migrate => format!("Migrate({page}, into {frame})"),
            SetTable => format!("page table: {page} → {frame}"),
            SetIoTable => format!("IOMMU table: {page} → {frame}"),
            Notify => format!("{page}: the copy may begin"),
            Clear => format!("Clear({frame}): {page} has moved, {frame} is free"),
            StartAbort => format!("gives up the migration of {page} into {frame}"),
            ClearAborted => format!("ends the migration of {page} into {frame}"),
            MigrateAgain => format!("Migrate({page}, on into {frame})"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.ends();
        match from == to {
            true => write!(f, "{from}: {}", self.words()),
            false => write!(f, "{from} → {to}: {}", self.words()),
        }
    }
}
