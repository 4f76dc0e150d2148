//! A socket whose reader may not stall the writer for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use super::tls::Socket;
use crate::limits::{HEAD_TIMEOUT, WRITE_TIMEOUT};

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Fails a write that makes no progress for [`WRITE_TIMEOUT`]: a client that doesn't read its answer would
/// otherwise hold the answer's memory as long as it likes.
pub struct TimedIo {
    stream: Socket,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Read already, and to be read again.
    again: &'static [u8],
}

impl TimedIo {
    pub fn new(stream: Socket) -> TimedIo {
        TimedIo {
            stream,
            stalled: None,
            again: &[],
        }
    }

    /// A connection whose client said in time that it speaks HTTP/2: the library would wait for it without end.
    pub async fn after_preface(mut stream: Socket) -> io::Result<TimedIo> {
        let mut said = [0; PREFACE.len()];
        timeout(HEAD_TIMEOUT, stream.read_exact(&mut said)).await??;
        if said != *PREFACE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the client doesn't speak HTTP/2",
            ));
        }
        Ok(TimedIo {
            again: PREFACE,
            ..TimedIo::new(stream)
        })
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for TimedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.again.is_empty() {
            let (now, later) = self.again.split_at(self.again.len().min(buf.remaining()));
            buf.put_slice(now);
            self.again = later;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TimedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, poll)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, poll)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            // What is encrypted and not yet sent.
            Poll::Pending => self.watch(cx, Poll::Pending),
            ready => ready,
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
