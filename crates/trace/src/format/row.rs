//! Rows of a trace, column by column, and how events and frame runs become rows and back.

use prairie_frames::{MigrateType, Order, Pfn};
use prairie_host::{FrameRun, PageFlags};

use super::{Column, Kind};
use crate::{Event, EventKind, GfpFlags, StackId, Text};

/// Rows that are decoded at a time: their columns fit in the second-level cache.
pub const BATCH: usize = 4096;

/// The value of type columns in rows without a migrate type.
pub const NO_TYPE: i32 = 255;

/// One row without its text, in the physical types of the columns. Unsigned numbers keep their
/// bits: that is how Parquet stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time: i64,
    pub kind: i32,
    pub cpu: i32,
    pub pid: i32,
    pub pfn: i64,
    pub order: i32,
    pub migrate_type: i32,
    pub gfp: i32,
    pub stack: i32,
    pub fallback_order: i32,
    pub fallback_type: i32,
    pub change_ownership: i32,
    pub count: i64,
    pub flags: i64,
}

/// A value that no writer has written: the column and what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadValue {
    pub column: Column,
    pub value: i64,
}

impl Row {
    const EMPTY: Row = Row {
        time: 0,
        kind: 0,
        cpu: 0,
        pid: 0,
        pfn: 0,
        order: 0,
        migrate_type: NO_TYPE,
        gfp: 0,
        stack: 0,
        fallback_order: 0,
        fallback_type: NO_TYPE,
        change_ownership: 0,
        count: 0,
        flags: 0,
    };

    /// The row of a run of frames.
    pub fn of_run(run: &FrameRun) -> Row {
        Row {
            time: run.read_at_ns as i64,
            kind: Kind::Frames as i32,
            pfn: run.start.0 as i64,
            count: run.frames as i64,
            flags: run.flags.0 as i64,
            ..Row::EMPTY
        }
    }

    /// The row of an event, without its text.
    pub fn of_event(event: &Event) -> Row {
        let row = Row {
            time: event.time_ns as i64,
            kind: Kind::of(&event.what) as i32,
            cpu: event.cpu.into(),
            pid: event.pid,
            ..Row::EMPTY
        };
        match event.what {
            EventKind::Alloc { pfn, order, migrate_type, gfp, stack } => {
                Row { gfp: gfp.0 as i32, stack: stack.0 as i32, ..row }
                    .with_block(pfn, order)
                    .with_type(migrate_type)
            }
            EventKind::AllocFailed { order, migrate_type, gfp, stack } => {
                Row { gfp: gfp.0 as i32, stack: stack.0 as i32, ..row }
                    .with_block(Pfn(0), order)
                    .with_type(migrate_type)
            }
            EventKind::Free { pfn, order }
            | EventKind::Pin { pfn, order }
            | EventKind::Unpin { pfn, order } => row.with_block(pfn, order),
            EventKind::FreeBatched { pfn } => row.with_block(pfn, Order::BASE),
            EventKind::Extfrag {
                pfn,
                order,
                fallback_order,
                migrate_type,
                fallback_type,
                change_ownership,
            } => Row {
                fallback_order: fallback_order.get().into(),
                fallback_type: fallback_type.index() as i32,
                change_ownership: change_ownership.into(),
                ..row.with_block(pfn, order).with_type(migrate_type)
            },
            EventKind::ZoneLocked { pfn, order, migrate_type }
            | EventKind::PcpuDrain { pfn, order, migrate_type } => {
                row.with_block(pfn, order).with_type(migrate_type)
            }
            EventKind::Stack { id, .. } => Row { stack: id.0 as i32, ..row },
            EventKind::Lost { count } => Row { count: count as i64, ..row },
            EventKind::Stall { task, order, gfp, stack, value, .. } => Row {
                order: order.get().into(),
                gfp: gfp.0 as i32,
                stack: stack.0 as i32,
                count: task.cast_unsigned().into(),
                flags: value.into(),
                ..row
            },
            EventKind::Process { .. }
            | EventKind::Marker { .. }
            | EventKind::Cgroup { .. }
            | EventKind::Exit => row,
        }
    }

    fn with_block(self, pfn: Pfn, order: Order) -> Row {
        Row { pfn: pfn.0 as i64, order: order.get().into(), ..self }
    }

    fn with_type(self, migrate_type: MigrateType) -> Row {
        Row { migrate_type: migrate_type.index() as i32, ..self }
    }
}

fn order(column: Column, value: i32) -> Result<Order, BadValue> {
    let order = u8::try_from(value).ok().and_then(Order::new);
    order.ok_or(BadValue { column, value: value.into() })
}

