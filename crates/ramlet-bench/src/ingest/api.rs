//! The few calls of the REST API that an ingestion makes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use super::options::IngestOptions;
use crate::http::{Connection, Target};

/// The collection that is made and removed.
pub(crate) const COLLECTION: &str = "ramlet-bench-ingest";

/// A server that merges may keep a request waiting, but not for longer than this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a connection that fails is made again: requests here may be repeated.
const RECONNECT_FOR: Duration = Duration::from_secs(10);
/// How long a server may answer nothing but 429 to one request.
const BUSY_FOR: Duration = Duration::from_secs(600);
const RETRY_AFTER_MAX_S: u64 = 60;
const PAUSE: Duration = Duration::from_millis(200);

/// One connection, made when it is needed.
pub(crate) struct Api {
    target: Target,
    connection: Option<Connection>,
    request: Vec<u8>,
}

/// What a collection says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct State {
    pub is_green: bool,
    pub points: u64,
    pub indexed: u64,
    pub segments: Option<u64>,
}

impl Api {
    pub(crate) fn new(target: Target) -> Api {
        Api {
            target,
            connection: None,
            request: Vec::new(),
        }
    }

    /// One request, once: the status, the seconds to wait before the next try, and the body.
    pub(crate) fn once(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<(u16, Option<u64>, Vec<u8>)> {
        self.request.clear();
        self.target.render(method, path, body, &mut self.request);
        let mut connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => self.target.connect(ANSWER_TIMEOUT)?,
        };
        let answer = connection.ask(&self.request)?;
        let told = (answer.status, answer.retry_after_s, answer.body.to_vec());
        self.connection = Some(connection);
        Ok(told)
    }

    /// As [`Api::once`], until there is an answer other than 429; outlives a short loss of the connection.
    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let start = Instant::now();
        let mut lost = None;
        loop {
            match self.once(method, path, body) {
                Ok((429, wait, _)) if start.elapsed() < BUSY_FOR => {
                    lost = None;
                    sleep(Duration::from_secs(wait.unwrap_or(1).min(RETRY_AFTER_MAX_S)));
                }
                Ok((status, _, body)) => return Ok((status, body)),
                Err(error) if lost.get_or_insert_with(Instant::now).elapsed() > RECONNECT_FOR => {
                    return Err(error.context(format!("no answer from {}", self.target.url())));
                }
                Err(_) => sleep(PAUSE),
            }
        }
    }

    /// The `result` of an answer; an error with the server's sentence unless it is a 2xx.
    fn result(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Value> {
        let (status, answer) = self.ask(method, path, body)?;
        let mut answer = judged(status, &answer).with_context(|| format!("{method} {path}"))?;
        Ok(answer["result"].take())
    }

    /// Makes the collection; one of that name that a killed run left is removed first.
    pub(crate) fn create(&mut self, options: &IngestOptions, dims: usize) -> Result<()> {
        self.remove()?;
        let body = json!({ "vectors": { "size": dims, "distance": options.distance.api_name() } });
        self.result(
            "PUT",
            &format!("/collections/{COLLECTION}"),
            body.to_string().as_bytes(),
        )?;
        Ok(())
    }

    /// Fine when there is none.
    pub(crate) fn remove(&mut self) -> Result<()> {
        let path = format!("/collections/{COLLECTION}");
        match self.ask("DELETE", &path, b"")? {
            (404, _) => Ok(()),
            (status, answer) => judged(status, &answer)
                .map(drop)
                .context("DELETE of the collection"),
        }
    }

    pub(crate) fn state(&mut self) -> Result<State> {
        let result = self.result("GET", &format!("/collections/{COLLECTION}"), b"")?;
        let number = |name: &str| result[name].as_u64();
        if result["status"] == "red" || result["optimizer_status"]["error"].is_string() {
            bail!(
                "the server says of its collection: {}",
                result["optimizer_status"]
            );
        }
        Ok(State {
            is_green: result["status"] == "green",
            points: number("points_count").unwrap_or(0),
            indexed: number("indexed_vectors_count").unwrap_or(0),
            segments: number("segments_count"),
        })
    }

    /// Sends points, rendered; false when the server wants fewer at once (413).
    pub(crate) fn upsert(&mut self, body: &[u8]) -> Result<bool> {
        let path = format!("/collections/{COLLECTION}/points?wait=false");
        match self.ask("PUT", &path, body)? {
            (413, _) => Ok(false),
            (status, answer) => judged(status, &answer).map(|_| true).context("sending points"),
        }
    }

    pub(crate) fn delete(&mut self, ids: &[u64]) -> Result<()> {
        let path = format!("/collections/{COLLECTION}/points/delete?wait=true");
        let body = json!({ "points": ids }).to_string();
        self.result("POST", &path, body.as_bytes()).map(drop)
    }

    /// The text of `/metrics`, where the server has it.
    pub(crate) fn metrics(&mut self) -> Option<String> {
        match self.once("GET", "/metrics", b"") {
            Ok((200, _, text)) => String::from_utf8(text).ok(),
            _ => None,
        }
    }
}

/// The answer of a 2xx, or the server's own sentence.
fn judged(status: u16, answer: &[u8]) -> Result<Value> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or(Value::Null);
    match status {
        200..=299 => Ok(answer),
        _ => Err(match answer["status"]["error"].as_str() {
            Some(sentence) => anyhow!("the server answered {status}: {sentence}"),
            None => anyhow!("the server answered {status}"),
        }),
    }
}
