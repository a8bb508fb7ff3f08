//! The summary in a few figures and sentences.

use prairie_frames::Order;
use prairie_host::survey::frame_report::{FrameReport, Potential};
use prairie_host::survey::polluted::Polluted;
use prairie_host::survey::{FreeLists, ZoneSurvey};
use prairie_host::verdict::{self, Verdict};
use prairie_host::{FrameClass, Survey};
use prairie_report::{Block, KeyFigure, Section, number};

use super::{range, ratio, size};

/// The first section.
pub fn section(survey: &Survey) -> Section {
    let mut blocks = vec![Block::KeyFigures(key_figures(survey)), Block::Text(sentences(survey))];
    blocks.extend(uninitialized(survey).map(Block::Note));
    blocks.extend(not_seen(survey).map(Block::Warning));
    blocks.extend(left_out(survey).map(Block::Warning));
    Section { heading: "Summary".to_owned(), blocks, ..Section::default() }
}

fn key_figures(survey: &Survey) -> Vec<KeyFigure> {
    let mut figures = Vec::new();
    if let Some(lists) = &survey.free_lists {
        figures.push(KeyFigure::new(
            number::percent(unusable(lists, Order::HUGE)),
            "of free memory is in pieces smaller than 2 MiB",
            "F_u(9): too small for a huge page without compaction.",
        ));
    }
    if let Some(frames) = &survey.frames {
        let memory = counted_memory(frames);
        let (least, most) = frames.polluted_bounds();
        figures.push(KeyFigure::new(
            range(least, most),
            match is_initialized(frames) {
                true => "of pageblocks are polluted",
                false => "of initialized pageblocks are polluted",
            },
            format!(
                "Each holds at least one unmovable frame. Unmovable frames are {} of {memory}.",
                unmovable_share(frames)
            ),
        ));
        if let Some(gigantic) = potential(frames, Order::GIGANTIC) {
            figures.push(KeyFigure::new(
                initialized(frames),
                format!("of {memory} is in 2 MiB blocks without an unmovable frame"),
                format!(
                    "In 1 GiB blocks: {} of all memory. A range shows what unknown frames leave \
                     open.",
                    range_of(gigantic)
                ),
            ));
        }
    }
    if let Some(coverage) = survey.huge_pages.host.as_ref().and_then(|h| h.anonymous_coverage) {
        let anonymous = survey.huge_pages.host.as_ref().map_or(0, |host| host.anonymous_bytes);
        figures.push(KeyFigure::new(
            number::percent(coverage),
            "of anonymous memory is on huge pages",
            format!("AnonHugePages of AnonPages ({}).", number::bytes(anonymous)),
        ));
    }
    figures
}

/// Degree of fragmentation, its cause, and the available contiguity: one or two sentences each.
fn sentences(survey: &Survey) -> String {
    let mut sentences = Vec::new();
    sentences.extend(survey.free_lists.as_ref().map(|lists| fragmentation_sentence(survey, lists)));
    if let Some(frames) = &survey.frames {
        sentences.push(why(frames));
        sentences.extend(compaction_sentence(survey, frames));
    }
    match sentences.is_empty() {
        true => "Fragmentation is unknown: neither free lists nor frames could be read.".to_owned(),
        // A number and its unit stay on one line.
        false => sentences.join(" ").replace(" MiB", "\u{202f}MiB"),
    }
}

fn fragmentation_sentence(survey: &Survey, lists: &FreeLists) -> String {
    let unusable = unusable(lists, Order::HUGE);
    if lists.free_frames == 0 {
        return "No memory is free.".to_owned();
    }
    let state = match (verdict::UNUSABLE.verdict(unusable), unusable) {
        (_, 1.0) => "Free memory is fully fragmented",
        (Verdict::Good, ..0.05) => "Free memory is almost unfragmented",
        (Verdict::Good, _) => "Free memory is slightly fragmented",
        (Verdict::Fair, _) => "Free memory is fragmented",
        _ => "Free memory is severely fragmented",
    };
    let free = size(survey, lists.free_frames);
    let whole = number::percent(1.0 - unusable);
    let first = match unusable {
        1.0 => format!("{state}: {free} contain no free block of 2 MiB."),
        _ => format!("{state}: of {free}, {whole} can serve a 2 MiB request without compaction."),
    };
    match worst_zone(survey, unusable) {
        Some(zone) => first + &zone,
        None => first,
    }
}

