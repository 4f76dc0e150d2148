//! A server that takes points as the API does, remembers them and gives them out; it can be told to refuse.

use std::collections::{BTreeMap, VecDeque};
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
    /// More points than this, the strict mode's limit, get 400.
    pub batch_max: usize,
    /// A scroll for more points than this gets 400.
    pub page_max: usize,
    /// With so many points the disk is full.
    pub points_max: usize,
    /// A scroll names this offset behind each page.
    pub circle: Option<u64>,
    /// Statuses that the collection goes through; the last stays.
    pub statuses: VecDeque<&'static str>,
    pub keys: Vec<Option<String>>,
    /// Payload indexes by field, as they were asked for.
    pub indexes: BTreeMap<String, Value>,
    /// Vectors of another length than this are wrong.
    pub dim: Option<usize>,
    /// What `/telemetry` says that tells servers apart.
    pub identity: Option<&'static str>,
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
            batch_max: usize::MAX,
            page_max: usize::MAX,
            points_max: usize::MAX,
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
                    let schema: BTreeMap<_, _> = state
                        .indexes
                        .iter()
                        .map(|(field, asked)| (field, json!({"data_type": asked["type"], "params": asked})))
                        .collect();
                    ok(
                        json!({"status": status, "points_count": state.points.len(), "payload_schema": schema,
                        "config": {"params": {"vectors": created["vectors"], "sparse_vectors": created["sparse_vectors"]}}}),
                    )
                }
            },
            ("PUT", "/collections/c") => {
                state.collection = serde_json::from_slice(body).ok();
                ok(json!(true))
            }
            ("DELETE", "/collections/c") => {
                state.collection = None;
                state.indexes.clear();
                ok(json!(true))
            }
            ("PUT", "/collections/c/index") => {
                let request: Value = serde_json::from_slice(body).unwrap_or_default();
                let field = request["field_name"].as_str().unwrap_or_default().to_string();
                if request["field_schema"]["language"] == "klingon" {
                    return error(400, "", "Wrong input: no language klingon");
                }
                state.indexes.insert(field, request["field_schema"].clone());
                ok(json!({"operation_id": 1, "status": "completed"}))
            }
            ("GET", "/telemetry") => match state.identity {
                Some(identity) => ok(json!({ "id": identity })),
                None => error(404, "", "no such route"),
            },
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
                if points.len() > state.batch_max {
                    return error(
                        400,
                        "",
                        &over_limit(points.len(), state.batch_max, "upsert limit"),
                    );
                }
                let length = |point: &Value| point["vector"].as_array().map(Vec::len);
                if let Some(dim) = state.dim
                    && points
                        .iter()
                        .any(|point| length(point).is_some_and(|len| len != dim))
                {
                    return error(400, "", "Wrong input: Vector dimension error");
                }
                if state.points.len() + points.len() > state.points_max {
                    return error(507, "", "Disk full");
                }
                state.points.extend(points);
                ok(json!({"operation_id": 1, "status": "acknowledged"}))
            }
            ("POST", "/collections/c/points/count") => ok(json!({"count": by_id(&state).len()})),
            ("POST", "/collections/c/points/scroll") => {
                let request: Value = serde_json::from_slice(body).unwrap_or_default();
                let limit = request["limit"].as_u64().map_or(10, |limit| limit as usize);
                if limit > state.page_max {
                    return error(400, "", &over_limit(limit, state.page_max, "limit"));
                }
                let from = request["offset"].as_u64().unwrap_or(0);
                let all = by_id(&state);
                let from = || all.range((from, String::new())..);
                let page: Vec<&Value> = from().take(limit).map(|(_, point)| *point).collect();
                let behind = from().nth(limit).map(|((id, _), _)| *id);
                ok(json!({"points": page, "next_page_offset": state.circle.or(behind)}))
            }
            _ => error(404, "", "no such route"),
        }
    }
}

fn over_limit(given: usize, limit: usize, name: &str) -> String {
    format!("Bad request: Limit exceeded {given} > {limit} for \"{name}\". Help: Reduce it.")
}

/// The last of each id, numbers before UUIDs.
fn by_id(state: &State) -> BTreeMap<(u64, String), &Value> {
    let key = |id: &Value| match id.as_str() {
        Some(uuid) => (u64::MAX, uuid.to_string()),
        None => (id.as_u64().unwrap_or_default(), String::new()),
    };
    state
        .points
        .iter()
        .map(|point| (key(&point["id"]), point))
        .collect()
}
