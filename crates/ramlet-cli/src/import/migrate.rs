//! `ramlet import --from`: collections of another server of the API, over the network.
//!
//! A collection is created with the other one's settings, gets its payload indexes, then its points, scrolled in the order of
//! their ids and sent on as they come, then its aliases. After every acknowledged page a file says where to go on.

use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::HumanCount;
use ramlet_bench::api::collection_path;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::api::{Api, CollectionState, Refusal};
use super::progress::Progress;
use super::resume::Resume;
use crate::args::ImportArgs;

/// About the text of a page: neither server holds more of it at once than a few.
const PAGE_BYTES: usize = 512 << 10;
const PAGE_POINTS_MAX: usize = 2_000;
const PAGE_POINTS_BEGIN: usize = 32;

/// Both ends of an import.
struct Servers {
    from: Api,
    to: Api,
}

/// Runs an import from a server to its end; prints what it did.
pub fn run(args: &ImportArgs, from: &str) -> Result<()> {
    let from_key = args.from_api_key.clone().or_else(|| args.api_key.clone());
    let servers = Servers {
        from: Api::new(from, from_key, 2)?,
        to: Api::new(&args.url, args.api_key.clone(), 2)?,
    };
    servers.from.check_reachable()?;
    servers.to.check_reachable()?;
    let names = match &args.collection {
        Some(name) => vec![name.clone()],
        None => collections(&servers.from)?,
    };
    if names.is_empty() {
        println!("the server at {from} has no collections");
    }
    let mut resume = Resume::open(&args.state, from, &args.url)?;
    for name in &names {
        if resume.is_done(name) {
            println!("'{name}' is in already");
            continue;
        }
        let done = servers.collection(name, args, &mut resume);
        done.with_context(|| format!("collection '{name}'; run the same again to go on"))?;
        resume.done(name)?;
    }
    for name in &names {
        servers.aliases(name)?;
        if args.wait {
            super::wait_until_green(&servers.to, name)?;
        }
    }
    resume.finish()
}

/// Names of all collections of a server.
fn collections(server: &Api) -> Result<Vec<String>> {
    let answer = server
        .get("/collections")?
        .context("it has no list of collections")?;
    let list = answer["collections"]
        .as_array()
        .context("no list of collections")?;
    Ok(list
        .iter()
        .filter_map(|c| Some(c["name"].as_str()?.to_string()))
        .collect())
}

impl Servers {
    fn collection(&self, name: &str, args: &ImportArgs, resume: &mut Resume) -> Result<()> {
        let there = self.from.collection(name)?;
        let source = there.ok_or_else(|| anyhow!("the other server has none of this name"))?;
        match self.to.collection(name)? {
            None => self.create(name, &source)?,
            Some(ours) => check_same(name, &source.config, &ours.config)?,
        }
        self.indexes(name, &source)?;
        let progress = Progress::new(source.points_count.unwrap_or(0));
        let sent = self.points(name, args.batch, resume, &progress);
        progress.finish();
        let sent = sent?;
        self.strict_mode(name, &source)?;
        let (theirs, ours) = (count(&self.from, name)?, count(&self.to, name)?);
        println!(
            "imported {} points into '{name}' in {:.1} s, {} points/s; it has {} now",
            HumanCount(sent),
            progress.elapsed().as_secs_f64(),
            HumanCount(progress.rate(sent)),
            HumanCount(ours),
        );
        if theirs != ours {
            eprintln!(
                "the other server has {} points: it was written to meanwhile, or '{name}' had others before",
                HumanCount(theirs)
            );
        }
        Ok(())
    }

    fn create(&self, name: &str, source: &CollectionState) -> Result<()> {
        let settings = settings(&source.config);
        self.to.ok(Method::PUT, &collection_path(name), &settings)?;
        eprintln!("created collection '{name}' with the settings of the other");
        Ok(())
    }

    /// Indexes that are there stay: the same again changes nothing.
    fn indexes(&self, name: &str, source: &CollectionState) -> Result<()> {
        for (field, index) in source.payload_schema.as_object().into_iter().flatten() {
            let schema = match &index["params"] {
                Value::Null => &index["data_type"],
                params => params,
            };
            let body = json!({ "field_name": field, "field_schema": schema });
            let path = format!("{}/index?wait=true", collection_path(name));
            self.to
                .ok(Method::PUT, &path, &body)
                .with_context(|| format!("index of the field '{field}'"))?;
        }
        Ok(())
    }

    /// Limits come last: they are meant for clients, and an import may exceed them.
    fn strict_mode(&self, name: &str, source: &CollectionState) -> Result<()> {
        let strict = &source.config["strict_mode_config"];
        if strict["enabled"] != json!(true) {
            return Ok(());
        }
        let body = json!({ "strict_mode_config": without_nulls(strict) });
        self.to.ok(Method::PATCH, &collection_path(name), &body)?;
        Ok(())
    }

