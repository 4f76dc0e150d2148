//! The results of `ramlet bench text`: tables, the article's beside ours, JSON and plots.

use anyhow::Result;
use serde_json::{Value, json};

use super::corpus::Corpus;
use super::options::TextArgs;
use super::replay::Window;
use super::text_article::{BETWEEN_CUTS, LINES, Line, best_in_ram, fraction};
use super::text_rig::Conditions;
use super::text_storage::Storage;
use super::{GridRun, KindRun, Loaded, ReplaceRun, Run, UpdateRun};
use crate::results::table::{figure, figure_or_dash};
use crate::{Axis, ByteSize, Curve, Machine, Plot, Table};

/// What was measured.
pub struct Report<'a> {
    args: &'a TextArgs,
    corpus: &'a Corpus,
    loaded: Loaded,
    pub grid: Vec<GridRun>,
    pub kinds: Vec<KindRun>,
    pub replace: Option<ReplaceRun>,
    pub updates: Vec<UpdateRun>,
    pub server: String,
    pub caches_kept: Option<String>,
}

/// A run in few words.
pub fn told(run: &Run) -> String {
    match run.served() {
        true => format!(
            "{} queries/s, p99 {} ms",
            figure(run.whole.queries_per_s),
            figure(run.whole.latency_ms_p99)
        ),
        false => run.outcome.clone(),
    }
}

/// A run of the grid in a line.
pub fn line(conditions: &Conditions, run: &Run) -> String {
    format!(
        "{}, {}, {} threads {}: {}",
        conditions.storage.name(),
        ByteSize(conditions.memory_bytes),
        conditions.threads,
        conditions.searchers.name(),
        told(run)
    )
}

