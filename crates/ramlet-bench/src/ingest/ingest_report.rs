//! An ingestion as tables and a picture, beside the article's.

use serde::Serialize;

use super::phase::Phase;
use super::phases::Ingest;
use super::sample::Sample;
use crate::results::table::{figure, figure_or_dash};
use crate::{Axis, Curve, Plot, Table};

/// A row of the article's table (k-NN plugin, "Optimize native memory allocations to reduce fragmentation"): vectors of 768 dimensions
/// sent to a server of 16 GB with a JVM heap of 8 GB. The rows of nmslib and faiss ended early: the client gave up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    pub engine: &'static str,
    pub vectors: u64,
    pub rss_before_kb: u64,
    pub rss_after_kb: u64,
}

/// All rows of it that stand.
pub const ARTICLE: [Published; 3] = [
    Published {
        engine: "nmslib",
        vectors: 648_500,
        rss_before_kb: 8_984_748,
        rss_after_kb: 11_125_772,
    },
    Published {
        engine: "lucene",
        vectors: 1_000_000,
        rss_before_kb: 8_971_888,
        rss_after_kb: 9_119_128,
    },
    Published {
        engine: "faiss",
        vectors: 562_500,
        rss_before_kb: 8_946_756,
        rss_after_kb: 9_165_204,
    },
];

fn mb(bytes: u64) -> String {
    figure(bytes as f64 / 1e6)
}

/// Bytes that `after` has more than `before`.
fn growth(before: u64, after: u64) -> i64 {
    after as i64 - before as i64
}

/// What each phase took, and what memory was like at its end.
pub fn phases(ingest: &Ingest) -> Table {
    let mut table = Table::new(&[
        "after",
        "s",
        "points",
        "segments",
        "RSS",
        "RSS peak",
        "anon",
        "heap allocated",
        "active",
        "resident",
        "unused %",
        "page cache",
        "kernel",
    ]);
    for ended in &ingest.phases {
        let Sample {
            points,
            segments,
            process,
            heap,
            group,
            ..
        } = ended.last;
        let of_heap = |value: fn(super::Heap) -> u64| heap.map_or("-".into(), |heap| mb(value(heap)));
        let of_group = |value: fn(super::Group) -> u64| group.map_or("-".into(), |group| mb(value(group)));
        table.row([
            ended.phase.name().to_owned(),
            figure(ended.seconds),
            figure(points as f64),
            segments.map_or("-".into(), |n| n.to_string()),
            mb(process.rss),
            mb(ended.rss_peak),
            mb(process.anon),
            of_heap(|heap| heap.allocated),
            of_heap(|heap| heap.active),
            of_heap(|heap| heap.resident),
            figure_or_dash(heap.map(|heap| heap.unused_share() * 100.0)),
            of_group(|group| group.page_cache),
            of_group(|group| group.kernel),
        ]);
    }
    table
}

/// Dimensions of the article's vectors.
const ARTICLE_DIMS: usize = 768;

/// Whether a growth may be told for each vector beside the article's: below that the process itself is most of it.
fn is_comparable(vectors: u64, dims: usize) -> bool {
    let fewest = ARTICLE.iter().map(|row| row.vectors).min().unwrap_or(0);
    dims == ARTICLE_DIMS && vectors >= fewest / 2
}

/// How much larger the process is once all points are in and indexed than before the first, beside the article's engines.
pub fn beside_the_article(ingest: &Ingest) -> Table {
    let mut table = Table::new(&[
        "engine",
        "vectors",
        "dimensions",
        "RSS before, MB",
        "RSS after, MB",
        "growth, GB",
        "growth a vector, bytes",
    ]);
    let mut row = |engine: &str, (vectors, dims): (u64, usize), before: u64, after: u64| {
        let growth = growth(before, after) as f64;
        let of_one = is_comparable(vectors, dims).then(|| growth / vectors.max(1) as f64);
        table.row([
            engine.to_owned(),
            figure(vectors as f64),
            dims.to_string(),
            mb(before),
            mb(after),
            figure(growth / 1e9),
            figure_or_dash(of_one),
        ]);
    };
    for Published {
        engine,
        vectors,
        rss_before_kb,
        rss_after_kb,
    } in ARTICLE
    {
        row(
            engine,
            (vectors, ARTICLE_DIMS),
            rss_before_kb * 1024,
            rss_after_kb * 1024,
        );
    }
    if let (Some(before), Some(after)) = (ingest.after(Phase::Start), ingest.after(Phase::Merge)) {
        row(
            &ingest.options.server,
            (ingest.points, ingest.options.dims),
            before.process.rss,
            after.process.rss,
        );
    }
    table
}

/// What stays when all is gone, in a sentence.
pub fn what_stays(ingest: &Ingest) -> Option<String> {
    let (before, full, after) = (
        ingest.after(Phase::Start)?,
        ingest.after(Phase::Merge)?,
        ingest.after(Phase::Release)?,
    );
    let more = |part: fn(&Sample) -> u64| mb_signed(growth(part(before), part(after)));
    let heap = |sample: &Sample| sample.heap.map_or(0, |heap| heap.resident);
    let mut text = format!(
        "the process grew by {} MB; once the collection was removed {} MB of it stayed",
        mb_signed(growth(before.process.rss, full.process.rss)),
        more(|s| s.process.rss),
    );
    if after.heap.is_some() {
        text.push_str(&format!(" ({} MB of them in the heap)", more(heap)));
    }
    Some(text)
}

fn mb_signed(bytes: i64) -> String {
    figure(bytes as f64 / 1e6)
}

/// Memory over time, with a mark at the end of each phase.
pub fn plot(ingest: &Ingest) -> Plot {
    let curve = |name: &str, value: fn(&Sample) -> Option<u64>| Curve {
        name: name.to_owned(),
        points: thinned(&ingest.samples)
            .filter_map(|s| Some((s.at_s, value(s)? as f64 / 1e6)))
            .collect(),
        marks_only: false,
    };
    let mut curves = vec![
        curve("RSS", |s| Some(s.process.rss)),
        curve("heap resident", |s| s.heap.map(|heap| heap.resident)),
        curve("heap allocated", |s| s.heap.map(|heap| heap.allocated)),
        curve("page cache", |s| s.group.map(|group| group.page_cache)),
        curve("kernel", |s| s.group.map(|group| group.kernel)),
    ];
    curves.retain(|curve| !curve.points.is_empty());
    let names: Vec<&str> = ingest.phases.iter().map(|ended| ended.phase.name()).collect();
    curves.push(Curve {
        name: format!("ends of {}", names.join(", ")),
        points: ingest
            .phases
            .iter()
            .map(|ended| (ended.last.at_s, ended.last.process.rss as f64 / 1e6))
            .collect(),
        marks_only: true,
    });
    Plot {
        title: format!(
            "{} vectors of {} dimensions in and out",
            figure(ingest.points as f64),
            ingest.options.dims
        ),
        x: Axis::linear("seconds"),
        y: Axis::linear("MB"),
        curves,
        size: (1100, 560),
    }
}

/// As many samples as a picture can show.
fn thinned(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    const MOST: usize = 250;
    samples.iter().step_by(samples.len().div_ceil(MOST).max(1))
}
