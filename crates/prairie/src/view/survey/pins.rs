//! Pinned memory by source and by process.

use prairie_host::Survey;
use prairie_host::survey::pins::{Pins, ProcessPins};
use prairie_report::{Block, Cell, Column, Section, Table, Tone, number};

/// Pins by source and by process; `None` if the capture has no data on pins.
pub fn section(survey: &Survey, processes: usize) -> Option<Section> {
    let pins = survey.pins.as_ref()?;
    let mut blocks = vec![Block::Table(sources(survey, pins))];
    if !pins.processes.is_empty() {
        let shown = pins.processes.iter().take(processes);
        blocks.push(Block::Table(by_process(shown)));
    }
    let intro = "Memory that a device or a driver holds and compaction cannot move. `mlock` does \
                 not pin. Plain references, as `vmsplice` and network transmission take them, are \
                 counted by no kernel.";
    Some(Section { heading: "Pinned memory".to_owned(), intro: intro.to_owned(), blocks })
}

fn sources(survey: &Survey, pins: &Pins) -> Table {
    let all = survey.memory_bytes();
    let row = |source: &str, bytes: Option<u64>, from: &str| {
        let share = bytes
            .map_or(number::NONE.to_owned(), |bytes| number::percent(super::ratio(bytes, all)));
        vec![
            Cell::from(source),
            Cell::from(bytes.map_or(number::NONE.to_owned(), number::bytes)),
            Cell::toned(share, Tone::Strong),
            Cell::from(from),
        ]
    };
    let by_pin_user_pages = pins.foll_pin_frames.map(|frames| super::bytes(survey, frames));
    let others = pins.charged_bytes.saturating_sub(pins.io_uring_bytes);
    Table {
        columns: vec![
            Column::text("source"),
            Column::number("pinned"),
            Column::number("of memory"),
            Column::text("counted by"),
        ],
        rows: vec![
            row("all pins of user pages", by_pin_user_pages, "nr_foll_pin_* in /proc/vmstat"),
            row("registered buffers of io_uring", Some(pins.io_uring_bytes), "fdinfo, UserBufs"),
            row("other pins charged to processes (RDMA)", Some(others), "status, VmPin"),
        ],
        ..Table::default()
    }
}

fn by_process<'a>(processes: impl Iterator<Item = &'a ProcessPins>) -> Table {
    let row = |process: &ProcessPins| {
        vec![
            process.name.as_str().into(),
            process.pid.to_string().into(),
            number::bytes(process.charged_bytes).into(),
            number::bytes(process.io_uring_bytes).into(),
            number::count(process.io_uring_buffers).into(),
        ]
    };
    Table {
        title: "Processes with pins charged to them".to_owned(),
        columns: vec![
            Column::text("process"),
            Column::number("pid"),
            Column::number("pinned"),
            Column::number("io_uring"),
            Column::number("buffers"),
        ],
        rows: processes.map(row).collect(),
        notes: Vec::new(),
    }
}
