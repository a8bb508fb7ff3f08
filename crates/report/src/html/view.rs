//! A report as the template sees it: text cut into spans, drawings made, data as JSON.

use prairie_provenance::Provenance;
use serde::Serialize;

use super::data;
use crate::chart::align;
use crate::document::{Block, Report, Section};
use crate::map::{MapError, MapSheet, MemoryMap, body};
use crate::number;
use crate::palette::Theme;
use crate::table::{Align, Table, Tone};

/// Everything that the template uses.
#[derive(Serialize)]
pub struct Page {
    #[serde(flatten)]
    pub report: ReportView,
    pub policy: String,
    pub style: String,
    pub uplot: &'static str,
    pub script: &'static str,
}

#[derive(Serialize)]
pub struct ReportView {
    title: String,
    subtitle: Spans,
    generated_by: String,
    made_by: Spans,
    sections: Vec<SectionView>,
    /// Where the report comes from; empty where that is not known.
    provenance: Vec<ProvenanceView>,
    provenance_json: String,
}

#[derive(Serialize)]
struct ProvenanceView {
    name: &'static str,
    value: String,
}

#[derive(Serialize)]
struct SectionView {
    id: String,
    heading: Spans,
    intro: Vec<Spans>,
    blocks: Vec<BlockView>,
}

/// A line of prose split into text and code.
type Spans = Vec<Span>;

