//! HTTP/1.1 as a load generator needs it: requests rendered ahead, one blocking connection each, answers read into memory used again.
//! It shares the machine with the server it measures, so it does as little as can be done. Source: RFC 9112.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Where a server is, and the key for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    key: Option<String>,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 << 10;
const ANSWER_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 16 << 10;

impl Target {
    /// Takes `http://host:port`; there is no TLS.
    pub fn parse(url: &str, key: Option<&str>) -> std::result::Result<Target, String> {
        let told = || format!("the URL '{url}' must be like http://localhost:6333 (no TLS, no path)");
        let rest = url.strip_prefix("http://").ok_or_else(told)?;
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| told())?),
            _ => (rest, 80),
        };
        if host.is_empty() || host.contains('/') {
            return Err(told());
        }
        Ok(Target {
            host: host.trim_matches(['[', ']']).into(),
            port,
            key: key.map(str::to_string),
        })
    }

    /// A port of this machine.
    pub fn local(port: u16) -> Target {
        Target {
            host: "127.0.0.1".into(),
            port,
            key: None,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }

    /// Appends a whole request to `out`: render it once, send it often.
    pub fn render(&self, method: &str, path: &str, body: &[u8], out: &mut Vec<u8>) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.host,
            self.port,
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        if let Some(key) = &self.key {
            out.extend_from_slice(format!("api-key: {key}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }

    /// The host and port that stand in a request.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The same host and key at the next port, where servers of this API have gRPC; None when there is no next one.
    pub fn next_port(&self) -> Option<Target> {
        let port = self.port.checked_add(1)?;
        Some(Target { port, ..self.clone() })
    }

    /// `timeout` is for each wait for bytes.
    pub fn connect(&self, timeout: Duration) -> Result<Connection> {
        Ok(Connection {
            stream: self.dial(timeout)?,
            buf: Vec::with_capacity(READ_BYTES),
            body: Vec::new(),
            is_open: true,
        })
    }

    /// A bare connection.
    pub(crate) fn dial(&self, timeout: Duration) -> Result<TcpStream> {
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Err(error) => last = error,
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(stream);
                }
            }
        }
        Err(last)
    }
}

/// A connection that is kept alive, for one request at a time. Holds the largest answer it has read.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Bytes as they came.
    buf: Vec<u8>,
    /// A body that came in chunks, put together.
    body: Vec<u8>,
    is_open: bool,
}

/// An answer, until the next request.
#[derive(Debug)]
pub struct Answer<'a> {
    pub status: u16,
    /// Seconds that the server asks to wait.
    pub retry_after_s: Option<u64>,
    pub body: &'a [u8],
}

/// What the head says about the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: usize,
    length: Option<usize>,
    is_chunked: bool,
    closes: bool,
    retry_after_s: Option<u64>,
}

impl Connection {
    /// Whether another request may be sent. An error or the server's wish closes a connection.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends a rendered request and waits for the whole answer. An answer that is no 2xx is no error here.
    pub fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let was_open = std::mem::replace(&mut self.is_open, false);
        if !was_open {
            return Err(Error::new(ErrorKind::NotConnected, "the connection is closed"));
        }
        self.stream.write_all(request)?;
        self.buf.clear();
        let head = loop {
            if let Some(head) = parse_head(&self.buf)? {
                break head;
            }
            self.more()?;
        };
        let chunked = match (head.is_chunked, head.length) {
            (true, _) => {
                self.read_chunks(head.bytes)?;
                true
            }
            (false, Some(length)) => {
                let end = head.bytes + length.min(ANSWER_BYTES_MAX);
                while self.buf.len() < end {
                    self.more()?;
                }
                self.buf.truncate(end);
                false
            }
            (false, None) if matches!(head.status, 204 | 304) => false,
            (false, None) => return Err(broken("an answer without a length")),
        };
        self.is_open = !head.closes;
        Ok(Answer {
            status: head.status,
            retry_after_s: head.retry_after_s,
            body: if chunked {
                &self.body
            } else {
                &self.buf[head.bytes..]
            },
        })
    }

    fn more(&mut self) -> Result<()> {
        let at = self.buf.len();
        if at > ANSWER_BYTES_MAX + HEAD_BYTES_MAX {
            return Err(broken("an answer that doesn't end"));
        }
        self.buf.resize(at + READ_BYTES, 0);
        let got = self.stream.read(&mut self.buf[at..]);
        self.buf.truncate(at + *got.as_ref().unwrap_or(&0));
        match got.map_err(in_words)? {
            0 => Err(Error::new(
                ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            _ => Ok(()),
        }
    }

    /// Puts the chunks from `at` on together in `body`.
    fn read_chunks(&mut self, mut at: usize) -> Result<()> {
        self.body.clear();
        loop {
            let line = self.line_at(at)?;
            let text = std::str::from_utf8(&self.buf[at..line]).map_err(|_| broken("a chunk's head"))?;
            let digits = text.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| broken("a chunk's size"))?;
            if size > ANSWER_BYTES_MAX || self.body.len() + size > ANSWER_BYTES_MAX {
                return Err(broken("an answer that doesn't end"));
            }
            at = line + 2;
            if size == 0 {
                // Trailers, if any, up to an empty line.
                loop {
                    let end = self.line_at(at)?;
                    if end == at {
                        return Ok(());
                    }
                    at = end + 2;
                }
            }
            while self.buf.len() < at + size + 2 {
                self.more()?;
            }
            self.body.extend_from_slice(&self.buf[at..at + size]);
            at += size + 2;
        }
    }

    /// Where the line that begins at `at` ends; reads until it does.
    fn line_at(&mut self, at: usize) -> Result<usize> {
        loop {
            let found = self.buf[at.min(self.buf.len())..]
                .windows(2)
                .position(|pair| pair == b"\r\n");
            if let Some(end) = found {
                return Ok(at + end);
            }
            if self.buf.len() > at + HEAD_BYTES_MAX {
                return Err(broken("a line that doesn't end"));
            }
            self.more()?;
        }
    }
}

