//! `--explain`: prints where the time of a search went.

use serde_json::Value;

use crate::output::shown;

/// The steps of a request, in their order.
const STEPS: [(&str, &str); 7] = [
    ("admission", "key, body, parsing"),
    ("memory_wait", "waiting for memory"),
    ("queue", "waiting for a search thread"),
    ("search", "search"),
    ("fetch", "fetching ids, payloads, vectors"),
    ("encode", "writing the answer"),
    ("other", "the rest"),
];

/// ... and the stages of a search.
const STAGES: [(&str, &str); 8] = [
    ("filter", "resolving the filter"),
    ("centroids", "ranking centroids"),
    ("positions", "finding positions"),
    ("codes", "comparing codes"),
    ("rows", "comparing vectors"),
    ("lists", "lists"),
    ("payloads", "asking payloads"),
    ("other", "the rest"),
];

/// Width of the bars, in characters.
const BAR: u64 = 24;

/// Lines of at most 80 columns, but for names of users and what it means.
pub fn told(explain: &Value) -> String {
    let us = |of: &Value, name: &str| of["time_us"][name].as_u64().unwrap_or(0);
    let total = us(explain, "total");
    let mut out = format!("\ntook {}\n", millis(total));
    for (name, words) in STEPS {
        let part = us(explain, name);
        if part > 0 {
            let bar = "#".repeat(((part * BAR).div_ceil(total.max(1)).min(BAR)) as usize);
            out.push_str(&format!("  {:<32}{:>11}  {bar}\n", words, millis(part)));
        }
    }
    let (reads, bytes) = (
        &explain["disk_reads"],
        explain["disk_bytes"].as_f64().unwrap_or(0.0),
    );
    let wait = millis(us(explain, "read_wait"));
    out.push_str(&format!(
        "  {reads} reads of {:.2} MB in all, waited for {wait}\n",
        bytes / 1e6
    ));
    out.push_str(&stages_told(&explain["stages"]));
    for shard in explain["shards"].as_array().into_iter().flatten() {
        out.push_str(&shard_told(shard));
    }
    for part in explain["segments"].as_array().into_iter().flatten() {
        out.push_str(&part_told(part, explain["shards"].is_array()));
    }
    for sentence in explain["meaning"].as_array().into_iter().flatten() {
        out.push_str(&format!("=> {}\n", shown(sentence.as_str().unwrap_or_default())));
    }
    out
}

/// A line of a shard: how long its answers were waited for, and how long it was at work.
fn shard_told(shard: &Value) -> String {
    let millis_of = |us: &Value| millis(us.as_u64().unwrap_or(0));
    let nodes = shard["nodes"].as_array().into_iter().flatten();
    let nodes: Vec<String> = nodes
        .map(|node| shown(node.as_str().unwrap_or_default()))
        .collect();
    format!(
        "  shard {}: {} in {} requests, at work {}, {} reads ({})\n",
        shard["shard"],
        millis_of(&shard["waited_us"]),
        shard["requests"],
        millis_of(&shard["time_us"]["total"]),
        shard["disk_reads"],
        nodes.join(", ")
    )
}

