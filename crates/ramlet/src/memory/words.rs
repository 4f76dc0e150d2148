//! Refusals for want of memory, in words: what was asked, what there is, who holds it, whether that passes, and what to do.

use ramlet_memory::OverBudget;

/// What a consumer of the ledger is to people.
fn holder(consumer: &'static str) -> &'static str {
    match consumer {
        "write buffers" => "new points that are in no segment yet (write buffers)",
        "queued updates" => "updates that wait to be written",
        "cached data" => "vectors, codes and payloads cached in RAM, which make way",
        "pinned files" => "files that segments can't be read without",
        "segment metadata" => "metadata of the segments, which grows with the data",
        "block cache" => "the block cache",
        "collections" => "the collections themselves",
        "search slots" => "the search threads",
        "extra scratch" => "searches under way",
        "job scratch" | "job scratch, spare" => "background work (flush, merge, index)",
        "log buffers" => "the buffers of the log",
        "snapshots" => "a snapshot under way",
        "requests" => "bodies of requests under way",
        "responses" | "streams" => "answers on their way to clients",
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

/// What whoever asked is told.
pub fn refusal(e: &OverBudget) -> String {
    let mut out = format!("{} needs {}", asker(e.consumer), megabytes(e.asked));
    if e.held > 0 {
        out.push_str(&format!(" beside the {} that it holds", megabytes(e.held)));
    }
    out.push_str(&match e.is_final() {
        true => format!(
            ", {} are the most that it could ever have here (share `{}` of GET /memory)",
            megabytes(e.limit),
            e.consumer
        ),
        false => format!(
            ", {} of {} are free now (share `{}` of GET /memory)",
            megabytes(e.available),
            megabytes(e.limit),
            e.consumer
        ),
    });
    let mut before = "; most is held by ";
    for (name, bytes) in e.largest.iter().filter(|held| !held.0.is_empty() && held.1 > 0) {
        out.push_str(&format!("{before}{} ({})", holder(name), megabytes(*bytes)));
        before = " and ";
    }
    out.push_str(match e.is_final() {
        true => ". Waiting doesn't help: ask for fewer points, or for less of each, or send smaller batches; or start with a larger --memory",
        false => ". This passes by itself: try again in a second; if it stays so, send less at once, or start with a larger --memory",
    });
    out
}

/// What it is that needs memory.
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
            "this search needs 3.0 MB, 2.0 MB of 8.0 MB are free now (share `extra scratch` of GET /memory); most is held by vectors, codes and payloads cached in RAM, which make \
             way (30.1 MB) and new points that are in no segment yet (write buffers) (50.0 kB). This passes by itself: try again in a second; \
             if it stays so, send less at once, or start with a larger --memory"
        );
        let said = refusal(&refused(7_000_000, 1_500_000));
        assert!(
            said.starts_with("this search needs 7.0 MB beside the 1.5 MB that it holds, 8.0 MB are the most"),
            "{said}"
        );
        assert!(said.contains("Waiting doesn't help"), "{said}");
    }
}