/// The zone that is much more fragmented than the whole, if it matters.
fn worst_zone(survey: &Survey, all: f64) -> Option<String> {
    let candidates = survey.zones.iter().filter_map(|zone: &ZoneSurvey| {
        let lists = zone.free_lists.as_ref()?;
        let extent = zone.extent.as_ref()?;
        let large = extent.present_frames >= Order::GIGANTIC.frames() && lists.free_frames > 0;
        large.then(|| (zone, unusable(lists, Order::HUGE)))
    });
    let (zone, worst) = candidates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (worst >= all + 0.1).then(|| {
        format!(
            " {} is worst, with {} of its free memory in smaller pieces.",
            super::zone_name(survey, zone.id),
            number::percent(worst)
        )
    })
}

/// The memory that shares refer to: the kernel may not have initialized all of it yet.
pub(super) fn counted_memory(frames: &FrameReport) -> &'static str {
    if is_initialized(frames) { "memory" } else { "initialized memory" }
}

fn is_initialized(frames: &FrameReport) -> bool {
    frames.initialized.share_of_memory >= 1.0
}

/// Unmovable frames as a share of that memory.
pub(super) fn unmovable_share(frames: &FrameReport) -> String {
    number::percent(ratio(frames.by_mobility.unmovable, frames.initialized.frames))
}

fn why(frames: &FrameReport) -> String {
    let polluted = &frames.polluted;
    if polluted.polluted_blocks == 0 {
        return "No 2 MiB block holds an unmovable frame: compaction can undo all fragmentation."
            .to_owned();
    }
    let share = unmovable_share(frames);
    let memory = counted_memory(frames);
    let (least, most) = frames.polluted_bounds();
    let blocks = range(least, most);
    let first = format!(
        "Unmovable frames are {share} of {memory} and pollute {blocks} of its pageblocks; {}.",
        pollution_sentence(polluted)
    );
    let widest = frames.unmovable_sources.iter().max_by_key(|source| source.blocks);
    let named = widest.map(|source| {
        format!(
            " The most widespread source is {}, in {} of the polluted pageblocks.",
            source.label,
            number::percent(ratio(source.blocks, polluted.polluted_blocks))
        )
    });
    first + &named.unwrap_or_default()
}

/// Whether a few frames pollute many blocks, or many fill few.
fn pollution_sentence(polluted: &Polluted) -> String {
    let full = polluted.histogram.last().map_or(0, |bucket| bucket.blocks);
    let full = ratio(full, polluted.polluted_blocks);
    let median = number::count(polluted.median_unmovable_frames.into());
    match full {
        0.5.. => format!("{} of these blocks hold only unmovable frames", number::percent(full)),
        _ => format!("half of these blocks hold {median} or fewer of 512"),
    }
}

/// Free 2 MiB blocks now and after compaction.
fn compaction_sentence(survey: &Survey, frames: &FrameReport) -> Option<String> {
    let huge = potential(frames, Order::HUGE)?;
    let now = frames.available.iter().find(|now| now.order == Order::HUGE.get())?;
    let now_frames = now.blocks << now.order;
    // Compaction gathers free frames into blocks without unmovable frames.
    let most = (huge.unknown_movable.blocks << huge.order).min(frames.by_mobility.free);
    Some(match most.saturating_sub(now_frames) {
        0 => "Compaction cannot create more free 2 MiB blocks.".to_owned(),
        gain => format!(
            "Full compaction could turn up to {} more of the free memory into 2 MiB blocks.",
            size(survey, gain)
        ),
    })
}

/// Potential contiguity at 2 MiB. Memory that is not initialized yet counts on neither side.
pub(super) fn initialized(frames: &FrameReport) -> String {
    range(frames.initialized.potential_2_mib_min, frames.initialized.potential_2_mib_max)
}

