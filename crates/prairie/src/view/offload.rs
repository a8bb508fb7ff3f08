//! Offloading: the daemon's status, the results of a check, the coldness of containers.

use prairie_offload::coldness::Coldness;
use prairie_offload::status::{CgroupStatus, ClassStatus, Status};
use prairie_report::{Block, Cell, Column, KeyFigure, Report, Section, Table, Tone, number};
use serde::Serialize;

/// One container.
#[derive(Serialize)]
pub struct Profiled {
    /// Its path.
    pub cgroup: String,
    /// Named as memory tax.
    pub tax: bool,
    /// How cold its memory is.
    #[serde(flatten)]
    pub coldness: Option<Coldness>,
    /// `memory.current`: all memory charged to it.
    pub current_bytes: u64,
    /// Anonymous memory.
    pub anon_bytes: u64,
    /// Page cache.
    pub file_bytes: u64,
}

/// The daemon's status.
pub fn status(status: &Status) -> Report {
    let mut blocks = vec![Block::KeyFigures(figures(status))];
    if status.disagree {
        blocks.push(Block::Warning(
            "The cgroups' figures and the host's disagree: the pool takes whole pages, cgroups are \
             charged compressed lengths. Rely on the host's figures."
                .to_owned(),
        ));
    }
    if status.emergency.active {
        blocks.push(Block::Warning(format!(
            "Memory emergency: all tasks of the host were stalled for {:.1} % of the last seconds. \
             Nothing is offloaded.",
            status.emergency.full_share * 100.0
        )));
    }
    if !status.emergency.verdict.is_empty() {
        let verdict = &status.emergency.verdict;
        blocks.push(Block::Note(format!("Last emergency that lasted: {verdict}.")));
    }
    if status.dry_run {
        blocks.push(Block::Note("Dry run: nothing is reclaimed.".to_owned()));
    }
    let mut sections = vec![
        Section { heading: "Savings".to_owned(), intro: String::new(), blocks },
        Section::of_table("Containers", containers(status)),
    ];
    if !status.classes.is_empty() {
        sections.push(Section::of_table("Classes", classes(status)));
    }
    Report {
        title: "Offloading".to_owned(),
        subtitle: format!("ages by {}", status.age_means),
        generated_by: format!("prairie {}", status.version),
        sections,
    }
}

fn classes(status: &Status) -> Table {
    let columns = vec![
        Column::text("class"),
        Column::number("priority"),
        Column::text("objective"),
        Column::number("value"),
        Column::number("at most"),
    ];
    let figure = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let row = |class: &ClassStatus| {
        let objective = match class.trouble.as_str() {
            "" => class.objective.clone(),
            trouble => format!("{}: {trouble}", class.objective),
        };
        let tone = if class.objective == "met" || class.objective.is_empty() {
            Tone::Plain
        } else {
            Tone::Bad
        };
        vec![
            class.name.clone().into(),
            class.priority.to_string().into(),
            Cell::toned(objective, tone),
            figure(class.value).into(),
            figure(class.at_most).into(),
        ]
    };
    Table { columns, rows: status.classes.iter().map(row).collect(), ..Table::default() }
}

fn figures(status: &Status) -> Vec<KeyFigure> {
    let measured = if status.return_cost_measured { "measured here" } else { "not measured" };
    vec![
        KeyFigure::new(
            signed_bytes(status.gained_bytes),
            "saved on the host",
            "Swapped out, less the pool's share, less pages that were swapped in and keep their \
             slot."
                .to_owned(),
        ),
        KeyFigure::new(
            number::bytes(status.claimed_bytes),
            "saved by the cgroups' figures",
            "Swapped out, less the compressed lengths that they are charged.".to_owned(),
        ),
        KeyFigure::new(
            format!(
                "{} of {}",
                number::bytes(status.swap_used_bytes),
                number::bytes(status.swap_bytes)
            ),
            "of swap used by the daemon",
            match status.write_budget_bytes {
                Some(bytes) => format!(
                    "{} may be written to swap devices now, {:.0} % of requests are withheld.",
                    number::bytes(bytes),
                    status.write_scarcity * 100.0
                ),
                None => String::new(),
            },
        ),
        KeyFigure::new(
            format!("{:.1} µs", status.return_cost_us),
            "per refault",
            measured.to_owned(),
        ),
        KeyFigure::new(
            format!("{:.2} s", status.own_cpu_us as f64 / 1e6),
            "of CPU time so far",
            format!("Reclaim itself, in the kernel: {:.2} s.", status.reclaim_cpu_us as f64 / 1e6),
        ),
    ]
}

fn signed_bytes(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", number::bytes(bytes.unsigned_abs()))
}

fn containers(status: &Status) -> Table {
    let columns = vec![
        Column::text("cgroup"),
        Column::text("profile"),
        Column::text("by"),
        Column::number("current"),
        Column::number("in swap"),
        Column::number("idle"),
        Column::number("taken"),
        Column::number("back"),
        Column::number("pressure"),
        Column::text("now"),
    ];
    Table {
        columns,
        rows: status.cgroups.iter().map(row).collect(),
        notes: vec![
            "Pressure: the largest of memory, io and returned (refaults times their cost), as a \
             share of the last period."
                .to_owned(),
        ],
        ..Table::default()
    }
}

