//! Ids of points as Python has them.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString};
use ramlet::PointId;
use uuid::Uuid;

use crate::errors::bad_input;

/// Ids of a batch: an array of numbers, or any mixture of numbers and UUIDs.
#[derive(FromPyObject)]
pub enum Ids<'py> {
    Numbers(PyReadonlyArray1<'py, u64>),
    Mixed(Bound<'py, PyList>),
}

impl Ids<'_> {
    pub fn read(&self) -> PyResult<Vec<PointId>> {
        match self {
            Ids::Numbers(numbers) => Ok(numbers.as_array().iter().map(|n| PointId::Num(*n)).collect()),
            Ids::Mixed(list) => list.iter().enumerate().map(|(at, id)| read(at, &id)).collect(),
        }
    }
}

fn read(at: usize, id: &Bound<'_, PyAny>) -> PyResult<PointId> {
    let refuse = || {
        bad_input(format_args!(
            "ids[{at}] is {}: an id is an integer from 0 to 2**64 - 1, or a UUID",
            id.repr()
                .map_or_else(|_| "something else".into(), |repr| repr.to_string())
        ))
    };
    if id.is_instance_of::<PyBool>() {
        return Err(refuse());
    }
    if id.is_instance_of::<PyInt>() {
        return id.extract::<u64>().map(PointId::Num).map_err(|_| refuse());
    }
    if let Ok(text) = id.cast::<PyString>() {
        let text = text.to_string();
        return Uuid::try_parse(&text)
            .map(|id| PointId::Uuid(id.as_u128()))
            .map_err(|_| refuse());
    }
    // uuid.UUID has its number there; numpy's integers are told by __index__.
    if let Ok(number) = id.getattr("int").and_then(|n| n.extract::<u128>()) {
        return Ok(PointId::Uuid(number));
    }
    id.extract::<u64>().map(PointId::Num).map_err(|_| refuse())
}

/// An id as results have it: an integer, or a UUID's text.
pub fn shown<'py>(py: Python<'py>, id: PointId) -> PyResult<Bound<'py, PyAny>> {
    match id {
        PointId::Num(n) => Ok(n.into_pyobject(py)?.into_any()),
        PointId::Uuid(_) => Ok(PyString::new(py, &id.to_string()).into_any()),
    }
}

/// So many new UUIDs (version 7: those of one process ascend, which packs them well).
#[pyfunction]
pub fn new_ids(n: usize) -> Vec<String> {
    (0..n).map(|_| Uuid::now_v7().to_string()).collect()
}
