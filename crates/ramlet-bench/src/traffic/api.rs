//! The calls of the Qdrant REST API around a measurement: make a collection, ask how it is. Not for load: they parse everything.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use super::http::{Connection, Target};

/// How long an answer may take: a server that merges inside a small limit takes its time.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
const BUSY_FOR: Duration = Duration::from_secs(600);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// So often in a row a collection must be green: just after an upload a server may not have noticed yet what there is to do.
const GREEN_POLLS: u32 = 6;

/// A server, asked politely: one connection, made anew when it breaks.
#[derive(Debug)]
pub struct Api {
    target: Target,
    connection: Option<Connection>,
}

/// What a collection says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectionState {
    /// `green` when nothing is left to do.
    pub status: String,
    pub points: u64,
    pub dims: usize,
    /// `Cosine`, `Dot`, ... of the vector asked about.
    pub distance: String,
    /// Why it is red.
    pub why: String,
}

/// An answer that isn't 2xx.
#[derive(Debug)]
pub struct Refused {
    pub status: u16,
    pub sentence: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.status, self.sentence)
    }
}

impl std::error::Error for Refused {}

impl Api {
    pub fn new(target: Target) -> Api {
        Api {
            target,
            connection: None,
        }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Status and body of one request, no retries.
    fn once(&mut self, request: &[u8]) -> Result<(u16, Option<u64>, Vec<u8>)> {
        let mut connection = match self.connection.take().filter(Connection::is_open) {
            Some(open) => open,
            None => {
                let opened = self.target.connect(ANSWER_TIMEOUT);
                opened.with_context(|| format!("connecting to {}", self.target.url()))?
            }
        };
        let answer = connection.ask(request)?;
        let out = (answer.status, answer.retry_after_s, answer.body.to_vec());
        self.connection = Some(connection);
        Ok(out)
    }

    /// The parsed answer; null when it is no JSON. Waits and repeats on 429. Other answers than 2xx are [`Refused`].
    pub fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut request = Vec::new();
        let text = body.map(Value::to_string).unwrap_or_default();
        self.target.render(method, path, text.as_bytes(), &mut request);
        let started = Instant::now();
        loop {
            let (status, retry_after, body) = match self.once(&request) {
                // It may have been closed while idle; a second try is on a new one.
                Err(_) if self.connection.is_none() => self.once(&request)?,
                other => other?,
            };
            match status {
                200..=299 => return Ok(serde_json::from_slice(&body).unwrap_or(Value::Null)),
                429 if started.elapsed() < BUSY_FOR => {
                    std::thread::sleep(Duration::from_secs(retry_after.unwrap_or(1).clamp(1, 10)));
                }
                _ => {
                    let sentence = sentence(&body);
                    return Err(anyhow!(Refused { status, sentence }))
                        .with_context(|| format!("{method} {path}"));
                }
            }
        }
    }

    /// Whether the server says it can answer: `/readyz`, or its root where that is unknown.
    pub fn is_ready(&mut self) -> bool {
        let refused = |error: &anyhow::Error| error.downcast_ref::<Refused>().map(|r| r.status);
        match self.call("GET", "/readyz", None) {
            Ok(_) => true,
            Err(error) => refused(&error) == Some(404) && self.call("GET", "/", None).is_ok(),
        }
    }

    /// Ramlet's own version; `None`: it is another server. Its root says word for word what the API's says.
    pub fn ramlet(&mut self) -> Option<String> {
        let memory = self.call("GET", "/memory", None).ok()?;
        memory["result"]["version"].as_str().map(str::to_owned)
    }

    /// Name and version.
    pub fn about(&mut self) -> String {
        if let Some(version) = self.ramlet() {
            return format!("ramlet {version}");
        }
        let root = self.call("GET", "/", None).unwrap_or_default();
        let text = |name: &str| root[name].as_str().unwrap_or("?").to_string();
        format!("{} {}", text("title"), text("version"))
    }