/// The kernel calls a timeout "Resource temporarily unavailable".
pub(crate) fn in_words(error: Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::new(
            ErrorKind::TimedOut,
            "the server doesn't answer: the time for it is over",
        ),
        _ => error,
    }
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not HTTP: {what}"))
}

/// None while the head isn't whole.
fn parse_head(buf: &[u8]) -> Result<Option<Head>> {
    let Some(end) = buf.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match buf.len() > HEAD_BYTES_MAX {
            true => Err(broken("a head that doesn't end")),
            false => Ok(None),
        };
    };
    let text = std::str::from_utf8(&buf[..end]).map_err(|_| broken("a head of other than text"))?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| broken("the first line"))?;
    let mut head = Head {
        status,
        bytes: end + 4,
        ..Head::default()
    };
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| broken("a field"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse().map_err(|_| broken("its length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.is_chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            head.closes = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("retry-after") {
            head.retry_after_s = value.parse().ok();
        }
    }
    Ok(Some(head))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn urls() {
        for (url, expected) in [
            ("http://localhost:6333", Some(("localhost", 6333))),
            ("http://localhost:6333/", Some(("localhost", 6333))),
            ("http://[::1]:6333", Some(("::1", 6333))),
            ("http://host", Some(("host", 80))),
            ("https://host:1", None),
            ("localhost:6333", None),
            ("http://", None),
            ("http://host:1/path", None),
        ] {
            let got = Target::parse(url, None).ok();
            let got = got.as_ref().map(|t| (t.host.as_str(), t.port));
            assert_eq!(got, expected, "{url}");
        }
    }

    /// Answers each request on one connection with the next of `answers`, split into writes of `step` bytes.
    fn exchange(answers: &'static [&'static str], step: usize) -> Vec<Result<(u16, String)>> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.set_nodelay(true).expect("set");
                for answer in answers {
                    let mut head = [0; 4096];
                    if stream.read(&mut head).unwrap_or(0) == 0 {
                        return;
                    }
                    for piece in answer.as_bytes().chunks(step) {
                        let _ = stream.write_all(piece);
                    }
                }
            });
            let mut connection = Target::local(port)
                .connect(Duration::from_secs(5))
                .expect("connected");
            let mut request = Vec::new();
            Target::local(port).render("POST", "/x", b"{}", &mut request);
            let told = |_| {
                let answer = connection.ask(&request)?;
                Ok((answer.status, String::from_utf8_lossy(answer.body).into_owned()))
            };
            answers.iter().map(told).collect()
        })
    }

    #[test]
    fn answers_whole_and_in_pieces() {
        const ANSWERS: &[&str] = &[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nt: u\r\n\r\n",
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
        ];
        for step in [1, 3, 1000] {
            let got: Vec<_> = exchange(ANSWERS, step)
                .into_iter()
                .map(|a| a.expect("an answer"))
                .collect();
            let expected = [(200, "hello"), (200, "hello, world"), (429, "")];
            assert_eq!(got, expected.map(|(status, body)| (status, body.to_string())));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for answer in [
            &["SMTP ready\r\n\r\n"][..],
            &["HTTP/1.1 200 OK\r\n\r\n"],
            &["HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"],
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffff\r\n"],
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n"],
            &["HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort"],
        ] {
            assert!(exchange(answer, 1000)[0].is_err(), "{answer:?}");
        }
        let closed = exchange(
            &[
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                "",
            ],
            1000,
        );
        assert!(closed[0].is_ok() && closed[1].is_err());
    }
}
