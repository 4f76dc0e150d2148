//! How the shards of a divided collection searched: their figures as one search's, and each shard's own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use ramlet::SearchStage;

use super::explain_words::{WAIT_US_MIN, millis, stage_name};
use crate::observability::steps::{ShardSearched, ShardsSearched, StepsUs};

/// The steps of a shard's own time that are summed, as [`super::explain`] has them.
const TIMES: [&str; 9] = [
    "admission",
    "memory_wait",
    "queue",
    "search",
    "fetch",
    "encode",
    "other",
    "total",
    "read_wait",
];
/// Figures of a stage.
const FIGURES: [&str; 4] = ["time_us", "read_wait_us", "reads", "read_bytes"];
/// Shards that are told of where there is no room for all: those that were waited for longest.
const FEW: usize = 3;

/// Of a shard that wasn't asked to tell unless it works long.
const UNTOLD: &str = "quick parts of the work, of which nothing more is told";

/// Figures of a search that are summed over shards.
const COUNTS: [&str; 12] = [
    "segments_count",
    "probes",
    "codes_scanned",
    "survivors",
    "extended_scored",
    "rows_read",
    "rows_scored",
    "rows_checked",
    "reads",
    "pages_read",
    "disk_reads",
    "disk_bytes",
];

/// Adds what shards did to what is told of this node: its parts come last, as what merges theirs.
pub fn add(told: &mut Value, shards: &ShardsSearched) {
    for name in COUNTS {
        told[name] = json!(number(told, name) + sum(shards, name));
    }
    told["stages"] = stages(&told["stages"], shards);
    let mut all = segments(shards);
    if let Some(own) = told["segments"].as_array_mut() {
        all.append(own);
    }
    told["segments"] = Value::Array(all);
    told["shards"] = by_shard(shards).iter().map(OfShard::json).collect();
}

/// A figure, summed over all that shards were asked.
fn sum(shards: &ShardsSearched, name: &str) -> u64 {
    shards.asks.iter().map(|ask| number(&ask.told, name)).sum()
}

/// Segments and write buffers, each with its shard.
fn segments(shards: &ShardsSearched) -> Vec<Value> {
    let with_shard = |(ask, part): (&ShardSearched, &Value)| {
        let mut part = part.clone();
        part["shard"] = json!(ask.shard);
        part
    };
    shards.segments().map(with_shard).collect()
}

/// The stages of this node and of all shards.
fn stages(own: &Value, shards: &ShardsSearched) -> Value {
    let mut sums: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    let told = shards.asks.iter().map(|ask| &ask.told["stages"]);
    for stage in told.chain([own]).filter_map(Value::as_array).flatten() {
        let Some(name) = stage["stage"].as_str() else {
            continue;
        };
        let sum = sums.entry(name).or_default();
        for (sum, figure) in sum.iter_mut().zip(FIGURES) {
            *sum += number(stage, figure);
        }
    }
    let names = SearchStage::ALL.into_iter().map(stage_name);
    let known = names.filter_map(|name| Some((name, sums.get(name)?)));
    known
        .map(|(name, sum)| {
            let mut stage = Map::from_iter([("stage".to_owned(), json!(name))]);
            stage.extend(
                FIGURES
                    .iter()
                    .zip(sum)
                    .map(|(f, sum)| ((*f).to_owned(), json!(sum))),
            );
            Value::Object(stage)
        })
        .collect()
}

/// What one shard did, all that it was asked together.
struct OfShard<'a> {
    shard: u32,
    asks: Vec<&'a ShardSearched>,
}