    /// None when there is none of that name. `using`: which of several named vectors.
    pub fn collection(&mut self, name: &str, using: Option<&str>) -> Result<Option<CollectionState>> {
        match self.call("GET", &collection_path(name), None) {
            Ok(answer) => Ok(Some(state(&answer["result"], using))),
            Err(error) => match error.downcast_ref::<Refused>() {
                Some(refused) if refused.status == 404 => Ok(None),
                _ => Err(error),
            },
        }
    }

    pub fn create(&mut self, name: &str, settings: &Value) -> Result<()> {
        self.call("PUT", &collection_path(name), Some(settings))
            .map(|_| ())
    }

    pub fn drop_collection(&mut self, name: &str) -> Result<()> {
        self.call("DELETE", &collection_path(name), None).map(|_| ())
    }

    /// Waits until flushes, merges and index builds are done; `show` hears how it stands.
    pub fn wait_until_green(
        &mut self,
        name: &str,
        timeout: Duration,
        show: &mut dyn FnMut(&CollectionState),
    ) -> Result<()> {
        let (started, mut green) = (Instant::now(), 0);
        while green < GREEN_POLLS {
            let state = self.collection(name, None)?;
            let state = state.with_context(|| format!("collection '{name}' is gone"))?;
            green = if state.status == "green" { green + 1 } else { 0 };
            match state.status.as_str() {
                "green" => {}
                "red" => bail!("collection '{name}' is red: {}", state.why),
                status if started.elapsed() > timeout => {
                    bail!(
                        "collection '{name}' is still {status} after {} s",
                        timeout.as_secs()
                    )
                }
                _ => show(&state),
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// How many points there are, counted exactly.
    pub fn count(&mut self, name: &str) -> Result<u64> {
        let path = format!("{}/points/count", collection_path(name));
        let answer = self.call("POST", &path, Some(&json!({ "exact": true })))?;
        answer["result"]["count"]
            .as_u64()
            .context("a count without a number")
    }
}

/// `/collections/{name}`, escaped.
pub fn collection_path(name: &str) -> String {
    let mut path = String::from("/collections/");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => path.push(byte as char),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// The sentence of the API's error, or the body's beginning.
pub fn sentence(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    match parsed["status"]["error"].as_str() {
        Some(text) => text.to_string(),
        None => String::from_utf8_lossy(body).trim().chars().take(300).collect(),
    }
}

fn state(result: &Value, using: Option<&str>) -> CollectionState {
    let vectors = &result["config"]["params"]["vectors"];
    let params = match using.filter(|name| !name.is_empty()) {
        Some(name) => &vectors[name],
        None => vectors,
    };
    CollectionState {
        status: result["status"].as_str().unwrap_or("unknown").to_string(),
        points: result["points_count"].as_u64().unwrap_or(0),
        dims: params["size"].as_u64().unwrap_or(0) as usize,
        distance: params["distance"].as_str().unwrap_or_default().to_string(),
        why: match &result["optimizer_status"] {
            Value::Object(o) => o.get("error").map(Value::to_string).unwrap_or_default(),
            other => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        assert_eq!(collection_path("a-b_1.c"), "/collections/a-b_1.c");
        assert_eq!(collection_path("a/../b c"), "/collections/a%2F..%2Fb%20c");
    }

    #[test]
    fn sentences_of_errors() {
        assert_eq!(
            sentence(br#"{"status":{"error":"Wrong input: x"},"time":0.1}"#),
            "Wrong input: x"
        );
        assert_eq!(sentence(b"bad gateway\n"), "bad gateway");
    }

    #[test]
    fn states() {
        let one = json!({"status":"green","points_count":7,"optimizer_status":"ok",
            "config":{"params":{"vectors":{"size":4,"distance":"Dot"}}}});
        let of = state(&one, None);
        assert_eq!(
            (of.status.as_str(), of.points, of.dims, of.distance.as_str()),
            ("green", 7, 4, "Dot")
        );
        let named = json!({"config":{"params":{"vectors":{"a":{"size":8,"distance":"Cosine"}}}}});
        assert_eq!((state(&named, Some("a")).dims, state(&named, None).dims), (8, 0));
    }
}
