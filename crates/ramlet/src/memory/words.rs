//! Messages of memory refusals: the bytes requested and free, the largest consumers, whether waiting helps, and what to do.

use ramlet_memory::OverBudget;

/// A consumer of the ledger, in words.
fn holder(consumer: &'static str) -> &'static str {
    match consumer {
        "write buffers" => "new points that aren't in a segment yet (write buffers)",
        "queued updates" => "updates that wait to be written",
        "cached data" => "vectors, codes and payloads cached in RAM, which can be evicted",
        "pinned files" => "files that segments need to be readable",
        "segment metadata" => "metadata of the segments, which grows with the data",
        "block cache" => "the block cache",
        "collections" => "the collections themselves",
        "search slots" => "the search threads",
        "extra scratch" => "running searches",
        "query samples" => "queries that recall is measured on",
        "job scratch" | "job scratch, spare" => "background work (flush, merge, index)",
        "log buffers" => "the buffers of the log",
        "snapshots" => "a running snapshot",
        "requests" => "bodies of running requests",
        "responses" | "streams" => "responses being sent",
        "connections" | "connections of HTTP/2" => "open connections",
        other => other,
    }
}

/// `12.3 MB`; below a tenth of that in kB.
pub fn megabytes(bytes: u64) -> String {
    match bytes {
        0 => "0 MB".to_owned(),
        1..100_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// With this the advice of a refusal begins.
pub const ADVICE: &str = ". Waiting ";

/// The message of a refusal.
pub fn refusal(e: &OverBudget) -> String {
    let mut out = format!("{} needs {}", asker(e.consumer), megabytes(e.asked));
    if e.held > 0 {
        out.push_str(&format!(
            " in addition to the {} that it holds",
            megabytes(e.held)
        ));
    }
    out.push_str(&match e.is_final() {
        true => format!(
            ", but at most {} can ever be free for it (`{}` in GET /memory)",
            megabytes(e.limit),
            e.consumer
        ),
        false => format!(
            ", but only {} of {} are free now (`{}` in GET /memory)",
            megabytes(e.available),
            megabytes(e.limit),
            e.consumer
        ),
    });
    let mut before = "; the largest consumers are ";
    for (name, bytes) in e.largest.iter().filter(|held| !held.0.is_empty() && held.1 > 0) {
        out.push_str(&format!("{before}{} ({})", holder(name), megabytes(*bytes)));
        before = " and ";
    }
    out.push_str(match e.is_final() {
        true => ". Waiting doesn't help: ask for fewer points or less of each, send smaller batches, or start with a larger --memory",
        false => ". Waiting helps: try again in a second; if it persists, send less at once, or start with a larger --memory",
    });
    out
}

/// What needs the memory, in words.
fn asker(consumer: &'static str) -> &'static str {
    match consumer {
        "requests" => "this request",
        "responses" | "streams" => "the answer",
        "queued updates" => "this update",
        "extra scratch" => "this search",
        "segment metadata" => "the metadata of the next segments",
        "write buffers" => "the write buffer",
        "job scratch" | "job scratch, spare" => "background work",
        "snapshots" => "the snapshot",
        "collections" => "the collection",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(asked: u64, held: u64) -> OverBudget {
        OverBudget {
            consumer: "extra scratch",
            asked,
            available: 2_000_000,
            held,
            limit: 8_000_000,
            largest: [("cached data", 30_100_000), ("write buffers", 50_000)],
        }
    }

    #[test]
    fn what_passes_and_what_does_not() {
        assert_eq!(
            refusal(&refused(3_000_000, 0)),
            "this search needs 3.0 MB, but only 2.0 MB of 8.0 MB are free now (`extra scratch` in GET /memory); the largest consumers are vectors, codes and payloads cached in RAM, which can be \
             evicted (30.1 MB) and new points that aren't in a segment yet (write buffers) (50.0 kB). Waiting helps: try again in a second; \
             if it persists, send less at once, or start with a larger --memory"
        );
        let said = refusal(&refused(7_000_000, 1_500_000));
        assert!(
            said.starts_with(
                "this search needs 7.0 MB in addition to the 1.5 MB that it holds, but at most 8.0 MB can"
            ),
            "{said}"
        );
        assert!(said.contains("Waiting doesn't help"), "{said}");
    }
}
