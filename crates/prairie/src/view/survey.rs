//! A survey as a report: the summary, the map, and the tables behind both.

pub mod first;
mod free;
mod huge;
pub mod map;
mod pins;
mod regions;
pub mod summary;
mod used;
mod words;

use chrono::DateTime;
use prairie_host::survey::ZoneSurvey;
use prairie_host::{Survey, ZoneId};
use prairie_report::{Block, MapSheet, Report, Section, number};

/// The parts of a report, by the names that `--section` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Key figures and a verdict in words.
    Summary,
    /// Verdicts and advice with their sources.
    Advice,
    /// The map of memory.
    Map,
    /// Regions of a kernel with a movable border.
    Regions,
    /// Free lists, zones, and indices.
    Free,
    /// Available and potential contiguity.
    Contiguity,
    /// Memory by class.
    Classes,
    /// Polluted pageblocks and what pollutes them.
    Polluted,
    /// Pinned memory.
    Pins,
    /// Huge pages in use.
    Huge,
    /// Settings and counters.
    Settings,
    /// What could not be read.
    Missing,
    /// Consistency checks.
    Checks,
    /// Definitions.
    Definitions,
}

/// The whole report on a survey. `generated_by` names the command; `map` is left out where there is
/// none or none is wanted; `processes` is how many of the largest are listed.
pub fn report(
    survey: &Survey,
    map: Option<MapSheet>,
    processes: usize,
    generated_by: String,
) -> Report {
    let sections = [
        Some(summary::section(survey)),
        Some(first::section(survey)),
        map.map(map_section),
        regions::section(survey),
        free::section(survey),
        used::contiguity(survey),
        used::by_class(survey),
        used::polluters(survey),
        pins::section(survey, processes),
        huge::coverage(survey, processes),
        huge::settings_and_counters(survey),
        words::left_out(survey),
        words::checks(survey),
        Some(words::definitions()),
    ];
    let sections = sections.into_iter().flatten().collect();
    Report { title: title(survey), subtitle: subtitle(survey), generated_by, sections }
}

impl Part {
    /// The heading of the part.
    const fn heading(self) -> &'static str {
        match self {
            Part::Summary => "Summary",
            Part::Advice => "Verdicts and advice",
            Part::Map => "Map of memory",
            Part::Regions => "Regions",
            Part::Free => "Free memory by zone",
            Part::Contiguity => "Available and potential contiguity",
            Part::Classes => "Memory by class",
            Part::Polluted => "Polluted pageblocks",
            Part::Pins => "Pinned memory",
            Part::Huge => "Huge pages in use",
            Part::Settings => "Settings and counters",
            Part::Missing => "Not shown",
            Part::Checks => "Consistency checks",
            Part::Definitions => "Definitions",
        }
    }
}

/// Those parts of a report that are `wanted`, in its order. A part that the host has nothing for is
/// not there.
pub fn report_on(wanted: &[Part], report: &Report) -> Report {
    let is_wanted =
        |section: &&Section| wanted.iter().any(|part| part.heading() == section.heading);
    let sections = report.sections.iter().filter(is_wanted).cloned().collect();
    Report { sections, ..report.clone() }
}

/// Zones large enough for a report: at least 1 % of memory. All of them, if none is.
fn shown_zones(survey: &Survey) -> impl Iterator<Item = &ZoneSurvey> {
    let all = survey.zones_frames();
    let is_large = move |zone: &ZoneSurvey| {
        zone.extent.as_ref().is_none_or(|extent| extent.present_frames * 100 >= all)
    };
    survey.zones.iter().filter(move |zone| is_large(zone))
}

/// A note that names the zones that [`shown_zones`] leaves out.
fn hidden_zones(survey: &Survey) -> Option<String> {
    let shown: Vec<ZoneId> = shown_zones(survey).map(|zone| zone.id).collect();
    let hidden = survey.zones.iter().filter(|zone| !shown.contains(&zone.id));
    let names: Vec<String> = hidden.map(|zone| zone_name(survey, zone.id)).collect();
    (!names.is_empty()).then(|| format!("Less than 1 % of memory: {}.", names.join(", ")))
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
    let memory = match survey.memory_bytes() {
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
