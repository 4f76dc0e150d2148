//! A socket that follows its connection from thread to thread: each has its own poller.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::threads::balancer::here;

pub struct MovingSocket {
    /// None after a thread's poller refused it.
    stream: Option<TcpStream>,
    /// The thread whose poller looks after it.
    at: Option<usize>,
}

impl MovingSocket {
    pub fn new(stream: TcpStream) -> MovingSocket {
        MovingSocket {
            stream: Some(stream),
            at: here(),
        }
    }

    /// As it is, whichever thread's.
    pub fn stream(&self) -> io::Result<&TcpStream> {
        self.stream.as_ref().ok_or_else(lost)
    }

    /// With this thread's poller. With another one's it would work as well, but that would wake its own thread first.
    fn settled(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if self.at != here() {
            let stream = self.stream.take().ok_or_else(lost)?;
            self.stream = Some(TcpStream::from_std(stream.into_std()?)?);
            self.at = here();
        }
        self.stream.as_mut().map(Pin::new).ok_or_else(lost)
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for MovingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.settled()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for MovingSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.settled()?.poll_write(cx, buf)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.settled()?.poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.settled()?.poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.settled()?.poll_shutdown(cx)
    }
}
