//! The native half of the Python module `prairie`.
//!
//! It calls the command's own code ([`prairie::ask`]), so that results equal those of `--json`.
//! Everything that can be said in Python is in `python/prairie`; here are tables that other
//! libraries read without copying (`table`), traces (`trace`), and policies (`policy`).

mod answer;
mod ask;
mod core;
mod error;
mod policy;
mod schemas;
mod table;
mod trace;

use pyo3::prelude::*;

/// Runs the command `prairie` and returns its exit code.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    // Python's own handlers would wait for bytecode that never runs.
    py.detach(|| {
        let code = prairie::main(arguments);
        (0..=u8::MAX).find(|&number| code == number.into()).unwrap_or(1)
    })
}

/// Where the results of a call come from that reads no files of its own, as JSON.
#[pyfunction]
fn provenance(called_as: String) -> PyResult<String> {
    let block = prairie::called(called_as, Vec::new()).block();
    serde_json::to_string(&block).map_err(|error| error::PrairieError::new_err(error.to_string()))
}

#[pymodule]
fn _prairie(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("PrairieError", py.get_type::<error::PrairieError>())?;
    module.add("PolicyError", py.get_type::<error::PolicyError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ASK", prairie_frames::placement::custom::ASK)?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<trace::TraceFile>()?;
    module.add_class::<trace::Batches>()?;
    module.add_class::<core::Core>()?;
    module.add_class::<core::Region>()?;
    module.add_class::<core::FreeList>()?;
    module.add_class::<core::Request>()?;
    module.add_class::<core::Requests>()?;
    module.add_class::<core::Block>()?;
    module.add_function(wrap_pyfunction!(ask::ask, module)?)?;
    module.add_function(wrap_pyfunction!(provenance, module)?)?;
    module.add_function(wrap_pyfunction!(schemas::schema, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)
}
