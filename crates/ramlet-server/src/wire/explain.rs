//! How a search was done, told beside its result.

use ramlet::Explained;
use serde_json::{Value, json};

/// `,"explain":...` to stand behind the result; nothing unless it was asked for.
pub fn beside_result(explained: &[Vec<Explained>], batch: bool) -> String {
    if explained.iter().all(Vec::is_empty) {
        return String::new();
    }
    let all: Vec<Value> = explained.iter().map(|parts| explain_json(parts)).collect();
    match (batch, all.as_slice()) {
        (false, [one]) => format!(",\"explain\":{one}"),
        _ => format!(",\"explain\":{}", Value::Array(all)),
    }
}

/// Sums, and each segment and write buffer.
fn explain_json(parts: &[Explained]) -> Value {
    let sum = |of: fn(&Explained) -> u64| parts.iter().map(of).sum::<u64>();
    json!({
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
        "segments": parts.iter().map(part_json).collect::<Vec<_>>(),
    })
}

fn part_json(part: &Explained) -> Value {
    json!({
        "segment": part.segment,
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_is_an_object_and_a_batch_a_list() {
        let part = Explained {
            segment: Some(3),
            index: "ivf",
            strategy: "probe",
            probes: 7,
            ..Explained::default()
        };
        assert_eq!(beside_result(&[Vec::new(), Vec::new()], true), "");
        let text = beside_result(&[vec![part.clone(), part]], false);
        let one: Value = serde_json::from_str(text.strip_prefix(",\"explain\":").unwrap()).unwrap();
        assert_eq!(
            (&one["probes"], &one["segments"][1]["segment"]),
            (&json!(14), &json!(3))
        );
        let text = beside_result(&[Vec::new(), vec![Explained::default()]], true);
        let two: Value = serde_json::from_str(text.strip_prefix(",\"explain\":").unwrap()).unwrap();
        assert_eq!(two[0]["segments"], json!([]));
        assert_eq!(two[1]["segments_count"], 1);
    }
}
