//! The answer in a few figures and a few plain sentences.

use prairie_frames::Order;
use prairie_host::survey::frame_report::{FrameReport, Potential};
use prairie_host::survey::spoiled::Spoiled;
use prairie_host::survey::{FreeLists, ZoneSurvey};
use prairie_host::{FrameClass, Survey};
use prairie_report::{Block, KeyFigure, Section, number};

use super::{range, ratio, size};

/// The first section.
pub fn section(survey: &Survey) -> Section {
    let mut blocks = vec![Block::KeyFigures(key_figures(survey)), Block::Text(verdict(survey))];
    blocks.extend(uninitialised(survey).map(Block::Note));
    blocks.extend(not_seen(survey).map(Block::Warning));
    blocks.extend(left_out(survey).map(Block::Warning));
    Section { heading: "The answer".to_owned(), blocks, ..Section::default() }
}

fn key_figures(survey: &Survey) -> Vec<KeyFigure> {
    let figure = |value: String, label: &str, definition: &str| KeyFigure {
        value,
        label: label.to_owned(),
        definition: definition.to_owned(),
    };
    let mut figures = Vec::new();
    if let Some(lists) = &survey.free_lists {
        figures.push(figure(
            number::percent(unusable(lists, Order::HUGE)),
            "of free memory is in pieces smaller than 2 MiB",
            "F_u(9): no huge page can come of it as it stands.",
        ));
    }
    if let Some(frames) = &survey.frames {
        let spoiled = &frames.spoiled;
        figures.push(figure(
            number::percent(spoiled.spoiled_share),
            "of 2 MiB blocks are spoiled",
            &format!(
                "At least one unmovable frame stands in each. Unmovable frames are {} of memory.",
                number::percent(ratio(frames.by_mobility.unmovable, frames.present_frames))
            ),
        ));
        if let (Some(huge), Some(gigantic)) =
            (potential(frames, Order::HUGE), potential(frames, Order::GIGANTIC))
        {
            figures.push(figure(
                range_of(huge),
                "of memory could be had in 2 MiB blocks",
                &format!(
                    "After perfect compaction; in 1 GiB blocks {}. A range is what unknown frames \
                     leave open.",
                    range_of(gigantic)
                ),
            ));
        }
    }
    if let Some(coverage) = survey.huge_pages.host.as_ref().and_then(|h| h.anonymous_coverage) {
        let anonymous = survey.huge_pages.host.as_ref().map_or(0, |host| host.anonymous_bytes);
        figures.push(figure(
            number::percent(coverage),
            "of anonymous memory is on huge pages",
            &format!("AnonHugePages of AnonPages ({}).", number::bytes(anonymous)),
        ));
    }
    figures
}

/// How fragmented, why, and what could be had: one sentence or two for each.
fn verdict(survey: &Survey) -> String {
    let mut sentences = Vec::new();
    sentences.extend(survey.free_lists.as_ref().map(|lists| how_broken(survey, lists)));
    if let Some(frames) = &survey.frames {
        sentences.push(why(frames));
        sentences.extend(what_could_be_had(survey, frames));
    }
    match sentences.is_empty() {
        true => "Nothing that could be read tells how fragmented this memory is.".to_owned(),
        // A number and its unit stay on one line.
        false => sentences.join(" ").replace(" MiB", "\u{202f}MiB"),
    }
}

fn how_broken(survey: &Survey, lists: &FreeLists) -> String {
    let unusable = unusable(lists, Order::HUGE);
    let state = match unusable {
        _ if lists.free_frames == 0 => return "No memory is free.".to_owned(),
        1.0 => "Free memory is shattered",
        0.5.. => "Free memory is badly broken",
        0.2.. => "Free memory is broken",
        0.05.. => "Free memory is a little broken",
        _ => "Free memory is almost whole",
    };
    let free = size(survey, lists.free_frames);
    let whole = number::percent(1.0 - unusable);
    let first = match unusable {
        1.0 => format!("{state}: of {free} not one block of 2 MiB is free."),
        _ => format!("{state}: of {free}, {whole} can serve a request for 2 MiB at once."),
    };
    match worst_zone(survey, unusable) {
        Some(zone) => first + &zone,
        None => first,
    }
}

/// The zone that is much more broken than the whole, if it matters.
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

