//! What must hold, each as a sentence and as code.

use std::fmt;

use serde::Serialize;

use super::state::{Cell, Fault, Invalidation, NONE, Owner, Page, State};

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// 1.
    LastValue,
    /// 2.
    OneName,
    /// 3.
    SourceGone,
    /// 4.
    NobodyWaits,
    /// 5.
    MigrationsEnd,
    /// 6: of the message layer.
    Refines,
}

impl Property {
    /// All of them.
    pub const ALL: [Property; 6] = [
        Property::LastValue,
        Property::OneName,
        Property::SourceGone,
        Property::NobodyWaits,
        Property::MigrationsEnd,
        Property::Refines,
    ];

    /// Its number, 1 to 6.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8 + 1
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::LastValue => {
                "every read returns the last value written to its line, by whatever name and \
                 from whatever agent"
            }
            Property::OneName => "a line is cached privately under one name at a time",
            Property::SourceGone => {
                "after completion nothing of the page can be reached by the source's name"
            }
            Property::NobodyWaits => {
                "deadlock freedom: steps of caches, network, and memory alone complete every \
                 waiting request"
            }
            Property::MigrationsEnd => {
                "every migration ends if invalidations do, also under a writer that never stops"
            }
            Property::Refines => {
                "each step of the message layer is one step of the transaction layer, or none"
            }
        })
    }
}

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// The first of the properties 1 to 3 that the state breaks. The others are about sequences
    /// ([`super::liveness`]).
    #[must_use]
    pub fn violated(&self) -> Option<Property> {
        Property::ALL.into_iter().find(|&property| self.breaks(property))
    }

    /// Whether the state breaks a property; never one of those about sequences.
    #[must_use]
    pub fn breaks(&self, property: Property) -> bool {
        let freed = |&frame: &usize| self.owners[frame] == Owner::Freed;
        match property {
            Property::LastValue => self.fault == Fault::Stale,
            Property::OneName => self.has_two_names(),
            Property::SourceGone => (0..F).filter(freed).any(|f| self.reaches(f as u8)),
            Property::NobodyWaits | Property::MigrationsEnd | Property::Refines => false,
        }
    }

    /// Whether a line is cached privately under both of its names.
    fn has_two_names(&self) -> bool {
        let both = |page: &Page| {
            let (source, destination) = (self.cached(page.home), self.cached(page.target));
            let pairs = source.iter().zip(&destination);
            pairs.fold(false, |any, (old, new)| any | (*old != 0 && *new != 0))
        };
        self.pages.iter().any(|page| page.target != NONE && both(page))
    }

    /// For each line of a frame, whether some core has a copy: not 0. All cores and lines are
    /// checked, for they are many and side by side.
    fn cached(&self, frame: u8) -> [u8; L] {
        let mut cached = [0; L];
        for core in &self.cores {
            for (line, cell) in cached.iter_mut().zip(&core.copies[usize::from(frame)]) {
                *line |= cell.bits() & Cell::VALID;
            }
        }
        cached
    }

    /// Whether anything can still reach a frame: a translation, a private copy, a request or a
    /// victim on its way.
    fn reaches(&self, frame: u8) -> bool {
        let copies = self.cached(frame).iter().fold(0, |any, line| any | line) != 0;
        let core = self.cores.iter().any(|core| {
            core.tlb.contains(&frame)
                || core.walk.contains(&frame)
                || core.request.frame == frame
                || core.write_back.frame == frame
        });
        copies
            || core
            || self.devices.iter().any(|device| {
                let requests = [device.read, device.posted];
                device.tlb.contains(&frame)
                    || device.own_tlb.contains(&frame)
                    || requests.iter().any(|request| request.frame == frame)
            })
    }

    /// Whether every core and device has acknowledged the change of a page's translation.
    pub(super) fn all_acknowledged(&self, page: usize, devices: bool) -> bool {
        let done = |state: Invalidation| state == Invalidation::Done;
        self.cores.iter().all(|core| done(core.invalidation[page]))
            && (!devices || self.devices.iter().all(|device| done(device.invalidation[page])))
    }
}
