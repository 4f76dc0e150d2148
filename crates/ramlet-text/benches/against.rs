//! Against bare tantivy (its writer, `RamDirectory`, queries and collector), in turns in one process:
//!
//! `cargo bench -p ramlet-text --bench against -- PASSAGES.jsonl QUERIES.tsv DIRECTORY [DOCUMENTS]`
//!
//! PASSAGES has a `body` a line, which is cut into sentences; of QUERIES the last column is used. Without them, or with `-`, both are made up: words as
//! frequent as Zipf says. The container lies in DIRECTORY (default: the system's for temporary files). Prints CPU time of a query by kind, of bare tantivy, ours with all in RAM,
//! and ours with a fifth of the index in RAM, read past the page cache; the ratios are of medians over rounds in turns.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ramlet_io::{Backend, ReadFile, Storage, open_best};
use ramlet_memory::Ledger;
use ramlet_text::{
    Bm25, ByteSink, Hold, Mode, QueryTerm, RangeRead, Ranges, Result, SliceCache, TextBuilder, TextIndex,
    TextInfo, TextQuery,
};
use tantivy::collector::TopDocs;
use tantivy::directory::RamDirectory;
use tantivy::query::{BooleanQuery, PhraseQuery, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, Searcher, SingleSegmentIndexWriter, TantivyDocument, Term};

const K: usize = 20;
const DOCUMENTS: usize = 600_000;
const QUERIES: usize = 1000;
const ROUNDS: usize = 7;
/// The share of the index that the small one may hold.
const SHARE: f64 = 0.2;
const SCRATCH: u64 = 32 << 20;

fn main() {
    let mut args = env::args().skip(1).filter(|arg| arg != "--bench");
    let passages = args.next().filter(|path| path != "-");
    let queries = args.next().filter(|path| path != "-");
    let directory = args.next().map_or_else(env::temp_dir, PathBuf::from);
    let documents = args
        .next()
        .map_or(DOCUMENTS, |n| n.parse().expect("a number of documents"));

    let corpus = passages.map_or_else(|| made_up(documents), |path| sentences(&path, documents));
    let tokens: usize = corpus.iter().map(Vec::len).sum();
    println!("{} documents, {tokens} tokens", corpus.len());

    let shelf = directory.join(format!("text-against-{}", std::process::id()));
    let (storage, _) = open_best(&shelf, Backend::Auto).expect("a directory");
    let (file, info) = container(&storage, &corpus);
    let searcher = bare(&corpus);
    let sets = query_sets(&corpus, queries.as_deref(), &searcher);

    let mut from_file = FromFile(file.clone());
    let open = |hold, bytes: u64| {
        let ledger = Ledger::new(bytes.max(1));
        let cache = SliceCache::new(ledger.consumer("lists", u64::MAX));
        TextIndex::open(info_len(&info), hold, cache.clone(), &mut FromFile(file.clone()))
            .map(|index| (index, cache))
    };
    let (whole, _) = open(Hold::Whole, 0).expect("the index");
    let budget = (info.bytes() as f64 * SHARE) as u64;
    let lists = budget.saturating_sub(info.resident_bytes(Hold::Least));
    let (small, cache) = open(Hold::Least, lists).expect("the index");
    println!(
        "a fifth is {budget} bytes: {} resident, {lists} for lists",
        info.resident_bytes(Hold::Least)
    );

    for (kind, set) in &sets {
        let bare_queries: Vec<Box<dyn Query>> = set.iter().map(|words| bare_query(*kind, words)).collect();
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            costs[0].push(timed(|| {
                bare_queries
                    .iter()
                    .for_each(|query| ask_bare(&searcher, query.as_ref()))
            }));
            costs[1].push(timed(|| {
                set.iter()
                    .for_each(|words| ask(&whole, *kind, words, &mut from_file))
            }));
            costs[2].push(timed(|| {
                set.iter()
                    .for_each(|words| ask(&small, *kind, words, &mut from_file))
            }));
        }
        let [bare, whole, small] = costs.map(|costs| median(costs, set.len()));
        let stats = cache.stats();
        println!(
            "{kind:?}: {} queries; CPU us a query: bare {:.1}, all in RAM {:.1} ({:.2} x bare's speed), a fifth {:.1} ({:.2} x all in RAM; wall {:.1} us); hits {}, misses {}, read {} bytes",
            set.len(),
            bare.0,
            whole.0,
            bare.0 / whole.0,
            small.0,
            whole.0 / small.0,
            small.1,
            stats.hits,
            stats.misses,
            stats.read_bytes
        );
    }
    drop((small, whole, file));
    fs::remove_dir_all(shelf).expect("the container goes");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Term,
    And,
    Or,
    Phrase,
}

