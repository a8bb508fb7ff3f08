//! Events of any kind, and small files made of them.
#![allow(dead_code)]

use std::path::Path;

use prairie_frames::{MigrateType, Order, Pfn};
use prairie_trace::{
    Columns, Event, EventKind, EventSource, GfpFlags, Metadata, Reader, StackId, StallPoint, Texts,
    Writer,
};
use proptest::prelude::*;

/// An event whose text, if it has one, is spelled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Spelled(pub Event, pub String);

pub fn any_order() -> impl Strategy<Value = Order> {
    (0..=Order::LIMIT.get()).prop_map(|j| Order::new(j).unwrap())
}

pub fn any_type() -> impl Strategy<Value = MigrateType> {
    (0..6u8).prop_map(|i| MigrateType::from_index(i).unwrap())
}

fn any_what() -> impl Strategy<Value = EventKind> {
    let pfn = (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| Pfn(bits >> shift));
    let numbers = (pfn, any_order(), any_order(), any_type(), any_type());
    let more = (any::<u32>(), any::<u32>(), any::<bool>(), any::<u64>(), 1..17usize);
    (numbers, more).prop_map(|(numbers, more)| {
        let (pfn, order, fallback_order, migrate_type, fallback_type) = numbers;
        let (gfp, stack, change_ownership, count, kind) = more;
        let (gfp, stack) = (GfpFlags(gfp), StackId(stack));
        let text = prairie_trace::Text::EMPTY;
        match kind {
            1 => EventKind::Alloc { pfn, order, migrate_type, gfp, stack },
            2 => EventKind::AllocFailed { order, migrate_type, gfp, stack },
            3 => EventKind::Free { pfn, order },
            4 => EventKind::FreeBatched { pfn },
            5 => EventKind::Extfrag {
                pfn,
                order,
                fallback_order,
                migrate_type,
                fallback_type,
                change_ownership,
            },
            6 => EventKind::ZoneLocked { pfn, order, migrate_type },
            7 => EventKind::PcpuDrain { pfn, order, migrate_type },
            8 => EventKind::Process { name: text },
            9 => EventKind::Stack { id: stack, folded: text },
            10 => EventKind::Lost { count },
            11 => EventKind::Pin { pfn, order },
            12 => EventKind::Unpin { pfn, order },
            13 => EventKind::Stall {
                point: StallPoint::ALL[stack.0 as usize % StallPoint::ALL.len()],
                task: count as i32,
                order,
                gfp,
                stack,
                value: (count >> 32) as u32,
            },
            14 => EventKind::Cgroup { path: text },
            15 => EventKind::Exit,
            _ => EventKind::Marker { text },
        }
    })
}

/// Any event at all, in the range of every field.
pub fn any_event() -> impl Strategy<Value = Spelled> {
    let place = (any::<u64>(), any::<i32>(), any::<u16>());
    (place, any_what(), ".{0,12}").prop_map(|((time_ns, pid, cpu), what, text)| {
        let has_text = matches!(
            what,
            EventKind::Process { .. }
                | EventKind::Stack { .. }
                | EventKind::Marker { .. }
                | EventKind::Cgroup { .. }
        );
        Spelled(Event { time_ns, pid, cpu, what }, if has_text { text } else { String::new() })
    })
}

/// The event with its text's number in `texts`.
pub fn with_text(spelled: &Spelled, texts: &mut Texts) -> Event {
    let text = texts.intern(&spelled.1);
    set_text(spelled.0, text)
}

fn set_text(event: Event, text: prairie_trace::Text) -> Event {
    let what = match event.what {
        EventKind::Process { .. } => EventKind::Process { name: text },
        EventKind::Stack { id, .. } => EventKind::Stack { id, folded: text },
        EventKind::Marker { .. } => EventKind::Marker { text },
        EventKind::Cgroup { .. } => EventKind::Cgroup { path: text },
        other => other,
    };
    Event { what, ..event }
}

pub fn write(path: &Path, events: &[Spelled]) -> prairie_trace::Summary {
    let mut writer = Writer::create(path).unwrap();
    let mut texts = Texts::default();
    for spelled in events {
        let event = with_text(spelled, &mut texts);
        writer.event(&event, &texts).unwrap();
    }
    writer.finish(metadata()).unwrap()
}

pub fn metadata() -> Metadata {
    Metadata { page_bytes: 4096, kernel_release: "6.1.0-test".into(), ..Metadata::default() }
}

/// All events of a source, spelled out.
pub fn collect(source: &mut impl EventSource) -> prairie_trace::Result<Vec<Spelled>> {
    let mut all = Vec::new();
    while let Some(batch) = source.next_batch()? {
        let batch = batch.to_vec();
        for event in batch {
            let text = match event.what {
                EventKind::Process { name: text }
                | EventKind::Stack { folded: text, .. }
                | EventKind::Marker { text }
                | EventKind::Cgroup { path: text } => source.texts().get(text).to_owned(),
                _ => String::new(),
            };
            all.push(Spelled(set_text(event, prairie_trace::Text::EMPTY), text));
        }
    }
    Ok(all)
}

pub fn read(path: &Path) -> prairie_trace::Result<Vec<Spelled>> {
    let reader = Reader::open(path)?;
    collect(&mut reader.events(Columns::ALL))
}
