//! The four measures of a survey with their verdicts, for the first screen and for the whole report.

use prairie_frames::Order;
use prairie_host::Survey;
use prairie_host::advice::{Situation, advise};
use prairie_host::survey::frame_report::FrameReport;
use prairie_host::verdict::{self, Scale, Verdict};
use prairie_report::table::{emphasis, muted, toned};
use prairie_report::{Block, Cell, Column, Section, Table, Terminal, Tone, number};

use super::super::{range, summary};
use super::line::{beside, fit};
use crate::view::advice;

/// The four measures under their heads, and what they leave out.
pub fn measures(survey: &Survey, terminal: Terminal) -> Vec<String> {
    let rows: Vec<(String, Verdict, Scale)> = measured(survey)
        .into_iter()
        .map(|(scale, bounds)| match bounds {
            Some((least, most)) => {
                (terminal.text(&range(least, most)), scale.verdict_on(least, most), scale)
            }
            None => ("-".to_owned(), Verdict::Unknown, scale),
        })
        .collect();
    let widest = rows.iter().map(|(value, ..)| value.chars().count()).max().unwrap_or(0).max(8);
    let heads = format!("{:>widest$}  {:<7}  {:<6}", "value", "verdict", "better");
    let row = |(value, verdict, scale): &(String, Verdict, Scale)| {
        let value = emphasis(&format!("{value:>widest$}"), terminal);
        let word = toned(&format!("{:<7}", verdict.word()), tone(*verdict), terminal);
        let numbers = format!("{value}  {word}  {:<6}  ", scale.better.word());
        beside(&numbers, widest + "  verdict  better  ".len(), scale.label, terminal)
    };
    let note = survey.frames.as_ref().map(|frames| frames.initialized.share_of_memory);
    let note = note.filter(|share| *share < 1.0).map(|share| {
        let text = format!(
            "Figures are of initialized memory; {} of all memory is not initialized yet.",
            number::percent(1.0 - share)
        );
        muted(&fit(&text, 0, terminal), terminal)
    });
    let heads = std::iter::once(muted(heads.trim_end(), terminal));
    heads.chain(rows.iter().map(row)).chain(note).collect()
}

const fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Good => Tone::Good,
        Verdict::Poor => Tone::Bad,
        Verdict::Fair => Tone::Strong,
        Verdict::Unclear | Verdict::Unknown => Tone::Muted,
    }
}

/// Each scale with the bounds of its measure; `None` where it could not be read.
fn measured(survey: &Survey) -> [(Scale, Option<(f64, f64)>); 4] {
    let one = |value: f64| (value, value);
    let lists = survey.free_lists.as_ref().filter(|lists| lists.free_frames > 0);
    let frames = survey.frames.as_ref();
    let coverage = survey.huge_pages.host.as_ref().and_then(|host| host.anonymous_coverage);
    [
        (verdict::UNUSABLE, lists.map(|lists| one(summary::unusable(lists, Order::HUGE)))),
        (verdict::POLLUTED, frames.map(FrameReport::polluted_bounds)),
        (
            verdict::POTENTIAL,
            frames.map(|FrameReport { initialized: f, .. }| {
                (f.potential_2_mib_min, f.potential_2_mib_max)
            }),
        ),
        (verdict::COVERAGE, coverage.map(one)),
    ]
}

/// The same measures and advice with their sources, for the whole report.
pub fn section(survey: &Survey) -> Section {
    let row = |(scale, bounds): (Scale, Option<(f64, f64)>)| {
        let (value, verdict) = match bounds {
            Some((least, most)) => (range(least, most), scale.verdict_on(least, most)),
            None => (number::NONE.to_owned(), Verdict::Unknown),
        };
        let limits = format!("{} and {}", number::percent(scale.good), number::percent(scale.poor));
        vec![
            Cell::from(scale.label),
            Cell::toned(value, Tone::Strong),
            Cell::toned(verdict.word(), tone(verdict)),
            Cell::from(scale.better.word()),
            Cell::from(limits),
            Cell::from(match scale.good_source == scale.poor_source {
                true => scale.good_source.to_owned(),
                false => format!("{}; {}", scale.good_source, scale.poor_source),
            }),
        ]
    };
    let measures = Table {
        title: "Verdicts".to_owned(),
        columns: vec![
            Column::text("measure"),
            Column::number("value"),
            Column::text("verdict"),
            Column::text("better"),
            Column::number("thresholds").with_unit("good and poor"),
            Column::text("source"),
        ],
        rows: measured(survey).into_iter().map(row).collect(),
        notes: Vec::new(),
    };
    let found = advise(&Situation::of_survey(survey));
    let advice = match found.is_empty() {
        true => Block::Text("No rule sees anything to change.".to_owned()),
        false => {
            let title = "Advice".to_owned();
            Block::Table(Table { title, ..advice::table_with_sources(&found) })
        }
    };
    Section {
        heading: "Verdicts and advice".to_owned(),
        intro: "Shares of memory and of pageblocks refer to initialized memory.".to_owned(),
        blocks: vec![Block::Table(measures), advice],
    }
}
