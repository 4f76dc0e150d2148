//! Messages in their frames: a flag, a length, and the bytes, read when there is memory for them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use ramlet_memory::Consumer;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::status;
use crate::answers::pieces;
use crate::answers::pieces::Pieces;
use crate::bodies::body::told;
use crate::bodies::body_rule::BodyRule;
use crate::bodies::decompress::{Encoding, decode, first_bytes};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::pool::spawn_blocking;

/// Bytes before a message: whether it is compressed, and its length.
pub const HEAD: usize = 5;

/// What comes in on a call.
pub struct Messages {
    body: Incoming,
    gzip: bool,
    /// What was received of the next frame.
    buffer: BytesMut,
}

impl Messages {
    pub fn new(headers: &HeaderMap, body: Incoming) -> ApiResult<Messages> {
        let gzip = match headers.get("grpc-encoding").map(|v| v.as_bytes()) {
            None | Some(b"identity") => false,
            Some(b"gzip") => true,
            Some(_) => {
                let message = "grpc-encoding: only gzip and identity are known";
                return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            }
        };
        Ok(Messages {
            body,
            gzip,
            buffer: BytesMut::new(),
        })
    }

    /// The only message of a call.
    pub async fn single(
        &mut self,
        rule: BodyRule,
        held: &mut GrowingReservation,
        from: &Consumer,
    ) -> ApiResult<Bytes> {
        match self.next(rule, held, from).await? {
            Some(message) => Ok(message),
            None => Err(ApiError::new(StatusCode::BAD_REQUEST, "the call has no message")),
        }
    }

    /// The next message, its bytes held; `None` at the end.
    pub async fn next(
        &mut self,
        rule: BodyRule,
        held: &mut GrowingReservation,
        from: &Consumer,
    ) -> ApiResult<Option<Bytes>> {
        let start = Instant::now();
        if !self.fill(HEAD, start).await? {
            return if self.buffer.is_empty() {
                Ok(None)
            } else {
                Err(broke_off("no frame"))
            };
        }
        let (flag, len) = (
            self.buffer[0],
            u32::from_be_bytes([self.buffer[1], self.buffer[2], self.buffer[3], self.buffer[4]]),
        );
        let compressed = match flag {
            0 => false,
            1 if self.gzip => true,
            1 => return Err(bad("a compressed message without grpc-encoding")),
            _ => return Err(bad("the bytes are not a frame of gRPC")),
        };
        rule.check(u64::from(len))?;
        *held = GrowingReservation::in_time(rule.before(u64::from(len)), from)
            .await
            .map_err(told)?;
        self.buffer.advance(HEAD);
        let message = self.take(len as usize, start).await?;
        if compressed {
            held.at_least_in_time(first_bytes(message.len(), rule), from)
                .await
                .map_err(told)?;
            let mut inside = std::mem::take(held);
            let from = from.clone();
            // A small frame may hold much.
            let unpacked = spawn_blocking(move || {
                let out = decode(&message, Encoding::Gzip, rule, &mut inside, &from)?;
                Ok::<_, ApiError>((Bytes::from(out), inside))
            });
            let (out, inside) = unpacked.await.map_err(ApiError::internal)??;
            *held = inside;
            return Ok(Some(out));
        }
        Ok(Some(message))
    }

    /// A message of one piece is what was received, without a copy.
    async fn take(&mut self, len: usize, start: Instant) -> ApiResult<Bytes> {
        self.buffer.reserve(len.saturating_sub(self.buffer.len()));
        if !self.fill(len, start).await? {
            return Err(broke_off("no whole message"));
        }
        Ok(self.buffer.split_to(len).freeze())
    }

    /// Receives until `len` bytes are there; false when the call ends before.
    async fn fill(&mut self, len: usize, start: Instant) -> ApiResult<bool> {
        while self.buffer.len() < len {
            let slowest = Duration::from_secs(self.buffer.len() as u64 / limits::BODY_RATE_MIN);
            let deadline = start + limits::BODY_IDLE_TIMEOUT + slowest;
            let frame = match timeout_at(deadline, self.body.frame()).await {
                Err(_) => {
                    return Err(ApiError::new(
                        StatusCode::REQUEST_TIMEOUT,
                        "the message came too slowly",
                    ));
                }
                Ok(None) => return Ok(false),
                Ok(Some(Err(e))) => return Err(broke_off(e)),
                Ok(Some(Ok(frame))) => frame,
            };
            if let Ok(data) = frame.into_data() {
                self.push(data);
            }
        }
        Ok(true)
    }

    fn push(&mut self, data: Bytes) {
        if self.buffer.is_empty() && self.buffer.capacity() < data.len() {
            match data.try_into_mut() {
                Ok(data) => self.buffer = data,
                Err(data) => self.buffer.extend_from_slice(&data),
            }
        } else {
            self.buffer.extend_from_slice(&data);
        }
    }
}

fn bad(what: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, what)
}

fn broke_off(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, format!("the call broke off: {why}"))
}

/// What goes out on a call: messages, then how it ended.
pub enum Sent {
    /// All that there is.
    Whole(pieces::Sent),
    /// Messages as they come.
    Many(mpsc::Receiver<Bytes>),
    /// Only trailers are left, or nothing.
    End(bool),
}

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match &mut *self {
            Sent::Whole(message) => message.0.pop_front(),
            Sent::Many(messages) => match messages.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            Sent::End(told) => {
                if std::mem::replace(told, true) {
                    return Poll::Ready(None);
                }
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(status::GRPC_STATUS, axum::http::HeaderValue::from_static("0"));
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
        };
        match next {
            Some(message) => Poll::Ready(Some(Ok(Frame::data(message)))),
            None => {
                *self = Sent::End(false);
                self.poll_frame(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Sent::End(true))
    }
}

/// A message in its frame: its points, behind [`HEAD`] free bytes, if it has a list of them, and what follows behind as many.
pub fn framed(points: Pieces, rest: Vec<u8>) -> ApiResult<Pieces> {
    let mut message = points;
    if message.len() == 0 {
        message.push(rest);
    } else {
        message.push(rest.get(HEAD..).unwrap_or_default().to_vec());
    }
    let len = message.len();
    close(message.first_mut(), len, false)?;
    Ok(message)
}

/// A message that was packed, in its frame.
pub fn packed(mut message: pieces::Sent) -> ApiResult<pieces::Sent> {
    let mut head = [0; HEAD];
    close(&mut head, HEAD + message.len(), true)?;
    message.0.push_front(Bytes::copy_from_slice(&head));
    Ok(message)
}

/// Fills in the head of a message that has `len` bytes with it.
fn close(message: &mut [u8], len: usize, packed: bool) -> ApiResult<()> {
    let len = len.checked_sub(HEAD).and_then(|n| u32::try_from(n).ok());
    let (Some(len), Some(head)) = (len, message.get_mut(..HEAD)) else {
        return Err(ApiError::internal("the answer is no message"));
    };
    head[0] = u8::from(packed);
    head[1..].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// A message of one piece, for what isn't an answer of the API.
pub fn close_alone(message: &mut [u8]) -> ApiResult<()> {
    let len = message.len();
    close(message, len, false)
}
