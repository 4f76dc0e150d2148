//! How a search was done and what it spent its time on, told beside its result; and what that means, in words.

use ramlet::{Explained, SearchStage, StageUse, Stages};
use ramlet_memory::size;
use serde_json::{Value, json};

use super::explain_shards;
use super::explain_words::{WAIT_US_MIN, millis, stage_name};
use crate::observability::steps::{Searched, Steps, StepsUs};

/// `,"explain":...` to stand behind the result.
pub fn beside_result(steps: &Steps, batch: bool) -> String {
    let explained = explained(steps, batch);
    format!(",\"explain\":{explained}")
}

/// One search as an object, those of a batch as a list.
pub fn explained(steps: &Steps, batch: bool) -> Value {
    let us = steps.us();
    steps.with_searches(|searches| match (batch, searches) {
        (false, [one]) => searched_json(one, us),
        _ => searches.iter().map(|one| searched_json(one, us)).collect(),
    })
}

/// The same for a place that takes no more than so many bytes, of ASCII: the parts are left out where they don't fit.
pub fn explained_within(steps: &Steps, batch: bool, bytes_max: usize) -> Option<String> {
    let mut value = explained(steps, batch);
    let whole = ascii(&value.to_string());
    if whole.len() <= bytes_max {
        return Some(whole);
    }
    let without_parts = |one: &mut Value| {
        if let Some(parts) = one.get_mut("segments") {
            *parts = json!([]);
            one["segments_left_out"] = json!(true);
        }
    };
    match &mut value {
        Value::Array(all) => all.iter_mut().for_each(without_parts),
        one => without_parts(one),
    }
    let short = ascii(&value.to_string());
    if short.len() <= bytes_max {
        return Some(short);
    }
    match &mut value {
        Value::Array(all) => all.iter_mut().for_each(explain_shards::shorten),
        one => explain_shards::shorten(one),
    }
    Some(ascii(&value.to_string())).filter(|text| text.len() <= bytes_max)
}

fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for unit in json.encode_utf16() {
        match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => out.push(char::from(byte)),
            None => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out
}

/// Sums, times, what they mean, and each segment and write buffer.
fn searched_json(searched: &Searched, us: StepsUs) -> Value {
    let parts = &searched.parts;
    let sum = |of: fn(&Explained) -> u64| parts.iter().map(of).sum::<u64>();
    let mut told = json!({
        "segments_count": parts.len(),
        "probes": sum(|p| p.probes),
        "codes_scanned": sum(|p| p.codes_scanned),
        "survivors": sum(|p| p.survivors),
        "extended_scored": sum(|p| p.extended_scored),
        "rows_read": sum(|p| p.rows_read),
        "rows_scored": sum(|p| p.rows_scored),
        "rows_checked": sum(|p| p.rows_checked),
        "reads": sum(|p| p.reads),
        "pages_read": sum(|p| p.pages_read),
        "disk_reads": searched.cost.disk_reads,
        "disk_bytes": searched.cost.disk_bytes,
        "time_us": times_json(searched, us),
        "stages": stages_json(parts.iter().filter_map(|part| part.stages.as_deref())),
        "meaning": meaning(searched, us),
        "segments": parts.iter().map(part_json).collect::<Vec<_>>(),
    });
    if let Some(shards) = &searched.shards {
        explain_shards::add(&mut told, shards);
    }
    told
}

/// The request's steps, one after the other; `other` is what none of them accounts for.
fn times_json(searched: &Searched, us: StepsUs) -> Value {
    let cost = &searched.cost;
    let search = (cost.total_ns - cost.collect_ns) / 1_000;
    let fetch = us.fetch + cost.collect_ns / 1_000;
    let told = us.admission + us.memory_wait + us.queue + search + fetch + us.encode;
    json!({
        "admission": us.admission,
        "memory_wait": us.memory_wait,
        "queue": us.queue,
        "search": search,
        "fetch": fetch,
        "encode": us.encode,
        "other": us.total.saturating_sub(told),
        "total": us.total,
        "read_wait": read_wait_us(searched),
    })
}

