//! Long-term pins, which no tracepoint reports: probes on the functions that take and give up pins
//! (`mm/gup.c`), and which of their calls pin an allocation long-term.
//!
//! A long-term pin is one with `FOLL_LONGTERM`, as of RDMA, VFIO, AF_XDP, and the registered buffers of
//! io_uring. The call that ends a pin does not say which kind it ends. Where both kinds are held, those
//! for the moment of an input or output end first, because the others last.

use std::collections::BTreeMap;

use prairie_frames::{KernelVersion, Order, Pfn};

use super::tracepoint::{Field, Format};
use crate::Result;

/// Bytes of a page's descriptor (`struct page`).
const DESCRIPTOR: u64 = 64;

/// What the kernel's flags of a pin are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinFlags {
    /// `FOLL_PIN`: a pin, not a mere reference.
    pub pin: u32,
    /// `FOLL_LONGTERM`.
    pub long: u32,
}

impl PinFlags {
    /// Those of a kernel. They were renumbered in 6.3. `None` before 5.18, whose functions differ.
    pub fn of(version: KernelVersion) -> Option<PinFlags> {
        const SAME_FUNCTIONS: KernelVersion = KernelVersion::new(5, 18);
        const RENUMBERED: KernelVersion = KernelVersion::new(6, 3);
        (version >= SAME_FUNCTIONS).then_some(match version < RENUMBERED {
            true => PinFlags { pin: 1 << 18, long: 1 << 16 },
            false => PinFlags { pin: 1 << 19, long: 1 << 8 },
        })
    }

    /// The calls that are pins or end one, in the syntax of `trace_event` filters.
    pub fn filter(self) -> String {
        format!("flags & {:#x}", self.pin)
    }
}

/// A function that pins memory or gives a pin up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinFunction {
    /// `try_grab_page(page, flags)`, until 6.10.
    Page,
    /// `try_grab_folio(page or folio, references, flags)`.
    Folio,
    /// `try_grab_folio_fast(page, references, flags)`, since 6.11.
    Fast,
    /// `gup_put_folio(folio, references, flags)`, which ends all pins.
    Put,
    /// `unpin_user_page(page)`. Of this and the next two, some compilers let `gup_put_folio` be a part
    /// (seen in Debian's 6.18 and 7.3), others the last call (6.1 and 6.12).
    UserPage,
    /// `unpin_user_folio(folio, pages)`, since 6.12.
    UserFolio,
    /// `unpin_folio(folio)`, since 6.11.
    OneFolio,
}

impl PinFunction {
    /// All of them.
    pub const ALL: [PinFunction; 7] = [
        PinFunction::Page,
        PinFunction::Folio,
        PinFunction::Fast,
        PinFunction::Put,
        PinFunction::UserPage,
        PinFunction::UserFolio,
        PinFunction::OneFolio,
    ];

    /// The kernel's name for it.
    pub const fn symbol(self) -> &'static str {
        match self {
            PinFunction::Page => "try_grab_page",
            PinFunction::Folio => "try_grab_folio",
            PinFunction::Fast => "try_grab_folio_fast",
            PinFunction::Put => "gup_put_folio",
            PinFunction::UserPage => "unpin_user_page",
            PinFunction::UserFolio => "unpin_user_folio",
            PinFunction::OneFolio => "unpin_folio",
        }
    }

    /// The directory of its probe below `events` in tracefs.
    pub const fn path(self) -> &'static str {
        match self {
            PinFunction::Page => "prairie/pin_page",
            PinFunction::Folio => "prairie/pin_folio",
            PinFunction::Fast => "prairie/pin_fast",
            PinFunction::Put => "prairie/unpin",
            PinFunction::UserPage => "prairie/unpin_user_page",
            PinFunction::UserFolio => "prairie/unpin_user_folio",
            PinFunction::OneFolio => "prairie/unpin_folio",
        }
    }

    /// Its probe, as `kprobe_events` takes it: the descriptor, the word in it that leads from a tail
    /// page to its head (`compound_head`), where the descriptors begin, how many pins, and the flags.
    pub fn probe(self, flags: PinFlags) -> String {
        let all = format!("\\{:#x}", flags.pin);
        let (times, flags) = match self {
            PinFunction::Page => ("\\1", "$arg2"),
            PinFunction::Folio | PinFunction::Fast | PinFunction::Put => ("$arg2", "$arg3"),
            PinFunction::UserPage | PinFunction::OneFolio => ("\\1", all.as_str()),
            PinFunction::UserFolio => ("$arg2", all.as_str()),
        };
        format!(
            "p:{} {} page=$arg1:x64 head=+8($arg1):x64 base=@vmemmap_base:x64 \
             times={times}:s32 flags={flags}:x32",
            self.path(),
            self.symbol(),
        )
    }

    /// What a call of it does, if it has `FOLL_LONGTERM` or not.
    const fn kind(self, long: bool) -> PinKind {
        match self {
            PinFunction::Put => PinKind::End,
            PinFunction::UserPage | PinFunction::UserFolio | PinFunction::OneFolio => {
                PinKind::EndBefore
            }
            PinFunction::Page | PinFunction::Folio | PinFunction::Fast => match long {
                true => PinKind::Long,
                false => PinKind::Brief,
            },
        }
    }
}

