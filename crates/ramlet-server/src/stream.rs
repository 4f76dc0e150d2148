//! Answers that are sent while they are read: memory for three portions, whatever their length.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use crate::admission::Held;
use crate::app::App;
use crate::call::{List, on_slot};
use crate::encode::Packer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::out::Out;

/// The body of a streamed answer. It ends with an error, and so the connection, when a later portion can't be had:
/// half a list must not pass for a whole one.
pub struct StreamBody {
    first: Option<Bytes>,
    rest: mpsc::Receiver<io::Result<Bytes>>,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.rest
            .poll_recv(cx)
            .map(|next| next.map(|portion| portion.map(Frame::data)))
    }
}

impl StreamBody {
    /// The same, packed portion by portion on the pool, one ahead of what is being sent.
    pub fn packed(self, mut packer: Packer) -> StreamBody {
        let (send, rest) = mpsc::channel(1);
        let StreamBody {
            first,
            rest: mut plain,
        } = self;
        tokio::spawn(async move {
            let mut next = first.map(Ok);
            loop {
                let portion = match next.take() {
                    Some(portion) => Some(portion),
                    None => plain.recv().await,
                };
                let last = portion.is_none();
                let packed = match portion {
                    Some(Err(e)) => Err(e),
                    Some(Ok(bytes)) => packer.portion(bytes, false).await,
                    None => packer.portion(Bytes::new(), true).await,
                };
                let ends = last || packed.is_err();
                if send.send(packed).await.is_err() || ends {
                    return;
                }
            }
        });
        StreamBody { first: None, rest }
    }
}

/// Begins with what is in `out`; a task fetches the rest of `list`, one portion ahead of what is being sent.
///
/// `listing` is held until the end, `expected` for each portion.
pub fn start(
    app: Arc<App>,
    begun: Instant,
    out: Out,
    list: List,
    listing: Held,
    expected: u64,
) -> ApiResult<StreamBody> {
    let first = Some(out.into_bytes()?);
    let (send, rest) = mpsc::channel(1);
    tokio::spawn(async move {
        let _listing = listing;
        let list = Arc::new(Mutex::new(list));
        loop {
            let portion = patient(&app, begun, &list, expected).await;
            let more = matches!(portion, Ok((_, true)));
            if let Err(e) = &portion {
                tracing::warn!("a streamed answer is cut off: {}", e.message);
            }
            let portion = portion
                .map(|(bytes, _)| bytes)
                .map_err(|e| io::Error::other(e.message));
            if send.send(portion).await.is_err() || !more {
                return;
            }
        }
    });
    Ok(StreamBody { first, rest })
}

/// The next portion and whether there are more; what is taken just now is waited for.
async fn patient(
    app: &Arc<App>,
    begun: Instant,
    list: &Arc<Mutex<List>>,
    expected: u64,
) -> ApiResult<(Bytes, bool)> {
    let deadline = Instant::now() + limits::READ_TIMEOUT;
    loop {
        match portion(app, begun, list.clone(), expected, deadline).await {
            Err(e) if e.retry_after.is_some() && Instant::now() < deadline => {
                tokio::time::sleep(limits::STREAM_PAUSE).await;
            }
            done => return done,
        }
    }
}

async fn portion(
    app: &Arc<App>,
    begun: Instant,
    list: Arc<Mutex<List>>,
    expected: u64,
    deadline: Instant,
) -> Result<(Bytes, bool), ApiError> {
    let mut out = Out::part(&app.responses);
    out.expect(expected)?;
    on_slot(app, deadline, move |scratch| {
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        let more = list.portions.write_next(scratch, &mut out)?;
        if !more {
            out.raw(&list.suffix);
            out.close(begun);
        }
        Ok((out.into_bytes()?, more))
    })
    .await
}
