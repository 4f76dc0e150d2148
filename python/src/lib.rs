//! The engine inside Python: what `python/package/ramlet` is made of where Python would be too slow or can't reach.
//!
//! Two ways lead to the engine. Arrays go straight to it (`write`, `search`): no JSON, one copy of each number. Everything else is a request
//! of the API, answered in process by the server's own router (`api`): one code path for meaning, validation and errors.
//! Long work runs without the interpreter's lock, and looks for signals every [`TICK`].

mod api;
mod bench;
mod core;
mod errors;
mod ids;
mod json;
mod plan;
mod search;
mod write;

use std::time::Duration;

use pyo3::prelude::*;

/// The engine's own, beside that of the program around it: what is freed goes back to the kernel by the settings of the server's (`.cargo/config.toml`),
/// whatever the other one keeps. It is loaded at run time, where thread-local storage of the first kind is short.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// The wheel's program is a small one that loads this library: the engine is in the wheel once.
#[cfg(feature = "program")]
ramlet_io::export_program!(ramlet_cli::run);

/// How often long work asks whether it was interrupted.
const TICK: Duration = Duration::from_millis(50);

#[pymodule]
fn _ramlet(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<core::Core>()?;
    m.add_class::<write::Writer>()?;
    m.add_function(wrap_pyfunction!(json::dumps, m)?)?;
    m.add_function(wrap_pyfunction!(search::search, m)?)?;
    m.add_function(wrap_pyfunction!(plan::plan, m)?)?;
    m.add_function(wrap_pyfunction!(ids::new_ids, m)?)?;
    m.add_function(wrap_pyfunction!(bench::drive, m)?)?;
    Ok(())
}
