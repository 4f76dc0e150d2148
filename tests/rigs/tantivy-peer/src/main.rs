//! Bare tantivy: its own writer, readers, queries and collector, over the files that `ramlet-bench texts` writes.
//!
//! ```text
//! tantivy-peer index PREFIX DIR [--field body] [--memory-mb 1000]
//! tantivy-peer ask PREFIX DIR [--kinds term,any,all,phrase] [--clients 1,2] [--seconds 2] [--limit 20] [--ids-only]
//! ```
//!
//! One segment, positions, the whole document stored, texts cut as our index of the rig cuts them: runs of letters and digits in lower case, without English
//! stop words, English stems. The index is mapped; the first pass over the queries isn't counted, so that it is in RAM. Prints a JSON object a line, with the
//! keys of `benches/text`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, PhraseQuery, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Language, LowerCaser, SimpleTokenizer, Stemmer, StopWordFilter, TextAnalyzer};
use tantivy::{Index, Searcher, TantivyDocument, Term};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const ANALYZER: &str = "own";

fn main() -> Outcome {
    let mut words = Vec::new();
    let mut options = BTreeMap::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--") {
            Some("ids-only") => drop(options.insert("ids-only".to_string(), String::new())),
            Some(name) => drop(options.insert(name.to_string(), args.next().ok_or("an option without its value")?)),
            None => words.push(arg),
        }
    }
    let option = |name: &str, default: &str| options.get(name).cloned().unwrap_or_else(|| default.to_string());
    let [what, prefix, directory] = words.as_slice() else {
        return Err("index or ask, the prefix of the files, and a directory".into());
    };
    let directory = Path::new(directory);
    match what.as_str() {
        "index" => make(prefix, directory, &option("field", "body"), option("memory-mb", "1000").parse()?),
        "ask" => {
            let asked = Asked {
                seconds: option("seconds", "2").parse()?,
                limit: option("limit", "20").parse()?,
                ids_only: options.contains_key("ids-only"),
            };
            let searcher = open(directory)?.reader()?.searcher();
            for kind in option("kinds", "term,any,all,phrase").split(',') {
                let queries = queries(prefix, kind, &searcher)?;
                for threads in option("clients", "1").split(',') {
                    println!("{}", asked.measure(&searcher, kind, &queries, threads.parse()?)?);
                }
            }
            Ok(())
        }
        other => Err(format!("{other}: index or ask").into()),
    }
}

fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(LowerCaser)
        .filter(StopWordFilter::new(Language::English).expect("English has stop words"))
        .filter(Stemmer::new(Language::English))
        .build()
}

/// (text, stored document)
fn fields() -> (Field, Field) {
    (Field::from_field_id(0), Field::from_field_id(1))
}

fn open(directory: &Path) -> Outcome<Index> {
    let index = Index::open_in_dir(directory)?;
    index.tokenizers().register(ANALYZER, analyzer());
    Ok(index)
}

fn lines(path: &str) -> Outcome<impl Iterator<Item = Outcome<String>>> {
    let file = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    Ok(BufReader::new(file).lines().map(|line| Ok(line?)))
}

fn make(prefix: &str, directory: &Path, field: &str, memory_mb: usize) -> Outcome {
    let started = Instant::now();
    let cpu = process_cpu_s();
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)?;
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(ANALYZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let stored = schema.add_text_field("document", STORED);
    let index = Index::create_in_dir(directory, schema.build())?;
    index.tokenizers().register(ANALYZER, analyzer());
    let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, memory_mb << 20)?;
    let mut documents = 0u64;
    for line in lines(&format!("{prefix}.docs.jsonl"))? {
        let line = line?;
        let parsed: Json = serde_json::from_str(&line)?;
        let mut document = TantivyDocument::default();
        document.add_text(text, parsed[field].as_str().unwrap_or_default());
        document.add_text(stored, line);
        writer.add_document(document)?;
        documents += 1;
    }
    writer.commit()?;
    let segments = index.searchable_segment_ids()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait()?;
    }
    writer.wait_merging_threads()?;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    let out = json!({
        "step": "index", "side": "tantivy", "documents": documents, "bytes": bytes, "segments": index.searchable_segment_ids()?.len(),
        "seconds": started.elapsed().as_secs_f64(), "cpu_s": process_cpu_s() - cpu,
    });
    println!("{out}");
    Ok(())
}

