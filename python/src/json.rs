//! Python's values as JSON, written once and straight: payloads of a batch would be half of an upload's time in `json.dumps`.

use std::io::Write;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors::bad_input;

/// Lists and objects within each other at most.
const DEPTH_MAX: usize = 100;

/// `value` as JSON. Numbers of numpy, UUIDs, dates, enums and pydantic's models are taken too; NaN and infinities are refused.
#[pyfunction]
pub fn dumps<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    write(value, &mut out, 0)?;
    Ok(PyBytes::new(py, &out))
}

/// Appends `value`.
pub fn write(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    if depth > DEPTH_MAX {
        let what = format!("more than {DEPTH_MAX} lists and dicts within each other");
        return Err(PyRecursionError::new_err(what));
    }
    if value.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(text) = value.cast::<PyString>() {
        string(text, out)?;
    } else if value.is_instance_of::<PyBool>() {
        out.extend_from_slice(if value.is_truthy()? { b"true" } else { b"false" });
    } else if value.is_instance_of::<PyInt>() {
        integer(value, out)?;
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float(number.extract()?, out)?;
    } else if let Ok(dict) = value.cast::<PyDict>() {
        object(dict, out, depth)?;
    } else if let Ok(list) = value.cast::<PyList>() {
        array(list.iter(), out, depth)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        array(tuple.iter(), out, depth)?;
    } else {
        return other(value, out, depth);
    }
    Ok(())
}

fn string(text: &Bound<'_, PyString>, out: &mut Vec<u8>) -> PyResult<()> {
    let text = text.to_cow().map_err(|_| {
        let shown = text
            .repr()
            .map_or_else(|e| e.to_string(), |shown| shown.to_string());
        bad_input(format_args!(
            "{shown} has half of a surrogate pair, which UTF-8 doesn't have"
        ))
    })?;
    serde_json::to_writer(out, text.as_ref()).map_err(bad_input)
}

fn integer(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let written = match value.extract::<i64>() {
        Ok(n) => write!(out, "{n}"),
        Err(_) => match value.extract::<u64>() {
            Ok(n) => write!(out, "{n}"),
            Err(_) => return Err(bad_input(format_args!("{value} has more than 64 bits"))),
        },
    };
    written.map_err(bad_input)
}

fn float(number: f64, out: &mut Vec<u8>) -> PyResult<()> {
    match number.is_finite() {
        true => serde_json::to_writer(out, &number).map_err(bad_input),
        false => Err(bad_input(format_args!("{number} has no place in JSON"))),
    }
}

fn object(dict: &Bound<'_, PyDict>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    out.push(b'{');
    for (at, (key, value)) in dict.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let key = key.cast::<PyString>().map_err(|_| {
            bad_input(format_args!(
                "key {key} is not a str: JSON's objects have no others"
            ))
        })?;
        string(key, out)?;
        out.push(b':');
        write(&value, out, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

fn array<'py>(
    values: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Vec<u8>,
    depth: usize,
) -> PyResult<()> {
    out.push(b'[');
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(&value, out, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}

/// Whatever says by a method of its own what it is as plain data.
fn other(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    // numpy's numbers and arrays, pandas' stamps, pyarrow's scalars.
    for name in ["tolist", "isoformat", "as_py"] {
        if let Ok(method) = value.getattr(name) {
            // pandas' stamp of no time differs from itself, and would be written as the text "NaT".
            if name == "isoformat" && value.ne(value)? {
                return Err(bad_input(format_args!("{value} has no place in JSON")));
            }
            return write(&method.call0()?, out, depth + 1);
        }
    }
    if let Ok(dump) = value.getattr("model_dump") {
        let options = PyDict::new(value.py());
        options.set_item("exclude_none", true)?;
        return write(&dump.call((), Some(&options))?, out, depth + 1);
    }
    let class = value.get_type().name()?.to_string();
    match class.as_str() {
        "UUID" => write(value.str()?.as_any(), out, depth + 1),
        "Decimal" => float(value.call_method0("__float__")?.extract()?, out),
        _ => match value.getattr("value") {
            Ok(inner) => write(&inner, out, depth + 1),
            Err(_) => Err(bad_input(format_args!(
                "a value of type {class} has no form in JSON: give str, int, float, bool, None, list or dict"
            ))),
        },
    }
}