fn part_told(part: &Value, is_divided: bool) -> String {
    let text = |name: &str| shown(part[name].as_str().unwrap_or_default());
    let place = match part["segment"].as_u64() {
        Some(number) => format!("segment {number}"),
        None if part["index"] == "buffer" => "write buffer".to_owned(),
        None if is_divided && part["shard"].is_null() => "all shards".to_owned(),
        None => "all segments".to_owned(),
    };
    let place = match part["shard"].as_u64() {
        Some(shard) => format!("shard {shard}, {place}"),
        None => place,
    };
    let using = match text("using") {
        name if name.is_empty() => String::new(),
        name => format!(" of `{name}`"),
    };
    let mut out = format!(
        "  {place}{using}: {} ({}), {} rows, {}\n",
        text("index"),
        text("strategy"),
        part["rows"],
        millis(part["time_us"].as_u64().unwrap_or(0))
    );
    let counts = [
        ("probes", "clusters"),
        ("codes_scanned", "codes"),
        ("rows_scored", "rows compared"),
        ("rows_checked", "rows asked of the filter"),
        ("reads", "reads"),
    ];
    let counts = counts.iter().filter_map(|(name, words)| {
        let n = part[*name].as_u64().filter(|n| *n > 0)?;
        Some(format!("{n} {words}"))
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    if !counts.is_empty() {
        out.push_str(&format!("    {counts}\n"));
    }
    out
}

/// A line a stage, of all segments together.
fn stages_told(stages: &Value) -> String {
    let mut out = String::new();
    for stage in stages.as_array().into_iter().flatten() {
        let figure = |name: &str| stage[name].as_u64().unwrap_or(0);
        let known = STAGES.iter().find(|(name, _)| stage["stage"] == *name);
        let Some((_, words)) = known else { continue };
        out.push_str(&format!("    {words:<30}{:>11}", millis(figure("time_us"))));
        if figure("reads") > 0 {
            let bytes = figure("read_bytes") as f64 / 1e6;
            let wait = millis(figure("read_wait_us"));
            out.push_str(&format!("  {} reads, {bytes:.2} MB, {wait}", figure("reads")));
        }
        out.push('\n');
    }
    out
}

fn millis(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn where_the_time_went() {
        let explain = json!({
            "time_us": {"admission": 500, "queue": 0, "search": 7_500, "fetch": 2_000, "total": 10_000, "read_wait": 6_000},
            "stages": [
                {"stage": "centroids", "time_us": 400, "reads": 0},
                {"stage": "rows", "time_us": 6_900, "reads": 31, "read_bytes": 126_976, "read_wait_us": 6_000},
            ],
            "disk_reads": 31, "disk_bytes": 126_976,
            "segments": [
                {"segment": 3, "using": "", "index": "ivf", "strategy": "codes", "rows": 90_000, "probes": 12, "codes_scanned": 4_000,
                 "time_us": 7_400},
                {"segment": null, "using": "a", "index": "buffer", "strategy": "all", "rows": 7, "time_us": 10},
            ],
            "meaning": ["read \u{1b}[31mthis"],
        });
        let told = told(&explain);
        assert!(told.contains("took 10.00 ms"), "{told}");
        assert!(
            told.contains("search                              7.50 ms  ##################\n"),
            "{told}"
        );
        assert!(
            !told.contains("search thread"),
            "steps of no time aren't told: {told}"
        );
        assert!(
            told.contains("  31 reads of 0.13 MB in all, waited for 6.00 ms\n"),
            "{told}"
        );
        assert!(
            told.contains("  segment 3: ivf (codes), 90000 rows, 7.40 ms\n    12 clusters, 4000 codes\n"),
            "{told}"
        );
        let stages = "    ranking centroids                 0.40 ms\n    comparing vectors                 6.90 ms  31 reads, 0.13 MB, 6.00 ms\n";
        assert!(told.contains(stages), "{told}");
        assert!(
            told.contains("  write buffer of `a`: buffer (all), 7 rows, 0.01 ms\n"),
            "{told}"
        );
        assert!(told.ends_with("=> read \u{fffd}[31mthis\n"), "{told:?}");
        assert!(told.lines().all(|line| line.len() <= 80), "{told}");
    }

    #[test]
    fn which_shard_it_was() {
        let explain = json!({
            "time_us": {"search": 9_000, "total": 10_000, "read_wait": 6_000},
            "disk_reads": 31, "disk_bytes": 126_976,
            "segments": [
                {"shard": 1, "segment": 3, "using": "", "index": "ivf", "strategy": "codes", "rows": 90_000, "time_us": 7_400},
                {"shard": 1, "segment": null, "using": "", "index": "scores", "strategy": "all", "rows": 9, "time_us": 10},
                {"segment": null, "using": "", "index": "fusion", "strategy": "ranks merged", "rows": 20, "time_us": 10},
            ],
            "shards": [{"shard": 1, "nodes": ["http://b:6333"], "requests": 2, "waited_us": 8_500, "time_us": {"total": 8_000}, "disk_reads": 31}],
            "meaning": [],
        });
        let told = told(&explain);
        for line in [
            "  shard 1: 8.50 ms in 2 requests, at work 8.00 ms, 31 reads (http://b:6333)\n",
            "  shard 1, segment 3: ivf (codes), 90000 rows, 7.40 ms\n",
            "  shard 1, all segments: scores (all), 9 rows, 0.01 ms\n",
            "  all shards: fusion (ranks merged), 20 rows, 0.01 ms\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }
}
