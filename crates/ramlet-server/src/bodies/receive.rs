//! A file in a body, to disk while it comes in: memory for two portions, whatever its length.

use std::sync::PoisonError;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use ramlet::SnapshotUpload;
use tokio::time::{Instant, timeout};

use super::body::content_length;
use super::multipart::Multipart;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::api_request::Incoming;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::pool::spawn_blocking;

/// Writes the part named `snapshot` of the body into a file of its own.
pub async fn receive(app: &App, incoming: &mut Incoming) -> ApiResult<SnapshotUpload> {
    let bad = |what: String| ApiError::new(StatusCode::BAD_REQUEST, format!("Multipart error: {what}"));
    refuse_encodings(&incoming.headers)?;
    let mut multipart = Multipart::new(&incoming.headers, "snapshot").map_err(bad)?;
    let announced = content_length(&incoming.headers)?;
    let mut held = GrowingReservation::default();
    held.at_least(3 * limits::TRANSFER_BYTES as u64, &app.requests)?;

    let engine = app.engine.clone();
    let mut upload = blocking(move || {
        let upload = engine.begin_snapshot_upload()?;
        announced.map_or(Ok(()), |bytes| upload.expect(bytes))?;
        Ok(upload)
    })
    .await?;
    let mut pace = Pace::default();
    let mut portion = Vec::with_capacity(limits::TRANSFER_BYTES);
    let body = incoming.body.get_mut().unwrap_or_else(PoisonError::into_inner);
    while let Some(data) = pace.next(body).await? {
        multipart.push(&data, &mut portion).map_err(bad)?;
        if portion.len() >= limits::TRANSFER_BYTES {
            (upload, portion) = write(upload, portion).await?;
        }
    }
    multipart.finish().map_err(bad)?;
    let (upload, _) = write(upload, portion).await?;
    Ok(upload)
}

/// A file is taken as it is: what a compressed one becomes can't be told before.
fn refuse_encodings(headers: &HeaderMap) -> ApiResult<()> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"identity") => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Encoding of a snapshot's body is not supported",
        )),
        _ => Ok(()),
    }
}

async fn write(mut upload: SnapshotUpload, mut portion: Vec<u8>) -> ApiResult<(SnapshotUpload, Vec<u8>)> {
    blocking(move || {
        upload.append(&portion)?;
        portion.clear();
        Ok((upload, portion))
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ramlet::Error> + Send + 'static,
) -> ApiResult<T> {
    Ok(spawn_blocking(work).await.map_err(ApiError::internal)??)
}

/// How long a client was waited for: what our own disk takes isn't counted.
#[derive(Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    async fn next(&mut self, body: &mut Body) -> ApiResult<Option<Bytes>> {
        loop {
            let begun = Instant::now();
            let slowest = Duration::from_secs(self.bytes / limits::BODY_RATE_MIN);
            let most = (limits::BODY_IDLE_TIMEOUT + slowest).saturating_sub(self.waited);
            let frame = timeout(most.min(limits::BODY_IDLE_TIMEOUT), body.frame()).await;
            self.waited += begun.elapsed();
            let frame = match frame {
                Err(_) => {
                    let why = "the body came too slowly";
                    return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, why));
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(e))) => {
                    let why = format!("the body broke off: {e}");
                    return Err(ApiError::new(StatusCode::BAD_REQUEST, why));
                }
                Ok(Some(Ok(frame))) => frame,
            };
            if let Ok(data) = frame.into_data() {
                self.bytes += data.len() as u64;
                return Ok(Some(data));
            }
        }
    }
}
