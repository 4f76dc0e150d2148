//! The results of `ramlet bench ram`: tables, the article's beside ours, JSON and plots.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::args::{LoadIn, RamArgs};
use super::placement::Placement;
use super::ram_article::{self, LINES, minimum_mb};
use super::ram_rig::{Row, Verdict};
use crate::data::Data;
use crate::results::table::{figure, figure_or_dash};
use crate::traffic::measure::Figures;
use crate::{Axis, ByteSize, Comparison, Curve, Plot, Summary, Table};

/// What was measured.
pub struct Report<'a> {
    args: &'a RamArgs,
    data: &'a Data,
    pub rows: Vec<Row>,
    /// The smallest limit that serves, of each placement.
    pub minima: Vec<(Placement, Option<u64>)>,
    /// Two equal runs in turns: how far apart they lie, by what was compared.
    pub aa: BTreeMap<&'static str, Comparison>,
    pub server: String,
    pub cgroup: Option<u8>,
    /// Why the page cache wasn't dropped.
    pub caches_kept: Option<String>,
}

/// A row's runs of one setting, summed up.
struct Middle {
    queries_per_s: Summary,
    of: Figures,
}

impl<'a> Report<'a> {
    pub fn new(args: &'a RamArgs, data: &'a Data) -> Report<'a> {
        Report {
            args,
            data,
            rows: Vec::new(),
            minima: Vec::new(),
            aa: BTreeMap::new(),
            server: String::new(),
            cgroup: None,
            caches_kept: None,
        }
    }

    /// Takes the first `2 * turns` runs of a row's first setting as pairs.
    pub fn note_aa(&mut self, row: &Row, turns: usize) {
        let Some(first) = row.runs.first().map(|run| run.setting.clone()) else {
            return;
        };
        let runs: Vec<&Figures> = row.runs.iter().filter(|run| run.setting == first).collect();
        if turns == 0 || runs.len() < 2 * turns || row.verdict != Verdict::Served {
            return;
        }
        let mut compare = |name, of: &dyn Fn(&Figures) -> f64| {
            let side = |odd: usize| {
                runs.iter()
                    .skip(odd)
                    .step_by(2)
                    .take(turns)
                    .map(|run| of(run))
                    .collect::<Vec<_>>()
            };
            if let Some(comparison) = Comparison::of(&side(0), &side(1)) {
                self.aa.insert(name, comparison);
            }
        };
        compare("queries_per_s", &|run| run.queries_per_s);
        compare("latency_ms_p99", &|run| run.latency_ms_p99);
        compare("server_cpu_us_per_query", &|run| {
            run.server_cpu_us_per_query.unwrap_or(1.0)
        });
    }

    /// What there is before the end, in the JSON file.
    pub fn keep_so_far(&self) -> Result<()> {
        self.args.output.keep_so_far(&self.json())
    }

    /// Prints the tables and writes what was asked for.
    pub fn finish(&self) -> Result<()> {
        println!("{}", self.heading());
        println!("\n{}", self.table());
        if !self.minima.is_empty() {
            println!("{}", self.minima_table());
        }
        let reasons = self.reasons();
        if !reasons.is_empty() {
            println!("{}", reasons.join("\n") + "\n");
        }
        match self.is_comparable() {
            true => println!("{}", self.article_table()),
            false => println!("{}\n", self.why_alone()),
        }
        println!("{}", self.notes());
        self.args.output.keep("bench-ram", &self.json())?;
        self.args.output.draw("ram-queries", &self.plot(false))?;
        self.args.output.draw("ram-recall", &self.plot(true))
    }

    fn heading(&self) -> String {
        let limit = match (self.cgroup, &self.args.server) {
            (Some(version), _) => format!("memory cgroup, version {version}"),
            (None, Some(_)) => "a server that runs, without a limit".into(),
            (None, None) => "no cgroup: the server is told the limit".into(),
        };
        format!(
            "{}: {} vectors of {} dimensions ({}), {} queries, {} connections; {}; {limit}",
            self.data.name,
            self.data.points,
            self.data.dims,
            self.data.distance.api_name(),
            self.data.queries.len(),
            self.args.connections,
            self.server,
        )
    }

    fn table(&self) -> Table {
        const OOM_KILLS: usize = 14;
        let head = [
            "placement",
            "memory MB",
            "setting",
            "queries/s",
            "spread",
            "recall",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "reads/query",
            "KB/query",
            "CPU us/query",
            "client us",
            "peak MB",
            "OOM kills",
            "load s",
            "load peak MB",
            "outcome",
        ];
        let mut table = Table::new(&head);
        for row in self.sorted() {
            let peak = figure_or_dash(row.memory_peak_bytes.map(mega));
            let limit = figure_or_dash(row.memory_bytes.map(mega));
            let (load_s, load_peak) = match &row.loaded {
                Some(loaded) => (
                    figure(loaded.green_seconds),
                    match loaded.memory_peak_bytes {
                        // Of a server that runs nobody knows.
                        0 => "-".into(),
                        bytes => figure(mega(bytes)),
                    },
                ),
                None => ("-".into(), "-".into()),
            };
            let middles = middles(row);
            if middles.is_empty() {
                let mut cells = vec![row.placement.name().to_string(), limit.clone()];
                cells.resize(head.len() - 1, String::new());
                cells[OOM_KILLS] = row.oom_kills.to_string();
                cells.push(word(&row.verdict).into());
                table.row(cells);
            }
            for Middle { queries_per_s, of } in middles {
                table.row([
                    row.placement.name().into(),
                    limit.clone(),
                    of.setting.clone(),
                    figure(queries_per_s.median),
                    format!("{:.0} %", queries_per_s.spread * 100.0),
                    format!("{:.3}", of.recall),
                    figure(of.latency_ms_p50),
                    figure(of.latency_ms_p95),
                    figure(of.latency_ms_p99),
                    figure_or_dash(of.reads_per_query),
                    figure_or_dash(of.read_bytes_per_query.map(|bytes| bytes / 1e3)),
                    figure_or_dash(of.server_cpu_us_per_query),
                    figure(of.client_cpu_us_per_query),
                    peak.clone(),
                    row.oom_kills.to_string(),
                    load_s.clone(),
                    load_peak.clone(),
                    word(&row.verdict).into(),
                ]);
            }
        }
        table
    }

    /// By placement, the largest limit first.
    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let place = |row: &Row| self.args.placements.iter().position(|p| *p == row.placement);
        rows.sort_by_key(|row| (place(row), std::cmp::Reverse(row.memory_bytes)));
        rows
    }

    /// Why a limit doesn't serve, where a word doesn't say it.
    fn reasons(&self) -> Vec<String> {
        let has_words = |row: &&Row| !matches!(row.verdict, Verdict::Served | Verdict::OutOfMemory);
        let told = |row: &Row| {
            let limit = row
                .memory_bytes
                .map_or("no limit".into(), |bytes| ByteSize(bytes).to_string());
            format!("- {}, {limit}: {}", row.placement.name(), words(&row.verdict))
        };
        self.sorted().into_iter().filter(has_words).map(told).collect()
    }

    fn is_comparable(&self) -> bool {
        ram_article::is_comparable(self.data.points, self.data.dims)
    }

    /// Both sizes, and how one gets what may stand beside the article's.
    fn why_alone(&self) -> String {
        let (points, dims) = (self.data.points, self.data.dims);
        let times = ram_article::times_its_size(points, dims);
        format!(
            "The article served {} vectors of {} dimensions, here are {} of {dims}: {} times its numbers.\nIts figures aren't put beside these. --points {} --dims {} makes a set of its size.",
            figure(ram_article::VECTORS as f64),
            ram_article::DIMS,
            figure(points as f64),
            figure(times),
            ram_article::VECTORS,
            ram_article::DIMS,
        )
    }

    fn minima_table(&self) -> Table {
        let with_article = self.is_comparable();
        let mut head = vec![
            "placement",
            "smallest limit that serves, MB",
            "queries/s there",
            "recall",
        ];
        if with_article {
            head.extend(["the article's, MB", "article / here"]);
        }
        let mut table = Table::new(&head);
        for (placement, bytes) in &self.minima {
            let row = self
                .rows
                .iter()
                .rev()
                .find(|row| row.placement == *placement && row.memory_bytes == *bytes);
            let middle = row.and_then(|row| middles(row).into_iter().next());
            let mut cells = vec![
                placement.name().into(),
                bytes.map_or("none found".into(), |bytes| figure(mega(bytes))),
                figure_or_dash(middle.as_ref().map(|m| m.queries_per_s.median)),
                middle.map_or("-".into(), |m| format!("{:.3}", m.of.recall)),
            ];
            if with_article {
                let theirs = minimum_mb(*placement).map(|mb| mb as f64);
                let ratio = theirs.zip(*bytes).map(|(mb, bytes)| mb / mega(bytes));
                cells.extend([figure_or_dash(theirs), figure_or_dash(ratio)]);
            }
            table.row(cells);
        }
        table
    }

    /// Each line of the article with our best of the same placement, and of `auto`, in no more memory.
    fn article_table(&self) -> Table {
        let head = [
            "placement",
            "memory MB",
            "article: queries/s (63k IOPS)",
            "(183k IOPS)",
            "here: queries/s",
            "in MB",
            "recall",
            "auto: queries/s",
            "in MB",
            "recall",
        ];
        let mut table = Table::new(&head);
        for line in LINES {
            let told = |value: Option<f64>| value.map_or(String::new(), figure);
            let mut cells = vec![
                line.placement.name().to_string(),
                line.memory_mb.to_string(),
                line.queries_per_s.map_or("out of memory".into(), figure),
                told(line.on_fast_disk),
            ];
            for placement in [line.placement, Placement::Auto] {
                match self.best_within(placement, line.memory_mb) {
                    None => cells.extend(["-".to_string(), String::new(), String::new()]),
                    Some((mb, middle)) => cells.extend([
                        figure(middle.queries_per_s.median),
                        figure(mb),
                        format!("{:.3}", middle.of.recall),
                    ]),
                }
            }
            table.row(cells);
        }
        table
    }

    /// The row with the most memory that isn't more than `memory_mb`, if it served.
    fn best_within(&self, placement: Placement, memory_mb: u64) -> Option<(f64, Middle)> {
        let within = |row: &&Row| {
            row.placement == placement
                && row.verdict == Verdict::Served
                && row.memory_bytes.is_some_and(|b| b <= memory_mb * 1_000_000)
        };
        let row = self
            .rows
            .iter()
            .filter(within)
            .max_by_key(|row| row.memory_bytes)?;
        let middle = middles(row).into_iter().next()?;
        Some((mega(row.memory_bytes?), middle))
    }

    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if self.is_comparable() {
            notes.push(format!(
                "The article: glove-100-angular, {} vectors of {} dimensions, recall not told, disk of 63,200 random reads a second (183,000 in the next column).",
                figure(ram_article::VECTORS as f64),
                ram_article::DIMS
            ));
        }
        notes.push(format!(
                "Here: the median of {} runs, each a fresh start; loaded {}; the load generator ran on the same {} cores.",
                self.args.repeats,
                match self.args.load {
                    LoadIn::Each => "inside the same limit",
                    LoadIn::Once => "once, in the largest limit",
                },
                crate::Machine::here().cores,
        ));
        match self.aa.get("queries_per_s") {
            Some(aa) => notes.push(format!(
                "Noise: two equal runs in turns differed by {:.1} % (median), {:.1} % at most.",
                (aa.ratio - 1.0).abs() * 100.0,
                (aa.ratio_most - 1.0).abs().max((1.0 - aa.ratio_least).abs()) * 100.0
            )),
            None => notes.push("The noise wasn't measured.".into()),
        }
        if let Some(why) = &self.caches_kept {
            notes.push(format!("The page cache wasn't dropped: {why}."));
        }
        notes.join("\n")
    }

    /// Everything, for the record.
    pub fn json(&self) -> Value {
        let args = self.args;
        let minima: BTreeMap<&str, Option<u64>> =
            self.minima.iter().map(|(p, bytes)| (p.name(), *bytes)).collect();
        let medians: Vec<Value> = self.sorted().into_iter().flat_map(summed).collect();
        json!({
            "experiment": "bench ram", "data": self.data.describe(), "server": self.server,
            "limit": self.cgroup.map(|version| format!("cgroup v{version}")),
            "page_cache": if self.caches_kept.is_some() { "kept" } else { "dropped before each run" },
            "arguments": {
                "connections": args.connections, "repeats": args.repeats, "seconds": args.seconds, "warm_up": args.warm_up,
                "precision_percent": args.precision, "ef": args.ef, "config": args.config, "serve": args.serve,
                "load": if args.load == LoadIn::Each { "each" } else { "once" },
            },
            "aa": self.aa, "memory_bytes_min": minima, "medians": medians, "rows": self.rows,
        })
    }

    fn plot(&self, recall: bool) -> Plot {
        let mut curves = Vec::new();
        for placement in &self.args.placements {
            for setting in self.settings() {
                let mut points: Vec<(f64, f64)> = Vec::new();
                let served = self
                    .rows
                    .iter()
                    .filter(|r| r.placement == *placement && r.verdict == Verdict::Served);
                for row in served {
                    let middle = middles(row).into_iter().find(|m| m.of.setting == setting);
                    if let (Some(bytes), Some(middle)) = (row.memory_bytes, middle) {
                        let y = if recall {
                            middle.of.recall
                        } else {
                            middle.queries_per_s.median
                        };
                        points.push((mega(bytes), y));
                    }
                }
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                let name = match self.args.ef.is_empty() {
                    true => placement.name().to_string(),
                    false => format!("{}, {setting}", placement.name()),
                };
                curves.push(Curve {
                    name,
                    points,
                    marks_only: false,
                });
            }
        }
        if !recall {
            curves.extend(article_curves());
        }
        Plot {
            title: format!(
                "{}: {} over the memory limit",
                self.data.name,
                if recall { "recall" } else { "queries a second" }
            ),
            x: Axis::log("memory limit, MB"),
            y: match recall {
                true => Axis {
                    range: Some((0.8, 1.0)),
                    ..Axis::linear("recall@k")
                },
                false => Axis::log("queries/s"),
            },
            curves,
            size: (0, 0),
        }
    }

    fn settings(&self) -> Vec<String> {
        let mut settings: Vec<String> = Vec::new();
        for run in self.rows.iter().flat_map(|row| &row.runs) {
            if !settings.contains(&run.setting) {
                settings.push(run.setting.clone());
            }
        }
        settings
    }
}