fn range_of(potential: &Potential) -> String {
    range(potential.unknown_unmovable.share_of_memory, potential.unknown_movable.share_of_memory)
}

/// Memory that the kernel has not initialized.
fn uninitialized(survey: &Survey) -> Option<String> {
    let frames = survey.frames.as_ref()?;
    let found = frames.by_class.iter().find(|row| row.class == FrameClass::Uninitialized)?;
    Some(format!(
        "The kernel has not initialized {} of this memory yet ({}): it does so on demand. Such \
         frames are neither free nor in use, on no free list, and counted as unknown.",
        size(survey, found.frames),
        number::percent(found.share_of_memory)
    ))
}

/// Frames of zones that the page-flags file does not cover, for example in a truncated copy.
fn not_seen(survey: &Survey) -> Option<String> {
    let seen = survey.frames.as_ref()?.present_frames;
    let there = survey.zones_frames();
    (seen < there).then(|| {
        format!(
            "Flags were read for {} of {} only: statements about frames apply to these.",
            size(survey, seen),
            size(survey, there)
        )
    })
}

/// One line: what is missing and how to get it.
pub fn left_out(survey: &Survey) -> Option<String> {
    let mut by_remedy: Vec<(&str, Vec<&str>)> = Vec::new();
    for left_out in &survey.left_out {
        match by_remedy.iter_mut().find(|(remedy, _)| *remedy == left_out.remedy) {
            Some((_, what)) => what.push(&left_out.what),
            None => by_remedy.push((&left_out.remedy, vec![&left_out.what])),
        }
    }
    let line = |(remedy, what): &(&str, Vec<&str>)| {
        format!("Not shown: {}. To get it: {remedy}.", what.join("; "))
    };
    let lines: Vec<String> = by_remedy.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// F_u of an order on the lists.
pub(super) fn unusable(lists: &FreeLists, order: Order) -> f64 {
    let found = lists.indices.iter().find(|indices| indices.order == order.get());
    found.map_or(1.0, |indices| indices.unusable_free_space_index)
}

fn potential(frames: &FrameReport, order: Order) -> Option<&Potential> {
    frames.potential.iter().find(|potential| potential.order == order.get())
}

#[cfg(test)]
mod tests {
    use prairie_host::{Capture, LeftOut};

    use super::*;

    /// A survey of a machine whose only zone has these free blocks.
    fn surveyed(buddyinfo: &str) -> Survey {
        let text = format!("Node 0, zone Normal {buddyinfo}\n");
        let mut capture = Capture { page_bytes: 4096, ..Capture::default() };
        capture.files.insert("proc/buddyinfo".to_owned(), text);
        Survey::of(&capture).unwrap()
    }

    #[test]
    fn the_sentence_says_what_the_verdict_says() {
        for (blocks, words) in [
            ("0 0 0 0 0 0 0 0 0 0 0", "No memory is free."),
            ("512 0 0 0 0 0 0 0 0 0 0", "fully fragmented"),
            ("4096 0 0 0 0 0 0 0 0 1 0", "severely fragmented"),
            ("1024 0 0 0 0 0 0 0 0 1 0", "is fragmented"),
            ("512 0 0 0 0 0 0 0 0 1 0", "slightly fragmented"),
            ("1 0 0 0 0 0 0 0 0 0 9", "almost unfragmented"),
        ] {
            let text = sentences(&surveyed(blocks));
            assert!(text.contains(words), "{blocks}: {text}");
        }
    }

    #[test]
    fn missing_figures_are_listed_once_for_each_remedy() {
        let mut survey = surveyed("1 0 0 0 0 0 0 0 0 0 9");
        assert_eq!(left_out(&survey), None);
        let missing = |what: &str, remedy: &str| LeftOut {
            what: what.to_owned(),
            why: String::new(),
            remedy: remedy.to_owned(),
        };
        survey.left_out = vec![
            missing("a", "run as root"),
            missing("b", "a kernel"),
            missing("c", "run as root"),
        ];
        assert_eq!(
            left_out(&survey).unwrap(),
            "Not shown: a; c. To get it: run as root. Not shown: b. To get it: a kernel."
        );
    }
}
