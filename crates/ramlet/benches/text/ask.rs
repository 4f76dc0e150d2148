//! `ask`: queries of a kind in a closed loop, and how fast they are answered.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ramlet::filter::Filter;
use ramlet::{
    Collection, Engine, PayloadSelector, QueryKind, QueryRequest, Scratch, SearchCost, SearchResponse,
    TextQuery,
};
use ramlet_testdata::args::Args;
use ramlet_testdata::{Latencies, process};
use serde_json::{Value, json};

use crate::{Outcome, open};

pub fn run(prefix: &str, directory: &Path, args: &Args) -> Outcome {
    let engine = open::engine(directory, args)?;
    let collection = engine.collection(open::NAME)?;
    open::settle(&collection)?;
    let placement = open::placement(&engine, &collection);
    println!(
        "{}",
        json!({ "step": "open", "used": open::memory_now(), "placement": placement })
    );
    let span = Duration::from_secs_f64(args.value("seconds", 2.0)?);
    let clients = match args.list("clients")? {
        none if none.is_empty() => vec![1],
        clients => clients,
    };
    for kind in args.text("kinds").unwrap_or("term,any,all,phrase").split(',') {
        let requests = Arc::new(requests(prefix, kind, args)?);
        for &threads in &clients {
            let ask = |span| Asked::new(&engine, &collection, &requests, span).by(threads);
            ask(Duration::ZERO)?;
            let disk = process::disk_bytes().0;
            let mut out = ask(span)?.json();
            out["kind"] = kind.into();
            out["threads"] = threads.into();
            out["documents"] = (!args.has("ids-only")).into();
            out["disk_bytes"] = (process::disk_bytes().0 - disk).into();
            println!("{out}");
        }
    }
    engine.close();
    Ok(())
}

/// The queries of a kind. What all words or a phrase ask for is a filter beside the ranking.
fn requests(prefix: &str, kind: &str, args: &Args) -> Outcome<Vec<QueryRequest>> {
    let path = format!("{prefix}.queries.jsonl");
    let field = args.text("field").unwrap_or("body");
    let mut out = Vec::new();
    for line in BufReader::new(File::open(&path).map_err(|e| format!("{path}: {e}"))?).lines() {
        let query: Value = serde_json::from_str(&line?)?;
        if query["kind"] != kind {
            continue;
        }
        let text = query["text"].as_str().ok_or("a query without text")?;
        let how = match kind {
            "all" => Some("text"),
            "phrase" => Some("phrase"),
            _ => None,
        };
        let filter = how.map(|how| json!({ "must": [{ "key": field, "match": { how: text } }] }));
        out.push(QueryRequest {
            query: Some(QueryKind::Text(TextQuery {
                text: text.to_string(),
                ..TextQuery::default()
            })),
            using: field.to_string(),
            filter: filter.map(serde_json::from_value::<Filter>).transpose()?,
            limit: args.value("limit", 20)?,
            with_payload: match args.has("ids-only") {
                true => PayloadSelector::None,
                false => PayloadSelector::All,
            },
            ..QueryRequest::default()
        });
    }
    match out.is_empty() {
        true => Err(format!("there are no queries of the kind {kind}").into()),
        false => Ok(out),
    }
}

/// A run: at least so long, and every query at least once.
struct Asked<'a> {
    engine: &'a Arc<Engine>,
    run: Run,
}

struct Run {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    requests: Arc<Vec<QueryRequest>>,
    span: Duration,
    next: AtomicUsize,
    started: Instant,
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    latencies: Latencies,
    hits: u64,
    bytes: u64,
    cost: SearchCost,
    cpu_ns: u64,
    seconds: f64,
}

impl<'a> Asked<'a> {
    fn new(
        engine: &'a Arc<Engine>,
        collection: &Arc<Collection>,
        requests: &Arc<Vec<QueryRequest>>,
        span: Duration,
    ) -> Asked<'a> {
        let run = Run {
            engine: engine.clone(),
            collection: collection.clone(),
            requests: requests.clone(),
            span,
            next: AtomicUsize::new(0),
            started: Instant::now(),
        };
        Asked { engine, run }
    }

    /// So many clients, each with a scratch of its own.
    fn by(self, clients: usize) -> Outcome<Seen> {
        let scratches = (0..clients).map(|_| self.engine.scratch());
        let scratches = scratches.collect::<ramlet::Result<Vec<_>>>()?;
        let run = &self.run;
        let seen = thread::scope(|scope| {
            let clients = scratches
                .into_iter()
                .map(|mut scratch| scope.spawn(move || run.client(&mut scratch)));
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .map(|client| client.join())
                .collect::<Vec<_>>()
        });
        let mut all = Seen::default();
        for seen in seen {
            let seen = seen.map_err(|_| "a client panicked")??;
            all.latencies.add(&seen.latencies);
            (all.hits, all.bytes, all.cpu_ns) = (
                all.hits + seen.hits,
                all.bytes + seen.bytes,
                all.cpu_ns + seen.cpu_ns,
            );
            all.add_cost(&seen.cost);
        }
        all.seconds = self.run.started.elapsed().as_secs_f64();
        Ok(all)
    }
}

impl Run {
    fn client(&self, scratch: &mut Scratch) -> ramlet::Result<Seen> {
        let mut seen = Seen::default();
        let cpu = process::thread_cpu_ns();
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            if turn >= self.requests.len() && self.started.elapsed() >= self.span {
                break;
            }
            let request = self.requests[turn % self.requests.len()].clone();
            let started = Instant::now();
            let found: SearchResponse = self.collection.query(request, &self.engine, scratch)?;
            seen.latencies.note(started.elapsed().as_nanos() as u64);
            seen.hits += found.hits.len() as u64;
            let payloads = found.hits.iter().filter_map(|hit| hit.payload.as_ref());
            seen.bytes += payloads.map(|payload| payload.len() as u64).sum::<u64>();
            seen.add_cost(&found.cost);
        }
        seen.cpu_ns = process::thread_cpu_ns() - cpu;
        Ok(seen)
    }
}

impl Seen {
    fn add_cost(&mut self, cost: &SearchCost) {
        self.cost.rows_scanned += cost.rows_scanned;
        self.cost.codes_scanned += cost.codes_scanned;
        self.cost.disk_reads += cost.disk_reads;
        self.cost.disk_bytes += cost.disk_bytes;
    }

    fn json(&self) -> Value {
        let count = self.latencies.count().max(1) as f64;
        let us = |quantile: f64| self.latencies.percentile(quantile) as f64 / 1e3;
        let each = |total: u64| total as f64 / count;
        json!({
            "step": "ask", "side": "ramlet", "queries": self.latencies.count(), "seconds": self.seconds, "queries_per_s": count / self.seconds,
            "cpu_us_per_query": each(self.cpu_ns) / 1e3, "latency_us_p50": us(0.5), "latency_us_p99": us(0.99),
            "hits_per_query": each(self.hits), "bytes_per_query": each(self.bytes), "rows_per_query": each(self.cost.rows_scanned),
            "postings_per_query": each(self.cost.codes_scanned), "reads_per_query": each(self.cost.disk_reads),
            "read_bytes_per_query": each(self.cost.disk_bytes),
        })
    }
}
