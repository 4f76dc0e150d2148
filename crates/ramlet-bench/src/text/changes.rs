//! What happens to the index while it is searched: documents come in at a rate, or a part of it is written anew.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::corpus::{Corpus, Documents};
use super::replay::Watch;
use crate::traffic::api::{ANSWER_TIMEOUT, Api, collection_path, sentence};
use crate::traffic::fill::fill_points;
use crate::traffic::http::Target;

pub const COLLECTION: &str = "ramlet-bench-text";

/// Documents that came in at a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Updated {
    pub documents: u64,
    pub documents_per_s: f64,
    /// The longest that a batch was acknowledged after it was due.
    pub behind_s_max: f64,
}

/// Documents under ids that are there already, in an order that meets all parts of the index.
pub struct Changes<'c> {
    documents: Documents<'c>,
    count: u64,
    step: u64,
    next: u64,
}

/// Requests a second, if documents don't come in more slowly.
const BATCHES_PER_S: f64 = 20.0;
const POLL_EVERY: Duration = Duration::from_millis(5);

impl<'c> Changes<'c> {
    pub fn new(corpus: &'c Corpus) -> Result<Changes<'c>> {
        Ok(Changes {
            documents: corpus.documents()?,
            count: corpus.documents,
            step: step(corpus.documents),
            next: 0,
        })
    }

    /// Appends the next point: the text of one document under the id of another.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Result<()> {
        // From 1 on: the first document keeps its own id otherwise.
        self.next += 1;
        let id = (u128::from(self.next) * u128::from(self.step) % u128::from(self.count)) as u64;
        write_point(id, &mut self.documents, out)
    }
}

/// Appends the point of the next document.
pub fn write_point(id: u64, documents: &mut Documents<'_>, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(format!("{{\"id\":{id},\"vector\":{{}},\"payload\":").as_bytes());
    documents.write(out)?;
    out.push(b'}');
    Ok(())
}

/// A step that meets every number below `count` once before it repeats, and spreads them: near the golden section of it.
fn step(count: u64) -> u64 {
    let wanted = (count as f64 * 0.618) as u64;
    let divides = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (wanted.max(1)..=count)
        .find(|n| divides(*n, count) == 1)
        .unwrap_or(1)
}

/// Sends documents at `per_s` until the replay ends; a server that can't take them so fast gets them later.
pub fn stream(target: &Target, changes: &mut Changes<'_>, per_s: f64, watch: &Watch) -> Result<Updated> {
    let batch = (per_s / BATCHES_PER_S).max(1.0) as u64;
    let (mut updated, mut connection) = (Updated::default(), None);
    let path = format!("{}/points?wait=false", collection_path(COLLECTION));
    let (mut body, mut request) = (Vec::new(), Vec::new());
    while !watch.ended.load(Ordering::Acquire) {
        let due = watch.start + Duration::from_secs_f64(updated.documents as f64 / per_s);
        if due > Instant::now() {
            std::thread::sleep(POLL_EVERY.min(due - Instant::now()));
            continue;
        }
        body.clear();
        body.extend_from_slice(b"{\"points\":[");
        for n in 0..batch {
            if n > 0 {
                body.push(b',');
            }
            changes.write(&mut body)?;
        }
        body.extend_from_slice(b"]}");
        request.clear();
        target.render("PUT", &path, &body, &mut request);
        while !send(target, &mut connection, &request)? {
            if watch.ended.load(Ordering::Acquire) {
                break;
            }
        }
        updated.documents += batch;
        updated.behind_s_max = updated.behind_s_max.max(due.elapsed().as_secs_f64());
    }
    updated.documents_per_s = updated.documents as f64 / watch.start.elapsed().as_secs_f64().max(1e-9);
    Ok(updated)
}

/// False when the server asked to wait; it has been waited for.
fn send(
    target: &Target,
    connection: &mut Option<crate::traffic::http::Connection>,
    request: &[u8],
) -> Result<bool> {
    let open = match connection.take().filter(|open| open.is_open()) {
        Some(open) => connection.insert(open),
        None => connection.insert(target.connect(ANSWER_TIMEOUT)?),
    };
    let answer = open.ask(request)?;
    match answer.status {
        200..=299 => Ok(true),
        429 => {
            std::thread::sleep(Duration::from_secs(
                answer.retry_after_s.unwrap_or(1).clamp(1, 10),
            ));
            Ok(false)
        }
        status => bail!("documents aren't taken: {status}: {}", sentence(answer.body)),
    }
}

/// Writes `documents` anew whenever `every` more queries were answered, and waits until the index is whole again. Returns from when to
/// when each replacement lasted, since the start.
pub fn replace(
    target: &Target,
    changes: &mut Changes<'_>,
    documents: u64,
    every: u64,
    watch: &Watch,
    timeout: Duration,
) -> Result<Vec<(Duration, Duration)>> {
    let (mut api, mut spans) = (Api::new(target.clone()), Vec::new());
    let mut due = every;
    while !watch.ended.load(Ordering::Acquire) {
        if watch.answered.load(Ordering::Relaxed) < due {
            std::thread::sleep(POLL_EVERY);
            continue;
        }
        let began = watch.start.elapsed();
        fill_points(
            target,
            COLLECTION,
            documents,
            &mut |_, out| changes.write(out),
            &mut |_| {},
        )?;
        api.wait_until_green(COLLECTION, timeout, &mut |_| {})?;
        spans.push((began, watch.start.elapsed()));
        due = watch.answered.load(Ordering::Relaxed) + every;
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_once() {
        for count in [1, 2, 7, 100, 4_096] {
            let step = step(count);
            let ids: HashSet<u64> = (1..=count).map(|n| n * step % count).collect();
            assert_eq!(ids.len() as u64, count);
        }
    }
}
