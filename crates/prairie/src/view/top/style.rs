//! Colors and small words of the screen.

use prairie_frames::Mobility;
use prairie_host::FrameClass;
use prairie_observe::summary::MapCell;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// A number as [`prairie_report::number`] writes it, with spaces that every terminal has.
pub fn plain(text: &str) -> String {
    text.replace(prairie_report::number::THIN, " ")
}

/// A share as percent with one decimal; a dash where it is unknown.
pub fn percent(share: Option<f64>) -> String {
    match share.filter(|share| share.is_finite()) {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "-".to_owned(),
    }
}

/// A rate in events a second; a dash where it is unknown.
pub fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0/s".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}/s"),
        Some(rate) if rate < 100_000.0 => format!("{rate:.0}/s"),
        Some(rate) => format!("{:.0}k/s", rate / 1e3),
    }
}

/// `part / whole`; `None` for nothing of nothing.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Bold text.
pub fn bold(text: String) -> Span<'static> {
    Span::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// Faint text.
pub fn dim(text: String) -> Span<'static> {
    Span::styled(text, Style::new().add_modifier(Modifier::DIM))
}

/// What is chosen.
pub fn selected(text: String) -> Span<'static> {
    Span::styled(text, Style::new().add_modifier(Modifier::REVERSED))
}

/// The color of a mobility: cool can move, warm cannot, faint is free, gray is unknown.
pub fn color(mobility: Mobility) -> Color {
    match mobility {
        Mobility::Free => Color::DarkGray,
        Mobility::Movable => Color::Cyan,
        Mobility::Unmovable => Color::Red,
        Mobility::Unknown | Mobility::Absent => Color::Gray,
    }
}

/// The color of a cell of the map.
pub fn cell_color(cell: MapCell) -> Color {
    match cell.class {
        _ if cell.is_polluted => Color::Yellow,
        FrameClass::AnonymousThp | FrameClass::Hugetlb => Color::Blue,
        FrameClass::File | FrameClass::Shmem => Color::Green,
        FrameClass::Reserved | FrameClass::KernelOther => Color::Magenta,
        class => color(class.mobility()),
    }
}