fn why(frames: &FrameReport) -> String {
    let spoiled = &frames.spoiled;
    if spoiled.spoiled_blocks == 0 {
        return "No 2 MiB block holds an unmovable frame: compaction could undo all of it."
            .to_owned();
    }
    let share = number::percent(ratio(frames.by_mobility.unmovable, frames.present_frames));
    let blocks = number::percent(spoiled.spoiled_share);
    let first = format!(
        "Unmovable frames are {share} of memory and spoil {blocks} of its 2 MiB blocks; {}.",
        how_few(spoiled)
    );
    let widest = frames.unmovable_sources.iter().max_by_key(|source| source.blocks);
    let named = widest.map(|source| {
        format!(
            " The most widespread source is {}, in {} of the spoiled blocks.",
            source.label,
            number::percent(ratio(source.blocks, spoiled.spoiled_blocks))
        )
    });
    first + &named.unwrap_or_default()
}

/// Whether a handful of frames does it, or blocks that are full of them.
fn how_few(spoiled: &Spoiled) -> String {
    let full = spoiled.histogram.last().map_or(0, |bucket| bucket.blocks);
    let full = ratio(full, spoiled.spoiled_blocks);
    let median = number::count(spoiled.median_unmovable_frames.into());
    match full {
        0.5.. => format!("{} of these blocks hold nothing else", number::percent(full)),
        _ => format!("half of these blocks hold {median} or fewer of 512"),
    }
}

/// What is free in 2 MiB blocks against what could be.
fn what_could_be_had(survey: &Survey, frames: &FrameReport) -> Option<String> {
    let huge = potential(frames, Order::HUGE)?;
    let now = frames.available.iter().find(|now| now.order == Order::HUGE.get())?;
    let now_frames = now.blocks << now.order;
    // Compaction gathers free frames into blocks that hold nothing unmovable.
    let most = (huge.unknown_movable.blocks << huge.order).min(frames.by_mobility.free);
    Some(match most.saturating_sub(now_frames) {
        0 => "Compaction has no more 2 MiB blocks to give.".to_owned(),
        gain => format!(
            "Perfect compaction would make up to {} more of the free memory into 2 MiB blocks.",
            size(survey, gain)
        ),
    })
}

fn range_of(potential: &Potential) -> String {
    range(potential.unknown_unmovable.share_of_memory, potential.unknown_movable.share_of_memory)
}

/// Memory that the kernel has not looked at.
fn uninitialised(survey: &Survey) -> Option<String> {
    let frames = survey.frames.as_ref()?;
    let found = frames.by_class.iter().find(|row| row.class == FrameClass::Uninitialised)?;
    Some(format!(
        "The kernel has not initialised {} of this memory yet ({}): it does so as it needs it. \
         Such frames are neither free nor in use, on no free list, and counted as unknown.",
        size(survey, found.frames),
        number::percent(found.share_of_memory)
    ))
}

/// Frames that zones have and the page-flags file does not, as when a copy of it was cut.
fn not_seen(survey: &Survey) -> Option<String> {
    let seen = survey.frames.as_ref()?.present_frames;
    let there = super::zones_frames(survey);
    (seen < there).then(|| {
        format!(
            "Flags were read for {} of {} only: what is said of frames is said of these.",
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
        format!("Left out: {}. To get it: {remedy}.", what.join("; "))
    };
    let lines: Vec<String> = by_remedy.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// F_u of an order on the lists.
fn unusable(lists: &FreeLists, order: Order) -> f64 {
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
    fn the_verdict_follows_the_share_of_free_memory_in_small_pieces() {
        for (blocks, words) in [
            ("0 0 0 0 0 0 0 0 0 0 0", "No memory is free."),
            ("512 0 0 0 0 0 0 0 0 0 0", "shattered"),
            ("1024 0 0 0 0 0 0 0 0 1 0", "badly broken"),
            ("512 0 0 0 0 0 0 0 0 2 0", "is broken"),
            ("512 0 0 0 0 0 0 0 0 9 0", "a little broken"),
            ("1 0 0 0 0 0 0 0 0 0 9", "almost whole"),
        ] {
            let verdict = verdict(&surveyed(blocks));
            assert!(verdict.contains(words), "{blocks}: {verdict}");
        }
    }

    #[test]
    fn what_is_left_out_is_said_once_for_each_remedy() {
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
            "Left out: a; c. To get it: run as root. Left out: b. To get it: a kernel."
        );
    }
}