fn row(cgroup: &CgroupStatus) -> Vec<Cell> {
    let pressure = cgroup.pressure.governing().1;
    let now = match (cgroup.trouble.as_str(), cgroup.reason.as_str()) {
        ("", "") => "reclaiming".to_owned(),
        ("", reason) => reason.to_owned(),
        (trouble, _) => trouble.to_owned(),
    };
    vec![
        cgroup.path.clone().into(),
        format!("{} (rule {})", cgroup.profile, cgroup.rule).into(),
        cgroup.means.clone().into(),
        number::bytes(cgroup.current_bytes).into(),
        number::bytes(cgroup.swap_bytes).into(),
        cgroup.idle_bytes.map_or("unknown".to_owned(), number::bytes).into(),
        number::bytes(cgroup.taken_bytes).into(),
        number::bytes(cgroup.returned_bytes).into(),
        format!("{:.3} % {}", pressure * 100.0, cgroup.governing).into(),
        Cell::toned(now, if cgroup.trouble.is_empty() { Tone::Plain } else { Tone::Bad }),
    ]
}

/// Figures 2, 3 and 4 of the TMO paper, for these containers.
pub fn profile(source: Option<&str>, host_bytes: u64, profiled: &[Profiled]) -> Report {
    let section = |heading: &str, table: Table| Section::of_table(heading.to_owned(), table);
    let mut sections = Vec::new();
    if source.is_some() {
        sections.push(section("Coldness", coldness(profiled)));
    }
    sections.push(section("Anonymous memory and page cache", kinds(host_bytes, profiled)));
    if profiled.iter().any(|each| each.tax) {
        sections.push(section("Memory tax", tax(host_bytes, profiled)));
    }
    let subtitle = match source {
        Some(source) => format!("ages by {source}"),
        None => "without ages".to_owned(),
    };
    Report {
        title: "Memory by use and age".to_owned(),
        subtitle,
        generated_by: format!("prairie {}", env!("CARGO_PKG_VERSION")),
        sections,
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", part as f64 / whole.max(1) as f64 * 100.0)
}

/// Figure 2.
fn coldness(profiled: &[Profiled]) -> Table {
    let columns = vec![
        Column::text("cgroup"),
        Column::number("1 minute"),
        Column::number("2 minutes"),
        Column::number("5 minutes"),
        Column::number("cold"),
        Column::number("cold").with_unit("%"),
        Column::number("working set"),
    ];
    let row = |each: &Profiled| {
        let coldness = each.coldness?;
        let total = coldness.total_bytes();
        Some(vec![
            each.cgroup.clone().into(),
            number::bytes(coldness.one_minute_bytes).into(),
            number::bytes(coldness.two_minutes_bytes).into(),
            number::bytes(coldness.five_minutes_bytes).into(),
            number::bytes(coldness.cold_bytes).into(),
            percent(coldness.cold_bytes, total).into(),
            number::bytes(total - coldness.cold_bytes).into(),
        ])
    };
    let note = "Time since the last access: within one minute, two, five, or longer (cold). The \
                working set is everything that is not cold.";
    Table {
        columns,
        rows: profiled.iter().filter_map(row).collect(),
        notes: vec![note.to_owned()],
        ..Table::default()
    }
}

/// Figure 4.
fn kinds(host_bytes: u64, profiled: &[Profiled]) -> Table {
    let columns = vec![
        Column::text("cgroup"),
        Column::number("memory"),
        Column::number("of the host").with_unit("%"),
        Column::number("anonymous"),
        Column::number("anonymous").with_unit("%"),
        Column::number("page cache"),
        Column::number("page cache").with_unit("%"),
    ];
    let row = |each: &Profiled| {
        let both = each.anon_bytes.saturating_add(each.file_bytes);
        vec![
            each.cgroup.clone().into(),
            number::bytes(each.current_bytes).into(),
            percent(each.current_bytes, host_bytes).into(),
            number::bytes(each.anon_bytes).into(),
            percent(each.anon_bytes, both).into(),
            number::bytes(each.file_bytes).into(),
            percent(each.file_bytes, both).into(),
        ]
    };
    let note = "Shares of anonymous memory and page cache are of both together; a cgroup's total \
                also includes kernel memory.";
    Table {
        columns,
        rows: profiled.iter().map(row).collect(),
        notes: vec![note.to_owned()],
        ..Table::default()
    }
}

/// Figure 3.
fn tax(host_bytes: u64, profiled: &[Profiled]) -> Table {
    let sum = |tax: bool| -> u64 {
        let named = profiled.iter().filter(|each| each.tax == tax);
        named.map(|each| each.current_bytes).fold(0, u64::saturating_add)
    };
    let row = |name: &str, bytes: u64| {
        vec![name.into(), number::bytes(bytes).into(), percent(bytes, host_bytes).into()]
    };
    Table {
        columns: vec![
            Column::text("memory"),
            Column::number("size"),
            Column::number("of the host").with_unit("%"),
        ],
        rows: vec![row("tax", sum(true)), row("other named cgroups", sum(false))],
        notes: vec![
            "Tax: the cgroups named by `--tax`, such as package management, logging, profiling, \
             routing, proxies. On Meta's servers it takes 20 % of memory."
                .to_owned(),
        ],
        ..Table::default()
    }
}