/// Whether no pin passes by these functions.
pub fn see_all_pins(functions: &[PinFunction]) -> bool {
    let has = |function| functions.contains(&function);
    has(PinFunction::Folio)
        && has(PinFunction::Put)
        && (has(PinFunction::Page) || has(PinFunction::Fast))
}

/// A call of such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinCall {
    /// The first frame of the allocation.
    pub first: Pfn,
    /// How many pins come or go.
    pub times: u32,
    pub kind: PinKind,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinKind {
    /// It pins for the moment of an input or output.
    Brief,
    /// It is long-term.
    Long,
    /// It ends pins of either kind.
    End,
    /// The same, and the next call on its CPU may be one of [`PinKind::End`] that is a part of it.
    EndBefore,
}

/// The offsets of a probe's fields.
#[derive(Clone, Copy, Debug)]
pub struct PinLayout {
    function: PinFunction,
    long: u32,
    page: Field,
    head: Field,
    base: Field,
    times: Field,
    flags: Field,
}

impl PinLayout {
    /// The layout of the records of `function`'s probe as `format` describes them.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record) if the format lacks a field.
    pub fn new(function: PinFunction, flags: PinFlags, format: &Format) -> Result<PinLayout> {
        let field = |name| format.field(name);
        Ok(PinLayout {
            function,
            long: flags.long,
            page: field("page")?,
            head: field("head")?,
            base: field("base")?,
            times: field("times")?,
            flags: field("flags")?,
        })
    }

    /// What a record says; `None` if it is too short or its page is not in the kernel's array.
    pub fn decode(&self, raw: &[u8]) -> Option<PinCall> {
        let address = |field: Field| Some(field.read(raw)? as u64);
        let page = first_of(address(self.page)?, address(self.head)?);
        let within = page.checked_sub(address(self.base)?)?;
        let long = self.flags.read(raw)? as u32 & self.long != 0;
        Some(PinCall {
            first: Pfn(within.is_multiple_of(DESCRIPTOR).then_some(within / DESCRIPTOR)?),
            times: u32::try_from(self.times.read(raw)?).ok()?,
            kind: self.function.kind(long),
        })
    }
}

/// The descriptor of the first page of `page`'s allocation. The word of a tail page is odd: one more than
/// the address of its head, or since 7.1 than the mask that leads to it (`compound_head`). Descriptors
/// lie far below the last 4 GiB of addresses, where masks begin.
const fn first_of(page: u64, word: u64) -> u64 {
    match word & 1 {
        0 => page,
        _ if word > u64::MAX << 32 => page & (word - 1),
        _ => word - 1,
    }
}

/// Whether an allocation is pinned long-term, from the calls that pin it.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    held: BTreeMap<Pfn, Held>,
    /// The call before, by CPU, where a part of it may be seen as a call of its own.
    before: BTreeMap<u16, (i32, PinCall)>,
    /// Times that an allocation became pinned long-term.
    begun: u64,
}

/// Allocations that were pinned long-term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinCounts {
    /// Those that became so during the recording.
    pub begun: u64,
    /// Of these, those that still were at its end.
    pub held: u64,
}

/// Pins of an allocation. Not both are 0.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    brief: u64,
    long: u64,
}

/// A change of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinChange {
    /// It is pinned long-term from now on.
    Pinned,
    /// It no longer is.
    Unpinned,
}

