//! Queries and truth of a collection that is there: its own points, and exact searches for them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Progress;
use crate::traffic::api::{ANSWER_TIMEOUT, Api, collection_path};
use crate::traffic::load;
use crate::traffic::load::Load;
use crate::traffic::requests::Requests;
use crate::traffic::setting::{Setting, id_of_text};

/// What is searched, when nobody told.
pub struct Running {
    pub queries: Vec<Vec<f32>>,
    /// The nearest others of each.
    pub truth: Vec<Vec<u64>>,
    pub points: u64,
    pub dims: usize,
    pub distance: String,
}

/// Points asked for at once.
const PAGE: usize = 100;

/// Takes `count` points as queries, spread over the collection, and asks for the exact neighbours of each, itself left out.
pub fn ask(api: &mut Api, setting: &Setting, count: usize, progress: &Progress) -> Result<Running> {
    let (name, using) = (&setting.collection, setting.using.as_deref());
    let state = api.collection(name, using)?;
    let state =
        state.with_context(|| format!("there is no collection '{name}' on {}", api.target().url()))?;
    if state.dims == 0 {
        bail!("collection '{name}' has no such vector; --using names one of several");
    }
    let count = count.min(state.points as usize);
    progress.say(format!("taking {count} points of '{name}' as queries"));
    let (ids, queries) = points(api, name, using, count)?;
    progress.say(format!("exact neighbours of {} points", ids.len()));
    // Each finds itself first.
    let exact = Setting {
        k: setting.k + 1,
        exact: true,
        ef: None,
        params: None,
        ..setting.clone()
    };
    let requests = Requests::render(api.target(), &exact, queries.iter().map(Vec::as_slice))?;
    let load = Load {
        connections: 2,
        rate: None,
        span: Duration::ZERO,
        requests_min: requests.len() as u64,
        span_max: Duration::from_secs(24 * 3600),
        timeout: ANSWER_TIMEOUT,
    };
    let outcome = load::run(api.target(), &requests, &load);
    if let Some((error, many)) = outcome.errors.first_key_value() {
        bail!("{many} exact searches failed: {error}");
    }
    let mut truth = Vec::with_capacity(ids.len());
    for (id, found) in ids.iter().zip(outcome.found) {
        let found = found.context("an exact search without an answer")?;
        truth.push(
            found
                .into_iter()
                .filter(|other| other != id)
                .take(setting.k)
                .collect(),
        );
    }
    Ok(Running {
        queries,
        truth,
        points: state.points,
        dims: state.dims,
        distance: state.distance,
    })
}

/// (number of the id, vector) of `count` points. Ids that are numbers are asked for in even steps, so that all ages are among them;
/// where that finds too few (UUIDs, gaps) the first ones of a scroll do.
fn points(api: &mut Api, name: &str, using: Option<&str>, count: usize) -> Result<(Vec<u64>, Vec<Vec<f32>>)> {
    let (mut ids, mut vectors) = (Vec::new(), Vec::new());
    let mut take = |list: &Value| {
        for point in list.as_array().into_iter().flatten() {
            let vector = using.map_or(&point["vector"], |using| &point["vector"][using]);
            let vector: Option<Vec<f32>> = serde_json::from_value(vector.clone()).ok();
            let id = number_of(&point["id"]);
            if let (Some(id), Some(vector)) = (id, vector)
                && !ids.contains(&id)
                && ids.len() < count
            {
                ids.push(id);
                vectors.push(vector);
            }
        }
        ids.len()
    };
    let step = (api.count(name)? / count.max(1) as u64).max(1);
    let wanted: Vec<u64> = (0..count as u64).map(|n| n * step).collect();
    let with = |mut body: Value| {
        body["with_vector"] = using.map_or(json!(true), |using| json!([using]));
        body["with_payload"] = json!(false);
        body
    };
    let path = format!("{}/points", collection_path(name));
    let mut have = 0;
    for page in wanted.chunks(PAGE) {
        let answer = api.call("POST", &path, Some(&with(json!({ "ids": page }))))?;
        have = take(&answer["result"]);
    }
    let mut offset = Value::Null;
    while have < count {
        let body = with(json!({ "limit": PAGE, "offset": offset }));
        let answer = api.call("POST", &format!("{path}/scroll"), Some(&body))?;
        have = take(&answer["result"]["points"]);
        offset = answer["result"]["next_page_offset"].clone();
        if offset.is_null() {
            break;
        }
    }
    Ok((ids, vectors))
}

fn number_of(id: &Value) -> Option<u64> {
    match id {
        Value::String(text) => Some(id_of_text(text.as_bytes())),
        number => number.as_u64(),
    }
}
