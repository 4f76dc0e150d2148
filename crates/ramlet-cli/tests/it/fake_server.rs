//! A server that takes points as the API does and remembers them; it can be told to refuse.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

#[derive(Default)]
pub struct State {
    /// The body that the collection was created with.
    pub collection: Option<Value>,
    /// Points in the order of their acknowledgement.
    pub points: Vec<Value>,
    /// Bodies of refused and accepted upserts, bytes.
    pub bodies: Vec<usize>,
    /// Answers to give to the next upserts instead of taking them: status, headers, sentence.
    pub refusals: VecDeque<(u16, &'static str, &'static str)>,
    /// Larger bodies get 413.
    pub body_max: usize,
    /// Statuses that the collection goes through; the last stays.
    pub statuses: VecDeque<&'static str>,
    pub keys: Vec<Option<String>>,
}

#[derive(Clone)]
pub struct FakeServer {
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    pub fn start() -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State {
            body_max: usize::MAX,
            ..State::default()
        };
        let server = FakeServer {
            url,
            state: Arc::new(Mutex::new(state)),
        };
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = accepting.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test thread panicked inside")
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut out = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut request = String::new();
            reader.read_line(&mut request).ok()?;
            let mut words = request.split_whitespace();
            let (method, path) = (words.next()?.to_string(), words.next()?.to_string());
            let (mut length, mut key) = (0, None);
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).ok()?;
                let (name, value) = match header.trim().split_once(':') {
                    Some((name, value)) => (name.to_ascii_lowercase(), value.trim()),
                    None => break,
                };
                match name.as_str() {
                    "content-length" => length = value.parse().ok()?,
                    "api-key" => key = Some(value.to_string()),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let (status, headers, body) = self.answer(&method, &path, &body, key);
            write!(
                out,
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{headers}\r\n{body}",
                body.len()
            )
            .ok()?;
        }
    }

    fn answer(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        key: Option<String>,
    ) -> (u16, &'static str, String) {
        let mut state = self.state();
        let ok = |result: Value| {
            (
                200,
                "",
                json!({"result": result, "status": "ok", "time": 0.0}).to_string(),
            )
        };
        let error = |status, headers, sentence: &str| {
            (
                status,
                headers,
                json!({"status": {"error": sentence}, "time": 0.0}).to_string(),
            )
        };
        let path = path.split('?').next().unwrap_or_default();
        match (method, path) {
            ("GET", "/") => ok(json!("welcome")),
            ("GET", "/collections/c") => match state.collection.clone() {
                None => error(404, "", "Not found: Collection `c` doesn't exist!"),
                Some(created) => {
                    let status = match state.statuses.len() {
                        0 => "green",
                        1 => state.statuses[0],
                        _ => state.statuses.pop_front().expect("there is one"),
                    };
                    ok(json!({"status": status, "points_count": state.points.len(),
                        "config": {"params": {"vectors": created["vectors"]}}}))
                }
            },
            ("PUT", "/collections/c") => {
                state.collection = serde_json::from_slice(body).ok();
                ok(json!(true))
            }
            ("PUT", "/collections/c/points") => {
                state.bodies.push(body.len());
                state.keys.push(key);
                if let Some((status, headers, sentence)) = state.refusals.pop_front() {
                    return error(status, headers, sentence);
                }
                if body.len() > state.body_max {
                    return error(413, "", "Payload too large: the budget has no room for it");
                }
                let request: Value = match serde_json::from_slice(body) {
                    Ok(request) => request,
                    Err(problem) => return error(400, "", &format!("Format error: {problem}")),
                };
                let points = request["points"].as_array().cloned().unwrap_or_default();
                state.points.extend(points);
                ok(json!({"operation_id": 1, "status": "acknowledged"}))
            }
            _ => error(404, "", "no such route"),
        }
    }
}
