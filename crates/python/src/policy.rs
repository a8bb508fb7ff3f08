//! A policy in Python as a policy of the core.

use std::sync::{Arc, Mutex};

use prairie_frames::placement::Request as FrameRequest;
use prairie_frames::placement::custom::{self, Custom, Freed};
use prairie_frames::{Layout, Pfn};
use prairie_replay::run::{Faults, Guest};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::core::{Block, Core, Request, Requests};

/// A policy's methods; those that it does not have are None.
#[derive(FromPyObject)]
pub struct Written {
    name: String,
    summary: String,
    boot: Option<Py<PyAny>>,
    allocate: Py<PyAny>,
    free: Option<Py<PyAny>>,
    tick: Option<Py<PyAny>>,
    allocate_many: Option<Py<PyAny>>,
}

/// The first exception that a policy raised.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// The exception.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().ok()?.take()
    }

    fn keep(&self, error: PyErr) {
        if let Ok(mut slot) = self.0.lock() {
            slot.get_or_insert(error);
        }
    }
}

/// The policy as a guest of a replay, on the calling thread.
pub fn guest(written: Written, raised: Raised) -> Guest {
    let faults = Arc::new(Faults::default());
    let (name, report) = (written.name.clone(), faults.clone());
    Guest {
        name: name.clone(),
        summary: written.summary.clone(),
        build: Box::new(move |layout| {
            let policy = PythonPolicy::new(layout, written, raised);
            Box::new(Custom::new(layout, &name, policy, report))
        }),
        stays: true,
        faults,
    }
}

struct PythonPolicy {
    methods: Written,
    raised: Raised,
    /// The object that Python sees. It has the core during a call, and one without memory
    /// otherwise.
    core: Result<Py<Core>, String>,
}

impl PythonPolicy {
    fn new(layout: &Layout, methods: Written, raised: Raised) -> PythonPolicy {
        let core = Python::attach(|py| Py::new(py, Core::idle(layout)));
        PythonPolicy { methods, raised, core: core.map_err(|error| error.to_string()) }
    }

    /// Calls a method with the core lent to it.
    fn call<T>(
        &self,
        core: &mut custom::Core,
        work: impl FnOnce(Python<'_>, &Written, &Py<Core>) -> PyResult<T>,
    ) -> Result<T, String> {
        let seen = self.core.as_ref().map_err(Clone::clone)?;
        Python::attach(|py| {
            seen.borrow_mut(py).exchange(core, true);
            let result = work(py, &self.methods, seen);
            seen.borrow_mut(py).exchange(core, false);
            result.map_err(|error| {
                let text = one_line(py, &error);
                self.raised.keep(error);
                text
            })
        })
    }
}

/// An exception as `ValueError: text`.
fn one_line(py: Python<'_>, error: &PyErr) -> String {
    let kind = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
    let text = error.value(py).str().map(|text| text.to_string()).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { kind } else { format!("{kind}: {text}") }
}

impl custom::Policy for PythonPolicy {
    fn boot(&mut self, core: &mut custom::Core) -> Result<(), String> {
        self.call(core, |py, methods, core| match &methods.boot {
            Some(boot) => boot.call1(py, (core,)).map(drop),
            None => Ok(()),
        })
    }

    fn allocate(
        &mut self,
        core: &mut custom::Core,
        request: &FrameRequest,
    ) -> Result<Option<Pfn>, String> {
        self.call(core, |py, methods, core| {
            let answer = methods.allocate.call1(py, (core, Request(*request)))?;
            let answer = answer.bind(py);
            if answer.is_none() {
                return Ok(None);
            }
            match answer.extract::<u64>() {
                Ok(frame) => Ok(Some(Pfn(frame))),
                Err(_) => Err(wrong_type("returned", answer, "a frame number or None")),
            }
        })
    }

    fn free(&mut self, core: &mut custom::Core, block: &Freed) -> Result<(), String> {
        if self.methods.free.is_none() {
            core.put_back(block);
            return Ok(());
        }
        self.call(core, |py, methods, core| match &methods.free {
            Some(free) => free.call1(py, (core, Block(*block))).map(drop),
            None => Ok(()),
        })
    }

    fn tick(&mut self, core: &mut custom::Core) -> Result<(), String> {
        if self.methods.tick.is_none() {
            return Ok(());
        }
        self.call(core, |py, methods, core| match &methods.tick {
            Some(tick) => tick.call1(py, (core,)).map(drop),
            None => Ok(()),
        })
    }

    fn plans(&self) -> bool {
        self.methods.allocate_many.is_some()
    }

    fn allocate_many(
        &mut self,
        core: &mut custom::Core,
        requests: &[FrameRequest],
    ) -> Result<Vec<u8>, String> {
        self.call(core, |py, methods, core| {
            let Some(many) = &methods.allocate_many else { return Ok(Vec::new()) };
            let answer = many.call1(py, (core, Requests(requests.to_vec())))?;
            let answer = answer.bind(py);
            if let Ok(bytes) = answer.cast::<PyBytes>() {
                return Ok(bytes.as_bytes().to_vec());
            }
            // Whatever has a buffer of bytes, such as an array of NumPy; not a bare number, which
            // would become that many zeros.
            let bytes = py.import("builtins")?.getattr("memoryview")?.call1((answer,));
            let bytes = bytes.and_then(|view| view.call_method0("tobytes"));
            match bytes.as_ref().map(|bytes| bytes.cast::<PyBytes>()) {
                Ok(Ok(bytes)) => Ok(bytes.as_bytes().to_vec()),
                _ => Err(wrong_type("returned", answer, "bytes, one for each request")),
            }
        })
    }
}

fn wrong_type(what: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let kind = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    let text = format!("{what} a value of type {kind}, expected {expected}");
    pyo3::exceptions::PyTypeError::new_err(text)
}