impl Pins {
    /// Takes a call by a task on a CPU; returns what it changes. Pins of before the recording are not
    /// known, so neither is their end.
    pub fn take(&mut self, cpu: u16, task: i32, call: PinCall) -> Option<PinChange> {
        if call.kind == PinKind::EndBefore {
            self.before.insert(cpu, (task, call));
        } else if let Some((by, before)) = self.before.remove(&cpu)
            && (by, before.first, before.times) == (task, call.first, call.times)
            && call.kind == PinKind::End
        {
            return None;
        }
        let held = self.held.entry(call.first).or_default();
        let (was_long, times) = (held.long > 0, u64::from(call.times));
        match call.kind {
            PinKind::Brief => held.brief += times,
            PinKind::Long => held.long += times,
            PinKind::End | PinKind::EndBefore => {
                let brief = times.min(held.brief);
                held.brief -= brief;
                held.long = held.long.saturating_sub(times - brief);
            }
        }
        let Held { brief, long } = *held;
        if brief == 0 && long == 0 {
            self.held.remove(&call.first);
        }
        match (was_long, long > 0) {
            (false, true) => {
                self.begun += 1;
                Some(PinChange::Pinned)
            }
            (true, false) => Some(PinChange::Unpinned),
            _ => None,
        }
    }

    /// How many there were so far.
    pub fn counts(&self) -> PinCounts {
        let held = self.held.values().filter(|held| held.long > 0).count() as u64;
        PinCounts { begun: self.begun, held }
    }

