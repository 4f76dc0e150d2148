//! A request's body: its memory is reserved before it is read.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use ramlet::SMALLER_BATCHES;
use ramlet_memory::{Consumer, OverBudget};
use tokio::time::{Instant, timeout_at};

use super::body_rule::BodyRule;
use super::decompress::{Encoding, decode, first_bytes};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::pool::spawn_blocking;

/// The body in memory, and the reservation for it and for what is parsed from it. 429 when the bytes are taken and don't come free in time, 413 when they could never be had, 408 when the client is
/// slower than [`limits::BODY_RATE_MIN`].
pub async fn read_body(
    headers: &HeaderMap,
    body: &mut Body,
    rule: BodyRule,
    from: &Consumer,
) -> ApiResult<(Bytes, GrowingReservation)> {
    if rule.cap == 0 {
        return Ok((Bytes::new(), GrowingReservation::default()));
    }
    let encoding = Encoding::of(headers)?;
    let announced = content_length(headers)?;
    let mut held = GrowingReservation::default();
    if let Some(len) = announced {
        rule.check(len)?;
        held = GrowingReservation::in_time(rule.before(len), from)
            .await
            .map_err(told)?;
    }
    let mut bytes = collect(body, announced, rule, &mut held, from).await?;
    if let Some(encoding) = encoding {
        held.at_least_in_time(first_bytes(bytes.len(), rule), from)
            .await
            .map_err(told)?;
        let from = from.clone();
        let decoded = spawn_blocking(move || {
            let decoded = decode(&bytes, encoding, rule, &mut held, &from);
            decoded.map(|bytes| (bytes, held))
        });
        (bytes, held) = decoded.await.map_err(ApiError::internal)??;
    }
    held.at_least_in_time(rule.after(&bytes), from)
        .await
        .map_err(told)?;
    Ok((bytes.into(), held))
}

/// Of a body that never fits it is told in how many parts it would.
pub fn told(e: OverBudget) -> ApiError {
    let most = e.limit.saturating_sub(e.held);
    let (asked, is_final) = (e.asked, e.is_final() && most > 0);
    let mut told = ApiError::from(e);
    if is_final {
        let parts = asked.div_ceil(most);
        let smaller = format!("{SMALLER_BATCHES} (at least {parts} of like size)");
        told.message = told.message.replacen(SMALLER_BATCHES, &smaller, 1);
        told.message
            .push_str(". A point or a search that is too large alone fits in no batch");
    }
    told
}

pub fn content_length(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let Some(value) = headers.get(header::CONTENT_LENGTH) else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(|v| v.trim().parse::<u64>().ok());
    parsed
        .map(Some)
        .ok_or_else(|| ApiError::new(StatusCode::BAD_REQUEST, "Content-Length is not a number"))
}

async fn collect(
    body: &mut Body,
    announced: Option<u64>,
    rule: BodyRule,
    held: &mut GrowingReservation,
    from: &Consumer,
) -> ApiResult<Vec<u8>> {
    let start = Instant::now();
    let mut out = Vec::with_capacity(announced.unwrap_or(0) as usize);
    loop {
        let slowest = std::time::Duration::from_secs(out.len() as u64 / limits::BODY_RATE_MIN);
        let deadline = start + limits::BODY_IDLE_TIMEOUT + slowest;
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => {
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "the body came too slowly",
                ));
            }
            Ok(None) => return Ok(out),
            Ok(Some(Err(e))) => {
                return Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    format!("the body broke off: {e}"),
                ));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(mut data) = frame.into_data() else { continue };
        let len = (out.len() + data.len()) as u64;
        rule.check(len)?;
        if announced.is_none() {
            // Doubling of the Vec included.
            let step = len.next_multiple_of(limits::BODY_STEP_BYTES);
            held.at_least_in_time(rule.before(step.saturating_mul(2)), from)
                .await?;
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            out.extend_from_slice(chunk);
            let n = chunk.len();
            data.advance(n);
        }
    }
}
