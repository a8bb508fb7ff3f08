//! The first screen of a survey: four measures with verdicts, the largest sources of unmovable
//! memory, and advice, on 23 lines of 80 columns, so that a prompt fits below it. Where there are
//! fewer columns, lines are wrapped instead of cut, and their number has no limit.

mod line;
mod measures;
#[cfg(test)]
mod tests;

use prairie_host::advice::{Advice, Situation, advise};
use prairie_host::survey::polluted::UnmovableSource;
use prairie_host::{FrameClass, Survey};
use prairie_report::table::{emphasis, muted};
use prairie_report::{Terminal, number};

use self::line::{WIDTH, beside, fit};
use self::measures::measures;
pub use self::measures::section;
use super::{ratio, size};
use crate::view::advice;

/// Lines of the screen.
const LINES: usize = 23;
/// Sources of unmovable memory that are listed.
const SOURCES: usize = 3;

/// The screen; ends with a line feed.
pub fn screen(survey: &Survey, terminal: Terminal) -> String {
    let terminal = Terminal { width: terminal.width.min(WIDTH), ..terminal };
    let mut lines = vec![emphasis(&fit(&title(survey), 0, terminal), terminal)];
    lines.push(String::new());
    lines.extend(measures(survey, terminal));
    lines.extend(regions(survey, terminal));
    lines.extend(sources(survey, terminal));
    let more = fit("More: prairie survey --full, --section NAME, --html FILE", 0, terminal);
    let missing = missing(survey, terminal);
    let advised = advised(survey, terminal);
    // What is missing matters more than the last line of advice.
    let all = if terminal.width < WIDTH { usize::MAX } else { LINES };
    let room = all.saturating_sub(lines.len() + missing.len() + 2);
    if !advised.is_empty() {
        lines.extend([String::new(), emphasis("Advice", terminal)]);
        lines.extend(as_many_as_fit(advised, room.saturating_sub(2), terminal));
    }
    lines.extend(missing);
    lines.extend([String::new(), muted(&more, terminal)]);
    lines.join("\n") + "\n"
}

fn title(survey: &Survey) -> String {
    let uptime = survey.uptime_seconds.map_or(String::new(), |seconds| {
        format!(", up {}", number::duration((seconds.trunc() * 1e9) as u64))
    });
    super::title(survey) + &uptime
}

/// The regions of a kernel with a movable border.
fn regions(survey: &Survey, terminal: Terminal) -> Vec<String> {
    let lines = super::regions::lines(survey);
    let row = |(name, text): (&str, String)| {
        let name = emphasis(&format!("{name:<16}"), terminal);
        beside(&format!("{name}  "), 18, &text, terminal)
    };
    lines.into_iter().map(row).collect()
}

/// The largest sources of unmovable memory.
fn sources(survey: &Survey, terminal: Terminal) -> Vec<String> {
    let Some(frames) = &survey.frames else { return Vec::new() };
    let initialized = frames.initialized.frames;
    let mut lines = vec![String::new(), emphasis("Largest sources of unmovable memory", terminal)];
    let row = |source: &UnmovableSource| {
        let share = number::percent(ratio(source.frames, initialized));
        let blocks = number::percent(ratio(source.blocks, frames.polluted.polluted_blocks));
        let amount = terminal.text(&format!("{} ({share})", size(survey, source.frames)));
        let text = format!("{}, in {blocks} of polluted pageblocks", source.label);
        beside(&format!("{amount:>20}  "), 22, &text, terminal)
    };
    lines.extend(frames.unmovable_sources.iter().take(SOURCES).map(row));
    if frames.unmovable_sources.is_empty() {
        lines.push("  none".to_owned());
    }
    // Most kernel allocations carry no flag: they may be a larger source than those listed.
    let unflagged = frames.by_class.iter().find(|row| row.class == FrameClass::Unflagged);
    let unflagged = unflagged.map_or(0, |row| row.frames);
    if frames.unmovable_sources.get(SOURCES - 1).is_none_or(|last| unflagged > last.frames)
        && unflagged > 0
    {
        let amount = terminal.text(&size(survey, unflagged));
        let line =
            beside(&format!("{amount:>20}  "), 22, &without_flags(survey, unflagged), terminal);
        lines.push(muted(&line, terminal));
    }
    lines
}

/// What frames without flags are: those on per-CPU lists are counted, but nothing says which they are.
fn without_flags(survey: &Survey, frames: u64) -> String {
    let extents = survey.zones.iter().map(|zone| zone.extent.as_ref());
    let on_lists: Option<u64> = extents.map(|extent| Some(extent?.per_cpu_frames)).sum();
    match on_lists {
        Some(free) if free > 0 => {
            let free = size(survey, free.min(frames));
            format!("without flags, {free} of it free on per-CPU lists")
        }
        _ => "without flags: kernel memory or per-CPU lists".to_owned(),
    }
}

fn advised(survey: &Survey, terminal: Terminal) -> Vec<String> {
    advise(&Situation::of_survey(survey))
        .iter()
        .map(|found| advised_line(found, terminal))
        .collect()
}

fn advised_line(found: &Advice, terminal: Terminal) -> String {
    let before = found.subject.len() + 4;
    let subject = format!("  {}: ", emphasis(found.subject, terminal));
    beside(&subject, before, &advice::line(found, WIDTH - before), terminal)
}

/// The first of these lines; where there are more than `room`, the last line says how many.
fn as_many_as_fit(mut lines: Vec<String>, room: usize, terminal: Terminal) -> Vec<String> {
    if lines.len() > room {
        let left = lines.split_off(room.saturating_sub(1)).len();
        let text = format!("+{left} more: prairie survey --section advice");
        lines.push(muted(&format!("  {}", fit(&text, 2, terminal)), terminal));
    }
    lines
}

/// What could not be read, in one line.
fn missing(survey: &Survey, terminal: Terminal) -> Vec<String> {
    let [first, others @ ..] = &survey.left_out[..] else { return Vec::new() };
    let others = match others.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let line = |what: &str| format!("Not read: {what}. Remedy: {}.", first.remedy);
    let mut text = line(&format!("{}{others}", first.what));
    if text.chars().count() > WIDTH {
        text = line(&number::counted(survey.left_out.len() as u64, "item"));
    }
    vec![String::new(), fit(&text, 0, terminal)]
}
