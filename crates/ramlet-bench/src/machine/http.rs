//! Our own server, asked by our own client over connections that stay open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};
use super::tool::Tool;

pub const HTTP: Suite = Suite {
    name: "http",
    seconds: (4, 15),
    plan,
    run,
};

const NAME: &str = "GET, keep-alive";
/// As the source's clients.
const CONNECTIONS: usize = 256;
const CLIENTS: usize = 2;
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LISTENING: &str = "listening on http://";

fn plan(_: &Options) -> Vec<Planned> {
    vec![planned(NAME, Unit::Requests)]
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let scratch = setup.scratch()?;
    if !report.begin(NAME) {
        return Ok(());
    }
    let mut command = Command::new(&setup.options.program);
    for (name, _) in std::env::vars_os() {
        // The server that is measured is set up here alone.
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("RAMLET_") || name.starts_with("QDRANT__"))
        {
            command.env_remove(&name);
        }
    }
    command
        .args([
            "serve",
            "--memory",
            "256MB",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-probe",
            "--data",
        ])
        .arg(scratch.path().join("data"));
    let mut server = Tool::start(&mut command, "ramlet")?;
    let address = listening(&server).ok_or_else(|| server.complaint())?;
    let time = setup.pick(Duration::from_millis(1500), Duration::from_secs(5));
    let (value, also) = requests(address, time).map_err(|error| format!("{address}: {error}"))?;
    report.found(NAME, value, &also);
    Ok(())
}

/// The address in the line that the server prints once it is up.
fn listening(server: &Tool) -> Option<SocketAddr> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let line = server.line(until).ok()??;
        if let Some(address) = line.strip_prefix(LISTENING) {
            return address.trim().parse().ok();
        }
    }
}

/// Requests a second of all clients, each on a thread of its own.
fn requests(address: SocketAddr, time: Duration) -> std::io::Result<(f64, Vec<Also>)> {
    let start = Instant::now();
    let outcomes: Vec<std::io::Result<Answers>> = std::thread::scope(|scope| {
        let client = || client(address, CONNECTIONS / CLIENTS, time);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let ended = clients.into_iter().map(|client| client.join());
        ended
            .map(|outcome| outcome.unwrap_or_else(|_| Err(std::io::Error::other("the client panicked"))))
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = Answers::default();
    for outcome in outcomes {
        all.add(&outcome?);
    }
    let Answers { done, bytes, .. } = all;
    let rate = done as f64 / seconds;
    // By Little's law, as all connections always wait for an answer.
    let also = vec![
        (bytes as f64 / seconds / 1e6, "MB/s"),
        (CONNECTIONS as f64 / rate * 1e6, "us mean"),
        (all.fastest.as_secs_f64() * 1e6, "us fastest"),
        (all.slowest.as_secs_f64() * 1e6, "us slowest"),
        // One ends the measurement.
        (0.0, "errors"),
        (CONNECTIONS as f64, "connections"),
    ];
    Ok((rate, also))
}

/// Asks on every connection, then reads every answer, and again: no time is lost with finding out which is ready.
fn client(address: SocketAddr, connections: usize, time: Duration) -> std::io::Result<Answers> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        streams.push(stream);
    }
    let (start, mut all) = (Instant::now(), Answers::default());
    let mut asked = vec![start; connections];
    let mut buf = [0u8; 4096];
    while start.elapsed() < time {
        for (stream, asked) in streams.iter_mut().zip(&mut asked) {
            *asked = Instant::now();
            stream.write_all(REQUEST)?;
        }
        for (stream, asked) in streams.iter_mut().zip(&asked) {
            let bytes = answer(stream, &mut buf)? as u64;
            all.add(&Answers::one(bytes, asked.elapsed()));
        }
    }
    Ok(all)
}

/// Answers that came.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Answers {
    done: u64,
    bytes: u64,
    fastest: Duration,
    slowest: Duration,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            done: 0,
            bytes: 0,
            fastest: Duration::MAX,
            slowest: Duration::ZERO,
        }
    }
}

impl Answers {
    fn one(bytes: u64, took: Duration) -> Answers {
        Answers {
            done: 1,
            bytes,
            fastest: took,
            slowest: took,
        }
    }

    fn add(&mut self, other: &Answers) {
        self.done += other.done;
        self.bytes += other.bytes;
        self.fastest = self.fastest.min(other.fastest);
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Reads one answer; its bytes. An error unless it is a 200 of a known length.
fn answer(stream: &mut impl Read, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    loop {
        if let Some(len) = whole(&buf[..have])?
            && have >= len
        {
            return Ok(len);
        }
        match stream.read(&mut buf[have..])? {
            0 => return Err(std::io::Error::other("the server closed a connection")),
            read => have += read,
        }
    }
}

/// Bytes of an answer with its body, once its head is there.
fn whole(bytes: &[u8]) -> std::io::Result<Option<usize>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if !text.starts_with("http/1.1 200") {
        let status = text.lines().next().unwrap_or_default().to_owned();
        return Err(std::io::Error::other(status));
    }
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let length = length
        .filter(|length| *length < 1024)
        .ok_or(std::io::Error::other("an answer of unknown length"))?;
    Ok(Some(head + 4 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_in_pieces() {
        struct Pieces(Vec<u8>);
        impl Read for Pieces {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                let some = self.0.len().min(3).min(out.len());
                out[..some].copy_from_slice(&self.0[..some]);
                self.0.drain(..some);
                Ok(some)
            }
        }
        let check = |text: &str| answer(&mut Pieces(text.into()), &mut [0; 256]).map_err(|e| e.to_string());
        let sound = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(check(sound), Ok(sound.len()));
        assert!(check("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").is_err_and(|why| why.contains("503")));
        assert!(check("HTTP/1.1 200 OK\r\n\r\n").is_err_and(|why| why.contains("length")));
        assert!(check(&sound[..20]).is_err_and(|why| why.contains("closed")));
    }
}