/// A file of the storage as ranges, and as a sink.
struct FromFile(Arc<dyn ReadFile>);

impl Ranges for FromFile {
    fn read(&mut self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        for read in reads {
            self.0.read_at(read.out, read.offset)?;
        }
        Ok(())
    }
}

struct ToFile(Box<dyn ramlet_io::WriteFile>);

impl ByteSink for ToFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.append(bytes)?)
    }
}

fn info_len(info: &TextInfo) -> u64 {
    info.bytes() + 160
}

fn container(storage: &Arc<dyn Storage>, corpus: &[Vec<String>]) -> (Arc<dyn ReadFile>, TextInfo) {
    let (start, cpu) = (Instant::now(), cpu_us());
    let mut builder = TextBuilder::new(storage.clone(), SCRATCH).expect("a builder");
    for (row, tokens) in (0u32..).zip(corpus) {
        let mut show = |each: &mut dyn FnMut(&str, u32)| {
            (0u32..)
                .zip(tokens)
                .for_each(|(position, token)| each(token, position));
        };
        builder.add(row, &mut show).expect("a row");
    }
    let mut sink = ToFile(storage.create("container").expect("a new file"));
    let info = builder
        .finish(corpus.len() as u32, &mut sink)
        .expect("a container");
    sink.0.sync().expect("written");
    println!(
        "built in {:.1} s of CPU ({:.1} s), scratch {SCRATCH}: {info:?}; norms {}, dictionary {} ({:.1} a term), postings {}, positions {}",
        (cpu_us() - cpu) / 1e6,
        start.elapsed().as_secs_f64(),
        info.norms_bytes(),
        info.dictionary_bytes(),
        info.dictionary_bytes() as f64 / info.terms as f64,
        info.postings_bytes(),
        info.positions_bytes()
    );
    (storage.open("container").expect("the file"), info)
}

fn field() -> Field {
    Field::from_field_id(0)
}

/// One segment, in RAM, by tantivy alone.
fn bare(corpus: &[Vec<String>]) -> Searcher {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let cpu = cpu_us();
    let mut writer: SingleSegmentIndexWriter = Index::builder()
        .schema(schema.build())
        .single_segment_index_writer(RamDirectory::create(), 1 << 30)
        .expect("a writer");
    for tokens in corpus {
        let mut document = TantivyDocument::default();
        document.add_text(field(), tokens.join(" "));
        writer.add_document(document).expect("a document");
    }
    let index = writer.finalize().expect("an index");
    println!(
        "tantivy's single-segment writer: {:.1} s of CPU",
        (cpu_us() - cpu) / 1e6
    );
    index.reader().expect("a reader").searcher()
}

fn bare_query(kind: Kind, words: &[String]) -> Box<dyn Query> {
    let terms = || words.iter().map(|word| Term::from_field_text(field(), word));
    let each =
        || terms().map(|term| Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)) as Box<dyn Query>);
    match kind {
        Kind::Term => each().next().expect("a word"),
        Kind::And => Box::new(BooleanQuery::intersection(each().collect())),
        Kind::Or => Box::new(BooleanQuery::union(each().collect())),
        Kind::Phrase => Box::new(PhraseQuery::new(terms().collect())),
    }
}

fn ask_bare(searcher: &Searcher, query: &dyn Query) {
    let found = searcher.search(query, &TopDocs::with_limit(K).order_by_score());
    std::hint::black_box(found.expect("an answer"));
}

/// As an engine would: document frequencies, then the ranking.
fn ask(index: &TextIndex, kind: Kind, words: &[String], ranges: &mut dyn Ranges) {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let counts = index.doc_freqs(&texts).expect("counts");
    let term = |((position, text), doc_freq)| QueryTerm {
        text,
        position,
        doc_freq: u64::from(doc_freq),
    };
    let terms: Vec<QueryTerm<'_>> = (0u32..).zip(texts).zip(counts).map(term).collect();
    let mode = match kind {
        Kind::Term | Kind::Or => Mode::Any,
        Kind::And => Mode::All,
        Kind::Phrase => Mode::Phrase,
    };
    let info = index.info();
    let query = TextQuery {
        mode,
        terms: &terms,
        bm25: Bm25::new(info.documents, info.tokens),
    };
    let mut found: Vec<(u32, f32)> = Vec::with_capacity(K + 1);
    let mut offer = |row, score| {
        let place = found.partition_point(|(_, held)| *held >= score);
        found.insert(place, (row, score));
        found.truncate(K);
        if found.len() < K {
            f32::NEG_INFINITY
        } else {
            found[K - 1].1
        }
    };
    index
        .search(&query, f32::NEG_INFINITY, ranges, &mut offer)
        .expect("an answer");
    std::hint::black_box(found);
}