fn article_curves() -> Vec<Curve> {
    let placements = [Placement::InRam, Placement::VectorsOnDisk, Placement::AllOnDisk];
    let curve = |placement: Placement| Curve {
        name: format!("article, {}", placement.name()),
        points: LINES
            .iter()
            .filter(|line| line.placement == placement)
            .filter_map(|line| Some((line.memory_mb as f64, line.queries_per_s?)))
            .collect(),
        marks_only: true,
    };
    placements.into_iter().map(curve).collect()
}

/// One for each setting: medians over the runs.
fn middles(row: &Row) -> Vec<Middle> {
    let mut settings: Vec<&str> = Vec::new();
    for run in &row.runs {
        if !settings.contains(&run.setting.as_str()) {
            settings.push(&run.setting);
        }
    }
    settings
        .into_iter()
        .filter_map(|setting| middle(row, setting))
        .collect()
}

fn middle(row: &Row, setting: &str) -> Option<Middle> {
    let runs: Vec<&Figures> = row.runs.iter().filter(|run| run.setting == setting).collect();
    let summary =
        |of: &dyn Fn(&Figures) -> f64| Summary::of(&runs.iter().map(|run| of(run)).collect::<Vec<_>>());
    let median = |of: &dyn Fn(&Figures) -> f64| summary(of).map_or(0.0, |s| s.median);
    let maybe = |of: &dyn Fn(&Figures) -> Option<f64>| {
        let known: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
        Summary::of(&known).map(|s| s.median)
    };
    Some(Middle {
        queries_per_s: summary(&|run| run.queries_per_s)?,
        of: Figures {
            setting: setting.to_string(),
            queries_per_s: median(&|run| run.queries_per_s),
            recall: median(&|run| run.recall),
            latency_ms_mean: median(&|run| run.latency_ms_mean),
            latency_ms_p50: median(&|run| run.latency_ms_p50),
            latency_ms_p95: median(&|run| run.latency_ms_p95),
            latency_ms_p99: median(&|run| run.latency_ms_p99),
            latency_ms_p999: median(&|run| run.latency_ms_p999),
            latency_ms_max: median(&|run| run.latency_ms_max),
            server_cpu_us_per_query: maybe(&|run| run.server_cpu_us_per_query),
            reads_per_query: maybe(&|run| run.reads_per_query),
            read_bytes_per_query: maybe(&|run| run.read_bytes_per_query),
            client_cpu_us_per_query: median(&|run| run.client_cpu_us_per_query),
            ..Figures::default()
        },
    })
}

