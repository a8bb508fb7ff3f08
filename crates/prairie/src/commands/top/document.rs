//! What `prairie top --once --json` prints.

use std::collections::BTreeMap;

use prairie_observe::summary::{RegionsRow, ZoneRow, integer_columns, is_counter};
use prairie_offload::status::Status;
use serde::Serialize;
use serde_json::Value;

use crate::commands::log;
use crate::output::Header;
use crate::view::stalls::{self, Observation};
use crate::view::top::{Containers, Stalling, State};

/// One screen.
#[derive(Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    host: &'a str,
    kernel_release: &'a str,
    /// As a row of `prairie log show --json`.
    figures: Value,
    /// How fast each counter of the figures rose, a second.
    rates: BTreeMap<&'a str, f64>,
    /// The free lists.
    zones: &'a [ZoneRow],
    /// The regions of a kernel with a movable border.
    regions: &'a [RegionsRow],
    /// As of `prairie stalls --json`.
    stalls: Option<stalls::Document<'a>>,
    /// As of `prairie offload status --json`.
    containers: Option<&'a Status>,
    /// What is missing, and why.
    left_out: Vec<&'a str>,
}

/// The document of a state; `observation` is its stalls.
pub fn document<'a>(state: &'a State, observation: Option<&'a Observation>) -> Document<'a> {
    let counters = integer_columns().iter().filter(|column| is_counter(column));
    let rates = counters.filter_map(|column| Some((column.as_str(), state.rate(column)?)));
    let live = state.live.as_ref();
    let mut left_out: Vec<&str> =
        live.iter().flat_map(|live| &live.left_out).map(String::as_str).collect();
    let containers = live.and_then(|live| match &live.containers {
        Containers::Status(status) => Some(&**status),
        Containers::None(why) => {
            left_out.push(why);
            None
        }
    });
    if let Some(Stalling::None(why)) = live.map(|live| &live.stalls) {
        left_out.push(why);
    }
    Document {
        header: Header::new("prairie-top", 1),
        host: &state.host,
        kernel_release: &state.kernel_release,
        figures: log::row(&state.now),
        rates: rates.collect(),
        zones: &state.now.zones,
        regions: &state.now.regions,
        stalls: observation.map(stalls::document),
        containers,
        left_out,
    }
}

/// The stalls of a state, as `prairie stalls` has them.
pub fn observation(state: &State) -> Option<Observation> {
    match &state.live.as_ref()?.stalls {
        Stalling::Since(stalls) => Some(Observation {
            stalls: (**stalls).clone(),
            missing: Vec::new(),
            advice: Vec::new(),
            source: None,
            command: Vec::new(),
        }),
        Stalling::None(_) => None,
    }
}
