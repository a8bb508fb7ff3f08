//! Reports of a kernel log, explained.

mod request;
mod zones;

use prairie_host::advice::{Advice, Situation, advise};
use prairie_host::kernel_log::{Diagnosis, Incident, IncidentKind, diagnose};
use prairie_report::{Block, Cell, Column, Report, Section, Table, number};

/// A report of the kernel, why nothing could serve the request, and what helps.
pub struct Explained {
    /// The report.
    pub incident: Incident,
    /// The reason.
    pub diagnosis: Diagnosis,
    /// What helps.
    pub advice: Vec<Advice>,
}

impl Explained {
    /// Explains a report.
    pub fn new(incident: Incident) -> Explained {
        let diagnosis = diagnose(&incident);
        let advice = advise(&Situation::of_incident(&incident, &diagnosis));
        Explained { incident, diagnosis, advice }
    }

    /// What reports of one group have in common. Kernel threads differ in their numbers only.
    fn group(&self) -> (u8, String, u32, &str, &'static str) {
        let kind = match self.incident.kind {
            IncidentKind::AllocationFailure => 0,
            IncidentKind::AllocationStall { .. } => 1,
            IncidentKind::VmallocFailure { .. } => 2,
            IncidentKind::OutOfMemory => 3,
            _ => u8::MAX,
        };
        let process = self.incident.process.chars().filter(|c| !c.is_ascii_digit()).collect();
        let request = &self.incident.request;
        (kind, process, request.order, &request.gfp.text, self.diagnosis.verdict.label())
    }
}

/// An explained log.
pub struct Log {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub lines: u64,
    /// Reports that were counted only.
    pub left_out: u64,
    /// Its reports.
    pub explained: Vec<Explained>,
}

/// The report on a log: all groups of similar reports, and the last report of the `top` largest
/// groups explained.
pub fn report(log: &Log, top: usize, generated_by: String) -> Report {
    let groups = groups(&log.explained);
    let mut sections = vec![summary(log, &groups, top)];
    for (number, group) in groups.iter().take(top).enumerate() {
        sections.push(section(number + 1, group));
    }
    Report {
        title: "Failed allocations in a kernel log".to_owned(),
        subtitle: format!("{}, {}", log.name, number::counted(log.lines, "line")),
        generated_by,
        sections,
    }
}

/// Similar reports, the largest groups first; in each the order of the log.
fn groups(explained: &[Explained]) -> Vec<Vec<&Explained>> {
    let mut by_key = std::collections::BTreeMap::new();
    for one in explained {
        by_key.entry(one.group()).or_insert_with(Vec::new).push(one);
    }
    let mut groups: Vec<Vec<&Explained>> = by_key.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group[0].incident.line));
    groups
}

fn summary(log: &Log, groups: &[Vec<&Explained>], top: usize) -> Section {
    let mut blocks = Vec::new();
    if groups.is_empty() {
        blocks.push(Block::Text(
            "No page allocation failure and no OOM report. The log may begin after them: try \
             `journalctl -k -b -1`, or older files."
                .to_owned(),
        ));
    } else {
        blocks.push(Block::Table(groups_table(groups)));
    }
    if log.left_out > 0 {
        blocks.push(Block::Warning(format!(
            "{} more were counted only.",
            number::counted(log.left_out, "report")
        )));
    }
    if groups.len() > top {
        let all = groups.len();
        let text = format!("Explained: the largest {top} of {all} groups; --top N explains more.");
        blocks.push(Block::Note(text));
    }
    Section { heading: "Summary".to_owned(), intro: String::new(), blocks }
}

fn groups_table(groups: &[Vec<&Explained>]) -> Table {
    let row = |(at, group): (usize, &Vec<&Explained>)| {
        let last = group[group.len() - 1];
        vec![
            Cell::from((at + 1).to_string()),
            number::count(group.len() as u64).into(),
            last.incident
                .time
                .clone()
                .unwrap_or_else(|| format!("line {}", last.incident.line))
                .into(),
            subject(&last.incident).into(),
            last.incident.process.as_str().into(),
            last.diagnosis.verdict.label().into(),
        ]
    };
    Table::new(
        vec![
            Column::number("#"),
            Column::number("reports"),
            Column::text("last"),
            Column::text("what"),
            Column::text("process"),
            Column::text("why"),
        ],
        groups.iter().enumerate().map(row).collect(),
    )
}

/// The size of a block of pages of 4 KiB. A damaged log has orders that no kernel has.
fn block_size(order: u32) -> String {
    match order {
        ..52 => number::bytes(4096 << order),
        _ => "16 EiB or more".to_owned(),
    }
}

/// `order 4 (64 KiB) failed`
fn subject(incident: &Incident) -> String {
    let order = incident.request.order;
    let size = block_size(order);
    match incident.kind {
        IncidentKind::AllocationFailure => format!("order {order} ({size}) failed"),
        IncidentKind::AllocationStall { waited_ms } => {
            format!(
                "order {order} ({size}) waited {}",
                number::duration(waited_ms.saturating_mul(1_000_000))
            )
        }
        IncidentKind::VmallocFailure { bytes: Some(bytes) } => {
            format!("vmalloc of {} failed", number::bytes(bytes))
        }
        IncidentKind::VmallocFailure { bytes: None } => "vmalloc failed".to_owned(),
        IncidentKind::OutOfMemory => format!("out of memory, order {order} ({size})"),
        _ => format!("order {order} ({size})"),
    }
}

fn section(number: usize, group: &[&Explained]) -> Section {
    let explained = group[group.len() - 1];
    let incident = &explained.incident;
    let place = match &incident.time {
        Some(time) => format!("line {}, at {time}", incident.line),
        None => format!("line {}", incident.line),
    };
    let kernel = incident.kernel_release.as_ref().map_or(String::new(), |r| format!(", Linux {r}"));
    let last_of = if group.len() > 1 { ", the last of its group" } else { "" };
    let mut blocks = vec![Block::Text(format!("Why: {}.", explained.diagnosis.verdict.label()))];
    blocks.push(Block::Table(request::table(incident)));
    blocks.extend(zones::blocks(explained));
    blocks.extend(request::out_of_memory(incident));
    blocks.push(what_helps(&explained.advice));
    Section {
        heading: format!("{number}. {}, by {}", subject(incident), incident.process),
        intro: format!("{place}{kernel}{last_of}."),
        blocks,
    }
}

fn what_helps(advice: &[Advice]) -> Block {
    if advice.is_empty() {
        let text = "What helps: the numbers of this report suggest nothing; `prairie survey` on the \
                    host knows more.";
        return Block::Text(text.to_owned());
    }
    Block::Table(Table { title: "What helps".to_owned(), ..super::advice::table(advice) })
}