impl OfShard<'_> {
    fn waited_us(&self) -> u64 {
        let waited = self.asks.iter().map(|ask| ask.waited).sum::<Duration>();
        waited.as_micros() as u64
    }

    fn us(&self, name: &str) -> u64 {
        let each = self.asks.iter();
        each.map(|ask| number(&ask.told["time_us"], name)).sum()
    }

    fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = self.asks.iter().map(|ask| ask.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn json(&self) -> Value {
        let of = |name: &str| -> u64 { self.asks.iter().map(|ask| number(&ask.told, name)).sum() };
        let times = TIMES
            .iter()
            .map(|name| ((*name).to_owned(), json!(self.us(name))));
        let said = self.asks.iter().filter_map(|ask| ask.told["meaning"].as_array());
        let mut said: Vec<Value> = said.flatten().cloned().collect();
        said.dedup();
        if self.asks.iter().any(|ask| ask.told.is_null()) {
            said.push(json!(UNTOLD));
        }
        json!({
            "shard": self.shard,
            "nodes": self.nodes(),
            "requests": self.asks.len(),
            "waited_us": self.waited_us(),
            "time_us": times.collect::<Map<String, Value>>(),
            "rows_scored": of("rows_scored"),
            "codes_scanned": of("codes_scanned"),
            "disk_reads": of("disk_reads"),
            "disk_bytes": of("disk_bytes"),
            "meaning": said,
        })
    }
}

fn by_shard(shards: &ShardsSearched) -> Vec<OfShard<'_>> {
    let mut all: BTreeMap<u32, Vec<&ShardSearched>> = BTreeMap::new();
    for ask in &shards.asks {
        all.entry(ask.shard).or_default().push(ask);
    }
    let each = all.into_iter();
    each.map(|(shard, asks)| OfShard { shard, asks }).collect()
}

/// Of each shard's own figures the few that were waited for longest.
pub fn shorten(explained: &mut Value) {
    let Some(rows) = explained.get_mut("shards").and_then(Value::as_array_mut) else {
        return;
    };
    if rows.len() > FEW {
        rows.sort_by_key(|row| std::cmp::Reverse(number(row, "waited_us")));
        rows.truncate(FEW);
        explained["shards_left_out"] = json!(true);
    }
}

/// The longest wait for reads of a shard, microseconds: shards read beside each other.
pub fn read_wait_us(shards: &ShardsSearched) -> u64 {
    let waits = by_shard(shards).into_iter().map(|shard| shard.us("read_wait"));
    waits.max().unwrap_or_default()
}

