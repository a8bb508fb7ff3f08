//! Potential contiguity by the share of pinned memory: the parameter that decides Figures 2 and 5,
//! and for which no source is known.

use std::error::Error;

use prairie_fleet::study::Study;

use crate::fleets::{GIB, mean, of, simulate, study};
use crate::numbers::Numbers;
use crate::picture::{Line, Panel, draw};
use experiments::document::{Document, moments, spread};

/// Pinned memory, in percent.
const PINS: [f64; 8] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0];
const SYSTEMS: [&str; 2] = ["linux", "contiguitas"];
const SIZES: [&str; 3] = ["2 MiB", "32 MiB", "1 GiB"];

/// The table, and the picture in `svg`.
pub fn measure(numbers: &mut Numbers, svg: Option<&str>) -> Result<Vec<Document>, Box<dyn Error>> {
    let (seeds, servers) = (numbers.next(5.0)? as u64, numbers.next(4.0)? as u64);
    let study = study(&SYSTEMS, vec![8 * GIB], numbers.next(0.5)?)?;
    let heads: Vec<String> =
        SYSTEMS.iter().flat_map(|system| SIZES.map(|size| format!("{system}, {size}"))).collect();
    let columns: Vec<&str> =
        std::iter::once("pinned memory, %").chain(heads.iter().map(String::as_str)).collect();
    let rounds = format!("{seeds} seeds of {servers} servers, mean ± standard deviation");
    let mut document = Document::new("fleet-pins", &columns, rounds);
    let mut lines = vec![Vec::new(); heads.len()];
    for pins in PINS {
        let workloads = study.workloads.iter().cloned();
        let workloads = workloads.map(|workload| workload.with_pinned_share(pins / 100.0));
        let study = Study { workloads: workloads.collect::<Result<_, _>>()?, ..study.clone() };
        let fleets = simulate(&study, seeds, servers, None)?;
        let potential = |at: usize| -> Vec<f64> {
            let (system, size) = (SYSTEMS[at / SIZES.len()], at % SIZES.len());
            let one = |fleet| mean(&of(fleet, system), |row| row.potential()[size] * 100.0);
            fleets.iter().map(|fleet| one(fleet.as_slice())).collect()
        };
        let columns: Vec<Vec<f64>> = (0..heads.len()).map(potential).collect();
        for (line, values) in lines.iter_mut().zip(&columns) {
            let (mean, deviation) = moments(values);
            line.push((pins, mean, deviation));
        }
        document.row(format!("{pins}"), columns.iter().map(|values| spread(values)));
    }
    if let Some(path) = svg {
        let panel = |(size, title): (usize, &&str)| {
            let line = |(system, name): (usize, &&str)| Line {
                name: (*name).to_owned(),
                points: lines[system * SIZES.len() + size].clone(),
            };
            let lines = SYSTEMS.iter().enumerate().map(line).collect();
            Panel { title: format!("Potential contiguity at {title}"), lines }
        };
        let panels: Vec<Panel> = SIZES.iter().enumerate().map(panel).collect();
        std::fs::write(path, draw(&panels))?;
    }
    Ok(vec![document])
}