    /// Takes the free of an allocation. The kernel frees nothing that is pinned: the pin failed after
    /// its call, or its end was lost.
    pub fn free(&mut self, first: Pfn, order: Order) {
        if !self.held.is_empty() {
            let end = Pfn(first.0.saturating_add(order.frames()));
            let inside = self.held.range(first..end).map(|(&pfn, _)| pfn);
            for pfn in inside.collect::<Vec<_>>() {
                self.held.remove(&pfn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn flags_were_renumbered() {
        let old = Some(PinFlags { pin: 0x40000, long: 0x10000 });
        let new = Some(PinFlags { pin: 0x80000, long: 0x100 });
        for (release, flags) in [
            ((5, 17), None),
            ((5, 18), old),
            ((6, 1), old),
            ((6, 2), old),
            ((6, 3), new),
            ((6, 12), new),
            ((7, 3), new),
        ] {
            let version = KernelVersion::new(release.0, release.1);
            assert_eq!(PinFlags::of(version), flags, "{version}");
        }
    }

    #[test]
    fn a_kernel_that_hides_a_function_hides_pins() {
        use PinFunction::{Fast, Folio, Page, Put};
        assert!(see_all_pins(&[Page, Folio, Put]));
        assert!(see_all_pins(&[Folio, Fast, Put]));
        assert!(!see_all_pins(&[Folio, Put]));
        assert!(!see_all_pins(&[Page, Folio]));
        assert!(!see_all_pins(&[Page, Fast, Put]));
    }

    /// The format of the probe on `try_grab_folio` of Debian's 6.12.
    const PROBE: &str = include_str!("../../tests/fixtures/formats/pin_folio-6.12");

    #[test]
    fn a_record_names_the_first_frame() {
        let format = Format::parse(PROBE).unwrap();
        let flags = PinFlags::of(KernelVersion::new(6, 12)).unwrap();
        let layout = PinLayout::new(PinFunction::Folio, flags, &format).unwrap();
        let base = 0xffff_ea00_0000_0000_u64;
        let record = |page: u64, head: u64, flags: u32| {
            let mut raw = vec![0; 64];
            let values = [("page", page), ("head", head), ("base", base), ("times", 3)];
            for (name, value) in values.into_iter().chain([("flags", flags.into())]) {
                format.field(name).unwrap().write(&mut raw, value as i64);
            }
            raw
        };
        let call = |first, kind| Some(PinCall { first: Pfn(first), times: 3, kind });
        let at = |frame: u64| base + 64 * frame;
        assert_eq!(layout.decode(&record(at(7), 0, 0x80100)), call(7, PinKind::Long));
        assert_eq!(layout.decode(&record(at(7), at(4) + 1, 0x80000)), call(4, PinKind::Brief));
        let mask = u64::MAX << 8;
        assert_eq!(layout.decode(&record(at(7), mask + 1, 0x80000)), call(4, PinKind::Brief));
        assert_eq!(layout.decode(&record(at(7) + 8, 0, 0x80000)), None);
        assert_eq!(layout.decode(&record(base - 64, 0, 0x80000)), None);
        assert_eq!(layout.decode(&record(at(7), 0, 0)[..20]), None);
        let put = PinLayout::new(PinFunction::Put, flags, &format).unwrap();
        assert_eq!(put.decode(&record(at(7), 0, 0x80000)), call(7, PinKind::End));
    }

    #[test]
    fn pins_of_a_moment_end_first() {
        let mut pins = Pins::default();
        let mut take = |kind, times| pins.take(0, 1, PinCall { first: Pfn(9), times, kind });
        assert_eq!(take(PinKind::Long, 2), Some(PinChange::Pinned));
        assert_eq!(take(PinKind::Brief, 1), None);
        assert_eq!(take(PinKind::End, 1), None, "that of the moment");
        assert_eq!(take(PinKind::End, 1), None, "one of two");
        assert_eq!(take(PinKind::End, 1), Some(PinChange::Unpinned));
        assert_eq!(take(PinKind::End, 1), None, "from before the recording");
        assert_eq!(take(PinKind::Long, 1), Some(PinChange::Pinned));
        assert_eq!(pins.counts(), PinCounts { begun: 2, held: 1 });
        pins.free(Pfn(8), Order::new(1).unwrap());
        assert_eq!(pins.counts(), PinCounts { begun: 2, held: 0 });
        assert!(pins.held.is_empty());
    }

    #[test]
    fn a_call_and_its_part_end_one_pin() {
        let mut pins = Pins::default();
        let mut take =
            |cpu, task, kind| pins.take(cpu, task, PinCall { first: Pfn(9), times: 1, kind });
        for _ in 0..6 {
            take(0, 1, PinKind::Long);
        }
        // 5 and 4 are left.
        assert_eq!(take(0, 1, PinKind::EndBefore), None);
        assert_eq!(take(0, 1, PinKind::End), None);
        assert_eq!(take(0, 1, PinKind::End), None);
        // 3, 2 and 1: a call on another CPU or by another task is no part of it.
        assert_eq!(take(0, 1, PinKind::EndBefore), None);
        assert_eq!(take(1, 1, PinKind::End), None);
        assert_eq!(take(0, 2, PinKind::End), None);
        assert_eq!(take(0, 1, PinKind::End), Some(PinChange::Unpinned), "the sixth");
    }

    #[derive(Clone, Debug)]
    enum Act {
        Call(PinCall),
        Free(Pfn, Order),
    }

    fn act() -> impl Strategy<Value = Act> {
        let kind = prop_oneof![Just(PinKind::Brief), Just(PinKind::Long), Just(PinKind::End)];
        let call = (0..8u64, 1..4u32, kind)
            .prop_map(|(first, times, kind)| Act::Call(PinCall { first: Pfn(first), times, kind }));
        let free = (0..3u8, 0..8u64).prop_map(|(order, first)| {
            let order = Order::new(order).unwrap();
            Act::Free(Pfn(first / order.frames() * order.frames()), order)
        });
        prop_oneof![4 => call, 1 => free]
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(raw in prop::collection::vec(any::<u8>(), 0..64)) {
            let format = Format::parse(PROBE).unwrap();
            let flags = PinFlags::of(KernelVersion::new(6, 12)).unwrap();
            let layout = PinLayout::new(PinFunction::UserFolio, flags, &format).unwrap();
            prop_assert!(layout.decode(&raw).is_none_or(|call| call.kind == PinKind::EndBefore));
        }

        /// Against the plain model: a list of every single pin, in which an end removes the one that
        /// ends first.
        #[test]
        fn same_as_a_list_of_pins(acts in prop::collection::vec(act(), 0..60)) {
            let mut pins = Pins::default();
            let mut lists: HashMap<Pfn, Vec<PinKind>> = HashMap::new();
            for act in acts {
                match act {
                    Act::Call(call) => {
                        let list = lists.entry(call.first).or_default();
                        let before = list.contains(&PinKind::Long);
                        for _ in 0..call.times {
                            if call.kind != PinKind::End {
                                list.push(call.kind);
                            } else if let Some(at) =
                                list.iter().position(|&kind| kind == PinKind::Brief)
                            {
                                list.remove(at);
                            } else {
                                list.pop();
                            }
                        }
                        let after = list.contains(&PinKind::Long);
                        let expected = match (before, after) {
                            (false, true) => Some(PinChange::Pinned),
                            (true, false) => Some(PinChange::Unpinned),
                            _ => None,
                        };
                        prop_assert_eq!(pins.take(0, 1, call), expected);
                    }
                    Act::Free(first, order) => {
                        pins.free(first, order);
                        for pfn in first.0..first.0 + order.frames() {
                            lists.remove(&Pfn(pfn));
                        }
                    }
                }
                let held = lists.values().filter(|list| !list.is_empty()).count();
                prop_assert_eq!(pins.held.len(), held, "nothing is kept of what is not pinned");
            }
        }
    }
}
