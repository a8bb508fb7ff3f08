//! Rows of series, x and y as a picture.
//!
//! ```text
//! cargo run -p experiments --bin curve -- ROWS.csv PICTURE.svg "TITLE" "X" "Y" [LOW HIGH]
//! ```
//!
//! The first line names the columns and is passed over; a series' name stands in double quotes. LOW
//! and HIGH are the ends of the vertical axis.

use std::path::Path;

use prairie_report::{Axis, LineChart, Series, Theme, Unit, write_atomically};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, picture, title, x, y, ends @ ..] = &arguments[..] else {
        return Err("expected ROWS.csv PICTURE.svg TITLE X Y [LOW HIGH]".into());
    };
    let text = std::fs::read_to_string(rows).map_err(|error| format!("{rows}: {error}"))?;
    let mut series: Vec<Series> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let wrong = || format!("{rows}, line {}: expected \"series\",x,y", number + 1);
        let (name, point) = line.rsplit_once("\",").ok_or_else(wrong)?;
        let (x, y) = point.split_once(',').ok_or_else(wrong)?;
        let point = (x.parse()?, y.parse()?);
        let name = name.trim_start_matches('"');
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: name.into(), points: vec![point] }),
        }
    }
    let mut y = Axis::new(y.as_str(), Unit::Number);
    if let [low, high] = ends {
        y = y.within(low.parse()?, high.parse()?);
    }
    let chart = LineChart {
        title: title.clone(),
        x: Axis::new(x.as_str(), Unit::Count),
        y,
        series,
        ..LineChart::default()
    };
    write_atomically(Path::new(picture), chart.svg(Theme::Auto).as_bytes())?;
    Ok(())
}