/// Shards read beside each other: the longest wait counts.
fn read_wait_us(searched: &Searched) -> u64 {
    let of_shards = searched.shards.as_deref().map(explain_shards::read_wait_us);
    searched.cost.waited_ns / 1_000 + of_shards.unwrap_or_default()
}

fn part_json(part: &Explained) -> Value {
    json!({
        "segment": part.segment,
        "using": part.using,
        "index": part.index,
        "strategy": part.strategy,
        "rows": part.rows,
        "candidates": part.candidates,
        "payloads_checked": part.rechecked,
        "share_expected": part.share,
        "probes": part.probes,
        "codes_scanned": part.codes_scanned,
        "survivors": part.survivors,
        "extended_scored": part.extended_scored,
        "rows_read": part.rows_read,
        "rows_scored": part.rows_scored,
        "rows_checked": part.rows_checked,
        "reads": part.reads,
        "pages_read": part.pages_read,
        "read_bytes": part.read_bytes,
        "time_us": part.total_ns / 1_000,
        "stages": stages_json(part.stages.as_deref().into_iter()),
    })
}

/// What went into each stage, summed: those that took anything, in the order in which a search comes to them.
fn stages_json<'a>(stages: impl Iterator<Item = &'a Stages>) -> Value {
    let mut all = Stages::default();
    stages.for_each(|stages| all.add(stages));
    let told = |(stage, used): (SearchStage, &StageUse)| {
        json!({
            "stage": stage_name(stage),
            "time_us": used.ns / 1_000,
            "read_wait_us": used.waited_ns / 1_000,
            "reads": used.reads,
            "read_bytes": used.bytes,
        })
    };
    let worth = |(_, used): &(SearchStage, &StageUse)| used.ns >= 1_000 || used.reads > 0;
    all.used().filter(worth).map(told).collect()
}

/// Rows that are compared one by one without a word.
const ROWS_UNINDEXED_MIN: u64 = 20_000;

/// What the figures mean, most useful first: sentences for people.
pub fn meaning(searched: &Searched, us: StepsUs) -> Vec<String> {
    let mut all = Vec::new();
    let cost = &searched.cost;
    let parts: Vec<Part<'_>> = parts_of(searched).collect();
    if let Some(sentence) = unindexed(searched) {
        all.push(sentence);
    }
    if let Some(sentence) = stop_words(&parts) {
        all.push(sentence);
    }
    let slowest = searched
        .shards
        .as_deref()
        .and_then(|shards| explain_shards::slowest(shards, us));
    all.extend(slowest);
    let most = |part: u64| part >= WAIT_US_MIN && part * 2 >= us.total;
    if most(us.memory_wait) {
        let waited = millis(us.memory_wait);
        all.push(format!(
            "it waited {waited} for memory that other requests hold: send fewer at once, ask for smaller responses, or give a larger --memory"
        ));
    }
    if most(us.queue) {
        let waited = millis(us.queue);
        all.push(format!(
            "it waited {waited} for a search thread: more searches than threads (--threads), or other programs on the same processors"
        ));
    }
    if most(cost.waited_ns / 1_000) {
        let (waited, reads) = (millis(cost.waited_ns / 1_000), many(cost.disk_reads, "read"));
        all.push(format!(
            "{waited} of {} went into {reads} ({}): more memory keeps more data in RAM (`ramlet plan` says how much)",
            millis(us.total),
            size(cost.disk_bytes)
        ));
    }
    let scanned = |p: &&Part<'_>| p.index == "flat" && p.rows_scored >= ROWS_UNINDEXED_MIN;
    if let Some(part) = parts.iter().find(scanned) {
        all.push(format!(
            "{} rows{} have no vector index yet and were compared one by one",
            grouped(part.rows_scored),
            match part.using {
                "" => String::new(),
                name => format!(" of `{name}`"),
            }
        ));
    }
    if parts.iter().any(|part| part.strategy == "passed over") {
        all.push(
            "segments without an index were skipped (indexed_only): their points are missing here".to_owned(),
        );
    }
    all
}

