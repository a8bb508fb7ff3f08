//! Who allocates unmovable memory, as a report: summary, sources, processes, call chains.

use prairie_frames::Order;
use prairie_report::{
    Block, Cell, Column, Definition, KeyFigure, Report, Section, Table, Tone, number,
};
use prairie_trace::sources::{StackUsage, Usage};
use prairie_trace::{Metadata, Sources};

/// Functions of a chain that are shown, from the allocation outwards.
const FUNCTIONS: usize = 12;

/// Chains that are shown for each source.
const CHAINS: usize = 3;

/// Innermost functions that every chain has: the page allocator's own. They are not shown.
const ALLOCATOR: [&str; 8] = [
    "get_page_from_freelist",
    "__alloc_pages",
    "__alloc_frozen_pages",
    "alloc_pages",
    "alloc_frozen_pages",
    "get_free_pages",
    "__folio_alloc",
    "post_alloc_hook",
];

/// The report on the sources of a recording. `top` limits the sources, processes, and chains of
/// unknown source listed.
pub fn report(sources: &Sources, metadata: &Metadata, top: usize, generated_by: String) -> Report {
    let page_bytes = metadata.page_bytes;
    let view = View { sources, page_bytes, top };
    let mut sections = vec![view.summary()];
    if sources.has_stacks {
        sections.push(view.by_source());
    }
    sections.push(view.by_process());
    if sources.has_stacks {
        sections.push(view.chains());
    }
    sections.extend(view.unknown());
    sections.push(definitions());
    Report {
        title: "Allocators of unmovable memory".to_owned(),
        subtitle: subtitle(sources, metadata),
        generated_by,
        sections,
    }
}

fn subtitle(sources: &Sources, metadata: &Metadata) -> String {
    let kernel = match metadata.kernel_release.as_str() {
        "" => String::new(),
        release => format!("Linux {release}, "),
    };
    let events = number::counted(metadata.events, "event");
    format!("{kernel}{events} in {}", number::duration(sources.duration_ns))
}

struct View<'a> {
    sources: &'a Sources,
    page_bytes: u64,
    top: usize,
}

impl View<'_> {
    fn size(&self, frames: u64) -> String {
        number::bytes(frames.saturating_mul(self.page_bytes))
    }

    fn summary(&self) -> Section {
        let total = &self.sources.total;
        let mut figures = vec![
            KeyFigure::new(
                self.size(total.frames_allocated),
                "of unmovable and reclaimable memory was allocated",
                format!(
                    "In {}; {} of it is reclaimable by shrinkers.",
                    number::counted(total.allocations, "block"),
                    number::percent(share(total.frames_reclaimable, total.frames_allocated)),
                ),
            ),
            KeyFigure::new(
                self.size(total.frames_held),
                "of it was still in use at the end",
                "Long-lived frames pollute pageblocks.".to_owned(),
            ),
            KeyFigure::new(
                lifetime(total),
                "mean lifetime of freed memory",
                "From allocation to free.".to_owned(),
            ),
        ];
        if self.sources.has_stacks
            && let Some(first) = self.sources.by_source.first()
        {
            let definition =
                format!("{} at the end of the recording.", self.size(first.frames_held));
            figures.push(KeyFigure::new(source(first), "holds the most", definition));
        }
        let mut blocks = vec![Block::KeyFigures(figures)];
        blocks.extend(self.cautions().into_iter().map(Block::Warning));
        Section { heading: "Summary".to_owned(), intro: String::new(), blocks }
    }

    /// Limits of the data.
    fn cautions(&self) -> Vec<String> {
        let sources = self.sources;
        let mut cautions = Vec::new();
        if !sources.has_stacks {
            cautions.push(
                "This recording has no call chains, so the parts of the kernel cannot be told \
                 apart. Record with `prairie record --stacks`."
                    .to_owned(),
            );
        }
        if sources.lost_events > 0 {
            cautions.push(format!(
                "{} events were lost while recording: allocations are missing, and what looks \
                 held may have been freed. Record with a larger `--ring`.",
                number::count(sources.lost_events),
            ));
        }
        if sources.frees_missing > 0 {
            cautions.push(format!(
                "{} blocks were allocated again without a recorded free.",
                number::count(sources.frees_missing),
            ));
        }
        cautions
    }

    fn by_source(&self) -> Section {
        let intro = "Each allocation counts to the innermost function of its call chain that says \
                     anything. Allocators that hand memory on, as slab does, say on whose behalf.";
        Section {
            heading: "By source".to_owned(),
            intro: intro.to_owned(),
            blocks: vec![Block::Table(self.usages("source", &self.sources.by_source))],
        }
    }

    fn by_process(&self) -> Section {
        let intro = "By the process that ran at that moment. Interrupts run on behalf of no \
                     process and count to whoever they interrupted.";
        Section {
            heading: "By process".to_owned(),
            intro: intro.to_owned(),
            blocks: vec![Block::Table(self.usages("process", &self.sources.by_process))],
        }
    }

    fn usages(&self, what: &str, usages: &[Usage]) -> Table {
        let all_held = self.sources.total.frames_held;
        let row = |usage: &Usage| {
            vec![
                Cell::toned(source(usage), Tone::Strong),
                self.size(usage.frames_held).into(),
                number::percent(share(usage.frames_held, all_held)).into(),
                self.size(usage.frames_allocated).into(),
                number::count(usage.allocations).into(),
                number::percent(share(usage.frames_reclaimable, usage.frames_allocated)).into(),
                lifetime(usage).into(),
            ]
        };
        let (shown, rest) = usages.split_at(self.top.min(usages.len()));
        let mut notes = Vec::new();
        if !rest.is_empty() {
            let held = rest.iter().map(|usage| usage.frames_held).sum();
            notes.push(format!(
                "Not shown (--top): {} more, with {} held at the end.",
                number::count(rest.len() as u64),
                self.size(held),
            ));
        }
        Table {
            title: String::new(),
            columns: vec![
                Column::text(what),
                Column::number("held at the end"),
                Column::number("share of held"),
                Column::number("allocated"),
                Column::number("allocations"),
                Column::number("reclaimable").with_unit("of allocated"),
                Column::number("mean lifetime").with_unit("of freed memory"),
            ],
            rows: shown.iter().map(row).collect(),
            notes,
        }
    }

    fn chains(&self) -> Section {
        let shown = self.sources.by_source.iter().take(self.top);
        let rows = shown.flat_map(|usage| {
            usage.top_stacks.iter().take(CHAINS).map(move |stack| self.chain(source(usage), stack))
        });
        let intro = "For each source the call chains that hold the most memory, innermost function \
                     first.";
        Section {
            heading: "Call chains".to_owned(),
            intro: intro.to_owned(),
            blocks: vec![Block::Table(chain_table(rows.collect()))],
        }
    }

    fn chain(&self, name: String, stack: &StackUsage) -> Vec<Cell> {
        vec![
            Cell::toned(name, Tone::Strong),
            self.size(stack.frames_held).into(),
            self.size(stack.frames_allocated).into(),
            innermost_first(&stack.folded).into(),
        ]
    }

    fn unknown(&self) -> Option<Section> {
        if self.sources.unknown.is_empty() {
            return None;
        }
        let all = &self.sources.unknown;
        let rows = all.iter().take(self.top);
        let rows = rows.map(|stack| self.chain(Sources::UNKNOWN.to_owned(), stack)).collect();
        let intro = format!(
            "No function of these {} chains is in Prairie's table of sources.",
            number::count(all.len() as u64)
        );
        Some(Section {
            heading: "Call chains of unknown source".to_owned(),
            intro,
            blocks: vec![Block::Table(chain_table(rows))],
        })
    }
}

