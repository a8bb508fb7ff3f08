//! The schemas of the documents that the module's calls return.

use pyo3::prelude::*;

macro_rules! schemas {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../schemas/", $name, ".json")))),*]
    };
}

static SCHEMAS: [(&str, &str); 7] = schemas![
    "prairie-fleet",
    "prairie-fleet-hosts",
    "prairie-heap-playback",
    "prairie-lab-run",
    "prairie-replay",
    "prairie-seeds",
    "prairie-survey",
];

/// The JSON schema of a kind of document; None for one that no call returns.
#[pyfunction]
pub fn schema(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
