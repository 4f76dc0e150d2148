//! Answers that are sent while they are read: memory for two portions, whatever their length.
//!
//! A stream holds for its whole life only what it took when it began, from the account of streams: the list of its points, and
//! the packer. A portion's bytes, of the account of responses, are taken while nothing else of that account is held but what
//! is on its way to the client; whoever has them asks for no more until they are sent. So no stream waits for another that
//! waits, and all waiting ends with the client.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use super::compress::Packer;
use super::list::List;
use super::out::{Form, Out};
use super::pieces::Sent;
use super::portions::Next;
use super::shown_parts::Expected;
use crate::app::App;
use crate::error::ApiResult;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::slots::on_slot;

/// A list that was begun, and isn't wholly written.
pub struct Stream {
    pub app: Arc<App>,
    pub begun: Instant,
    /// What is written of it.
    pub first: Sent,
    pub list: List,
    pub expected: Expected,
}

/// The body of a streamed answer. It ends with an error, and so the connection, when a later portion can't be had:
/// half a list must not pass for a whole one.
pub struct StreamBody {
    now: Sent,
    rest: mpsc::Receiver<io::Result<Sent>>,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(piece) = self.now.0.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match self.rest.poll_recv(cx) {
                Poll::Ready(Some(Ok(portion))) => self.now = portion,
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Stream {
    /// A task fetches the rest, a portion ahead of what is being sent; or, where a packer is given, when the one before is packed.
    pub fn body(self, packer: Option<Packer>) -> StreamBody {
        let (send, rest) = mpsc::channel(1);
        let Stream {
            app,
            begun,
            first,
            list,
            expected,
        } = self;
        let rests = Rest {
            app,
            begun,
            list: Arc::new(Mutex::new(list)),
            expected,
            wanted: 0,
        };
        match packer {
            None => {
                tokio::spawn(async move { rests.send_plain(&send).await });
                StreamBody { now: first, rest }
            }
            Some(packer) => {
                tokio::spawn(async move { rests.send_packed(first, packer, &send).await });
                let now = Sent::default();
                StreamBody { now, rest }
            }
        }
    }
}

/// A whole answer, packed while it is sent.
pub fn packed(plain: Sent, packer: Packer) -> StreamBody {
    let (send, rest) = mpsc::channel(1);
    tokio::spawn(async move { packer.pack(plain, true, &send).await });
    StreamBody {
        now: Sent::default(),
        rest,
    }
}

/// What is left of a list.
struct Rest {
    app: Arc<App>,
    begun: Instant,
    list: Arc<Mutex<List>>,
    expected: Expected,
    /// Bytes that the next portion has to have at least: its first point is large.
    wanted: u64,
}

type Portion = io::Result<(Sent, bool)>;

impl Rest {
    async fn send_plain(mut self, send: &mpsc::Sender<io::Result<Sent>>) {
        // A place first: then at most one portion is on its way while the next is fetched.
        while let Ok(place) = send.reserve().await {
            let Some(portion) = self.next(send).await else {
                return;
            };
            let more = matches!(portion, Ok((_, true)));
            place.send(portion.map(|(bytes, _)| bytes));
            if !more {
                return;
            }
        }
    }

    async fn send_packed(mut self, first: Sent, packer: Packer, send: &mpsc::Sender<io::Result<Sent>>) {
        let Some(mut packer) = packer.pack(first, false, send).await else {
            return;
        };
        while let Some(portion) = self.next(send).await {
            match portion {
                Ok((bytes, more)) => match packer.pack(bytes, !more, send).await {
                    Some(again) => packer = again,
                    None => return,
                },
                Err(e) => {
                    let _ = send.send(Err(e)).await;
                    return;
                }
            }
        }
    }

    /// The next portion, and whether there are more; `None` when the client has gone meanwhile.
    async fn next(&mut self, send: &mpsc::Sender<io::Result<Sent>>) -> Option<Portion> {
        let portion = tokio::select! {
            portion = self.next_or_refused() => portion,
            () = send.closed() => return None,
        };
        Some(portion.map_err(|e| {
            let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(of) = list.collection_id() {
                self.app.damage.note(of, &e);
            }
            tracing::warn!("a streamed response was cut off: {}", e.message);
            io::Error::other(e.message)
        }))
    }

    /// What is taken just now is waited for.
    async fn next_or_refused(&mut self) -> ApiResult<(Sent, bool)> {
        let deadline = Instant::now() + limits::READ_TIMEOUT;
        loop {
            match self.portion(deadline).await {
                Ok(Some(portion)) => return Ok(portion),
                Ok(None) => {}
                Err(e) if e.retry_after.is_some() && Instant::now() < deadline => {
                    tokio::time::sleep(limits::STREAM_PAUSE).await;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// `None`: its first point needs more than was held, which was given back.
    async fn portion(&mut self, deadline: Instant) -> ApiResult<Option<(Sent, bool)>> {
        let from = &self.app.responses;
        let bytes = self.expected.next.max(self.wanted);
        let held = GrowingReservation::until(deadline.into(), bytes, from).await?;
        let mut out = Out::within(held, self.expected.handed, Form::Json, from);
        let (list, begun) = (self.list.clone(), self.begun);
        let (out, next) = on_slot(&self.app.engine, deadline, move |scratch| {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let next = list.write_next(scratch, &mut out)?;
            Ok(match next {
                Next::Done if !list.close(&mut out, begun) => (out, Next::More),
                next => (out, next),
            })
        })
        .await?;
        match next {
            Next::Short(bytes) => {
                self.wanted = bytes;
                Ok(None)
            }
            next => {
                self.wanted = 0;
                Ok(Some((out.into_sent()?, matches!(next, Next::More))))
            }
        }
    }
}
