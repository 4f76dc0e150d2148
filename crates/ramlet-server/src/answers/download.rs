//! Sends a file while it is read, with memory for two portions, whatever its length.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body as AnyBody;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use ramlet::SnapshotFile;
use tokio::sync::mpsc;

use super::pieces::with_held;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::pool::spawn_blocking;

/// The answer that is `file`. Nothing is read for `head_only`.
pub fn file_answer(app: &Arc<App>, file: SnapshotFile, head_only: bool) -> Response {
    let disposition = format!("attachment; filename=\"{}\"", file.name);
    let left = file.bytes();
    let mut response = Response::new(match head_only {
        true => AnyBody::empty(),
        false => AnyBody::new(FileBody {
            left,
            portions: start(app.clone(), file),
        }),
    });
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(left));
    if let Ok(value) = HeaderValue::try_from(disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// It ends with an error, and so the connection, when a portion can't be had.
struct FileBody {
    left: u64,
    portions: mpsc::Receiver<io::Result<Bytes>>,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.portions.poll_recv(cx);
        if let Poll::Ready(Some(Ok(portion))) = &next {
            self.left = self.left.saturating_sub(portion.len() as u64);
        }
        next.map(|next| next.map(|portion| portion.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Reads one portion ahead of what is being sent, and no more once the client has gone.
fn start(app: Arc<App>, file: SnapshotFile) -> mpsc::Receiver<io::Result<Bytes>> {
    let (send, portions) = mpsc::channel(1);
    let file = Arc::new(file);
    tokio::spawn(async move {
        let mut at = 0;
        while at < file.bytes()
            && let Ok(place) = send.reserve().await
        {
            let portion = tokio::select! {
                portion = portion(&app, file.clone(), at) => portion,
                () = send.closed() => return,
            };
            at += portion.as_ref().map_or(0, |p| p.len() as u64);
            let failed = portion.is_err();
            place.send(portion.map_err(|e| {
                tracing::warn!("a download was cut off: {}", e.message);
                io::Error::other(e.message)
            }));
            if failed {
                return;
            }
        }
    });
    portions
}

/// The portion from `at` on; memory that is taken just now is waited for.
async fn portion(app: &Arc<App>, file: Arc<SnapshotFile>, at: u64) -> ApiResult<Bytes> {
    // Where there is little memory, less.
    let most = (app.responses.cap() / 8).min(limits::TRANSFER_BYTES as u64);
    let len = (file.bytes() - at).min(most);
    let deadline = Instant::now() + limits::READ_TIMEOUT;
    let held = GrowingReservation::until(deadline.into(), len, &app.responses).await?;
    let read = spawn_blocking(move || {
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, at)?;
        Ok::<_, ramlet::Error>(with_held(bytes, held))
    });
    Ok(read.await.map_err(ApiError::internal)??)
}
