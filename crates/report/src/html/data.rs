//! The data of the page's script: charts and maps as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

use crate::chart::{Aligned, Axis, BarChart, LineChart, Shape, Unit};
use crate::map::{MapBody, MemoryMap};
use crate::palette;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Data<'a> {
    Lines {
        x: AxisData<'a>,
        y: AxisData<'a>,
        shape: Shape,
        xs: &'a [f64],
        ys: &'a [Vec<Option<f64>>],
        series: Vec<&'a str>,
        colors: Vec<[String; 2]>,
        dashes: Vec<&'static [u8]>,
    },
    Bars {
        x: AxisData<'a>,
        y: AxisData<'a>,
        categories: &'a [String],
        ys: Vec<&'a [f64]>,
        series: Vec<&'a str>,
        colors: Vec<[String; 2]>,
    },
}

#[derive(Serialize)]
struct AxisData<'a> {
    label: &'a str,
    unit: Unit,
    range: Option<(f64, f64)>,
}

impl<'a> From<&'a Axis> for AxisData<'a> {
    fn from(axis: &'a Axis) -> AxisData<'a> {
        let range =
            axis.range.filter(|(low, high)| low.is_finite() && high.is_finite() && low < high);
        AxisData { label: &axis.label, unit: axis.unit, range }
    }
}

pub fn lines(chart: &LineChart, aligned: &Aligned) -> String {
    embedded(&Data::Lines {
        x: AxisData::from(&chart.x),
        y: AxisData::from(&chart.y),
        shape: chart.shape,
        xs: &aligned.xs,
        ys: &aligned.ys,
        series: chart.series.iter().map(|s| s.name.as_str()).collect(),
        colors: colors(chart.series.len()),
        dashes: (0..chart.series.len()).map(palette::dashes).collect(),
    })
}

/// A value that is not finite becomes `null`, because JSON cannot express it.
pub fn bars(chart: &BarChart) -> String {
    embedded(&Data::Bars {
        x: AxisData::from(&chart.x),
        y: AxisData::from(&chart.y),
        categories: &chart.categories,
        ys: chart.series.iter().map(|s| s.values.as_slice()).collect(),
        series: chart.series.iter().map(|s| s.name.as_str()).collect(),
        colors: colors(chart.series.len()),
    })
}

fn colors(series: usize) -> Vec<[String; 2]> {
    let both = |paint: palette::Paint| [paint.light.hex(), paint.dark.hex()];
    (0..series).map(palette::series).map(both).collect()
}

/// The position of each cell of a drawn map, and its frames.
#[derive(Serialize)]
struct MapData<'a> {
    cells: usize,
    columns: usize,
    /// Pixels to a cell.
    size: f64,
    top: f64,
    frames: u64,
    /// (first frame, cells) of each segment.
    segments: Vec<(u64, usize)>,
    zones: Vec<(&'a str, u64, u64)>,
    classes: Vec<&'a str>,
    /// The curve's steps, two bits each, four to a byte from the lowest bits, in base 64.
    moves: String,
}

pub fn map(map: &MemoryMap, body: &MapBody) -> String {
    let mut moves = vec![0u8; map.len().div_ceil(4)];
    for (cell, step) in body.layout.moves().enumerate() {
        moves[cell / 4] |= step << (cell % 4 * 2);
    }
    embedded(&MapData {
        cells: map.len(),
        columns: body.layout.columns,
        size: body.cell,
        top: body.top,
        frames: map.frames_per_cell,
        segments: map.segments.iter().map(|s| (s.start_pfn, s.cells.len())).collect(),
        zones: map.zones.iter().map(|z| (z.label.as_str(), z.start_pfn, z.end_pfn)).collect(),
        classes: map.classes.iter().map(|class| class.name.as_str()).collect(),
        moves: BASE64.encode(moves),
    })
}

/// JSON that can stand inside a script element: without `<` nothing there can end the element.
pub fn embedded(value: &impl Serialize) -> String {
    // These are plain structs with text keys: nothing that JSON cannot hold.
    let json = serde_json::to_string(value).expect("plain data is valid JSON");
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::BarSeries;

    #[test]
    fn a_name_cannot_end_the_script_it_stands_in() {
        let chart = BarChart {
            categories: vec!["</script><script>alert(1)</script><!--".into()],
            series: vec![BarSeries { name: "a".into(), values: vec![f64::NAN] }],
            ..BarChart::default()
        };
        let json = bars(&chart);
        assert!(!json.contains('<'));
        let back: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["categories"][0], "</script><script>alert(1)</script><!--");
        assert_eq!(back["ys"][0][0], serde_json::Value::Null);
    }
}
