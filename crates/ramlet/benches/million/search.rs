//! `search`: recall, queries a second, latency and cost of a loaded collection, setting by setting.

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use ramlet::filter::Filter;
use ramlet::{
    Collection, DEFAULT_VECTOR, Engine, PayloadSelector, QueryVector, SearchParams, SearchRequest,
    VectorSelector,
};
use ramlet_testdata::args::Args;
use ramlet_testdata::{Filters, K, Selection, Set, process};
use serde_json::{Value, json};

use crate::drive::{Asked, Until, drive};
use crate::{Outcome, open};

/// One effort to measure.
#[derive(Clone, Copy)]
pub enum Setting {
    Ef(usize),
    Recall(f32),
    Exact,
}

pub fn run(set: &Set, directory: &Path, args: &Args) -> Outcome {
    let asked = Arc::new(RwLock::new(asked(set, args)?));
    let started = Instant::now();
    let engine = open::engine(directory, args)?;
    let opened = started.elapsed().as_secs_f64();
    let collection = engine.collection(open::NAME)?;
    open::settle(&collection)?;
    let out = json!({
        "step": "open", "memory": args.text("memory"), "threads": open::threads(args)?, "open_s": opened,
        "ready_s": started.elapsed().as_secs_f64(), "used": open::memory_now(),
        "placement": open::placement(&engine, &collection),
    });
    println!("{out}");
    measure(&engine, &collection, &asked, args)?;
    engine.close();
    Ok(())
}

/// Every setting that the arguments name, each a line.
pub fn measure(
    engine: &Engine,
    collection: &Arc<Collection>,
    asked: &Arc<RwLock<Asked>>,
    args: &Args,
) -> Outcome {
    let threads = open::threads(args)?;
    let clients = args.value("in-flight", threads)?.clamp(1, threads);
    let warm = Duration::from_secs_f64(args.value("warm", 0.5)?);
    let span = Duration::from_secs_f64(args.value("seconds", 2.0)?);
    for setting in settings(args)? {
        let params = params(setting);
        for request in &mut asked.write().expect("never poisoned").requests {
            request.params = params.clone();
        }
        let until = |span| Until { span, told: None };
        drive(engine, collection, asked, clients, until(warm))?;
        let (disk, cpu) = (process::disk_bytes(), process::process_cpu_s());
        let tally = drive(engine, collection, asked, clients, until(span))?;
        let queries = tally.latencies.count().max(1) as f64;
        let mut out = tally.json();
        out["step"] = "search".into();
        out["clients"] = clients.into();
        out["threads"] = threads.into();
        out["filter"] = args.text("filter").into();
        match setting {
            Setting::Ef(ef) => out["ef"] = ef.into(),
            Setting::Recall(recall) => {
                out["recall_wanted"] = ((f64::from(recall) * 1e4).round() / 1e4).into()
            }
            Setting::Exact => out["exact"] = true.into(),
        }
        out["process_cpu_us_per_query"] = ((process::process_cpu_s() - cpu) * 1e6 / queries).round().into();
        // By the kernel's account of the disk: beside what the engine says it asked for.
        out["disk_read_bytes_per_query"] = ((process::disk_bytes().0 - disk.0) as f64 / queries)
            .round()
            .into();
        out["used"] = open::memory_now();
        println!("{out}");
    }
    Ok(())
}

fn settings(args: &Args) -> Outcome<Vec<Setting>> {
    let mut all: Vec<Setting> = args.list("ef")?.into_iter().map(Setting::Ef).collect();
    all.extend(args.list("recall")?.into_iter().map(Setting::Recall));
    if args.has("exact") {
        all.push(Setting::Exact);
    }
    if all.is_empty() {
        all.push(Setting::Ef(128));
    }
    Ok(all)
}

fn params(setting: Setting) -> SearchParams {
    let mut params = SearchParams::default();
    match setting {
        Setting::Ef(ef) => params.hnsw_ef = Some(ef),
        Setting::Recall(recall) => params.recall = Some(recall),
        Setting::Exact => params.exact = true,
    }
    params
}

/// The first `--queries` queries of the set, and what is to be found: with `--filter near:0.01`, among the rows that match.
pub fn asked(set: &Set, args: &Args) -> Outcome<Asked> {
    let count = args.value("queries", set.info.queries)?.min(set.info.queries);
    let queries: Vec<Vec<f32>> = set
        .queries(count)?
        .chunks_exact(set.row_bytes())
        .map(|row| set.info.element.floats(row))
        .collect();
    let (filters, truth) = match args.text("filter") {
        None => (vec![None; count], set.truth(count, K)?),
        Some(text) => filtered(set, text, &queries)?,
    };
    let requests = queries
        .into_iter()
        .zip(filters)
        .map(|(query, filter)| SearchRequest {
            query: QueryVector::Vector(query.into()),
            using: DEFAULT_VECTOR.to_string(),
            filter,
            params: SearchParams::default(),
            limit: K,
            offset: 0,
            score_threshold: None,
            with_payload: PayloadSelector::None,
            with_vectors: VectorSelector::None,
        });
    Ok(Asked {
        requests: requests.collect(),
        truth,
    })
}

type Filtered = (Vec<Option<Filter>>, Vec<Vec<u32>>);

/// `selection:share`, for which `ramlet-bench filters` has written the truth.
fn filtered(set: &Set, text: &str, queries: &[Vec<f32>]) -> Outcome<Filtered> {
    let unknown = || {
        format!("--filter {text}: random, near or far, a colon and the share of rows, for example near:0.01")
    };
    let (selection, share) = text.split_once(':').ok_or_else(unknown)?;
    let selection = Selection::by_name(selection).ok_or_else(unknown)?;
    let share: f64 = share.parse().map_err(|_| unknown())?;
    let case = Filters::of(set, 1)?.case(selection, share, queries);
    let filter = |query: usize| {
        let condition: Value = match selection {
            Selection::Random => json!({ "key": "rank", "range": { "lt": case.rank_below } }),
            _ => json!({ "key": "near", "match": { "any": case.groups[query] } }),
        };
        serde_json::from_value::<Filter>(json!({ "must": [condition] })).map(Some)
    };
    let filters = (0..queries.len()).map(filter).collect::<Result<_, _>>()?;
    let path = set.path(&format!("gt-{}-{share}.i32", selection.name()));
    let bytes = std::fs::read(&path)
        .map_err(|e| format!("{}: {e} (made by `ramlet-bench filters`)", path.display()))?;
    let truth: Vec<Vec<u32>> = bytes
        .chunks_exact(K * 4)
        .map(|ids| {
            let ids = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
            ids.filter(|id| *id != u32::MAX).collect()
        })
        .collect();
    if truth.len() < queries.len() {
        return Err(format!(
            "{} has {} queries: ask for no more with --queries",
            path.display(),
            truth.len()
        )
        .into());
    }
    Ok((filters, truth))
}
