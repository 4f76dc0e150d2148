//! An open directory: the engine, and what is asked of it as a whole.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ramlet::{
    Backend, BudgetRequest, BudgetTable, Collection, Engine, EngineOptions, Error, Ledger, open_best,
};
use ramlet_io::IoErrorKind;
use ramlet_io::system::machine;
use ramlet_memory::give_back_heap;

use crate::api::{self, Api, Sent};
use crate::{TICK, errors};

/// Anonymous bytes that the API's router and its runtime hold, beside their threads' stacks.
const API_BYTES: u64 = 1_000_000;

/// What calls share while they run. The directory is free when the last has ended.
pub struct Open {
    pub engine: Arc<Engine>,
    pub closing: AtomicBool,
    api: OnceLock<Api>,
}

impl Open {
    /// Refuses to go on where the database is being closed.
    pub fn check(&self) -> PyResult<()> {
        match self.closing.load(Ordering::Relaxed) {
            true => Err(errors::closed()),
            false => Ok(()),
        }
    }

    pub fn collection(&self, name: &str) -> PyResult<Arc<Collection>> {
        self.engine.collection(name).map_err(|e| errors::raised(&e))
    }

    fn api(&self) -> PyResult<&Api> {
        if let Some(api) = self.api.get() {
            return Ok(api);
        }
        let api = Api::new(&self.engine).map_err(|e| errors::make("Storage", &e.to_string(), None))?;
        // Of two that come first at once one is dropped.
        Ok(self.api.get_or_init(|| api))
    }
}

/// Status, headers, body, and the numbers of a refusal for want of memory.
type Answered<'py> = (
    u16,
    Vec<(String, String)>,
    Bound<'py, PyBytes>,
    Option<(u64, u64)>,
);

#[pyclass(module = "ramlet._ramlet", frozen)]
pub struct Core {
    open: Mutex<Option<Arc<Open>>>,
    /// A child of `fork` has none of the engine's threads.
    pid: u32,
}

#[pymethods]
impl Core {
    #[new]
    #[pyo3(signature = (path, memory, threads=None, backend="auto"))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory: u64,
        threads: Option<usize>,
        backend: &str,
    ) -> PyResult<Core> {
        let backend = match backend {
            "auto" => Backend::Auto,
            "io_uring" => Backend::Uring,
            "pread" => Backend::Pread,
            "mmap" => Backend::Mmap,
            other => {
                let what = format!("backend {other:?} is unknown: auto, io_uring, pread or mmap");
                return Err(errors::bad_input(what));
            }
        };
        let engine = py.detach(|| open(path, memory, threads, backend))?;
        let open = Open {
            engine,
            closing: AtomicBool::new(false),
            api: OnceLock::new(),
        };
        Ok(Core {
            open: Mutex::new(Some(Arc::new(open))),
            pid: std::process::id(),
        })
    }

    /// Ends long calls that run, waits for the others, stops the threads, gives the memory back and the lock up.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.pid != std::process::id() {
            // The parent's threads aren't here: nothing can be ended, and nothing may be written.
            std::mem::forget(self.slot().take());
            return Ok(());
        }
        let Some(open) = self.slot().take() else {
            return Ok(());
        };
        open.closing.store(true, Ordering::Relaxed);
        py.detach(|| {
            let mut open = open;
            let open = loop {
                match Arc::try_unwrap(open) {
                    Ok(open) => break open,
                    Err(shared) => open = shared,
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            // What still runs for requests hears of it, before the runtime waits for it.
            open.engine.close();
            drop(open);
            give_back_heap();
        });
        py.check_signals()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.slot().is_none()
    }

    /// Names of all collections, sorted.
    fn collection_names(&self) -> PyResult<Vec<String>> {
        Ok(self.opened()?.engine.collection_names())
    }

    /// (name, dimensions, datatype, distance, parts) of each dense vector of a collection; and names of the sparse ones.
    #[expect(
        clippy::type_complexity,
        reason = "a row of a table that Python unpacks at once"
    )]
    fn vectors_of(&self, name: &str) -> PyResult<(Vec<(String, usize, String, String, bool)>, Vec<String>)> {
        let config = self.opened()?.collection(name)?.config();
        let dense = config.vectors.iter().map(|(name, params)| {
            let datatype = format!("{:?}", params.datatype.unwrap_or_default()).to_lowercase();
            let distance = format!("{:?}", params.distance);
            (
                name.clone(),
                params.size,
                datatype,
                distance,
                params.multivector_config.is_some(),
            )
        });
        Ok((dense.collect(), config.sparse_vectors.keys().cloned().collect()))
    }

    /// A request of the API, answered in process. A body that is a path is a file, sent as the part `snapshot` of a form. `save_to`: where the body of a
    /// success goes, instead of into the answer.
    #[pyo3(signature = (method, target, headers, body=None, save_to=None))]
    fn request<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        target: &str,
        headers: Vec<(String, String)>,
        body: Option<Sent>,
        save_to: Option<PathBuf>,
    ) -> PyResult<Answered<'py>> {
        let open = self.opened()?;
        let answer = py.detach(|| {
            let request = api::request((method, target), &headers, body)?;
            open.api()?.answer(request, save_to.as_deref(), &open)
        })?;
        let body = PyBytes::new(py, &answer.body);
        Ok((answer.status, answer.headers, body, answer.numbers))
    }

    /// Makes segments of the memtables, builds what is due, and returns when nothing is left to do. Interrupting it leaves the
    /// rest to the background.
    fn settle(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let open = self.opened()?;
        let collection = open.collection(name)?;
        py.detach(|| {
            collection.flush().map_err(|e| errors::raised(&e))?;
            loop {
                let info = collection.info();
                match info.status {
                    ramlet::CollectionStatus::Green => return Ok(()),
                    ramlet::CollectionStatus::Red => {
                        let why = info.optimizer_error.unwrap_or_default();
                        return Err(errors::make("Storage", &why, None));
                    }
                    ramlet::CollectionStatus::Yellow => wait(&open)?,
                }
            }
        })
    }
}

