//! A survey as a report: the summary, the map, and the tables behind both.

mod free;
mod huge;
pub mod map;
mod pins;
pub mod summary;
mod used;
mod words;

use chrono::DateTime;
use prairie_host::{Survey, ZoneId};
use prairie_report::{Block, MapSheet, Report, Section, number};

/// The report on a survey. `generated_by` names the command; `map` is left out where there is
/// none or none is wanted; `processes` is how many of the largest are listed.
pub fn report(
    survey: &Survey,
    map: Option<MapSheet>,
    processes: usize,
    generated_by: String,
) -> Report {
    let mut sections = vec![summary::section(survey)];
    if let Some(sheet) = map {
        sections.push(map_section(sheet));
    }
    sections.extend(free::section(survey));
    sections.extend(used::contiguity(survey));
    sections.extend(used::by_class(survey));
    sections.extend(used::polluters(survey));
    sections.extend(pins::section(survey, processes));
    sections.extend(huge::coverage(survey, processes));
    sections.extend(huge::settings_and_counters(survey));
    sections.extend(words::left_out(survey));
    sections.extend(words::checks(survey));
    sections.push(words::definitions());
    Report { title: title(survey), subtitle: subtitle(survey), generated_by, sections }
}

fn map_section(sheet: MapSheet) -> Section {
    let intro = "Cool cells can move, warm cells cannot, faint cells are free, gray ones are \
                 unknown. Yellow cells are mostly free or movable, but at least one unmovable \
                 frame is in them: none of them can become a huge page.";
    let mut sheet = sheet;
    for map in &mut sheet.maps {
        // The report's heading has them.
        (map.title, map.subtitle) = (String::new(), String::new());
    }
    let note = "The class of a cell is that of most of its frames, so sizes in this legend count \
                cells; the table \"Memory by class\" counts frames.";
    Section {
        heading: "Map of memory".to_owned(),
        intro: intro.to_owned(),
        blocks: vec![Block::Maps(sheet), Block::Note(note.to_owned())],
    }
}

/// Which machine: `23.9 GiB of physical memory, Linux 6.18.5 (x86_64)`.
fn title(survey: &Survey) -> String {
    let memory = match memory_bytes(survey) {
        0 => "Physical memory".to_owned(),
        bytes => format!("{} of physical memory", number::bytes(bytes)),
    };
    format!("{memory}, Linux {} ({})", survey.kernel_release, survey.machine)
}

fn subtitle(survey: &Survey) -> String {
    let uptime = survey.uptime_seconds.map(|seconds| {
        format!(", {} after boot", number::duration((seconds.trunc() * 1e9) as u64))
    });
    format!("{}{}", taken_at(survey), uptime.unwrap_or_default())
}

/// When the capture was made, to the second.
fn taken_at(survey: &Survey) -> String {
    let seconds = i64::try_from(survey.taken_at_unix_ns / 1_000_000_000).unwrap_or_default();
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// All memory: by frames or by the zones' present pages, whichever is more.
fn memory_bytes(survey: &Survey) -> u64 {
    let by_frames = survey.frames.as_ref().map_or(0, |frames| frames.present_frames);
    bytes(survey, by_frames.max(zones_frames(survey)))
}

/// Present frames of all zones.
fn zones_frames(survey: &Survey) -> u64 {
    let extents = survey.zones.iter().filter_map(|zone| zone.extent.as_ref());
    extents.map(|extent| extent.present_frames).sum()
}

fn bytes(survey: &Survey, frames: u64) -> u64 {
    frames.saturating_mul(survey.page_bytes)
}

/// The size of `frames`.
fn size(survey: &Survey, frames: u64) -> String {
    number::bytes(bytes(survey, frames))
}

/// A zone's name; its node is named where there are several.
fn zone_name(survey: &Survey, id: ZoneId) -> String {
    match survey.zones.iter().any(|zone| zone.id.node != id.node) {
        true => format!("Node {} {}", id.node, id.kind),
        false => id.kind.to_string(),
    }
}

/// `part / whole`, and 0 for nothing of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Two shares as one text: `12.0 % to 15.3 %`, or one of them if both have the same text.
fn range(low: f64, high: f64) -> String {
    let (low, high) = (number::percent(low), number::percent(high));
    if low == high { low } else { format!("{low} to {high}") }
}
