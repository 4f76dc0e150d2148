//! A connection for calls, one at a time.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::frame::{self, Head};
use super::hpack::{self, Field};
use crate::traffic::http::{Answer, Target, in_words};

/// What we grant the other side at once; granted again when half of it is used.
const WINDOW: u32 = (1 << 31) - 1;
/// What is granted where nothing is said.
const WINDOW_DEFAULT: i64 = 65_535;
const FRAME_BYTES_DEFAULT: usize = 16 << 10;
/// Ours: the default, so that a longer one is an error.
const FRAME_BYTES_MAX: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 64 << 10;
const ANSWER_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 16 << 10;
/// Of a message: whether it is packed, and its length.
const PREFIX: usize = 5;
/// Numbers of calls end there.
const STREAM_MAX: u32 = (1 << 31) - 1;

/// A connection that is kept for call after call. Holds the largest answer it has read.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    /// Frames to be sent.
    out: Vec<u8>,
    /// Bytes as they came, read up to `at`.
    buf: Vec<u8>,
    at: usize,
    /// The message of the answer, its prefix included.
    body: Vec<u8>,
    /// Header fields that may come in several frames, and whether the answer ends with them.
    block: Vec<u8>,
    block_ends: bool,
    next: u32,
    /// What we may send: on the connection, on a new call, in a frame.
    window: i64,
    call_window_first: i64,
    frame_bytes: usize,
    /// Came since a window was granted last.
    received: u32,
    is_open: bool,
}

/// The call that is under way.
#[derive(Debug, Default)]
struct Call {
    stream: u32,
    window: i64,
    http_status: u16,
    grpc_status: Option<u16>,
    message: String,
    has_ended: bool,
}

impl Channel {
    /// `timeout` is for each wait for bytes.
    pub fn open(target: &Target, timeout: Duration) -> Result<Channel> {
        let mut out = frame::PREFACE.to_vec();
        let mut settings = Vec::new();
        for (name, value) in [
            (frame::HEADER_TABLE_SIZE, 0),
            (frame::ENABLE_PUSH, 0),
            (frame::INITIAL_WINDOW_SIZE, WINDOW),
        ] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        Head::write(frame::SETTINGS, 0, 0, &settings, &mut out);
        grant(WINDOW - WINDOW_DEFAULT as u32, &mut out);
        Ok(Channel {
            stream: target.dial(timeout)?,
            out,
            buf: Vec::with_capacity(READ_BYTES),
            at: 0,
            body: Vec::new(),
            block: Vec::new(),
            block_ends: false,
            next: 1,
            window: WINDOW_DEFAULT,
            call_window_first: WINDOW_DEFAULT,
            frame_bytes: FRAME_BYTES_DEFAULT,
            received: 0,
            is_open: true,
        })
    }