impl Core {
    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a call holds until it ends.
    pub fn opened(&self) -> PyResult<Arc<Open>> {
        if self.pid != std::process::id() {
            let what = "the database was opened by the process that this one was forked from, and has no threads here: open it after the \
                        fork, once the other has closed it (multiprocessing: use the start method \"spawn\")";
            return Err(errors::make("Closed", what, None));
        }
        self.slot().clone().ok_or_else(errors::closed)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Without the interpreter's lock in mind: no call is under way, so nobody is waited for.
        if self.pid != std::process::id() {
            std::mem::forget(self.slot().take());
        }
    }
}

/// A pause of a long call: ends it where the user or `close` wants that.
pub fn wait(open: &Open) -> PyResult<()> {
    std::thread::sleep(TICK);
    interrupted(open)
}

/// Whether a long call is to end.
pub fn interrupted(open: &Open) -> PyResult<()> {
    Python::attach(|py| py.check_signals())?;
    open.check()
}

fn open(path: PathBuf, memory: u64, threads: Option<usize>, backend: Backend) -> PyResult<Arc<Engine>> {
    let cores = machine().cores;
    let threads = threads.unwrap_or_else(|| BudgetRequest::search_threads_in_process(memory, cores));
    if threads == 0 {
        return Err(errors::bad_input("threads=0: at least one thread searches"));
    }
    let mut request = BudgetRequest::in_process(memory, threads);
    request.other_threads += api::THREADS;
    request.process_bytes += API_BYTES;
    let budget = BudgetTable::plan(request).map_err(|small| errors::raised(&Error::from(small)))?;
    let shown = path.display().to_string();
    let io = |e: ramlet_io::IoError| match e.kind {
        IoErrorKind::Locked => {
            let what = format!(
                "{shown}: {e}. One process has a directory to itself: close the other, or talk to it"
            );
            errors::make("Locked", &what, None)
        }
        _ => errors::raised(&Error::from(e).at(&shown)),
    };
    let (storage, _) = open_best(&path, backend).map_err(io)?;
    // Asked for once more by the engine, whose error has no kind of its own for it.
    drop(storage.lock().map_err(io)?);
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        ..EngineOptions::in_process(memory.max(64_000_000), 1).map_err(|e| errors::raised(&e))?
    };
    Engine::open(storage, options).map_err(|e| errors::raised(&e.at(&shown)))
}