/// What of a segment or write buffer has a meaning, whoever searched it.
struct Part<'a> {
    using: &'a str,
    index: &'a str,
    strategy: &'a str,
    rows: u64,
    rows_scored: u64,
}

fn parts_of(searched: &Searched) -> impl Iterator<Item = Part<'_>> {
    let own = searched.parts.iter().map(|part| Part {
        using: &part.using,
        index: part.index,
        strategy: part.strategy,
        rows: part.rows,
        rows_scored: part.rows_scored,
    });
    let shards = searched.shards.iter().flat_map(|shards| shards.segments());
    own.chain(shards.map(|(_, part)| {
        let text = |name: &str| part[name].as_str().unwrap_or_default();
        let number = |name: &str| part[name].as_u64().unwrap_or_default();
        Part {
            using: text("using"),
            index: text("index"),
            strategy: text("strategy"),
            rows: number("rows"),
            rows_scored: number("rows_scored"),
        }
    }))
}

/// That texts were read because the query has nothing but stop words.
fn stop_words(parts: &[Part<'_>]) -> Option<String> {
    let read = parts.iter().filter(|part| part.strategy == "stop words");
    let (using, rows) = read.fold(("", 0), |(_, rows), part| (part.using, rows + part.rows));
    (rows > 0).then(|| {
        format!(
            "all words of the query are stop words, which the index of `{using}` leaves out: {} payloads were read; add another word to the query",
            grouped(rows)
        )
    })
}

/// That payloads were read for want of an index.
pub fn unindexed(searched: &Searched) -> Option<String> {
    let read = searched.cost.payloads_checked;
    let fields = &searched.unindexed;
    if read == 0 || fields.is_empty() {
        return None;
    }
    let names: Vec<String> = fields.iter().map(|field| format!("`{}`", field.key)).collect();
    let kinds = fields.iter().map(|field| field.kinds.join(" or "));
    Some(format!(
        "no payload index on {}: {} {} read; create one ({})",
        names.join(", "),
        many(read, "payload"),
        if read == 1 { "was" } else { "were" },
        kinds.collect::<Vec<_>>().join(", ")
    ))
}

/// `1 read`, `13,434 reads`: for words that take an s.
pub fn many(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `13,434`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ramlet::{SearchCost, UnindexedField};

    use super::*;

    fn told(text: &str) -> Value {
        serde_json::from_str(text.strip_prefix(",\"explain\":").expect("beside the result")).expect("JSON")
    }

    #[test]
    fn one_search_is_an_object_and_a_batch_a_list() {
        let codes = StageUse {
            ns: 7_000,
            waited_ns: 3_000,
            reads: 4,
            bytes: 16_384,
        };
        let part = Explained {
            segment: Some(3),
            index: "ivf",
            strategy: "probe",
            probes: 7,
            stages: Some(Box::new(Stages::whole(SearchStage::Codes, codes))),
            total_ns: 9_000,
            ..Explained::default()
        };
        let searched = Searched {
            parts: vec![part.clone(), part],
            ..Searched::default()
        };
        let steps = Steps::new(Instant::now());
        steps.note_search(searched);
        let one = told(&beside_result(&steps, false));
        assert_eq!(
            (&one["probes"], &one["segments"][1]["segment"]),
            (&json!(14), &json!(3))
        );
        let codes = |us, wait_us, reads, bytes| json!([{"stage": "codes", "time_us": us, "read_wait_us": wait_us, "reads": reads, "read_bytes": bytes}]);
        assert_eq!(one["segments"][0]["stages"], codes(7, 3, 4, 16_384));
        assert_eq!(one["stages"], codes(14, 6, 8, 32_768), "of all segments");
        steps.note_search(Searched::default());
        let two = told(&beside_result(&steps, true));
        assert_eq!(
            (&two[0]["segments_count"], &two[1]["segments"]),
            (&json!(2), &json!([]))
        );
    }

    #[test]
    fn steps_add_up_to_the_total() {
        let steps = Steps::new(Instant::now() - Duration::from_millis(50));
        steps.note_received(Duration::from_millis(10));
        steps.note_queue(Duration::from_millis(7));
        steps.note_encode(Duration::from_millis(2));
        steps.note_search(Searched::default());
        let one = told(&beside_result(&steps, false));
        let of = |name: &str| one["time_us"][name].as_u64().unwrap();
        assert!(of("admission") >= 40_000, "without what waited for memory: {one}");
        assert_eq!(
            (of("memory_wait"), of("queue"), of("encode")),
            (10_000, 7_000, 2_000)
        );
        let names = [
            "admission",
            "memory_wait",
            "queue",
            "search",
            "fetch",
            "encode",
            "other",
        ];
        let sum: u64 = names.iter().map(|name| of(name)).sum();
        assert!(sum >= of("total"), "{one}");
    }

    #[test]
    fn it_says_what_the_figures_mean() {
        let mut searched = Searched {
            cost: SearchCost {
                payloads_checked: 13_434,
                ..SearchCost::default()
            },
            unindexed: vec![UnindexedField {
                key: "label".to_owned(),
                kinds: vec!["keyword"],
            }],
            ..Searched::default()
        };
        let said = "no payload index on `label`: 13,434 payloads were read; create one (keyword)";
        let us = StepsUs {
            queue: 60_000,
            total: 100_000,
            ..StepsUs::default()
        };
        let all = meaning(&searched, us);
        assert_eq!(all[0], said);
        assert!(
            all[1].starts_with("it waited 60.0 ms for a search thread"),
            "{all:?}"
        );
        searched.cost = SearchCost {
            waited_ns: 80_000_000,
            disk_reads: 1_200,
            ..SearchCost::default()
        };
        let all = meaning(&searched, us);
        assert!(
            !all.iter().any(|said| said.contains("payload index")),
            "none was read: {all:?}"
        );
        assert!(
            all.iter()
                .any(|said| said.contains("80.0 ms of 100.0 ms went into 1,200 reads")),
            "{all:?}"
        );
        assert_eq!(meaning(&Searched::default(), StepsUs::default()), [""; 0]);
    }

    #[test]
    fn it_says_that_stop_words_are_in_no_index() {
        let part = Explained {
            using: "body".to_owned(),
            strategy: "stop words",
            rows: 4_000,
            ..Explained::default()
        };
        let searched = Searched {
            parts: vec![part.clone(), part],
            ..Searched::default()
        };
        let said = "all words of the query are stop words, which the index of `body` leaves out: 8,000 payloads were read; add another word to the query";
        assert_eq!(meaning(&searched, StepsUs::default()), [said]);
    }

    #[test]
    fn metadata_is_short_and_ascii() {
        let part = Explained {
            using: "größe😀".to_owned(),
            ..Explained::default()
        };
        let steps = Steps::new(Instant::now());
        steps.note_search(Searched {
            parts: vec![part; 40],
            ..Searched::default()
        });
        let whole = explained_within(&steps, false, 1 << 20).expect("there is room");
        assert!(whole.is_ascii());
        let back: Value = serde_json::from_str(&whole).expect("JSON");
        assert_eq!(back["segments"][39]["using"], "größe😀");
        let short = explained_within(&steps, false, 2_000).expect("the sums fit");
        let back: Value = serde_json::from_str(&short).expect("JSON");
        assert_eq!(
            (&back["segments_count"], &back["segments_left_out"]),
            (&json!(40), &json!(true))
        );
        assert_eq!(explained_within(&steps, false, 100), None);
    }
}