fn migrate_type(column: Column, value: i32) -> Result<MigrateType, BadValue> {
    let found = u8::try_from(value).ok().and_then(MigrateType::from_index);
    found.ok_or(BadValue { column, value: value.into() })
}

/// Many rows, a vector per column: what a row group is made of.
#[derive(Debug, Default)]
pub struct Rows {
    pub time: Vec<i64>,
    pub kind: Vec<i32>,
    pub cpu: Vec<i32>,
    pub pid: Vec<i32>,
    pub pfn: Vec<i64>,
    pub order: Vec<i32>,
    pub migrate_type: Vec<i32>,
    pub gfp: Vec<i32>,
    pub stack: Vec<i32>,
    pub fallback_order: Vec<i32>,
    pub fallback_type: Vec<i32>,
    pub change_ownership: Vec<i32>,
    pub count: Vec<i64>,
    pub flags: Vec<i64>,
}

/// A column's values, to be written or filled.
pub enum Values<'a> {
    I32(&'a mut Vec<i32>),
    I64(&'a mut Vec<i64>),
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Appends a row.
    pub fn push(&mut self, row: &Row) {
        self.time.push(row.time);
        self.kind.push(row.kind);
        self.cpu.push(row.cpu);
        self.pid.push(row.pid);
        self.pfn.push(row.pfn);
        self.order.push(row.order);
        self.migrate_type.push(row.migrate_type);
        self.gfp.push(row.gfp);
        self.stack.push(row.stack);
        self.fallback_order.push(row.fallback_order);
        self.fallback_type.push(row.fallback_type);
        self.change_ownership.push(row.change_ownership);
        self.count.push(row.count);
        self.flags.push(row.flags);
    }

    /// The run of frames of row `i`; its time is 0 if that column was not read.
    pub fn run(&self, i: usize) -> Result<FrameRun, BadValue> {
        if self.kind[i] != Kind::Frames as i32 {
            return Err(BadValue { column: Column::Kind, value: self.kind[i].into() });
        }
        Ok(FrameRun {
            start: Pfn(self.pfn[i] as u64),
            frames: self.count[i] as u64,
            flags: PageFlags(self.flags[i] as u64),
            read_at_ns: self.time.get(i).map_or(0, |&time| time as u64),
        })
    }

    /// The first [`BATCH`] rows, to be read one after the other; columns that have fewer are
    /// filled up with zeros, which mean nothing.
    pub fn view(&mut self) -> View<'_> {
        for column in Column::ALL {
            match self.column(column) {
                Some(Values::I32(values)) if values.len() < BATCH => values.resize(BATCH, 0),
                Some(Values::I64(values)) if values.len() < BATCH => values.resize(BATCH, 0),
                _ => {}
            }
        }
        View {
            time: array(&self.time),
            kind: array(&self.kind),
            cpu: array(&self.cpu),
            pid: array(&self.pid),
            pfn: array(&self.pfn),
            order: array(&self.order),
            migrate_type: array(&self.migrate_type),
            gfp: array(&self.gfp),
            stack: array(&self.stack),
            fallback_order: array(&self.fallback_order),
            fallback_type: array(&self.fallback_type),
            change_ownership: array(&self.change_ownership),
            count: array(&self.count),
            flags: array(&self.flags),
        }
    }

    /// The vector of a column; `None` for the texts, which stand apart.
    pub fn column(&mut self, column: Column) -> Option<Values<'_>> {
        Some(match column {
            Column::Time => Values::I64(&mut self.time),
            Column::Kind => Values::I32(&mut self.kind),
            Column::Cpu => Values::I32(&mut self.cpu),
            Column::Pid => Values::I32(&mut self.pid),
            Column::Pfn => Values::I64(&mut self.pfn),
            Column::Order => Values::I32(&mut self.order),
            Column::MigrateType => Values::I32(&mut self.migrate_type),
            Column::Gfp => Values::I32(&mut self.gfp),
            Column::Stack => Values::I32(&mut self.stack),
            Column::FallbackOrder => Values::I32(&mut self.fallback_order),
            Column::FallbackType => Values::I32(&mut self.fallback_type),
            Column::ChangeOwnership => Values::I32(&mut self.change_ownership),
            Column::Count => Values::I64(&mut self.count),
            Column::Flags => Values::I64(&mut self.flags),
            Column::Text => return None,
        })
    }

    /// Empties every column; its memory stays.
    pub fn clear(&mut self) {
        for column in Column::ALL {
            match self.column(column) {
                Some(Values::I32(values)) => values.clear(),
                Some(Values::I64(values)) => values.clear(),
                None => {}
            }
        }
    }
}

fn array<T>(values: &[T]) -> &[T; BATCH] {
    values.first_chunk().expect("columns were filled up")
}

