//! The exceptions of the module.

pyo3::create_exception!(
    prairie,
    PrairieError,
    pyo3::exceptions::PyException,
    "What went wrong, in the words of the command `prairie`."
);
pyo3::create_exception!(
    prairie,
    PolicyError,
    PrairieError,
    "A policy that raised, or did what the core does not allow. Names the call."
);
