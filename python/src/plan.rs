//! What a collection will need, before there is one.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ramlet::plan::{Machine, Memory, PlanError, Spec, plan as plan_of, plan_at_most};

use crate::errors;

/// The plan as JSON; `spec`: JSON with the fields of a specification.
#[pyfunction]
#[pyo3(signature = (spec, memory=None, threads=None))]
pub fn plan<'py>(
    py: Python<'py>,
    spec: &[u8],
    memory: Option<u64>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let spec: Spec =
        serde_json::from_slice(spec).map_err(|e| errors::bad_input(format_args!("plan: {e}")))?;
    let machine = Machine {
        cores: ramlet_io::system::machine().cores,
        ..Machine::default()
    };
    let room = Memory {
        search_threads: threads,
        ..Memory::in_process(memory.unwrap_or(0))
    };
    let planned = match memory {
        Some(_) => plan_of(&spec, &machine, &room),
        None => plan_at_most(&spec, &machine, &room),
    };
    let plan = planned.map_err(|why| match why {
        PlanError::DoesNotFit {
            memory_bytes,
            memory_bytes_min,
            ..
        } => errors::make(
            "TooLarge",
            &why.to_string(),
            Some((memory_bytes_min, memory_bytes)),
        ),
        _ => errors::bad_input(why),
    })?;
    let json = serde_json::to_vec(&plan).map_err(errors::bad_input)?;
    Ok(PyBytes::new(py, &json))
}