/// The queries of a kind.
fn queries(prefix: &str, kind: &str, searcher: &Searcher) -> Outcome<Vec<Box<dyn Query>>> {
    let mut out = Vec::new();
    for line in lines(&format!("{prefix}.queries.jsonl"))? {
        let query: Json = serde_json::from_str(&line?)?;
        if query["kind"] == kind {
            let text = query["text"].as_str().ok_or("a query without text")?;
            out.push(query_of(kind, text, searcher)?);
        }
    }
    match out.is_empty() {
        true => Err(format!("there are no queries of the kind {kind}").into()),
        false => Ok(out),
    }
}

fn query_of(kind: &str, text: &str, searcher: &Searcher) -> Outcome<Box<dyn Query>> {
    let (field, _) = fields();
    let mut analyzer = searcher.index().tokenizer_for_field(field)?;
    let mut terms: Vec<Term> = Vec::new();
    let mut stream = analyzer.token_stream(text);
    while stream.advance() {
        let term = Term::from_field_text(field, &stream.token().text);
        if kind == "phrase" || !terms.contains(&term) {
            terms.push(term);
        }
    }
    let one = |term: Term| Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)) as Box<dyn Query>;
    Ok(match (kind, terms.len()) {
        (_, 1) => one(terms.remove(0)),
        ("phrase", 2..) => Box::new(PhraseQuery::new(terms)),
        ("all", _) => Box::new(BooleanQuery::intersection(terms.into_iter().map(one).collect())),
        _ => Box::new(BooleanQuery::union(terms.into_iter().map(one).collect())),
    })
}

struct Asked {
    seconds: f64,
    limit: usize,
    ids_only: bool,
}

/// What a thread has seen.
#[derive(Default)]
struct Seen {
    latencies_ns: Vec<u64>,
    hits: u64,
    bytes: u64,
    cpu_ns: u64,
}

impl Asked {
    fn measure(&self, searcher: &Searcher, kind: &str, queries: &[Box<dyn Query>], threads: usize) -> Outcome<Json> {
        self.run(searcher, queries, threads, Duration::ZERO)?;
        let started = Instant::now();
        let mut seen = self.run(searcher, queries, threads, Duration::from_secs_f64(self.seconds))?;
        let seconds = started.elapsed().as_secs_f64();
        seen.latencies_ns.sort_unstable();
        let count = seen.latencies_ns.len().max(1);
        let at = |share: f64| seen.latencies_ns[((count - 1) as f64 * share) as usize] as f64 / 1e3;
        let each = |total: u64| total as f64 / count as f64;
        Ok(json!({
            "step": "ask", "side": "tantivy", "kind": kind, "threads": threads, "documents": !self.ids_only, "queries": count, "seconds": seconds,
            "queries_per_s": count as f64 / seconds, "cpu_us_per_query": each(seen.cpu_ns) / 1e3, "latency_us_p50": at(0.5), "latency_us_p99": at(0.99),
            "hits_per_query": each(seen.hits), "bytes_per_query": each(seen.bytes),
        }))
    }

    /// At least so long, and every query at least once.
    fn run(&self, searcher: &Searcher, queries: &[Box<dyn Query>], threads: usize, span: Duration) -> Outcome<Seen> {
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        let client = || -> Outcome<Seen> {
            let mut seen = Seen::default();
            let cpu = thread_cpu_ns();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= queries.len() && started.elapsed() >= span {
                    break;
                }
                let asked = Instant::now();
                self.ask(searcher, queries[turn % queries.len()].as_ref(), &mut seen)?;
                seen.latencies_ns.push(asked.elapsed().as_nanos() as u64);
            }
            seen.cpu_ns = thread_cpu_ns() - cpu;
            Ok(seen)
        };
        let mut all = Seen::default();
        std::thread::scope(|scope| -> Outcome {
            let clients: Vec<_> = (0..threads).map(|_| scope.spawn(client)).collect();
            for client in clients {
                let seen = client.join().map_err(|_| "a client panicked")??;
                all.latencies_ns.extend(seen.latencies_ns);
                (all.hits, all.bytes, all.cpu_ns) = (all.hits + seen.hits, all.bytes + seen.bytes, all.cpu_ns + seen.cpu_ns);
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn ask(&self, searcher: &Searcher, query: &dyn Query, seen: &mut Seen) -> Outcome {
        let found = searcher.search(query, &TopDocs::with_limit(self.limit).order_by_score())?;
        seen.hits += found.len() as u64;
        if self.ids_only {
            return Ok(());
        }
        let (_, stored) = fields();
        for (_, address) in found {
            let document: TantivyDocument = searcher.doc(address)?;
            let text = document.get_first(stored).and_then(|value| tantivy::schema::Value::as_str(&value));
            seen.bytes += text.ok_or("a document without its text")?.len() as u64;
        }
        Ok(())
    }
}

/// Time that this thread has run.
fn thread_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

/// Time that this process has run, in ticks of 10 ms.
fn process_cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