/// [`BATCH`] rows, column by column.
///
/// Arrays, so that one comparison checks the bounds of all; and a value is only checked for the
/// kinds of rows that have it. Putting events together is the largest single cost of decoding.
pub struct View<'a> {
    time: &'a [i64; BATCH],
    kind: &'a [i32; BATCH],
    cpu: &'a [i32; BATCH],
    pid: &'a [i32; BATCH],
    pfn: &'a [i64; BATCH],
    order: &'a [i32; BATCH],
    migrate_type: &'a [i32; BATCH],
    gfp: &'a [i32; BATCH],
    stack: &'a [i32; BATCH],
    fallback_order: &'a [i32; BATCH],
    fallback_type: &'a [i32; BATCH],
    change_ownership: &'a [i32; BATCH],
    count: &'a [i64; BATCH],
    flags: &'a [i64; BATCH],
}

impl View<'_> {
    /// The event of row `i`, with the number of its text.
    #[inline(always)]
    pub fn event(&self, i: usize, text: Text) -> Result<Event, BadValue> {
        Ok(Event {
            time_ns: self.time[i] as u64,
            pid: self.pid[i],
            cpu: self.cpu[i] as u16,
            what: self.what(i, text)?,
        })
    }

    #[inline(always)]
    fn what(&self, i: usize, text: Text) -> Result<EventKind, BadValue> {
        let bad_kind = BadValue { column: Column::Kind, value: self.kind[i].into() };
        Ok(match Kind::from_number(self.kind[i]).ok_or(bad_kind)? {
            Kind::Frames => return Err(bad_kind),
            Kind::Alloc => EventKind::Alloc {
                pfn: self.pfn(i),
                order: self.order(i)?,
                migrate_type: self.migrate_type(i)?,
                gfp: GfpFlags(self.gfp[i] as u32),
                stack: StackId(self.stack[i] as u32),
            },
            Kind::AllocFailed => EventKind::AllocFailed {
                order: self.order(i)?,
                migrate_type: self.migrate_type(i)?,
                gfp: GfpFlags(self.gfp[i] as u32),
                stack: StackId(self.stack[i] as u32),
            },
            Kind::Free => EventKind::Free { pfn: self.pfn(i), order: self.order(i)? },
            Kind::FreeBatched => EventKind::FreeBatched { pfn: self.pfn(i) },
            Kind::Pin => EventKind::Pin { pfn: self.pfn(i), order: self.order(i)? },
            Kind::Unpin => EventKind::Unpin { pfn: self.pfn(i), order: self.order(i)? },
            Kind::Extfrag => EventKind::Extfrag {
                pfn: self.pfn(i),
                order: self.order(i)?,
                fallback_order: order(Column::FallbackOrder, self.fallback_order[i])?,
                migrate_type: self.migrate_type(i)?,
                fallback_type: migrate_type(Column::FallbackType, self.fallback_type[i])?,
                change_ownership: self.change_ownership[i] != 0,
            },
            Kind::ZoneLocked => EventKind::ZoneLocked {
                pfn: self.pfn(i),
                order: self.order(i)?,
                migrate_type: self.migrate_type(i)?,
            },
            Kind::PcpuDrain => EventKind::PcpuDrain {
                pfn: self.pfn(i),
                order: self.order(i)?,
                migrate_type: self.migrate_type(i)?,
            },
            Kind::Process => EventKind::Process { name: text },
            Kind::Stack => EventKind::Stack { id: StackId(self.stack[i] as u32), folded: text },
            Kind::Lost => EventKind::Lost { count: self.count[i] as u64 },
            Kind::Marker => EventKind::Marker { text },
            Kind::Cgroup => EventKind::Cgroup { path: text },
            Kind::Exit => EventKind::Exit,
            kind => return self.stall(i, kind).ok_or(bad_kind)?,
        })
    }

    /// The event of a row of a stall; `None` for other kinds. Out of line: such rows are few.
    #[inline(never)]
    fn stall(&self, i: usize, kind: Kind) -> Option<Result<EventKind, BadValue>> {
        let point = kind.stall_point()?;
        Some(self.order(i).map(|order| EventKind::Stall {
            point,
            task: (self.count[i] as u32).cast_signed(),
            order,
            gfp: GfpFlags(self.gfp[i] as u32),
            stack: StackId(self.stack[i] as u32),
            value: self.flags[i] as u32,
        }))
    }

    fn pfn(&self, i: usize) -> Pfn {
        Pfn(self.pfn[i] as u64)
    }

    fn order(&self, i: usize) -> Result<Order, BadValue> {
        order(Column::Order, self.order[i])
    }

    fn migrate_type(&self, i: usize) -> Result<MigrateType, BadValue> {
        migrate_type(Column::MigrateType, self.migrate_type[i])
    }
}
