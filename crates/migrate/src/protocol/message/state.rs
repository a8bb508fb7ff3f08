//! Messages in flight, with their machine.

use std::hash::{Hash, Hasher};

use crate::protocol::property::Property;
use crate::protocol::state::{self as plain, Cell, FRAMES, NONE, Owner, PAGES};

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// On its way to the slice, if there is one.
    #[default]
    Sent,
    /// In service: the slice waits for answers, victims, or the copy's write.
    Taken,
    /// The line is in flight to the core that will keep it; the slice waits for its arrival.
    Granted,
    /// Served; the answer is on its way to an agent that keeps no copy.
    Answered,
}

/// Messages in flight between the slice and a core, about a line that the core may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Word {
    /// Nothing.
    #[default]
    None,
    /// To the core: give it up.
    Invalidate,
    /// To the core: keep it for reading only.
    Share,
    /// To the slice: it is not here (any more), or it was clean and is gone.
    Gone,
    /// To the slice: it was modified, and is gone; with data.
    Data,
    /// To the slice: it was modified, and is kept for reading; with data.
    SharedData,
}

/// An order to a core about a line, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Snoop {
    /// The message.
    pub word: Word,
    /// The name that it is about.
    pub frame: u8,
    /// The data, where it has any.
    pub data: u8,
}

impl Snoop {
    /// Nothing on its way.
    pub const NONE: Snoop = Snoop { word: Word::None, frame: NONE, data: 0 };
}

/// The directory's entry of a core's copy of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tracked {
    /// It has none.
    #[default]
    None,
    /// It may have one: clean lines are dropped silently.
    Sharer,
    /// It owns the line, or its victim is on its way.
    Owner,
    /// Its victim is on its way for certain.
    Victim,
}

/// Messages in flight to and from a core, and its directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wires<const L: usize> {
    /// How far its miss has come.
    pub phase: Phase,
    /// The slice that serves it; [`NONE`] while none does.
    pub slice: u8,
    /// The copy that is on its way to it.
    pub grant: Cell,
    /// For each line: the slice to which the notice of a grant's arrival is in flight.
    pub told: [u8; L],
    /// For each line: an order, or its answer.
    pub snoops: [Snoop; L],
    /// The directory's knowledge of its copies.
    pub tracked: [[Tracked; L]; FRAMES],
    /// For each page: whether an acknowledgement of a change that was given up is on its way.
    pub late: [bool; PAGES],
}

impl<const L: usize> Wires<L> {
    const QUIET: Wires<L> = Wires {
        phase: Phase::Sent,
        slice: NONE,
        grant: Cell::EMPTY,
        told: [NONE; L],
        snoops: [Snoop::NONE; L],
        tracked: [[Tracked::None; L]; FRAMES],
        late: [false; PAGES],
    };
}

/// How far a device's access has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// How far.
    pub phase: Phase,
    /// The slice that serves it; [`NONE`] while none does.
    pub slice: u8,
}

impl Access {
    /// On its way, or none.
    pub const SENT: Access = Access { phase: Phase::Sent, slice: NONE };
}

/// How far a device's read and its posted write have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceWires {
    /// The read.
    pub read: Access,
    /// The posted write.
    pub posted: Access,
}

/// How far the engine has come with a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Copying {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The line is in service for it: private copies are recalled.
    Reading,
    /// The slice has the line, and has not sent it yet.
    Holding,
    /// The line is on its way to the destination.
    Writing,
    /// It is written; the completion is in flight.
    Landed,
}

/// The whole machine, message by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<const C: usize, const D: usize, const L: usize> {
    /// Agents, caches, memory, tables: as in the transaction layer. A request or a victim in it is
    /// one that its agent still waits for, or has sent.
    pub plain: plain::State<C, D, L>,
    /// Messages in flight to and from cores.
    pub wires: [Wires<L>; C],
    /// Messages in flight to and from devices.
    pub devices: [DeviceWires; D],
    /// The engine's line.
    pub copying: Copying,
    /// Whether the end of the migration was requested: no request for its page is taken until those
    /// in service are done and the entry has ended.
    pub closing: bool,
    /// Whether the last step was none that the transaction layer can follow.
    pub astray: bool,
}

impl<const C: usize, const D: usize, const L: usize> State<C, D, L> {
    /// A machine in which nothing is on its way.
    #[must_use]
    pub fn quiet(plain: plain::State<C, D, L>) -> Self {
        let device = DeviceWires { read: Access::SENT, posted: Access::SENT };
        State {
            plain,
            wires: [Wires::QUIET; C],
            devices: [device; D],
            copying: Copying::Idle,
            closing: false,
            astray: false,
        }
    }

    /// Whether the state breaks a property; never one of those about sequences.
    #[must_use]
    pub fn breaks(&self, property: Property) -> bool {
        match property {
            Property::SourceGone => self.plain.breaks(property) || self.names_freed(),
            Property::Refines => self.astray,
            _ => self.plain.breaks(property),
        }
    }

    /// Whether a message or the directory names a frame that was freed.
    fn names_freed(&self) -> bool {
        let freed = |frame: usize| self.plain.owners[frame] == Owner::Freed;
        self.wires.iter().any(|wires| {
            let order = |snoop: &Snoop| snoop.word != Word::None && freed(snoop.frame.into());
            let known = |frame: usize| wires.tracked[frame].iter().any(|&t| t != Tracked::None);
            wires.snoops.iter().any(order) || (0..FRAMES).any(|f| freed(f) && known(f))
        })
    }

    /// Puts the cores in the order of all that belongs to them.
    pub(super) fn sort_cores(&mut self) {
        for at in 1..C {
            let mut at = at;
            while at > 0 && self.core(at) < self.core(at - 1) {
                self.plain.cores.swap(at, at - 1);
                self.wires.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn core(&self, c: usize) -> (&plain::Core<L>, &Wires<L>) {
        (&self.plain.cores[c], &self.wires[c])
    }
}

impl<const C: usize, const D: usize, const L: usize> Hash for State<C, D, L> {
    /// Bits in a row, as in the layer above.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.plain.hash(hasher);
        for wires in &self.wires {
            let late = u64::from(wires.late[0]) | u64::from(wires.late[1]) << 1;
            let mut word = wires.phase as u64 | u64::from(wires.slice & 15) << 2 | late << 6;
            word |= u64::from(wires.grant.bits()) << 8;
            for line in 0..L {
                let Snoop { word: order, frame, data } = wires.snoops[line];
                let snoop = order as u64 | u64::from(frame & 15) << 3 | u64::from(data) << 7;
                word = word.rotate_left(19) ^ (snoop << 4 | u64::from(wires.told[line] & 15));
            }
            hasher.write_u64(word);
            let tracked = wires.tracked.iter().flatten();
            hasher.write_u64(tracked.fold(0, |bits, &known| bits << 2 | known as u64));
        }
        let mut word = self.copying as u64 | u64::from(self.closing) << 3;
        word |= u64::from(self.astray) << 4;
        for device in &self.devices {
            for access in [device.read, device.posted] {
                word = word << 6 | u64::from(access.slice & 15) << 2 | access.phase as u64;
            }
        }
        hasher.write_u64(word);
    }
}
