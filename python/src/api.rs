//! Requests of the API without a port: the server's router, called on the thread that asks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use ramlet::{BudgetBytes, Engine};
use ramlet_server::{App, ServerOptions};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

use crate::core::{Open, interrupted};
use crate::{TICK, errors};

/// Threads of the runtime: one for timers, and the pool for what blocks.
pub const THREADS: usize = 1 + BLOCKING;
const BLOCKING: usize = 2;
const STACK_BYTES: usize = 1 << 20;
/// Bytes of a file that are read at once.
const PORTION: usize = 256 << 10;

/// The router, and a runtime for what it does beside the thread that asks.
pub struct Api {
    runtime: Runtime,
    router: Router,
}

/// What a request sends.
#[derive(FromPyObject)]
pub enum Sent {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub numbers: Option<(u64, u64)>,
}

/// A request from its parts. `target`: path and query.
pub fn request(
    (method, target): (&str, &str),
    headers: &[(String, String)],
    body: Option<Sent>,
) -> PyResult<Request<Body>> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        // Said below, by what is sent.
        if !["content-length", "transfer-encoding", "accept-encoding"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            request = request.header(name, value);
        }
    }
    let body = match body {
        Some(Sent::File(path)) => {
            let form = FileForm::open(&path).map_err(|e| storage(&path, &e))?;
            request = request
                .header(header::CONTENT_TYPE, FORM_TYPE)
                .header(header::CONTENT_LENGTH, form.rest);
            Body::new(form)
        }
        Some(Sent::Bytes(body)) => {
            request = request.header(header::CONTENT_LENGTH, body.len());
            // Of the caller's bytes no copy is made.
            Body::from(Bytes::from_owner(body))
        }
        None => Body::empty(),
    };
    request
        .body(body)
        .map_err(|e| errors::bad_input(format_args!("{method} {target}: {e}")))
}

impl Api {
    pub fn new(engine: &Arc<Engine>) -> io::Result<Api> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING)
            .thread_stack_size(STACK_BYTES)
            .thread_name("ramlet-api")
            .enable_time()
            .build()?;
        let router = ramlet_server::router(App::new(ServerOptions::new(engine.clone())));
        Ok(Api { runtime, router })
    }

    /// Answers a request; ends early, with the exception, where the user wants that.
    pub fn answer(&self, request: Request<Body>, save_to: Option<&Path>, open: &Open) -> PyResult<Answer> {
        let mut router = self.router.clone();
        self.runtime.block_on(async {
            let Ok(response) = watched(router.call(request), open).await?;
            watched(read(response, save_to), open).await?
        })
    }
}

/// Awaits, and looks now and then whether that is still wanted.
async fn watched<T>(work: impl Future<Output = T>, open: &Open) -> PyResult<T> {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(TICK, &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => interrupted(open)?,
        }
    }
}

async fn read(response: Response<Body>, save_to: Option<&Path>) -> PyResult<Answer> {
    let (parts, body) = response.into_parts();
    let numbers = parts.extensions.get::<BudgetBytes>();
    let headers = parts.headers.iter();
    let mut answer = Answer {
        status: parts.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: Vec::new(),
        numbers: numbers.map(|bytes| (bytes.needed, bytes.available)),
    };
    match save_to {
        Some(path) if parts.status == StatusCode::OK => {
            let mut file = File::create_new(path).map_err(|e| storage(path, &e))?;
            let saved = save(body, &mut file).await.and_then(|()| file.sync_all());
            saved.map_err(|e| {
                let _ = std::fs::remove_file(path);
                storage(path, &e)
            })?;
        }
        _ => save(body, &mut answer.body)
            .await
            .map_err(|e| errors::make("Storage", &format!("the answer broke off: {e}"), None))?,
    }
    Ok(answer)
}

async fn save(mut body: Body, to: &mut impl Write) -> io::Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        if let Some(data) = frame.data_ref() {
            to.write_all(data)?;
        }
    }
    Ok(())
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn storage(path: &Path, e: &io::Error) -> PyErr {
    errors::make("Storage", &format!("{}: {e}", path.display()), None)
}

const FORM_TYPE: &str = "multipart/form-data; boundary=ramlet-snapshot-7d1f0c";
const FORM_HEAD: &[u8] = b"--ramlet-snapshot-7d1f0c\r\ncontent-disposition: form-data; name=\"snapshot\"; filename=\"snapshot\"\r\n\
content-type: application/octet-stream\r\n\r\n";
const FORM_END: &[u8] = b"\r\n--ramlet-snapshot-7d1f0c--\r\n";

/// A form with one file, read while it is sent.
struct FileForm {
    pieces: Box<dyn Read + Send>,
    rest: u64,
}

impl FileForm {
    fn open(path: &Path) -> io::Result<FileForm> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(FileForm {
            pieces: Box::new(FORM_HEAD.chain(file.take(bytes)).chain(FORM_END)),
            rest: bytes + (FORM_HEAD.len() + FORM_END.len()) as u64,
        })
    }
}

impl HttpBody for FileForm {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut portion = vec![0; PORTION];
        Poll::Ready(match self.pieces.read(&mut portion) {
            Ok(0) => None,
            Ok(read) => {
                portion.truncate(read);
                self.rest = self.rest.saturating_sub(read as u64);
                Some(Ok(Frame::data(portion.into())))
            }
            Err(e) => Some(Err(e)),
        })
    }
}