    fn aliases(&self, name: &str) -> Result<()> {
        let Some(answer) = self.from.get(&format!("{}/aliases", collection_path(name)))? else {
            return Ok(());
        };
        for alias in answer["aliases"].as_array().into_iter().flatten() {
            let alias = alias["alias_name"].as_str().context("an alias without a name")?;
            let create = json!({ "create_alias": { "collection_name": name, "alias_name": alias } });
            self.to
                .ok(
                    Method::POST,
                    "/collections/aliases",
                    &json!({ "actions": [create] }),
                )
                .with_context(|| format!("alias '{alias}'"))?;
        }
        Ok(())
    }

    /// Reads a page while the one before is being written. Returns how many points were acknowledged.
    fn points(
        &self,
        name: &str,
        batch: Option<usize>,
        resume: &mut Resume,
        progress: &Progress,
    ) -> Result<u64> {
        let (mut sent, before) = (0, resume.points(name));
        if before > 0 {
            eprintln!("'{name}': going on after {} points", HumanCount(before));
        }
        let mut scroll = Scroll::new(&self.from, name, batch, resume.offset(name));
        let (sender, pages) = sync_channel::<Result<Page>>(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                while let Some(page) = scroll.next() {
                    let failed = page.is_err();
                    // Nobody receives any more: the other side has failed, and tells why.
                    if sender.send(page).is_err() || failed {
                        return;
                    }
                }
            });
            for page in pages {
                let page = page?;
                self.send(name, &page.points)?;
                sent += page.points.len() as u64;
                progress.acknowledged(page.points.len() as u64);
                progress.at((before + sent, 0));
                resume.at(name, page.next.as_deref(), before + sent)?;
            }
            Ok(sent)
        })
    }

    /// In smaller requests when the server has no room for all at once.
    fn send(&self, name: &str, points: &[String]) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        let body = format!("{{\"points\":[{}]}}", points.join(","));
        match self.to.upsert(name, body.as_bytes()) {
            Ok(()) => Ok(()),
            Err(Refusal::TooLarge(_)) if points.len() > 1 => {
                drop(body);
                let (first, second) = points.split_at(points.len() / 2);
                self.send(name, first)?;
                self.send(name, second)
            }
            Err(Refusal::TooLarge(why)) => bail!("a point alone is too large for the server: {why}"),
            Err(Refusal::Final(error)) => Err(error),
        }
    }
}

/// Points as they are sent on, and the offset behind them, as JSON.
struct Page {
    points: Vec<String>,
    next: Option<String>,
}

/// A collection that is read page by page.
struct Scroll<'a> {
    server: &'a Api,
    path: String,
    /// Points of a page: as many as make [`PAGE_BYTES`], unless they were given.
    points: usize,
    fixed: bool,
    offset: Option<String>,
    ended: bool,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Scrolled<'a>,
}

#[derive(Deserialize)]
struct Scrolled<'a> {
    #[serde(borrow)]
    points: Vec<Record<'a>>,
    #[serde(borrow)]
    next_page_offset: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    vector: Option<&'a RawValue>,
}

impl Record<'_> {
    fn point(&self) -> String {
        let payload = self.payload.map_or("{}", RawValue::get);
        let vector = self.vector.map_or("{}", RawValue::get);
        format!(
            "{{\"id\":{},\"vector\":{vector},\"payload\":{payload}}}",
            self.id.get()
        )
    }
}