fn query_sets(
    corpus: &[Vec<String>],
    queries: Option<&str>,
    searcher: &Searcher,
) -> Vec<(Kind, Vec<Vec<String>>)> {
    let known = |word: &String| {
        searcher
            .doc_freq(&Term::from_field_text(field(), word))
            .is_ok_and(|n| n > 0)
    };
    let mut random = 1u64;
    let asked: Vec<Vec<String>> = match queries {
        Some(path) => fs::read_to_string(path)
            .expect("queries")
            .lines()
            .map(|line| {
                tokens(line.rsplit('\t').next().unwrap_or(line))
                    .into_iter()
                    .filter(known)
                    .collect()
            })
            .collect(),
        None => (0..4 * QUERIES)
            .map(|_| some_words(corpus, &mut random, 4))
            .collect(),
    };
    let asked: Vec<Vec<String>> = asked
        .into_iter()
        .filter(|words| words.len() > 1)
        .take(4 * QUERIES)
        .collect();
    let some = |cut: &dyn Fn(usize, &Vec<String>) -> Vec<String>| -> Vec<Vec<String>> {
        let set = asked.iter().enumerate().map(|(at, words)| cut(at, words));
        set.take(QUERIES).collect()
    };
    let phrases = (0..QUERIES)
        .map(|_| some_words(corpus, &mut random, 2))
        .filter(|words| words.len() == 2);
    vec![
        (
            Kind::Term,
            some(&|at, words| vec![words[at % words.len()].clone()]),
        ),
        (
            Kind::And,
            some(&|at, words| {
                let start = at % (words.len() - 1);
                words[start..start + 2].to_vec()
            }),
        ),
        (
            Kind::Or,
            some(&|_, words| {
                let mut words = words.clone();
                words.sort_unstable();
                words.dedup();
                words
            }),
        ),
        (Kind::Phrase, phrases.collect()),
    ]
}

/// Neighbours in a document.
fn some_words(corpus: &[Vec<String>], random: &mut u64, count: usize) -> Vec<String> {
    loop {
        let document = &corpus[next(random) as usize % corpus.len()];
        if document.len() >= count {
            let start = next(random) as usize % (document.len() - count + 1);
            return document[start..start + count].to_vec();
        }
    }
}

fn sentences(path: &str, documents: usize) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).expect("passages");
    let mut corpus = Vec::new();
    for line in text.lines() {
        let passage: HashMap<String, serde_json::Value> = serde_json::from_str(line).expect("an object");
        let body = passage.get("body").and_then(|body| body.as_str()).unwrap_or("");
        corpus.extend(body.split(". ").map(tokens).filter(|tokens| !tokens.is_empty()));
    }
    corpus.truncate(documents);
    corpus
}

fn made_up(documents: usize) -> Vec<Vec<String>> {
    let mut random = 7u64;
    let word = |random: &mut u64| {
        let unit = (next(random) >> 11) as f64 / (1u64 << 53) as f64;
        format!("w{}", 300_000f64.powf(unit) as u32)
    };
    let document = |_| {
        (0..4 + next(&mut random) % 24)
            .map(|_| word(&mut random))
            .collect()
    };
    (0..documents).map(document).collect()
}

fn tokens(text: &str) -> Vec<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 24
}

/// CPU and wall time, us.
fn timed(run: impl FnOnce()) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), cpu_us());
    run();
    (cpu_us() - cpu, start.elapsed().as_secs_f64() * 1e6)
}

/// Medians of a query.
fn median(mut costs: Vec<(f64, f64)>, queries: usize) -> (f64, f64) {
    let middle = costs.len() / 2;
    costs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let cpu = costs[middle].0;
    costs.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
    (cpu / queries as f64, costs[middle].1 / queries as f64)
}

/// Time that this thread has run.
fn cpu_us() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("nanoseconds") / 1e3
}