    /// Whether another call may be made. An error or the server's wish closes a connection.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends a rendered call and waits for the whole answer: 200 and the message, or the status of gRPC and its words.
    pub fn ask(&mut self, header: &[u8], message: &[u8]) -> Result<Answer<'_>> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Err(Error::new(ErrorKind::NotConnected, "the connection is closed"));
        }
        let mut call = Call {
            stream: self.next,
            window: self.call_window_first,
            ..Call::default()
        };
        self.next += 2;
        self.body.clear();
        let mut stays_open = self.next < STREAM_MAX;
        Head::write(
            frame::HEADERS,
            frame::END_HEADERS,
            call.stream,
            header,
            &mut self.out,
        );
        let mut rest = message;
        while !call.has_ended {
            rest = self.send(rest, &mut call);
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            stays_open &= self.frame(&mut call)?;
        }
        // An answer before the end of the question leaves the question open: a new connection is simpler than a reset.
        self.is_open = stays_open && rest.is_empty();
        match (call.http_status, call.grpc_status) {
            (200, Some(0)) => self.message(),
            (200, Some(status)) => {
                self.body = call.message.into_bytes();
                Ok(answer(status, &self.body))
            }
            (200, None) => Err(broken("an answer without grpc-status")),
            (status, _) => Ok(answer(status, &[])),
        }
    }

    /// Puts as much of the message into frames as the other side takes now; returns the rest. An empty rest was sent to its end.
    fn send<'m>(&mut self, mut message: &'m [u8], call: &mut Call) -> &'m [u8] {
        while !message.is_empty() {
            let most = self.window.min(call.window).clamp(0, self.frame_bytes as i64) as usize;
            let (now, later) = message.split_at(most.min(message.len()));
            if now.is_empty() {
                break;
            }
            let flags = if later.is_empty() { frame::END_STREAM } else { 0 };
            Head::write(frame::DATA, flags, call.stream, now, &mut self.out);
            self.window -= now.len() as i64;
            call.window -= now.len() as i64;
            message = later;
        }
        message
    }

    /// Reads one frame and does what it asks for; false when no other call may follow.
    fn frame(&mut self, call: &mut Call) -> Result<bool> {
        let head = Head::read(self.take(frame::HEAD)?.try_into().expect("nine bytes"));
        if head.length > FRAME_BYTES_MAX {
            return Err(broken("a frame longer than was agreed"));
        }
        let from = self.at + frame::HEAD;
        self.take(frame::HEAD + head.length)?;
        self.at = from + head.length;
        let payload = &self.buf[from..self.at];
        let is_ours = head.stream == call.stream;
        match head.kind {
            frame::DATA => {
                let content = frame::content(head, payload).ok_or_else(|| broken("a frame's padding"))?;
                if is_ours {
                    self.body.extend_from_slice(content);
                    call.has_ended = head.has(frame::END_STREAM);
                }
                if self.body.len() > ANSWER_BYTES_MAX {
                    return Err(broken("an answer that doesn't end"));
                }
                self.received += head.length as u32;
                if self.received > WINDOW / 2 {
                    grant(std::mem::take(&mut self.received), &mut self.out);
                }
            }
            frame::HEADERS | frame::CONTINUATION => self.fields(head, from, call)?,
            frame::SETTINGS if !head.has(frame::ACK) => self.settings(from, call),
            frame::PING if !head.has(frame::ACK) => {
                Head::write(
                    frame::PING,
                    frame::ACK,
                    0,
                    &self.buf[from..self.at],
                    &mut self.out,
                );
            }
            frame::WINDOW_UPDATE => {
                let more = i64::from(number(payload)? & WINDOW);
                match head.stream {
                    0 => self.window += more,
                    _ if is_ours => call.window += more,
                    _ => {}
                }
            }
            frame::RST_STREAM if is_ours => {
                return Err(broken(&format!(
                    "the call was reset with code {}",
                    number(payload)?
                )));
            }
            frame::GOAWAY => {
                return match number(payload)? & WINDOW {
                    last if last < call.stream => Err(Error::new(
                        ErrorKind::ConnectionReset,
                        "the server closed the connection",
                    )),
                    _ => Ok(false),
                };
            }
            frame::PUSH_PROMISE => return Err(broken("a push")),
            _ => {}
        }
        Ok(true)
    }

    /// Gathers the block of header fields that may come in several frames, and reads it when it is whole.
    fn fields(&mut self, head: Head, from: usize, call: &mut Call) -> Result<()> {
        let payload = &self.buf[from..self.at];
        if head.kind == frame::HEADERS {
            self.block.clear();
            // It stands here, even if the fields go on.
            self.block_ends = head.has(frame::END_STREAM);
        }
        let content = match head.kind {
            frame::HEADERS => frame::content(head, payload).ok_or_else(|| broken("a frame's padding"))?,
            _ => payload,
        };
        self.block.extend_from_slice(content);
        if self.block.len() > BLOCK_BYTES_MAX {
            return Err(broken("header fields that don't end"));
        }
        if !head.has(frame::END_HEADERS) {
            return Ok(());
        }
        if head.stream != call.stream {
            return Ok(());
        }
        call.has_ended |= self.block_ends;
        let read = hpack::read(&self.block, &mut |field| match field {
            Field::HttpStatus(status) => call.http_status = status,
            Field::GrpcStatus(status) => call.grpc_status = Some(status),
            Field::GrpcMessage(message) => call.message = unescaped(&message),
        });
        read.ok_or_else(|| broken("header fields"))
    }

    fn settings(&mut self, from: usize, call: &mut Call) {
        for six in self.buf[from..self.at].as_chunks::<6>().0 {
            let [name @ .., a, b, c, d] = *six;
            let value = u32::from_be_bytes([a, b, c, d]);
            match u16::from_be_bytes(name) {
                frame::INITIAL_WINDOW_SIZE => {
                    call.window += i64::from(value) - self.call_window_first;
                    self.call_window_first = i64::from(value);
                }
                frame::MAX_FRAME_SIZE => self.frame_bytes = (value as usize).max(FRAME_BYTES_DEFAULT),
                _ => {}
            }
        }
        Head::write(frame::SETTINGS, frame::ACK, 0, &[], &mut self.out);
    }

    /// The next `length` bytes that aren't read yet; waits for them and leaves them unread.
    fn take(&mut self, length: usize) -> Result<&[u8]> {
        if self.at == self.buf.len() {
            self.buf.clear();
            self.at = 0;
        }
        while self.buf.len() < self.at + length {
            let end = self.buf.len();
            self.buf.resize(end + READ_BYTES, 0);
            let got = self.stream.read(&mut self.buf[end..]);
            self.buf.truncate(end + *got.as_ref().unwrap_or(&0));
            if got.map_err(in_words)? == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
        }
        Ok(&self.buf[self.at..self.at + length])
    }

    /// What came, without its prefix.
    fn message(&self) -> Result<Answer<'_>> {
        let Some((&[packed, ref length @ ..], message)) = self.body.split_first_chunk::<PREFIX>() else {
            return Err(broken("an answer without a message"));
        };
        match u32::from_be_bytes(*length) as usize == message.len() && packed == 0 {
            true => Ok(answer(200, message)),
            false => Err(broken(
                "a message that is packed, or of another length than it says",
            )),
        }
    }
}

fn answer(status: u16, body: &[u8]) -> Answer<'_> {
    Answer {
        status,
        retry_after_s: None,
        body,
    }
}

/// Lets the other side send so many bytes more on this connection.
fn grant(bytes: u32, out: &mut Vec<u8>) {
    Head::write(frame::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes(), out);
}

/// The first number in a frame; of GOAWAY the last call that was heard, of RST_STREAM the reason.
fn number(payload: &[u8]) -> Result<u32> {
    let first = payload
        .first_chunk()
        .ok_or_else(|| broken("a frame that is too short"))?;
    Ok(u32::from_be_bytes(*first))
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not gRPC: {what}"))
}

/// Undoes gRPC's percent signs.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        match (first, code()) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
