//! A recording of stalls, written without a kernel.

use std::path::Path;

use prairie_frames::Order;
use prairie_trace::{
    Event, EventKind, GfpFlags, Metadata, Recording, StackId, StallPoint, Texts, Writer,
};

/// A recording of two processes: one compacts for a huge page for 30 ms, one reclaims for 4 ms.
pub fn recording(path: &Path) {
    let mut texts = Texts::default();
    let (web, batch) = (texts.intern("web"), texts.intern("batch"));
    let (cgroup, folded) =
        (texts.intern("/web.slice"), texts.intern("do_huge_pmd_anonymous_page;compact_zone"));
    let ms = |ms: u64| 1_000_000_000 + ms * 1_000_000;
    let at = |time_ns, pid, what| Event { time_ns, pid, cpu: 0, what };
    let stall = |time_ns, pid, point, order, stack| {
        let (order, gfp) = (Order::new(order).unwrap(), GfpFlags(0));
        at(time_ns, pid, EventKind::Stall { point, task: pid, order, gfp, stack, value: 0 })
    };
    let none = StackId::NONE;
    let events = [
        at(ms(0), -1, EventKind::Stack { id: StackId(1), folded }),
        at(ms(0), 7, EventKind::Process { name: web }),
        at(ms(0), 8, EventKind::Process { name: batch }),
        at(ms(10), 7, EventKind::Cgroup { path: cgroup }),
        stall(ms(10), 7, StallPoint::CompactRequest, 9, none),
        stall(ms(10), 7, StallPoint::CompactBegin, 0, StackId(1)),
        stall(ms(40), 7, StallPoint::CompactEnd, 0, none),
        stall(ms(50), 8, StallPoint::ReclaimBegin, 0, none),
        stall(ms(54), 8, StallPoint::ReclaimEnd, 0, none),
        at(ms(60), 8, EventKind::Exit),
    ];
    let mut writer = Writer::create(path).unwrap();
    events.iter().for_each(|event| writer.event(event, &texts).unwrap());
    let formats = StallPoint::ALL.map(|point| (point.path().to_owned(), String::new()));
    let recording = Recording {
        started_ns: ms(0),
        ended_ns: ms(100),
        tracepoint_formats: formats.into(),
        ..Recording::default()
    };
    let metadata = Metadata { page_bytes: 4096, recording: Some(recording), ..Metadata::default() };
    writer.finish(metadata).unwrap();
}