impl<'a> Report<'a> {
    pub fn new(args: &'a TextArgs, corpus: &'a Corpus, loaded: Loaded) -> Report<'a> {
        Report {
            args,
            corpus,
            loaded,
            grid: Vec::new(),
            kinds: Vec::new(),
            replace: None,
            updates: Vec::new(),
            server: String::new(),
            caches_kept: None,
        }
    }

    /// Prints the tables and writes what was asked for.
    pub fn finish(&self) -> Result<()> {
        println!("{}", self.heading());
        if !self.grid.is_empty() {
            println!("\n{}", self.grid_table());
            self.tell_reasons();
            println!("{}", self.article_table());
            println!("{}", self.cuts_table());
        }
        if !self.kinds.is_empty() {
            println!("{}", self.kinds_table());
        }
        if let Some(replace) = &self.replace {
            println!("{}", replace_table(replace));
        }
        if !self.updates.is_empty() {
            println!("{}", self.updates_table());
        }
        println!("{}", self.notes());
        self.args.output.keep("bench-text", &self.json())?;
        self.args.output.draw("text-over-time", &self.plot_over_time())?;
        self.args.output.draw("text-threads", &self.plot_threads())?;
        self.args.output.draw("text-updates", &self.plot_updates())
    }

    fn heading(&self) -> String {
        format!(
            "{}: {} documents, {} MB as they are stored; loaded in {} s within {} (peak {} MB); {} queries of the log, {} hits each; {}",
            self.corpus.name,
            self.corpus.documents,
            figure(mega(self.loaded.index_bytes)),
            figure(self.loaded.green_seconds),
            self.args.load_memory,
            figure(mega(self.loaded.memory_peak_bytes)),
            self.args.log,
            self.args.limit,
            self.server,
        )
    }

    fn grid_table(&self) -> Table {
        let (from, to) = self.args.cuts();
        let (cold, between, warm) = (
            format!("first {from}"),
            format!("{from} to {to}"),
            format!("from {to}"),
        );
        let mut table = Table::new(&[
            "storage",
            "memory MB",
            "% of index",
            "threads",
            "searchers",
            "queries/s",
            &cold,
            &between,
            &warm,
            "p50 ms",
            "p99 ms",
            "reads/query",
            "KB read/query",
            "CPU us/query",
            "client us",
            "peak MB",
            "outcome",
        ]);
        for GridRun { conditions: of, run } in &self.grid {
            let mut cells = vec![
                of.storage.name().to_string(),
                figure(mega(of.memory_bytes)),
                format!(
                    "{:.0}",
                    100.0 * of.memory_bytes as f64 / self.loaded.index_bytes.max(1) as f64
                ),
                of.threads.to_string(),
                of.searchers.name().into(),
            ];
            if run.served() {
                let speed = |window: &Option<Window>| figure_or_dash(window.map(|w| w.queries_per_s));
                cells.extend([
                    figure(run.whole.queries_per_s),
                    speed(&run.cold),
                    speed(&run.between),
                    speed(&run.warm),
                    figure(run.whole.latency_ms_p50),
                    figure(run.whole.latency_ms_p99),
                    figure_or_dash(run.cost.reads_per_query),
                    figure(run.cost.read_bytes_per_query / 1e3),
                    figure(run.cost.server_cpu_us_per_query),
                    figure(run.cost.client_cpu_us_per_query),
                    figure(mega(run.cost.memory_peak_bytes)),
                    "served".into(),
                ]);
            } else {
                cells.resize(16, String::new());
                cells.push(run.outcome.split(':').next().unwrap_or_default().into());
            }
            table.row(cells);
        }
        table
    }

    fn tell_reasons(&self) {
        let failed = self.grid.iter().filter(|of| !of.run.served());
        for of in failed {
            println!("- {}", line(&of.conditions, &of.run));
        }
        if self.grid.iter().any(|of| !of.run.served()) {
            println!();
        }
    }

    /// Our run that is nearest to a line of the article, on a storage.
    fn like(&self, line: &Line, storage: Storage) -> Option<&GridRun> {
        self.grid.iter().find(|of| {
            let c = &of.conditions;
            let share = c.memory_bytes as f64 / self.loaded.index_bytes.max(1) as f64;
            // One searcher of one thread is both.
            let searchers = if c.threads == 1 {
                line.searchers
            } else {
                c.searchers
            };
            let asked = c.fraction.unwrap_or(share);
            c.storage == storage && line.is_like(storage, asked, c.threads, searchers)
        })
    }

    /// Our fastest in RAM, by which our shares are reckoned.
    fn best_in_ram(&self, of: &dyn Fn(&Run) -> Option<f64>) -> Option<f64> {
        self.best(Storage::Ram, None, of)
    }

    fn best(&self, storage: Storage, share: Option<f64>, of: &dyn Fn(&Run) -> Option<f64>) -> Option<f64> {
        let runs = self.grid.iter().filter(|run| {
            let asked = run.conditions.fraction;
            let near = share.is_none_or(|share| asked.is_some_and(|a| (a / share).ln().abs() < 0.1));
            run.conditions.storage == storage && near && run.run.served()
        });
        runs.filter_map(|run| of(&run.run)).reduce(f64::max)
    }

    fn article_table(&self) -> Table {
        let mut table = Table::new(&[
            "GB of 14",
            "threads",
            "searchers",
            "article: SSD or RAM",
            "% of its RAM",
            "hard disks",
            "here: RAM",
            "mmap",
            "% of RAM",
            "io_uring",
            "% of RAM",
        ]);
        let ours = self.best_in_ram(&|run| Some(run.whole.queries_per_s));
        for at in &LINES {
            let mut cells = vec![
                format!("{}{}", at.memory_gb, if at.in_ram { " (RAM)" } else { "" }),
                at.threads.to_string(),
                at.searchers.name().into(),
                figure(at.queries_per_s),
                percent(Some(at.queries_per_s), Some(best_in_ram())),
                figure_or_dash(at.on_hard_disks),
            ];
            let speed = |storage| {
                let run = self.like(at, storage).filter(|of| of.run.served());
                run.map(|of| of.run.whole.queries_per_s)
            };
            cells.push(figure_or_dash(speed(Storage::Ram)));
            for storage in [Storage::Mmap, Storage::IoUring] {
                cells.extend([figure_or_dash(speed(storage)), percent(speed(storage), ours)]);
            }
            table.row(cells);
        }
        table
    }

    /// The fastest of each limit between the cut-offs.
    fn cuts_table(&self) -> Table {
        let mut table = Table::new(&[
            "between the cut-offs, GB of 14",
            "article: SSD or RAM",
            "% of its RAM",
            "hard disks",
            "here: RAM",
            "mmap",
            "% of RAM",
            "io_uring",
            "% of RAM",
        ]);
        let speed = |run: &Run| run.between.map(|window| window.queries_per_s);
        let ours = self.best_in_ram(&speed);
        for (memory_gb, article, hard) in BETWEEN_CUTS {
            let in_ram = hard.is_none();
            let mut cells = vec![
                memory_gb.to_string(),
                figure(article),
                percent(Some(article), Some(BETWEEN_CUTS[0].1)),
                figure_or_dash(hard),
                figure_or_dash(ours.filter(|_| in_ram)),
            ];
            for storage in [Storage::Mmap, Storage::IoUring] {
                let best = self.best(storage, Some(fraction(memory_gb)), &speed);
                cells.extend([figure_or_dash(best), percent(best, ours)]);
            }
            table.row(cells);
        }
        table
    }

    fn kinds_table(&self) -> Table {
        let head = [
            "storage",
            "memory MB",
            "clients",
            "query, warm",
            "queries/s",
            "% of RAM",
            "p50 ms",
            "p99 ms",
            "hits",
            "reads/query",
            "KB read/query",
            "CPU us/query",
            "outcome",
        ];
        let mut table = Table::new(&head);
        for KindRun {
            conditions: of,
            kind,
            run,
        } in &self.kinds
        {
            let in_ram = self.kinds.iter().filter(|other| {
                other.kind == *kind && other.conditions.storage == Storage::Ram && other.run.served()
            });
            let in_ram = in_ram.map(|other| other.run.whole.queries_per_s).reduce(f64::max);
            table.row([
                of.storage.name().to_string(),
                figure(mega(of.memory_bytes)),
                of.threads.to_string(),
                kind.name().into(),
                figure(run.whole.queries_per_s),
                percent(Some(run.whole.queries_per_s), in_ram),
                figure(run.whole.latency_ms_p50),
                figure(run.whole.latency_ms_p99),
                figure(run.hits_per_query),
                figure_or_dash(run.cost.reads_per_query),
                figure(run.cost.read_bytes_per_query / 1e3),
                figure(run.cost.server_cpu_us_per_query),
                run.outcome.clone(),
            ]);
        }
        table
    }

    fn updates_table(&self) -> Table {
        let head = [
            "documents/s",
            "taken/s",
            "behind s",
            "queries/s",
            "of the first",
            "p50 ms",
            "p99 ms",
            "max ms",
            "outcome",
        ];
        let mut table = Table::new(&head);
        let first = self.updates.first().map(|of| of.run.whole.queries_per_s);
        for UpdateRun { rate, updated, run } in &self.updates {
            table.row([
                figure(*rate),
                figure(updated.documents_per_s),
                figure(updated.behind_s_max),
                figure(run.whole.queries_per_s),
                figure_or_dash(first.map(|first| run.whole.queries_per_s / first)),
                figure(run.whole.latency_ms_p50),
                figure(run.whole.latency_ms_p99),
                figure(run.whole.latency_ms_max),
                run.outcome.clone(),
            ]);
        }
        table
    }

    fn notes(&self) -> String {
        let mut notes = vec![
            "The article: 10 million documents, 340,000 logged queries, two cores; SSD: two of 2008 in RAID 0.".to_string(),
            format!(
                "Here: each run is a fresh start; it ends after {} queries or {} s; {} cores are shared with the clients.",
                self.args.log,
                self.args.seconds_max,
                Machine::here().cores
            ),
            "Separate searchers: a server for each client, on its own copy, with its part of the memory.".into(),
        ];
        notes.push(match &self.caches_kept {
            Some(why) => format!("The page cache wasn't dropped: {why}."),
            None => "The page cache was dropped before each run.".into(),
        });
        notes.join("\n")
    }

    /// Everything, for the record.
    pub fn json(&self) -> Value {
        let args = self.args;
        json!({
            "experiment": "bench text", "server": self.server,
            "data": { "name": self.corpus.name, "documents": self.corpus.documents, "seed": args.docs.is_none().then_some(args.seed) },
            "loaded": self.loaded, "load_memory_bytes": args.load_memory.0,
            "page_cache": if self.caches_kept.is_some() { "kept" } else { "dropped before each run" },
            "arguments": {
                "log": args.log, "limit": args.limit, "seconds_max": args.seconds_max, "cut": args.cuts(), "serve": args.serve,
                "index": args.schema(), "replace_share": args.replace_share, "no_cgroup": args.no_cgroup,
            },
            "grid": self.grid, "kinds": self.kinds, "replace": self.replace, "updates": self.updates,
        })
    }

    /// Of each storage and limit the run with as many shared threads as cores, or the nearest below.
    fn plot_over_time(&self) -> Plot {
        let cores = Machine::here().cores;
        let mut curves = Vec::new();
        for (storage, memory) in self.limits() {
            let shared = self.grid.iter().filter(|of| {
                let c = &of.conditions;
                (c.storage, c.memory_bytes) == (storage, memory) && c.threads <= cores && of.run.served()
            });
            if let Some(of) = shared.max_by_key(|of| of.conditions.threads) {
                curves.push(curve(storage, memory, of.run.over_time.clone()));
            }
        }
        if let Some(replace) = &self.replace {
            curves.push(Curve {
                name: "while the index is replaced".into(),
                points: replace.run.over_time.clone(),
                marks_only: false,
            });
        }
        Plot {
            title: "A query log from a cold start".into(),
            x: Axis::linear("seconds"),
            y: Axis::linear("queries/s"),
            curves,
            size: (0, 0),
        }
    }

    fn limits(&self) -> Vec<(Storage, u64)> {
        let all = self
            .grid
            .iter()
            .map(|of| (of.conditions.storage, of.conditions.memory_bytes));
        let mut limits: Vec<(Storage, u64)> = all.collect();
        limits.dedup();
        limits
    }

    fn plot_threads(&self) -> Plot {
        let mut curves = Vec::new();
        for (storage, memory) in self.limits() {
            let of_limit = self.grid.iter().filter(|of| {
                let c = &of.conditions;
                (c.storage, c.memory_bytes) == (storage, memory)
                    && c.searchers == self.args.searchers[0]
                    && of.run.served()
            });
            let points = of_limit.map(|of| (of.conditions.threads as f64, of.run.whole.queries_per_s));
            curves.push(curve(storage, memory, points.collect()));
        }
        Plot {
            title: "Queries a second by threads".into(),
            x: Axis::linear("threads"),
            y: Axis::linear("queries/s"),
            curves,
            size: (0, 0),
        }
    }

    fn plot_updates(&self) -> Plot {
        let served = self.updates.iter().filter(|of| of.run.served());
        let points = served.map(|of| (of.updated.documents_per_s, of.run.whole.queries_per_s));
        Plot {
            title: "Searches while documents come in".into(),
            x: Axis::linear("documents/s"),
            y: Axis::linear("queries/s"),
            curves: vec![Curve {
                name: "any word".into(),
                points: points.collect(),
                marks_only: false,
            }],
            size: (0, 0),
        }
    }
}

fn curve(storage: Storage, memory: u64, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name: format!("{} {}", storage.name(), ByteSize(memory)),
        points,
        marks_only: false,
    }
}

fn replace_table(replace: &ReplaceRun) -> Table {
    let mut table = Table::new(&["index", "queries", "s", "queries/s", "p50 ms", "p99 ms", "max ms"]);
    let count = replace.spans_s.len();
    let whole = match replace.run.outcome.as_str() {
        "served" => "all of it".to_string(),
        outcome => format!("all of it, {outcome}"),
    };
    let rows = [
        (format!("being replaced ({count} times)"), &replace.during),
        ("at rest".to_string(), &replace.otherwise),
        (whole, &replace.run.whole),
    ];
    for (name, window) in rows {
        table.row([
            name,
            window.queries.to_string(),
            figure(window.seconds),
            figure(window.queries_per_s),
            figure(window.latency_ms_p50),
            figure(window.latency_ms_p99),
            figure(window.latency_ms_max),
        ]);
    }
    table
}

fn percent(value: Option<f64>, of: Option<f64>) -> String {
    match (value, of) {
        (Some(value), Some(of)) => format!("{:.0}", 100.0 * value / of),
        _ => "-".into(),
    }
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
