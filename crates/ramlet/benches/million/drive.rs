//! Clients in a closed loop: each asks, waits for the answer, asks the next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, mpsc};
use std::time::{Duration, Instant};

use ramlet::{Collection, Engine, PointId, ScoredPoint, Scratch, SearchCost, SearchRequest};
use ramlet_testdata::recall::Recall;
use ramlet_testdata::{Latencies, process};
use serde_json::{Value, json};

use crate::Outcome;

/// Queries with what should be found.
pub struct Asked {
    pub requests: Vec<SearchRequest>,
    /// Fewer than asked for where fewer rows match.
    pub truth: Vec<Vec<u32>>,
}

/// When the clients stop.
pub struct Until {
    /// At least this long, and every query at least once.
    pub span: Duration,
    /// Instead: when told.
    pub told: Option<Arc<AtomicBool>>,
}

/// What the clients saw.
#[derive(Default)]
pub struct Tally {
    pub latencies: Latencies,
    /// Of the first time that each query was asked.
    pub recall: Recall,
    cost: SearchCost,
    /// How searches differ: codes compared and rows read by each.
    codes: Latencies,
    rows_read: Latencies,
    cpu_ns: u64,
    seconds: f64,
    refused: u64,
}

struct Run {
    collection: Arc<Collection>,
    asked: Arc<RwLock<Asked>>,
    until: Until,
    next: AtomicUsize,
    started: Instant,
}

/// Runs so many clients, each on a search slot of its own, and adds up what they saw. A search that fails ends it, unless
/// it was refused for want of memory.
pub fn drive(
    engine: &Engine,
    collection: &Arc<Collection>,
    asked: &Arc<RwLock<Asked>>,
    clients: usize,
    until: Until,
) -> Outcome<Tally> {
    let run = Arc::new(Run {
        collection: collection.clone(),
        asked: asked.clone(),
        until,
        next: AtomicUsize::new(0),
        started: Instant::now(),
    });
    let (tell, told) = mpsc::channel();
    for _ in 0..clients {
        let (run, tell) = (run.clone(), tell.clone());
        engine.run(Box::new(move |scratch| {
            let _ = tell.send(run.client(scratch));
        }))?;
    }
    drop(tell);
    let mut all = Tally::default();
    for _ in 0..clients {
        all.add(&told.recv()??);
    }
    all.seconds = run.started.elapsed().as_secs_f64();
    Ok(all)
}

/// A point of a loaded set is the row of its number.
#[derive(PartialEq)]
struct Found(PointId);

impl PartialEq<u32> for Found {
    fn eq(&self, row: &u32) -> bool {
        self.0 == PointId::Num(u64::from(*row))
    }
}

impl Run {
    fn client(&self, scratch: &mut Scratch) -> ramlet::Result<Tally> {
        let asked = self.asked.read().expect("never poisoned");
        let queries = asked.requests.len();
        let mut tally = Tally::default();
        let mut hits: Vec<ScoredPoint> = Vec::with_capacity(64);
        let mut found = Vec::with_capacity(64);
        let cpu = process::thread_cpu_ns();
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            if self.is_over(turn, queries) {
                break;
            }
            hits.clear();
            let started = Instant::now();
            let answer = self
                .collection
                .search_into(&asked.requests[turn % queries], scratch, &mut hits);
            let took = started.elapsed();
            let cost = match answer {
                Ok(cost) => cost,
                Err(e) if e.is_over_budget() => {
                    tally.refused += 1;
                    continue;
                }
                Err(e) => return Err(e),
            };
            tally.latencies.note(took.as_nanos() as u64);
            add_cost(&mut tally.cost, &cost);
            tally.codes.note(cost.codes_scanned);
            tally.rows_read.note(cost.rows_read);
            if turn < queries {
                found.clear();
                found.extend(hits.iter().map(|hit| Found(hit.id)));
                tally.recall.note(&found, &asked.truth[turn]);
            }
        }
        tally.cpu_ns = process::thread_cpu_ns() - cpu;
        Ok(tally)
    }

    fn is_over(&self, turn: usize, queries: usize) -> bool {
        match &self.until.told {
            Some(told) => told.load(Ordering::Relaxed),
            None => turn >= queries && self.started.elapsed() >= self.until.span,
        }
    }
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        self.recall.add(other.recall);
        self.codes.add(&other.codes);
        self.rows_read.add(&other.rows_read);
        add_cost(&mut self.cost, &other.cost);
        self.cpu_ns += other.cpu_ns;
        self.refused += other.refused;
    }

    pub fn json(&self) -> Value {
        let count = self.latencies.count().max(1) as f64;
        let each = |total: u64| (total as f64 / count * 1e3).round() / 1e3;
        let us = |quantile: f64| self.latencies.percentile(quantile) as f64 / 1e3;
        json!({
            "queries": self.latencies.count(),
            "seconds": (self.seconds * 1e3).round() / 1e3,
            "queries_per_s": (self.latencies.count() as f64 / self.seconds * 10.0).round() / 10.0,
            "recall_at_10": (self.recall.share() * 1e5).round() / 1e5,
            "latency_us_mean": (self.latencies.mean() / 1e2).round() / 10.0,
            "latency_us_p50": us(0.5), "latency_us_p99": us(0.99), "latency_us_max": us(1.0),
            "cpu_us_per_query": each(self.cpu_ns / 1000),
            "codes_p99_of_queries": self.codes.percentile(0.99), "rows_read_p99_of_queries": self.rows_read.percentile(0.99),
            "probes_per_query": each(self.cost.probes), "codes_per_query": each(self.cost.codes_scanned),
            "survivors_per_query": each(self.cost.survivors), "extended_per_query": each(self.cost.extended_scored),
            "rows_per_query": each(self.cost.rows_scanned), "rows_read_per_query": each(self.cost.rows_read),
            "reads_per_query": each(self.cost.disk_reads),
            "read_bytes_per_query": each(self.cost.disk_bytes).round(),
            "refused": self.refused,
        })
    }
}

fn add_cost(sum: &mut SearchCost, cost: &SearchCost) {
    sum.rows_scanned += cost.rows_scanned;
    sum.codes_scanned += cost.codes_scanned;
    sum.survivors += cost.survivors;
    sum.extended_scored += cost.extended_scored;
    sum.rows_read += cost.rows_read;
    sum.probes += cost.probes;
    sum.disk_reads += cost.disk_reads;
    sum.disk_bytes += cost.disk_bytes;
}