#[derive(Debug, PartialEq, Serialize)]
struct Span {
    code: bool,
    text: String,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum BlockView {
    Text { text: Vec<Spans> },
    Note { text: Vec<Spans> },
    Warning { text: Vec<Spans> },
    Figures { figures: Vec<FigureView> },
    Definitions { entries: Vec<EntryView> },
    Table(TableView),
    Chart(ChartView),
    Maps(MapsView),
}

#[derive(Serialize)]
struct FigureView {
    value: String,
    label: String,
    definition: Spans,
}

#[derive(Serialize)]
struct EntryView {
    term: Spans,
    meaning: Spans,
}

#[derive(Serialize)]
struct TableView {
    title: Spans,
    /// The title for readers who hear it.
    label: String,
    columns: Vec<ColumnView>,
    rows: Vec<Vec<CellView>>,
    notes: Vec<Spans>,
}

#[derive(Serialize)]
struct ColumnView {
    heading: Spans,
    unit: String,
    right: bool,
}

#[derive(Serialize)]
struct CellView {
    text: Spans,
    right: bool,
    tone: &'static str,
    class: String,
}

#[derive(Serialize)]
struct ChartView {
    id: String,
    title: Spans,
    caption: Vec<Spans>,
    x_label: String,
    y_label: String,
    aria: String,
    note: String,
    json: String,
    table: TableView,
}

#[derive(Serialize)]
struct MapsView {
    title: String,
    subtitle: String,
    maps: Vec<MapView>,
    legend: Vec<LegendView>,
    scale: String,
    /// Whether any class says what it is.
    defined: bool,
}

#[derive(Serialize)]
struct MapView {
    title: String,
    subtitle: String,
    width: f64,
    height: f64,
    /// How wide it may be stretched.
    widest: f64,
    alt: String,
    svg: String,
    json: String,
}

#[derive(Serialize)]
struct LegendView {
    name: String,
    light: String,
    dark: String,
    definition: Spans,
    sizes: Vec<SizeView>,
}

#[derive(Serialize)]
struct SizeView {
    bytes: String,
    share: String,
}

/// The report with the block of where it comes from.
pub fn report(report: &Report, provenance: Option<&Provenance>) -> Result<ReportView, MapError> {
    let sections = report.sections.iter().enumerate().map(section);
    Ok(ReportView {
        title: report.title.clone(),
        subtitle: spans(&report.subtitle),
        generated_by: report.generated_by.clone(),
        made_by: spans(&report.generated_by),
        sections: sections.collect::<Result<_, _>>()?,
        provenance: provenance.map(entries).unwrap_or_default(),
        provenance_json: provenance.map(data::embedded).unwrap_or_default(),
    })
}

/// The block of provenance as names and values.
fn entries(provenance: &Provenance) -> Vec<ProvenanceView> {
    let unknown = || "unknown".to_owned();
    let entry = |name, value| ProvenanceView { name, value };
    let mut entries = vec![
        entry("Command", provenance.command.clone()),
        entry("Version", provenance.version.clone()),
        entry("Commit", provenance.commit.clone().unwrap_or_else(unknown)),
        entry("Host", provenance.host.clone().unwrap_or_else(unknown)),
        entry("Kernel", provenance.kernel.clone().unwrap_or_else(unknown)),
    ];
    let input = |input: &prairie_provenance::Input| {
        entry(
            "Input",
            format!("{} ({}, SHA-256 {})", input.path, number::bytes(input.bytes), input.sha256),
        )
    };
    entries.extend(provenance.inputs.iter().map(input));
    entries.extend(provenance.seed.map(|seed| entry("Random seed", seed.to_string())));
    entries
}

fn section((i, section): (usize, &Section)) -> Result<SectionView, MapError> {
    let id = format!("section-{}", i + 1);
    let blocks = section.blocks.iter().enumerate();
    Ok(SectionView {
        heading: spans(&section.heading),
        intro: paragraphs(&section.intro),
        blocks: blocks
            .map(|(j, b)| block(b, format!("{id}-{}", j + 1)))
            .collect::<Result<_, _>>()?,
        id,
    })
}

fn block(block: &Block, id: String) -> Result<BlockView, MapError> {
    Ok(match block {
        Block::Text(text) => BlockView::Text { text: paragraphs(text) },
        Block::Note(text) => BlockView::Note { text: paragraphs(text) },
        Block::Warning(text) => BlockView::Warning { text: paragraphs(text) },
        Block::Table(shown) => BlockView::Table(table(shown)),
        Block::Maps(sheet) => BlockView::Maps(maps(sheet)?),
        Block::KeyFigures(figures) => {
            let view = |f: &crate::KeyFigure| FigureView {
                value: f.value.clone(),
                label: f.label.clone(),
                definition: spans(&f.definition),
            };
            BlockView::Figures { figures: figures.iter().map(view).collect() }
        }
        Block::Definitions(definitions) => {
            let view = |d: &crate::Definition| EntryView {
                term: spans(&d.term),
                meaning: spans(&d.meaning),
            };
            BlockView::Definitions { entries: definitions.iter().map(view).collect() }
        }
        Block::LineChart(chart) => {
            let aligned = align(chart);
            BlockView::Chart(ChartView {
                id,
                title: spans(&chart.title),
                caption: paragraphs(&chart.caption),
                x_label: chart.x.label.clone(),
                y_label: chart.y.label.clone(),
                aria: aria(&chart.title),
                note: if aligned.is_thinned() { aligned.note() } else { String::new() },
                json: data::lines(chart, &aligned),
                table: table(&chart.table()),
            })
        }
        Block::BarChart(chart) => BlockView::Chart(ChartView {
            id,
            title: spans(&chart.title),
            caption: paragraphs(&chart.caption),
            x_label: chart.x.label.clone(),
            y_label: chart.y.label.clone(),
            aria: aria(&chart.title),
            note: String::new(),
            json: data::bars(chart),
            table: table(&chart.table()),
        }),
    })
}

fn aria(title: &str) -> String {
    format!(
        "Chart: {}. Arrow keys read values, plus and minus zoom, Escape shows the whole \
         range; the figures are in a table below.",
        title.replace('`', "")
    )
}

fn table(shown: &Table) -> TableView {
    let column = |column: &crate::Column| ColumnView {
        heading: spans(&column.heading),
        unit: column.unit.clone(),
        right: column.align == Align::Right,
    };
    let cell = |(column, cell): (&crate::Column, crate::Cell)| {
        let right = column.align == Align::Right;
        let tone = match cell.tone {
            Tone::Plain => "",
            Tone::Strong => "strong",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Muted => "muted",
        };
        let class = if right { format!("n {tone}") } else { tone.to_owned() };
        CellView { text: spans(&cell.text), right, tone, class: class.trim_end().to_owned() }
    };
    TableView {
        title: spans(&shown.title),
        label: shown.title.replace('`', ""),
        columns: shown.columns.iter().map(column).collect(),
        rows: shown.rows.iter().map(|row| shown.cells(row).map(cell).collect()).collect(),
        notes: shown.notes.iter().map(|note| spans(note)).collect(),
    }
}

fn maps(sheet: &MapSheet) -> Result<MapsView, MapError> {
    sheet.validate()?;
    // Each map is drawn about as wide as it will stand, so that its labels keep their size.
    let width = match sheet.maps.len() {
        1 => 980.0,
        2 => 450.0,
        _ => 300.0,
    };
    let strip = sheet.has_labels_above(width);
    let map = |map: &MemoryMap| {
        let drawn = body(map, (width, sheet.aspect()), strip, Theme::Auto);
        MapView {
            title: map.title.clone(),
            subtitle: map.subtitle.clone(),
            width: drawn.width,
            height: drawn.height,
            widest: drawn.width * 1.35,
            alt: format!("Map of physical memory. {}", map.description()),
            json: data::map(map, &drawn),
            svg: drawn.svg,
        }
    };
    let entry = |entry: crate::map::LegendEntry| {
        let paint = entry.class.paint.unwrap_or(crate::palette::GROUND);
        let size = |s: &crate::map::ClassSize| SizeView {
            bytes: number::bytes(s.bytes),
            share: number::percent(s.share),
        };
        LegendView {
            light: paint.light.hex(),
            dark: paint.dark.hex(),
            definition: spans(&entry.class.definition),
            sizes: entry.sizes.iter().map(size).collect(),
            name: entry.class.name,
        }
    };
    let legend: Vec<LegendView> = sheet.legend_entries().into_iter().map(entry).collect();
    Ok(MapsView {
        title: sheet.title.clone(),
        subtitle: sheet.subtitle.clone(),
        maps: sheet.maps.iter().map(map).collect(),
        defined: legend.iter().any(|entry| !entry.definition.is_empty()),
        legend,
        scale: sheet.scale_text(),
    })
}

fn paragraphs(text: &str) -> Vec<Spans> {
    text.split("\n\n").map(spans).filter(|spans| !spans.is_empty()).collect()
}

/// What stands between two backticks is code; a backtick without its fellow is itself.
fn spans(text: &str) -> Spans {
    let mut spans = Vec::new();
    let mut push = |code, text: &str| {
        if !text.is_empty() {
            spans.push(Span { code, text: text.to_owned() });
        }
    };
    let mut rest = text.trim();
    while let Some((before, code, after)) = rest
        .split_once('`')
        .and_then(|(before, rest)| rest.split_once('`').map(|(code, after)| (before, code, after)))
    {
        push(false, before);
        push(true, code);
        rest = after;
    }
    push(false, rest);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(bool, String)> {
        spans(text).into_iter().map(|span| (span.code, span.text)).collect()
    }

    #[test]
    fn cells_have_code() {
        let column = crate::Column::text("limit");
        let shown = table(&Table::new(vec![column], vec![vec!["of `vm.swappiness`".into()]]));
        let code = &shown.rows[0][0].text[1];
        assert_eq!((code.code, code.text.as_str()), (true, "vm.swappiness"));
    }

    #[test]
    fn backticks_set_code() {
        let expected = [(false, "from ".into()), (true, "/proc".into()), (false, " read".into())];
        assert_eq!(shown("from `/proc` read"), expected);
        assert_eq!(shown("a ` b"), [(false, "a ` b".into())]);
        assert!(shown("").is_empty());
        assert_eq!(paragraphs("one\n\n\n\ntwo").len(), 2);
    }
}