impl<'a> Scroll<'a> {
    fn new(server: &'a Api, name: &str, batch: Option<usize>, offset: Option<String>) -> Scroll<'a> {
        Scroll {
            server,
            path: format!("{}/points/scroll", collection_path(name)),
            points: batch.unwrap_or(PAGE_POINTS_BEGIN),
            fixed: batch.is_some(),
            offset,
            ended: false,
        }
    }

    fn next(&mut self) -> Option<Result<Page>> {
        (!self.ended).then(|| self.page())
    }

    fn page(&mut self) -> Result<Page> {
        let answer = loop {
            let offset = self.offset.as_deref().unwrap_or("null");
            let body = format!(
                "{{\"limit\":{},\"offset\":{offset},\"with_payload\":true,\"with_vector\":true}}",
                self.points
            );
            let reply = self.server.ask(Method::POST, &self.path, body.as_bytes())?;
            match reply.status {
                // It has no room for so long an answer.
                413 if self.points > 1 => self.points /= 2,
                _ => break reply.into_body()?,
            }
        };
        let Answer { result } = serde_json::from_slice(&answer).context("a page of points")?;
        self.offset = result.next_page_offset.map(|offset| offset.get().to_string());
        self.ended = self.offset.is_none();
        let count = result.points.len().max(1);
        if !self.fixed {
            // At most twice as many as before: the next points may be longer.
            let fitting = PAGE_BYTES * count / answer.len().max(1);
            self.points = fitting.clamp(1, (2 * self.points).min(PAGE_POINTS_MAX));
        }
        Ok(Page {
            points: result.points.iter().map(Record::point).collect(),
            next: self.offset.clone(),
        })
    }
}

fn count(server: &Api, name: &str) -> Result<u64> {
    let path = format!("{}/points/count", collection_path(name));
    let answer = server.ok(Method::POST, &path, &json!({ "exact": true }))?;
    answer["count"].as_u64().context("an answer without a count")
}

/// What a collection is created with, out of what another one says of itself: all but how it was spread over machines.
fn settings(config: &Value) -> Value {
    let params = &config["params"];
    let mut out = Map::new();
    for name in ["vectors", "sparse_vectors", "on_disk_payload"] {
        out.insert(name.into(), without_nulls(&params[name]));
    }
    for (name, key) in [
        ("hnsw_config", "hnsw_config"),
        ("optimizers_config", "optimizer_config"),
        ("quantization_config", "quantization_config"),
        ("metadata", "metadata"),
    ] {
        out.insert(name.into(), without_nulls(&config[key]));
    }
    out.retain(|_, value| !value.is_null());
    Value::Object(out)
}

/// What isn't set is left out: a server may refuse the null of a setting that it doesn't know.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// (name, size, distance) of each vector, and the sparse ones.
fn shape(config: &Value) -> Vec<String> {
    let params = &config["params"];
    let dense = |name: &str, v: &Value| format!("'{name}' of {} {}", v["size"], v["distance"]);
    let vectors = &params["vectors"];
    let mut all: Vec<String> = match vectors.get("size") {
        Some(_) => vec![dense("", vectors)],
        None => {
            let named = vectors.as_object().into_iter().flatten();
            named.map(|(name, v)| dense(name, v)).collect()
        }
    };
    let sparse = params["sparse_vectors"].as_object().into_iter().flatten();
    all.extend(sparse.map(|(name, _)| format!("'{name}' sparse")));
    all.sort();
    all
}

fn check_same(name: &str, theirs: &Value, ours: &Value) -> Result<()> {
    let (theirs, ours) = (shape(theirs).join(", "), shape(ours).join(", "));
    match theirs == ours {
        true => Ok(()),
        false => bail!("'{name}' is there with the vectors {ours}; the other server's has {theirs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_another() {
        let config = json!({
            "params": {
                "vectors": {"a": {"size": 3, "distance": "Dot", "hnsw_config": null, "on_disk": true}},
                "shard_number": 4, "replication_factor": 2, "on_disk_payload": true,
                "sparse_vectors": {"s": {"modifier": "idf", "index": null}}
            },
            "hnsw_config": {"m": 16, "payload_m": null},
            "optimizer_config": {"indexing_threshold": 5, "max_segment_size": null},
            "wal_config": {"wal_capacity_mb": 32},
            "quantization_config": null
        });
        let expected = json!({
            "vectors": {"a": {"size": 3, "distance": "Dot", "on_disk": true}},
            "sparse_vectors": {"s": {"modifier": "idf"}},
            "on_disk_payload": true,
            "hnsw_config": {"m": 16},
            "optimizers_config": {"indexing_threshold": 5}
        });
        assert_eq!(settings(&config), expected);
        assert_eq!(shape(&config), ["'a' of 3 \"Dot\"", "'s' sparse"]);
        assert!(check_same("c", &config, &config).is_ok());
        let other = json!({"params": {"vectors": {"size": 3, "distance": "Dot"}}});
        assert!(check_same("c", &config, &other).is_err());
    }

    #[test]
    fn records_become_points() {
        let text = r#"{"result":{"points":[
            {"id":1,"payload":{"a":[1, 2]},"vector":[0.1,2],"shard_key":null},
            {"id":"u","payload":null,"vector":null}],"next_page_offset":"u"},"status":"ok"}"#;
        let Answer { result } = serde_json::from_str(text).unwrap();
        let points: Vec<_> = result.points.iter().map(Record::point).collect();
        assert_eq!(
            points,
            [
                r#"{"id":1,"vector":[0.1,2],"payload":{"a":[1, 2]}}"#,
                r#"{"id":"u","vector":{},"payload":{}}"#
            ]
        );
        assert_eq!(result.next_page_offset.map(RawValue::get), Some("\"u\""));
    }
}
