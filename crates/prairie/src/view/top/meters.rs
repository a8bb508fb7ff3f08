//! The meters: bars on the left, rates on the right.

use prairie_frames::{Mobility, Order};
use prairie_report::number;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::style::{bold, color, percent, plain, rate, share};
use super::{State, regions};

/// Lines of bars and rates.
const LINES: u16 = 5;

/// Their height.
pub fn height(state: &State) -> u16 {
    LINES + u16::from(regions::meter(state).is_some())
}

/// Draws them.
pub fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let [meters, border] =
        Layout::vertical([Constraint::Length(LINES), Constraint::Fill(1)]).areas(area);
    let [bars, rates] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(40)]).spacing(1).areas(meters);
    Paragraph::new(bar_lines(state, bars.width.into())).render(bars, buffer);
    Paragraph::new(rate_lines(state)).render(rates, buffer);
    if let Some(line) = regions::meter(state) {
        Paragraph::new(line).render(border, buffer);
    }
}

fn bar_lines(state: &State, width: usize) -> Vec<Line<'static>> {
    let now = &state.now;
    let present = now.count("pageblocks") * Order::HUGE.bytes();
    let uninitialized = now.count("class_uninitialized_bytes");
    let whole = now.initialized_pageblocks().unwrap_or(0);
    let known = now.integer("pageblocks").is_some();
    let if_known = |share: Option<f64>| share.filter(|_| known);
    let coverage = share(now.count("anonymous_huge_bytes"), now.count("anonymous_bytes"));
    vec![
        memory(state, width),
        bar("F_u  2M", width, now.unusable(Order::HUGE), String::new(), Color::Yellow),
        bar(
            "Potent.",
            width,
            if_known(share(
                now.count("potential_2m_bytes").saturating_sub(uninitialized),
                present.saturating_sub(uninitialized),
            )),
            not_initialized(share(uninitialized, present)),
            Color::Green,
        ),
        bar(
            "Pollut.",
            width,
            if_known(share(now.count("polluted_pageblocks"), whole)),
            error(state, whole),
            Color::Red,
        ),
        bar("Huge pg", width, coverage, String::new(), Color::Blue),
    ]
}

/// The share of memory that the kernel has not initialized yet, which the meter leaves out.
fn not_initialized(share: Option<f64>) -> String {
    match share {
        Some(share) if share > 0.0 => format!(" ({} not init.)", percent(Some(share)).trim()),
        _ => String::new(),
    }
}

/// The half width of the interval of polluted pageblocks, where they were sampled.
fn error(state: &State, whole: u64) -> String {
    let now = &state.now;
    let ends =
        now.count("polluted_pageblocks_high").saturating_sub(now.count("polluted_pageblocks_low"));
    match share(ends, 2 * whole) {
        Some(error) if error > 0.0 => format!(" +-{:.1}", error * 100.0),
        _ => String::new(),
    }
}

/// `Label[|||||      12.3 %]`, as htop draws it.
fn bar(name: &str, width: usize, share: Option<f64>, after: String, color: Color) -> Line<'static> {
    let inside = width.saturating_sub(name.len() + 2);
    let value = format!("{}{after}", percent(share));
    let filled = (share.unwrap_or(0.0).clamp(0.0, 1.0) * inside as f64).round() as usize;
    let bars = inside.saturating_sub(value.len());
    let full = filled.min(bars);
    Line::from(vec![
        bold(format!("{name}[")),
        Span::styled("|".repeat(full), Style::new().fg(color)),
        Span::raw(" ".repeat(bars - full)),
        Span::raw(value.chars().take(inside).collect::<String>()),
        bold("]".to_owned()),
    ])
}

/// Memory by mobility: `m` movable, `U` unmovable, `?` unknown, `.` free; without page flags only
/// what is free.
fn memory(state: &State, width: usize) -> Line<'static> {
    let now = &state.now;
    let name = "Memory ";
    let total = match now.integer("pageblocks") {
        Some(_) => {
            now.count("unmovable_bytes")
                + now.count("movable_bytes")
                + now.count("unknown_bytes")
                + now.count("class_free_bytes")
        }
        None => now.count("memory_bytes"),
    };
    let free = match now.integer("class_free_bytes") {
        Some(_) => now.count("class_free_bytes"),
        None => now.count("free_bytes"),
    };
    let value = format!(" {} free", plain(&number::bytes(free)));
    let inside = width.saturating_sub(name.len() + 2);
    let bars = inside.saturating_sub(value.len());
    let mut spans = vec![bold(format!("{name}["))];
    let mut drawn = 0;
    for (bytes, letter, mobility) in [
        (now.count("unmovable_bytes"), "U", Mobility::Unmovable),
        (now.count("movable_bytes"), "m", Mobility::Movable),
        (now.count("unknown_bytes"), "?", Mobility::Unknown),
        (free, ".", Mobility::Free),
    ] {
        let part = share(bytes, total).unwrap_or(0.0).clamp(0.0, 1.0) * bars as f64;
        // Whatever there is at all has a letter.
        let part = if bytes > 0 { (part.round() as usize).max(1) } else { 0 };
        let part = part.min(bars - drawn);
        drawn += part;
        spans.push(Span::styled(letter.repeat(part), Style::new().fg(color(mobility))));
    }
    spans.push(Span::raw(" ".repeat(bars - drawn)));
    spans.push(Span::raw(value.chars().take(inside).collect::<String>()));
    spans.push(bold("]".to_owned()));
    Line::from(spans)
}

fn rate_lines(state: &State) -> Vec<Line<'static>> {
    let pressure = |column| percent(state.rate(column).map(|us| us / 1e6));
    let of = |column: &str| rate(state.rate(&format!("vmstat_{column}")));
    let stalls: Option<f64> = ["dma", "dma32", "normal", "movable"]
        .iter()
        .filter_map(|zone| state.rate(&format!("vmstat_allocstall_{zone}")))
        .reduce(|sum, rate| sum + rate);
    let pair = |name: &str, rest: String| Line::from(vec![bold(format!("{name:<9}")), rest.into()]);
    vec![
        pair(
            "Pressure",
            format!("some {}, full {}", pressure("memory_some_us"), pressure("memory_full_us")),
        ),
        pair("Stalls", format!("reclaim {}, compaction {}", rate(stalls), of("compact_stall"))),
        pair("Compact", format!("ok {}, failed {}", of("compact_success"), of("compact_fail"))),
        pair("THP", format!("{}, fallback {}", of("thp_fault_alloc"), of("thp_fault_fallback"))),
        pair("Flags", flags(state)),
    ]
}

/// How much of page flags was read, and when.
fn flags(state: &State) -> String {
    let now = &state.now;
    let (Some(all), Some(at)) = (now.integer("pageblocks"), now.integer("walk_at_unix_ns")) else {
        return "not read".to_owned();
    };
    let ago = (now.at_unix_ns - at).max(0) / 1_000_000_000;
    let read = share(now.count("read_pageblocks"), all.unsigned_abs());
    format!("{} read, {ago} s ago", percent(read))
}