/// Which shard was waited for longest, and why, where that is what the request spent its time on.
pub fn slowest(shards: &ShardsSearched, us: StepsUs) -> Option<String> {
    let mut all = by_shard(shards);
    all.sort_by_key(|shard| std::cmp::Reverse(shard.waited_us()));
    let (slowest, quickest) = (all.first()?, all.last()?);
    let waited = slowest.waited_us();
    if waited < WAIT_US_MIN || waited * 2 < us.total {
        return None;
    }
    let mut said = format!(
        "shard {} ({}) answered after {}",
        slowest.shard,
        slowest.nodes().join(", "),
        millis(waited)
    );
    if all.len() > 1 {
        let quickest = (quickest.shard, millis(quickest.waited_us()));
        said.push_str(&format!(", shard {} after {}", quickest.0, quickest.1));
    }
    let waits = [
        ("memory_wait", "memory"),
        ("queue", "a search thread"),
        ("read_wait", "reads"),
    ];
    let most = waits.iter().max_by_key(|(name, _)| slowest.us(name));
    if let Some((name, what)) = most.filter(|(name, _)| slowest.us(name) * 2 >= waited) {
        said.push_str(&format!(
            "; of that it waited {} for {what}",
            millis(slowest.us(name))
        ));
    } else if (1..waited.div_ceil(2)).contains(&slowest.us("total")) {
        said.push_str(&format!(
            "; of that it was at work for {}",
            millis(slowest.us("total"))
        ));
    }
    Some(said)
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shard tells that was waited for so long, and read so long.
    fn ask(shard: u32, waited_ms: u64, read_ms: u64) -> ShardSearched {
        let told = json!({
            "segments_count": 1, "rows_scored": 10, "disk_reads": 3, "disk_bytes": 4_096,
            "time_us": {"total": waited_ms * 1_000, "read_wait": read_ms * 1_000},
            "stages": [{"stage": "rows", "time_us": 5, "read_wait_us": 4, "reads": 3, "read_bytes": 4_096}],
            "segments": [{"segment": 7, "rows_checked": 20, "payloads_checked": true}],
            "meaning": ["a sentence"],
        });
        ShardSearched {
            shard,
            node: format!("http://n{shard}"),
            waited: Duration::from_millis(waited_ms),
            told,
        }
    }

    fn of(asks: Vec<ShardSearched>) -> ShardsSearched {
        ShardsSearched {
            asks,
            ..ShardsSearched::default()
        }
    }

    #[test]
    fn shards_are_told_together_and_each_by_itself() {
        let shards = of(vec![ask(0, 4, 1), ask(2, 9, 8), ask(0, 3, 1)]);
        let mut told = json!({
            "disk_reads": 1, "stages": [{"stage": "other", "time_us": 2}, {"stage": "rows", "time_us": 1}],
            "segments": [{"index": "fusion"}],
        });
        add(&mut told, &shards);
        assert_eq!(
            (&told["disk_reads"], &told["rows_scored"], &told["segments_count"]),
            (&json!(10), &json!(30), &json!(3))
        );
        let places: Vec<&Value> = told["segments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| &part["shard"])
            .collect();
        assert_eq!(places, [&json!(0), &json!(2), &json!(0), &Value::Null]);
        let rows =
            json!({"stage": "rows", "time_us": 16, "read_wait_us": 12, "reads": 9, "read_bytes": 12_288});
        assert_eq!(
            told["stages"][0], rows,
            "in the order in which a search comes to them"
        );
        let first = &told["shards"][0];
        assert_eq!(
            (
                &first["requests"],
                &first["waited_us"],
                &first["time_us"]["read_wait"],
                &first["meaning"]
            ),
            (&json!(2), &json!(7_000), &json!(2_000), &json!(["a sentence"]))
        );
        assert_eq!((read_wait_us(&shards), shards.payloads_checked()), (8_000, 60));
    }

    #[test]
    fn the_slowest_is_named_where_it_matters() {
        let us = StepsUs {
            total: 10_000,
            ..StepsUs::default()
        };
        let said = |asks| slowest(&of(asks), us);
        assert_eq!(
            said(vec![ask(0, 2, 0), ask(1, 9, 6)]).unwrap(),
            "shard 1 (http://n1) answered after 9.0 ms, shard 0 after 2.0 ms; of that it waited 6.0 ms for reads"
        );
        let mut far = ask(1, 9, 0);
        far.told["time_us"]["total"] = json!(1_500);
        assert_eq!(
            said(vec![ask(0, 2, 0), far]).unwrap(),
            "shard 1 (http://n1) answered after 9.0 ms, shard 0 after 2.0 ms; of that it was at work for 1.5 ms"
        );
        let mut untold = ask(1, 9, 0);
        untold.told = Value::Null;
        assert_eq!(
            said(vec![ask(0, 2, 0), untold]).unwrap(),
            "shard 1 (http://n1) answered after 9.0 ms, shard 0 after 2.0 ms"
        );
        assert_eq!(
            said(vec![ask(0, 2, 0), ask(1, 3, 0)]),
            None,
            "most of the time went elsewhere"
        );
        assert_eq!(said(Vec::new()), None);
    }

    #[test]
    fn where_room_is_short_the_slowest_are_told() {
        let mut told = json!({"segments": [], "stages": []});
        add(
            &mut told,
            &of((0..9).map(|shard| ask(shard, u64::from(shard), 0)).collect()),
        );
        shorten(&mut told);
        let left: Vec<&Value> = told["shards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| &s["shard"])
            .collect();
        assert_eq!(left, [&json!(8), &json!(7), &json!(6)]);
        assert_eq!(told["shards_left_out"], json!(true));
    }
}
