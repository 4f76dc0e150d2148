//! A server that speaks just enough of the API, and counts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ramlet_bench::http::Target;

/// What to answer to a request's path and body, given its number.
pub type Answer = dyn Fn(u64, &str, &str) -> (u16, String) + Send + Sync;

/// Ends when it is dropped.
pub struct FakeServer {
    port: u16,
    stop: Arc<AtomicBool>,
    pub bodies: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    pub fn start(answer: Box<Answer>) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (stop, bodies) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (answer, count): (Arc<Answer>, _) = (answer.into(), Arc::new(AtomicU64::new(0)));
        let (stopped, kept) = (stop.clone(), bodies.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, count, kept) = (answer.clone(), count.clone(), kept.clone());
                std::thread::spawn(move || talk(stream.expect("a client"), &*answer, &count, &kept));
            }
        });
        FakeServer { port, stop, bodies }
    }

    pub fn target(&self) -> Target {
        Target::local(self.port)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn talk(stream: TcpStream, answer: &Answer, count: &AtomicU64, kept: &Mutex<Vec<String>>) {
    let mut out = stream.try_clone().expect("a second handle");
    out.set_nodelay(true).expect("set");
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            match line.trim_end() {
                "" => break,
                first if path.is_empty() => path = first.split(' ').nth(1).unwrap_or_default().to_string(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body = String::from_utf8(body).expect("text");
        let (status, text) = answer(count.fetch_add(1, Ordering::Relaxed), &path, &body);
        kept.lock().expect("not poisoned").push(body);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", text.len());
        if out.write_all((head + &text).as_bytes()).is_err() {
            return;
        }
    }
}