/// A row's medians, for the record.
fn summed(row: &Row) -> Vec<Value> {
    let of = |middle: Middle| {
        json!({
            "placement": row.placement.name(), "memory_bytes": row.memory_bytes, "setting": middle.of.setting,
            "queries_per_s": middle.queries_per_s, "recall": middle.of.recall,
            "latency_ms_p50": middle.of.latency_ms_p50, "latency_ms_p95": middle.of.latency_ms_p95, "latency_ms_p99": middle.of.latency_ms_p99,
            "reads_per_query": middle.of.reads_per_query, "read_bytes_per_query": middle.of.read_bytes_per_query,
            "server_cpu_us_per_query": middle.of.server_cpu_us_per_query, "memory_peak_bytes": row.memory_peak_bytes,
        })
    };
    middles(row).into_iter().map(of).collect()
}

/// A verdict as a table shows it.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Served => "served",
        Verdict::OutOfMemory => "out of memory",
        Verdict::Refused(_) => "refused",
        Verdict::Failed(_) => "failed",
        Verdict::ReadsFromDisk(_) => "not in RAM",
    }
}

/// A verdict as a line shows it.
pub fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Served | Verdict::OutOfMemory => word(verdict).into(),
        Verdict::Refused(why) | Verdict::Failed(why) | Verdict::ReadsFromDisk(why) => {
            format!("{}: {why}", word(verdict))
        }
    }
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