fn chain_table(rows: Vec<Vec<Cell>>) -> Table {
    Table::new(
        vec![
            Column::text("source"),
            Column::number("held"),
            Column::number("allocated"),
            Column::text("call chain"),
        ],
        rows,
    )
}

/// `slab, for network`.
fn source(usage: &Usage) -> String {
    match &usage.behalf {
        Some(behalf) => format!("{}, for {behalf}", usage.name),
        None => usage.name.clone(),
    }
}

fn lifetime(usage: &Usage) -> String {
    usage.mean_lifetime_ns.map_or_else(|| number::NONE.to_owned(), number::duration)
}

/// `part / whole`, and 0 for nothing of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A folded stack, innermost function first, without the page allocator's own functions and
/// truncated.
fn innermost_first(folded: &str) -> String {
    let allocators_own = |function: &&str| ALLOCATOR.iter().any(|own| function.starts_with(own));
    let functions: Vec<&str> = folded.split(';').rev().skip_while(allocators_own).collect();
    let shown = functions.len().min(FUNCTIONS);
    let text = functions[..shown].join(" ← ");
    if shown < functions.len() { text + " ← …" } else { text }
}

fn definitions() -> Section {
    let block = number::bytes(Order::HUGE.bytes());
    let entries = [
        (
            "Unmovable memory",
            format!(
                "Allocations that are not `__GFP_MOVABLE`: the kernel's own. One such frame keeps \
                 its {block} block from ever becoming a huge page."
            ),
        ),
        (
            "Reclaimable",
            "Allocations with `__GFP_RECLAIMABLE`: caches that a shrinker can free, such as inodes \
             and directory entries. They cannot be moved."
                .to_owned(),
        ),
        (
            "Held at the end",
            "Allocated during the recording and not freed in it. Earlier allocations have no known \
             source and are not counted."
                .to_owned(),
        ),
    ];
    let definition =
        |(term, meaning): (&str, String)| Definition { term: term.to_owned(), meaning };
    Section {
        heading: "Definitions".to_owned(),
        intro: String::new(),
        blocks: vec![Block::Definitions(entries.map(definition).into())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_from_the_allocation_outwards() {
        assert_eq!(
            innermost_first("entry;open;allocate_slab;alloc_pages_noprof;__alloc_pages"),
            "allocate_slab ← open ← entry"
        );
        assert_eq!(innermost_first(""), "");
        let long = (0..20).map(|i| format!("f{i}")).collect::<Vec<_>>().join(";");
        let shown = innermost_first(&long);
        assert!(shown.starts_with("f19 ← f18") && shown.ends_with("f8 ← …"), "{shown}");
    }
}
