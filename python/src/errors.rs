//! The engine's errors as Python's exceptions: the classes stand in `ramlet/errors.py`.

use pyo3::prelude::*;
use ramlet::{Error, ErrorKind};

/// The exception for an error of the engine.
pub fn raised(e: &Error) -> PyErr {
    let numbers = e.budget_bytes().map(|bytes| (bytes.needed, bytes.available));
    make(kind_name(e.kind()), &e.to_string(), numbers)
}

/// An exception by the name of its kind, with the two numbers of a refusal for want of memory.
pub fn make(kind: &str, message: &str, numbers: Option<(u64, u64)>) -> PyErr {
    let made = Python::attach(|py| {
        let class = py.import("ramlet.errors")?.getattr("make")?;
        class
            .call1((kind, message, numbers))
            .map(|e| PyErr::from_value(e))
    });
    made.unwrap_or_else(|e| e)
}

pub fn bad_input(message: impl std::fmt::Display) -> PyErr {
    make("BadInput", &message.to_string(), None)
}

pub fn closed() -> PyErr {
    make(
        "Closed",
        "the database is closed: open it again with ramlet.open(...)",
        None,
    )
}

fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::BadInput => "BadInput",
        ErrorKind::NotFound => "NotFound",
        ErrorKind::AlreadyExists => "AlreadyExists",
        ErrorKind::TooLarge => "TooLarge",
        ErrorKind::OverBudget => "OverBudget",
        ErrorKind::Busy => "Busy",
        ErrorKind::MemoryFull => "MemoryFull",
        ErrorKind::DiskFull | ErrorKind::NoDescriptors => "Full",
        ErrorKind::CollectionClosed => "CollectionClosed",
        ErrorKind::WritesStopped => "WritesStopped",
        ErrorKind::Corrupt => "Corrupt",
        ErrorKind::Io | ErrorKind::NoPermission => "Storage",
        ErrorKind::Closed => "Closed",
    }
}
