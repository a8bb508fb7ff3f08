//! Draws what Prairie found: tables, maps of physical memory, charts, and one self-contained
//! HTML page that holds them all.
//!
//! The crate knows nothing of hosts, traces or policies. It takes plain values with public fields
//! and turns them into text, SVG, PNG or HTML:
//!
//! | value | terminal | SVG / PNG | HTML |
//! | --- | --- | --- | --- |
//! | [`Table`] | yes | | yes |
//! | [`MapSheet`] (one or several [`MemoryMap`]s) | yes | yes | yes |
//! | [`LineChart`] | yes (as a table) | yes | yes, interactive |
//! | [`BarChart`] | yes (as bars) | SVG | yes, interactive |
//! | [`Timeline`] | | yes | |
//! | [`SequenceChart`] | yes | SVG | |
//! | [`StateChart`] | | SVG | |
//! | [`Report`] | yes | its charts | yes, also Markdown and CSV |
//!
//! The same [`Report`] goes to the terminal ([`Report::terminal`]) and to a file
//! ([`Report::html`]), so that a command describes its findings once.

#![forbid(unsafe_code)]

mod ascii;
pub mod chart;
mod document;
mod formats;
mod html;
pub mod map;
pub mod number;
pub mod palette;
mod raster;
mod sequence;
mod states;
mod svg;
pub mod table;
pub mod terminal;
pub mod write;

pub use ascii::ascii;
pub use chart::timeline::{Marks, Panel, Timeline};
pub use chart::{Axis, BarChart, BarSeries, LineChart, Series, Shape, Unit};
pub use document::{Block, Definition, KeyFigure, Report, Section};
pub use html::HtmlError;
pub use map::{MapClass, MapError, MapSegment, MapSheet, MapZone, MemoryMap};
pub use palette::{Paint, Rgb, Theme};
pub use sequence::{SequenceChart, SequenceStep};
pub use states::{StateChart, StateEdge};
pub use table::{Align, Cell, Column, Table, Tone};
pub use terminal::{Colors, Terminal};
pub use write::{WriteError, write_atomically};
