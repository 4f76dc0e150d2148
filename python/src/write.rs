//! Points from arrays: as columns, straight into the log's form.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use ramlet::{Collection, ErrorKind, PointRows, ShardKey, ShardSelection, UpdateResult};

use crate::core::{Core, Open, interrupted};
use crate::errors::{self, bad_input};
use crate::ids::Ids;
use crate::{TICK, json};

/// Batches on their way at once: one sync of the log covers several.
const IN_FLIGHT: usize = 8;
/// How long a batch waits that was refused for want of room, while none of its own are on their way.
const PAUSE: Duration = Duration::from_millis(5);

/// Batches of one upload, one after another; those before may still be on their way to the disk.
#[pyclass(module = "ramlet._ramlet", frozen)]
pub struct Writer {
    open: Arc<Open>,
    collection: Arc<Collection>,
    pipe: Mutex<Pipe>,
}

struct Pipe {
    done: SyncSender<ramlet::Result<UpdateResult>>,
    told: Receiver<ramlet::Result<UpdateResult>>,
    waiting: usize,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (core, name, shard_key=None))]
    fn new(core: &Core, name: &str, shard_key: Option<&Bound<'_, PyAny>>) -> PyResult<Writer> {
        let open = core.opened()?;
        let collection = within(open.collection(name)?, shard_key)?;
        let (done, told) = sync_channel(IN_FLIGHT);
        let pipe = Pipe {
            done,
            told,
            waiting: 0,
        };
        Ok(Writer {
            open,
            collection,
            pipe: Mutex::new(pipe),
        })
    }

    /// Queues a batch. `vectors`: by name, C-ordered float32. `payloads`: a list of dicts, or columns. Waits where too many are
    /// on their way. What is refused is refused as a whole.
    #[pyo3(signature = (ids, vectors, payloads=None))]
    fn put(
        &self,
        py: Python<'_>,
        ids: Ids<'_>,
        vectors: Vec<(String, PyReadonlyArray2<'_, f32>)>,
        payloads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let ids = ids.read()?;
        let payloads = payloads.map_or(Ok(Vec::new()), |p| texts(p, ids.len()))?;
        let mut columns = Vec::with_capacity(vectors.len());
        for (name, array) in &vectors {
            let [rows, _] = array.shape() else {
                unreachable!("two dimensions")
            };
            if *rows != ids.len() {
                return Err(bad_input(format_args!("{} ids and {rows} vectors", ids.len())));
            }
            let numbers = array
                .as_slice()
                .map_err(|_| bad_input("vectors must lie row after row"))?;
            columns.push((name.as_str(), numbers));
        }
        let rows = PointRows {
            ids: &ids,
            vectors: &columns,
            payloads: &payloads,
        };
        py.detach(|| self.send(&rows))
    }

    /// Waits until all batches are durable and searchable.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
            while pipe.waiting > 0 {
                pipe.wait(&self.open)?;
            }
            Ok(())
        })
    }
}

impl Writer {
    fn send(&self, rows: &PointRows<'_>) -> PyResult<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.waiting == IN_FLIGHT {
            pipe.wait(&self.open)?;
        }
        loop {
            let done = pipe.done.clone();
            let sent = self.collection.submit_rows(
                rows,
                Box::new(move |result| {
                    let _ = done.send(result);
                }),
            );
            match sent {
                Ok(()) => {
                    pipe.waiting += 1;
                    return Ok(());
                }
                Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::OverBudget) => {
                    match pipe.waiting {
                        0 => std::thread::sleep(PAUSE),
                        _ => pipe.wait(&self.open)?,
                    }
                    interrupted(&self.open)?;
                }
                Err(e) => return Err(errors::raised(&e)),
            }
        }
    }
}

impl Pipe {
    fn wait(&mut self, open: &Open) -> PyResult<()> {
        loop {
            match self.told.recv_timeout(TICK) {
                Ok(result) => {
                    self.waiting -= 1;
                    return result.map(drop).map_err(|e| errors::raised(&e));
                }
                Err(RecvTimeoutError::Timeout) => interrupted(open)?,
                Err(RecvTimeoutError::Disconnected) => return Err(errors::closed()),
            }
        }
    }
}

/// The part of a collection with this shard key; all of it where there is none.
pub fn within(collection: Arc<Collection>, key: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<Collection>> {
    let Some(key) = key else { return Ok(collection) };
    let key = match key.cast::<PyString>() {
        Ok(word) => ShardKey::Word(word.to_string()),
        Err(_) => ShardKey::Number(key.extract()?),
    };
    let chosen = collection.within(&ShardSelection::Keys(vec![key]));
    chosen.map_err(|e| errors::raised(&e))
}

/// Payloads as JSON: a dict for each point, or a dict of columns. In a column `None` and NaN say that the point hasn't the field.
fn texts(payloads: &Bound<'_, PyAny>, points: usize) -> PyResult<Vec<Vec<u8>>> {
    match payloads.cast::<PyDict>() {
        Ok(columns) => texts_of_columns(columns, points),
        Err(_) => {
            let rows = payloads.cast::<PyList>()?;
            if rows.len() != points {
                return Err(bad_input(format_args!(
                    "{points} points and {} payloads",
                    rows.len()
                )));
            }
            rows.iter().map(|row| text_of_row(&row)).collect()
        }
    }
}

fn text_of_row(row: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    if !row.is_none() {
        json::write(row, &mut out, 0)?;
    }
    Ok(out)
}

fn texts_of_columns(columns: &Bound<'_, PyDict>, points: usize) -> PyResult<Vec<Vec<u8>>> {
    let mut named = Vec::with_capacity(columns.len());
    for (name, values) in columns.iter() {
        let values = values.cast_into::<PyList>()?;
        if values.len() != points {
            return Err(bad_input(format_args!(
                "{points} points and {} values of payload column {name}",
                values.len()
            )));
        }
        let mut key = Vec::new();
        json::write(&name, &mut key, 0)?;
        key.push(b':');
        named.push((key, values));
    }
    let mut all = Vec::with_capacity(points);
    for at in 0..points {
        let mut out = vec![b'{'];
        for (key, values) in &named {
            let value = values.get_item(at)?;
            if value.is_none() || value.extract::<f64>().is_ok_and(f64::is_nan) {
                continue;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            json::write(&value, &mut out, 0)?;
        }
        out.push(b'}');
        all.push(out);
    }
    Ok(all)
}
