//! The results of `ramlet bench search`: a table, the curve, JSON, exports.

use anyhow::Result;
use serde_json::{Value, json};

use super::args::SearchArgs;
use super::export;
use crate::results::table::{figure, figure_or_dash};
use crate::traffic::measure::Figures;
use crate::traffic::wire::Wire;
use crate::{Axis, Curve, Machine, Plot, Summary, Table};

/// All runs, in order.
pub struct Report<'a> {
    args: &'a SearchArgs,
    wire: Wire,
    name: String,
    data: Value,
    pub server: String,
    pub runs: Vec<Figures>,
}

impl<'a> Report<'a> {
    pub fn new(args: &'a SearchArgs, wire: Wire, name: String, data: Value) -> Report<'a> {
        Report {
            args,
            wire,
            name,
            data,
            server: String::new(),
            runs: Vec::new(),
        }
    }

    /// Prints the table and writes what was asked for.
    pub fn finish(&self) -> Result<()> {
        let load = match self.args.rate.is_empty() {
            true => "closed loop: latency counts from sending",
            false => "open loop: latency counts from when a request was due",
        };
        println!("{}: {}", self.name, self.server);
        println!(
            "{}, {} connections, {load}; the load generator ran on {} cores of this machine\n",
            self.wire.name(),
            self.args.connections,
            Machine::here().cores
        );
        println!("{}", self.table());
        for (error, many) in self.runs.iter().flat_map(|run| &run.errors) {
            println!("{many} x {error}");
        }
        self.args.output.keep("bench-search", &self.json())?;
        self.args.output.draw("search-curve", &self.curve())?;
        self.args.output.draw("search-latency", &self.latencies())?;
        if let Some(directory) = &self.args.export {
            let path = directory.join("results.csv");
            export::write_csv(&path, &self.server, &self.name, self.args.data.k, &self.runs)?;
            eprintln!("{}", path.display());
        }
        Ok(())
    }

    /// Settings with their rates, and the runs of each.
    fn groups(&self) -> Vec<(String, Option<f64>, Vec<&Figures>)> {
        let mut groups: Vec<(String, Option<f64>, Vec<&Figures>)> = Vec::new();
        for run in &self.runs {
            match groups
                .iter_mut()
                .find(|(setting, rate, _)| *setting == run.setting && *rate == run.rate)
            {
                Some((_, _, runs)) => runs.push(run),
                None => groups.push((run.setting.clone(), run.rate, vec![run])),
            }
        }
        groups
    }

    fn table(&self) -> Table {
        let recall = format!("recall@{}", self.args.data.k);
        let mut table = Table::new(&[
            "setting",
            "asked/s",
            "queries/s",
            "spread",
            &recall,
            "mean ms",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "p99.9 ms",
            "server us",
            "KB/query",
            "client us",
            "errors",
            "unsent",
        ]);
        for (setting, rate, runs) in self.groups() {
            let of = |value: &dyn Fn(&Figures) -> f64| middle(&runs, value);
            let speed = Summary::of(&runs.iter().map(|run| run.queries_per_s).collect::<Vec<_>>());
            let known = |value: &dyn Fn(&Figures) -> Option<f64>| {
                value(runs[0]).map(|_| of(&|run| value(run).unwrap_or(0.0)))
            };
            table.row([
                setting,
                rate.map_or("-".into(), figure),
                figure(of(&|run| run.queries_per_s)),
                speed.map_or("-".into(), |s| format!("{:.0} %", s.spread * 100.0)),
                format!("{:.3}", of(&|run| run.recall)),
                figure(of(&|run| run.latency_ms_mean)),
                figure(of(&|run| run.latency_ms_p50)),
                figure(of(&|run| run.latency_ms_p95)),
                figure(of(&|run| run.latency_ms_p99)),
                figure(of(&|run| run.latency_ms_p999)),
                figure_or_dash(known(&|run| run.server_cpu_us_per_query)),
                figure_or_dash(known(&|run| run.read_bytes_per_query.map(|bytes| bytes / 1e3))),
                figure(of(&|run| run.client_cpu_us_per_query)),
                runs.iter()
                    .flat_map(|run| run.errors.values())
                    .sum::<u64>()
                    .to_string(),
                figure_or_dash(known(&|run| run.unsent.map(|many| many as f64))),
            ]);
        }
        table
    }

    fn json(&self) -> Value {
        let args = self.args;
        json!({
            "experiment": "bench search", "data": self.data, "server": self.server, "wire": self.wire,
            "arguments": {
                "connections": args.connections, "rate": args.rate, "seconds": args.seconds, "warm_up": args.warm_up,
                "repeats": args.repeats, "params": args.params, "config": args.config,
            },
            "runs": self.runs,
        })
    }

    fn curve(&self) -> Plot {
        let groups = self.groups();
        let point = |runs: &[&Figures]| {
            (
                middle(runs, &|run| run.recall),
                middle(runs, &|run| run.queries_per_s),
            )
        };
        // At a rate the speed is what was asked for: a curve is about the greatest.
        let mut points: Vec<(f64, f64)> = groups.iter().map(|(_, _, runs)| point(runs)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Plot {
            title: format!("{}: speed at recall", self.name),
            x: Axis {
                range: Some((0.9, 1.0)),
                ..Axis::linear(&format!("recall@{}", self.args.data.k))
            },
            y: Axis::log("queries/s"),
            curves: vec![Curve {
                name: self.server.clone(),
                points,
                marks_only: false,
            }],
            size: (0, 0),
        }
    }

    /// Latency over recall in a closed loop, over the rate in an open one.
    fn latencies(&self) -> Plot {
        let is_open = !self.args.rate.is_empty();
        let groups = self.groups();
        let curve = |name: &str, of: &dyn Fn(&Figures) -> f64| {
            let mut points: Vec<(f64, f64)> = groups
                .iter()
                .map(|(_, rate, runs)| {
                    (
                        rate.unwrap_or_else(|| middle(runs, &|run| run.recall)),
                        middle(runs, of),
                    )
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve {
                name: name.into(),
                points,
                marks_only: is_open && self.args.ef.len() > 1,
            }
        };
        Plot {
            title: format!("{}: latency", self.name),
            x: match is_open {
                true => Axis::log("requests asked for a second"),
                false => Axis {
                    range: Some((0.9, 1.0)),
                    ..Axis::linear("recall")
                },
            },
            y: Axis::log("ms"),
            curves: vec![
                curve("p50", &|run| run.latency_ms_p50),
                curve("p95", &|run| run.latency_ms_p95),
                curve("p99", &|run| run.latency_ms_p99),
            ],
            size: (0, 0),
        }
    }
}

fn middle(runs: &[&Figures], of: &dyn Fn(&Figures) -> f64) -> f64 {
    let figures: Vec<f64> = runs.iter().map(|run| of(run)).collect();
    Summary::of(&figures).map_or(0.0, |summary| summary.median)
}
