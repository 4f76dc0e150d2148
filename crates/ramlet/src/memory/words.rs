//! Messages of memory refusals: the bytes requested and free, whether waiting helps, what to do, and the largest consumers. Clients cut
//! messages off (the official one in Python after 200 bytes of the response), so what to do stands before who holds what.

use ramlet_memory::{OverBudget, size, size_up};

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

/// With this the advice of a refusal begins.
pub const ADVICE: &str = ". Waiting ";
/// And with this what stands behind it: who holds the memory.
pub const HOLDERS: &str = ". It is `";
/// What a body that never fits is to be sent in: a server that knows how many says so here.
pub const SMALLER_BATCHES: &str = "send smaller batches";

/// The message of a refusal.
pub fn refusal(e: &OverBudget) -> String {
    let mut out = format!("{} needs {}", asker(e.consumer), size_up(e.asked));
    if e.held > 0 {
        out.push_str(&format!(" in addition to the {} that it holds", size(e.held)));
    }
    out.push_str(&match e.is_final() {
        true => format!(
            ", but at most {} can ever be free for it. Waiting doesn't help: {SMALLER_BATCHES}, ask for fewer points or less of each, or start with a \
             larger --memory",
            size(e.limit)
        ),
        false => format!(
            ", but only {} of {} are free now. Waiting helps: try again in a second; if it persists, send less at once, or start with a \
             larger --memory",
            size(e.available),
            size(e.limit)
        ),
    });
    out.push_str(&format!("{HOLDERS}{}` in GET /memory", e.consumer));
    let mut before = "; the largest consumers of all are ";
    for (name, bytes) in e.largest.iter().filter(|held| !held.0.is_empty() && held.1 > 0) {
        out.push_str(&format!("{before}{} ({})", holder(name), size(*bytes)));
        before = " and ";
    }
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
            "this search needs 3.0 MB, but only 2.0 MB of 8.0 MB are free now. Waiting helps: try again in a second; if it persists, send \
             less at once, or start with a larger --memory. It is `extra scratch` in GET /memory; the largest consumers of all are vectors, codes \
             and payloads cached in RAM, which can be evicted (30.1 MB) and new points that aren't in a segment yet (write buffers) (50.0 kB)"
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
