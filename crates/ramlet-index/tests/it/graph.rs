use std::collections::BTreeSet;

use ramlet_format::envelope::{EnvelopeKind, HEADER_BYTES, decode, encode};
use ramlet_index::graph::{GraphBuilt, GraphFiles, GraphParams, RamForm, build_graph, bytes_for, degree_for};
use ramlet_index::{
    Allowed, Element, Graph, IndexError, IndexSearchParams, Metric, Progress, Query, Result, TopK,
    VectorIndex, decode_row, encode_row,
};
use ramlet_memory::{AnonBuf, Ledger};
use roaring::RoaringBitmap;

use crate::counting::allocations;
use crate::disk::{Disk, SEED};
use crate::flat::{Multiples, brute_force};
use crate::ivf::{DIMS, Rows, found_by, nearest_of, scratch};
use crate::random::Random;

const EXACT: IndexSearchParams = IndexSearchParams {
    exact: true,
    effort: None,
    recall: None,
    codes: ramlet_index::CodesWanted {
        ignore: false,
        rescore: None,
        oversampling: None,
        threshold: None,
    },
    share: None,
    fixed_effort: None,
};

fn params(rows: &Rows) -> GraphParams<'static> {
    GraphParams {
        metric: rows.metric,
        element: rows.element,
        dims: DIMS,
        segment_rows: rows.segment_rows(),
        scratch_bytes: 4 << 20,
        threads: 2,
        seed: 42,
        degree: 64,
        candidates: 24,
        progress: Progress::default(),
    }
}

fn try_build(rows: &mut Rows, disk: &Disk, name: &str, params: &GraphParams<'_>) -> Result<GraphBuilt> {
    let parts = ["nodes", "places", "meta"].map(|part| format!("{name}-{part}"));
    let [mut nodes, mut positions, mut meta] = parts
        .each_ref()
        .map(|part| disk.storage.create(part).expect("a new file"));
    let mut files = GraphFiles {
        nodes: &mut *nodes,
        nodes_seed: SEED,
        positions: &mut *positions,
        positions_seed: SEED,
        meta: &mut *meta,
        open_nodes: &|| disk.storage.open(&parts[0]),
        open_positions: &|| disk.storage.open(&parts[1]),
    };
    let built = build_graph(params, rows, &*disk.storage, &mut files)?;
    [nodes, positions, meta]
        .iter_mut()
        .for_each(|file| file.sync().expect("syncing"));
    let left = disk.storage.list().expect("a directory");
    assert!(!left.iter().any(|name| name.starts_with("tmp-")), "{left:?}");
    Ok(built)
}

fn open(disk: &Disk, name: &str) -> Graph {
    let rows = |part: &str| disk.open_rows(&format!("{name}-{part}"));
    let meta = disk.read_all(&format!("{name}-meta"));
    Graph::open(rows("nodes"), rows("places"), meta, 0.95).expect("a graph")
}

fn build(rows: &mut Rows, disk: &Disk, name: &str) -> (Graph, GraphBuilt) {
    let params = params(rows);
    let built = try_build(rows, disk, name, &params).expect("a build");
    (open(disk, name), built)
}

/// Gives a search the rows that it may find.
type AllowedRows<'l> = dyn FnMut(&mut dyn FnMut(&mut Allowed<'_>)) + 'l;

/// Share of the true 10 nearest of the admitted rows that is found, and rows scored per search.
fn recall(
    rows: &Rows,
    graph: &Graph,
    disk: &Disk,
    want: &IndexSearchParams,
    admits: &dyn Fn(u32) -> bool,
    allowed: &mut AllowedRows<'_>,
) -> (f64, u64) {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let mut random = Random::new(99);
    let (mut found, mut scored) = (0, 0);
    const QUERIES: usize = 50;
    for _ in 0..QUERIES {
        let query = rows.query(&mut random);
        top.clear(10);
        allowed(&mut |allowed| {
            graph
                .search(&query, want, allowed, &mut scratch, &mut io, &mut top)
                .expect("a search");
        });
        scored += scratch.stats.rows_scored;
        let truth: BTreeSet<u32> = brute_force(&query, &rows.bytes, 10, |row| (rows.has)(row) && admits(row))
            .iter()
            .map(|hit| hit.row)
            .collect();
        let hits = top.sorted();
        assert!(hits.iter().all(|hit| admits(hit.row)));
        assert_eq!(
            hits.iter().map(|hit| hit.row).collect::<BTreeSet<_>>().len(),
            hits.len()
        );
        found += hits.iter().filter(|hit| truth.contains(&hit.row)).count();
    }
    (found as f64 / (10 * QUERIES) as f64, scored / QUERIES as u64)
}

fn free(each: &mut dyn FnMut(&mut Allowed<'_>)) {
    each(&mut Allowed::default());
}

#[test]
fn reaches_the_recall_target_and_reads_a_part() {
    let mut random = Random::new(1);
    let combinations = [
        (Metric::Euclid, Element::F32),
        (Metric::Cosine, Element::F16),
        (Metric::Cosine, Element::U8),
        (Metric::Manhattan, Element::F32),
        (Metric::Dot, Element::F32),
    ];
    for ((metric, element), disk) in combinations
        .into_iter()
        .zip([Disk::ram(), Disk::files()].iter().cycle())
    {
        let mut rows = Rows::clustered(metric, element, 3000, &mut random);
        let name = format!("{metric:?}-{element:?}");
        let (graph, built) = build(&mut rows, disk, &name);
        assert_eq!((built.rows, graph.rows(), graph.kind()), (3000, 3000, "hnsw"));
        assert_eq!(built.calibration, *graph.calibration());
        let run = |want: &IndexSearchParams| recall(&rows, &graph, disk, want, &|_| true, &mut free);
        let (default, scored) = run(&IndexSearchParams::default());
        assert!(default >= 0.9, "{name}: recall {default}");
        assert!(scored < 400, "{name}: scored {scored}");
        let (high, more) = run(&IndexSearchParams {
            effort: Some(1024),
            ..IndexSearchParams::default()
        });
        assert!(
            high >= 0.97 && more > scored,
            "{name}: effort 1024 gives {high} by {more}"
        );
        let (low, fewer) = run(&IndexSearchParams {
            effort: Some(8),
            ..IndexSearchParams::default()
        });
        assert!(
            fewer <= scored && low <= default,
            "{name}: effort 8 gives {low} by {fewer}"
        );
        assert_eq!(run(&EXACT), (1.0, 3000), "{name}");
    }
}

#[test]
fn wider_beams_find_as_much() {
    let mut random = Random::new(2);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 6000, &mut random);
    let (graph, _) = build(&mut rows, &disk, "graph");
    let graph = graph.with_width(8);
    let (found, _) = recall(
        &rows,
        &graph,
        &disk,
        &IndexSearchParams::default(),
        &|_| true,
        &mut free,
    );
    assert!(found >= 0.9, "{found}");
}

#[test]
fn more_neighbours_make_no_longer_searches() {
    let mut random = Random::new(15);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 6000, &mut random);
    let scored = [64, 136].map(|degree| {
        let (params, name) = (
            GraphParams {
                degree,
                ..params(&rows)
            },
            format!("of-{degree}"),
        );
        let built = try_build(&mut rows, &disk, &name, &params).expect("a build");
        let graph = open(&disk, &name);
        assert_eq!((built.degree as usize, graph.degree()), (degree, degree));
        let (found, scored) = recall(
            &rows,
            &graph,
            &disk,
            &IndexSearchParams::default(),
            &|_| true,
            &mut free,
        );
        assert!(found >= 0.9, "{found} with {degree} neighbours");
        scored
    });
    assert!(scored[1] <= scored[0], "{scored:?}");
}

#[test]
fn a_block_holds_as_many_neighbours_as_pay() {
    // A page of few dimensions holds enough; else two, but for nodes that fill more whatever they have.
    for (dims, degree, pages) in [(24, 192, 1), (100, 136, 2), (384, 64, 3), (768, 64, 6)] {
        let chosen = degree_for(1_000_000, dims, Element::F32);
        let bytes = bytes_for(1_000_000, dims, Element::F32, chosen, 1);
        assert_eq!((chosen, bytes.read), (degree, pages * 4096), "{dims}");
    }
}

fn into_ram(graph: Graph, disk: &Disk, form: RamForm) -> Graph {
    let consumer = Ledger::new(1 << 30).consumer("graph", 1 << 30);
    let graph = graph
        .into_ram(form, &consumer, &mut scratch(), &mut disk.io())
        .expect("room");
    assert!(graph.memory().pinned_bytes >= consumer.used());
    graph
}

#[test]
fn in_ram_only_the_nearest_are_read() {
    let mut random = Random::new(14);
    let disk = Disk::files();
    for metric in [Metric::Cosine, Metric::Dot] {
        let mut rows = Rows::clustered(metric, Element::F32, 5000, &mut random);
        let name = format!("{metric:?}");
        build(&mut rows, &disk, &name);
        for edges in [64, 24] {
            let form = RamForm {
                edges,
                vectors: false,
            };
            let graph = into_ram(open(&disk, &name), &disk, form);
            let (said, resident) = (graph.ram_bytes(form), graph.memory().pinned_bytes);
            assert!(
                said >= resident && said < 2 * resident + (2 << 20),
                "{said} for {resident}"
            );
            let per_vector = graph.memory().pinned_bytes / 5000;
            assert!(
                per_vector < edges as u64 * 2 + 32,
                "{edges} edges: {per_vector} bytes"
            );
            let (found, scored) = recall(
                &rows,
                &graph,
                &disk,
                &IndexSearchParams::default(),
                &|_| true,
                &mut free,
            );
            assert!(
                found >= 0.9 && scored == 30,
                "{name}, {edges} edges: {found} by {scored}"
            );
            let admits = |row: u32| row.is_multiple_of(4);
            let (found, _) = recall(
                &rows,
                &graph,
                &disk,
                &IndexSearchParams::default(),
                &admits,
                &mut |each| {
                    let mut filter = Multiples { of: 4, asked: 0 };
                    each(&mut Allowed {
                        filter: Some(&mut filter),
                        filter_share: Some(0.25),
                        ..Allowed::default()
                    });
                },
            );
            assert!(found >= 0.9, "{name}, {edges} edges, filtered: {found}");
        }
        let little = Ledger::new(1 << 30).consumer("little", 100_000);
        let refused = open(&disk, &name).into_ram(
            RamForm {
                edges: 24,
                vectors: false,
            },
            &little,
            &mut scratch(),
            &mut disk.io(),
        );
        assert!(matches!(refused, Err(IndexError::OverBudget(_))));
        assert_eq!(little.used(), 0);
    }
}

#[test]
fn with_vectors_in_ram_nothing_is_read() {
    let mut random = Random::new(16);
    let disk = Disk::files();
    for element in [Element::F32, Element::U8] {
        let mut rows = Rows::clustered(Metric::Cosine, element, 3000, &mut random);
        let name = format!("{element:?}");
        build(&mut rows, &disk, &name);
        let form = |vectors| RamForm { edges: 32, vectors };
        let [less, all] = [false, true].map(|vectors| into_ram(open(&disk, &name), &disk, form(vectors)));
        let (mut io, mut scratch) = (disk.io(), scratch());
        for _ in 0..20 {
            let query = rows.query(&mut random);
            let mut hits = |graph: &Graph| {
                let (mut top, mut allowed) = (TopK::new(10), Allowed::default());
                graph
                    .search(
                        &query,
                        &IndexSearchParams::default(),
                        &mut allowed,
                        &mut scratch,
                        &mut io,
                        &mut top,
                    )
                    .expect("a search");
                (top.sorted().to_vec(), scratch.stats.reads)
            };
            let (expected, reads) = hits(&less);
            assert_eq!(hits(&all), (expected, 0));
            assert!(reads > 0);
        }
    }
}

#[test]
fn exact_equals_brute_force_with_filters() {
    let mut random = Random::new(3);
    for disk in Disk::all() {
        let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 5000, &mut random);
        rows.has = |row| !row.is_multiple_of(5);
        let (graph, _) = build(&mut rows, &disk, "graph");
        assert_eq!(graph.rows(), 4000);
        let deleted: RoaringBitmap = (0..5000).filter(|_| random.below(4) == 0).collect();
        let (mut io, mut scratch) = (disk.io(), scratch());
        for one_in in [1, 3, 100, 1000] {
            let only: RoaringBitmap = (0..5000).filter(|_| random.below(one_in) == 0).collect();
            let query = rows.query(&mut random);
            let mut filter = Multiples { of: 2, asked: 0 };
            let mut allowed = Allowed {
                deleted: Some(&deleted),
                only: Some(&only),
                filter: Some(&mut filter),
                filter_share: Some(0.5),
            };
            let mut top = TopK::new(15);
            graph
                .search(&query, &EXACT, &mut allowed, &mut scratch, &mut io, &mut top)
                .expect("a search");
            let admits = |row: u32| {
                (rows.has)(row) && !deleted.contains(row) && only.contains(row) && row.is_multiple_of(2)
            };
            assert_eq!(
                top.sorted(),
                brute_force(&query, &rows.bytes, 15, admits),
                "one in {one_in}"
            );
        }
    }
}

#[test]
fn filters_and_deletes_keep_the_recall() {
    let mut random = Random::new(4);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 5000, &mut random);
    let (graph, _) = build(&mut rows, &disk, "graph");
    for (one_in, least) in [(2, 0.9), (10, 0.9), (100, 0.97)] {
        let of = RoaringBitmap::from_iter((0..5000).filter(|row| row % one_in == 0));
        let admits = |row: u32| row.is_multiple_of(one_in);
        let (by_bitmap, _) = recall(
            &rows,
            &graph,
            &disk,
            &IndexSearchParams::default(),
            &admits,
            &mut |each| {
                each(&mut Allowed {
                    only: Some(&of),
                    ..Allowed::default()
                });
            },
        );
        assert!(by_bitmap >= least, "bitmap of one in {one_in}: {by_bitmap}");
        let (by_filter, _) = recall(
            &rows,
            &graph,
            &disk,
            &IndexSearchParams::default(),
            &admits,
            &mut |each| {
                let mut filter = Multiples { of: one_in, asked: 0 };
                each(&mut Allowed {
                    filter: Some(&mut filter),
                    filter_share: Some(1.0 / one_in as f32),
                    ..Allowed::default()
                });
            },
        );
        assert!(by_filter >= least, "filter of one in {one_in}: {by_filter}");
    }
    let deleted = RoaringBitmap::from_iter((0..5000).filter(|row| row % 3 > 0));
    let lives = |row: u32| row.is_multiple_of(3);
    let (found, _) = recall(
        &rows,
        &graph,
        &disk,
        &IndexSearchParams::default(),
        &lives,
        &mut |each| {
            each(&mut Allowed {
                deleted: Some(&deleted),
                ..Allowed::default()
            });
        },
    );
    assert!(found >= 0.9, "two of three deleted: {found}");
}

#[test]
fn selective_filters_find_all_there_is() {
    let mut random = Random::new(5);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 8000, &mut random);
    let (graph, _) = build(&mut rows, &disk, "graph");
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    // By a bitmap: its rows alone are read.
    let only: RoaringBitmap = (0..20).map(|i| i * 397).collect();
    let mut allowed = Allowed {
        only: Some(&only),
        ..Allowed::default()
    };
    let query = rows.query(&mut random);
    let want = IndexSearchParams::default();
    graph
        .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
        .expect("a search");
    assert_eq!(
        top.sorted(),
        brute_force(&query, &rows.bytes, 10, |row| only.contains(row))
    );
    assert_eq!(scratch.stats.rows_scored, 20);
    // By a filter nobody could estimate: the search goes on until it has k, once each.
    let mut filter = Multiples { of: 700, asked: 0 };
    let mut allowed = Allowed {
        filter: Some(&mut filter),
        ..Allowed::default()
    };
    top.clear(10);
    graph
        .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
        .expect("a search");
    assert_eq!(
        top.sorted(),
        brute_force(&query, &rows.bytes, 10, |row| row.is_multiple_of(700))
    );
}

#[test]
fn rows_come_back_as_they_were_given() {
    let mut random = Random::new(6);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::U8, 3000, &mut random);
    rows.has = |row| row % 7 != 3;
    let (graph, _) = build(&mut rows, &disk, "graph");
    let (mut io, mut scratch, mut seen) = (disk.io(), scratch(), BTreeSet::new());
    graph
        .for_each_row(&mut scratch, &mut io, &mut |row, bytes| {
            assert_eq!(bytes, rows.row(row));
            assert!(seen.insert(row));
            Ok(())
        })
        .expect("rows");
    assert_eq!(seen, (0..3000).filter(|row| (rows.has)(*row)).collect());
    let mut shown = 0;
    graph
        .read_rows(
            &[2999, 3, 5, 17, 9999],
            &mut scratch,
            &mut io,
            &mut |row, bytes| {
                assert_eq!(bytes, rows.row(row));
                shown += 1;
                Ok(())
            },
        )
        .expect("rows");
    assert_eq!(
        shown,
        [2999, 3, 5, 17].iter().filter(|row| (rows.has)(**row)).count()
    );
}

#[test]
fn the_number_of_threads_does_not_change_the_files() {
    let mut random = Random::new(7);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Dot, Element::F32, 4000, &mut random);
    for threads in [1, 3] {
        let params = GraphParams {
            threads,
            ..params(&rows)
        };
        try_build(&mut rows, &disk, &format!("of{threads}"), &params).expect("a build");
    }
    for part in ["nodes", "places", "meta"] {
        let [one, three] = [1, 3].map(|threads| disk.read_all(&format!("of{threads}-{part}")));
        assert!(*one == *three, "{part}");
    }
}

#[test]
fn odd_sets_build_and_are_searched() {
    let disk = Disk::ram();
    let mut random = Random::new(8);
    let alike = |count: usize| {
        let mut bytes = Vec::new();
        for _ in 0..count {
            encode_row(Metric::Euclid, Element::F32, &[0.5; DIMS], &mut bytes);
        }
        bytes
    };
    let mut far = alike(300);
    encode_row(Metric::Euclid, Element::F32, &[1e18; DIMS], &mut far);
    let sets = [Vec::new(), alike(1), alike(2), alike(1500), far, alike(1500)];
    for (i, bytes) in sets.into_iter().enumerate() {
        let metric = if i == 5 { Metric::Cosine } else { Metric::Euclid };
        let mut rows = Rows {
            metric,
            element: Element::F32,
            dims: DIMS,
            bytes,
            has: |_| true,
        };
        let name = format!("set{i}");
        let (graph, _) = build(&mut rows, &disk, &name);
        for want in [IndexSearchParams::default(), EXACT] {
            let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
            let query = Query::new(metric, Element::F32, &random.vector(DIMS));
            graph
                .search(
                    &query,
                    &want,
                    &mut Allowed::default(),
                    &mut scratch,
                    &mut io,
                    &mut top,
                )
                .expect("a search");
            assert_eq!(top.len(), 10.min(rows.segment_rows() as usize), "{name}");
        }
    }
}

#[test]
fn too_little_scratch_is_said_with_both_numbers() {
    let mut random = Random::new(9);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 100, &mut random);
    let small = GraphParams {
        scratch_bytes: 1000,
        ..params(&rows)
    };
    let refused = try_build(&mut rows, &disk, "graph", &small);
    assert!(
        matches!(refused, Err(IndexError::Scratch { given_bytes: 1000, needed_bytes }) if needed_bytes > 1000),
        "{refused:?}"
    );
}

#[test]
fn broken_meta_is_refused_or_harmless() {
    let mut random = Random::new(10);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 1000, &mut random);
    build(&mut rows, &disk, "graph");
    let whole = disk.read_all("graph-meta");
    let body = decode(EnvelopeKind::Blob, &whole).expect("intact").to_vec();
    let open = |bytes: &[u8]| {
        let mut buf = AnonBuf::new(bytes.len());
        buf.copy_from_slice(bytes);
        Graph::open(
            disk.open_rows("graph-nodes"),
            disk.open_rows("graph-places"),
            buf,
            0.95,
        )
    };
    assert!(open(&whole).is_ok());
    assert!(open(&whole[..HEADER_BYTES]).is_err());
    let query = rows.query(&mut random);
    let mut accepted = 0;
    for at in (0..body.len()).step_by(3) {
        for value in [0, 0x7f, 0xff] {
            let mut body = body.clone();
            body[at] = value;
            assert!(
                open(&encode(EnvelopeKind::Blob, &body[..at])).is_err(),
                "cut to {at}"
            );
            let Ok(graph) = open(&encode(EnvelopeKind::Blob, &body)) else {
                continue;
            };
            accepted += 1;
            let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(5));
            // Whatever it finds: it ends, and doesn't panic.
            let _ = graph.search(
                &query,
                &IndexSearchParams::default(),
                &mut Allowed::default(),
                &mut scratch,
                &mut io,
                &mut top,
            );
        }
    }
    assert!(accepted > 0);
    let swapped = Graph::open(
        disk.open_rows("graph-places"),
        disk.open_rows("graph-nodes"),
        disk.read_all("graph-meta"),
        0.9,
    );
    assert!(swapped.is_err());
}

#[test]
fn broken_nodes_are_refused_or_harmless() {
    let mut random = Random::new(11);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 600, &mut random);
    build(&mut rows, &disk, "graph");
    let nodes = disk.open_rows("graph-nodes");
    let mut file = disk.storage.open("graph-nodes").expect("a file").len();
    file /= 4096;
    let mut failed = 0;
    for fill in [0x55, 0xff] {
        // Every node is nothing but this byte, under sound checksums.
        let bytes = vec![fill; nodes.stride() * 600];
        let name = format!("filled-{fill}");
        let broken = disk.write_rows(&name, nodes.stride(), &bytes);
        assert_eq!(disk.storage.open(&name).expect("a file").len() / 4096, file);
        let graph = Graph::open(
            broken,
            disk.open_rows("graph-places"),
            disk.read_all("graph-meta"),
            0.95,
        )
        .expect("shapes fit");
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(5));
        for want in [IndexSearchParams::default(), EXACT] {
            let query = rows.query(&mut random);
            let mut allowed = Allowed::default();
            failed += u32::from(
                graph
                    .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                    .is_err(),
            );
        }
    }
    assert_eq!(failed, 4);
}

#[test]
fn a_warm_search_allocates_nothing() {
    let mut random = Random::new(12);
    for disk in Disk::all() {
        let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 4000, &mut random);
        build(&mut rows, &disk, "graph");
        warm(&open(&disk, "graph"), &rows, &disk, &mut random);
        warm(
            &into_ram(
                open(&disk, "graph"),
                &disk,
                RamForm {
                    edges: 32,
                    vectors: false,
                },
            ),
            &rows,
            &disk,
            &mut random,
        );
    }
}

fn warm(graph: &Graph, rows: &Rows, disk: &Disk, random: &mut Random) {
    let sparse: RoaringBitmap = (0..30).map(|i| i * 125).collect();
    let deleted: RoaringBitmap = (0..4000).step_by(9).collect();
    let (mut io, mut top, mut scratch) = (disk.io(), TopK::new(10), scratch());
    let vectors: Vec<Vec<f32>> = (0..12)
        .map(|i| {
            let mut vector = Vec::new();
            decode_row(Element::F32, rows.row(i * 300 + 1), &mut vector);
            vector
        })
        .collect();
    let mut query = rows.query(random);
    let mut search = |vector: &[f32], only: Option<&RoaringBitmap>, exact: bool, filtered: bool| {
        query.prepare(rows.metric, rows.element, vector);
        top.clear(10);
        let mut filter = Multiples { of: 2, asked: 0 };
        let mut allowed = Allowed {
            deleted: Some(&deleted),
            only,
            filter: if filtered { Some(&mut filter) } else { None },
            filter_share: filtered.then_some(0.5),
        };
        let want = IndexSearchParams {
            exact,
            ..IndexSearchParams::default()
        };
        graph
            .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        assert_eq!(top.sorted().len(), 10);
    };
    let mut all = || {
        for vector in &vectors {
            for filtered in [false, true] {
                search(vector, None, true, filtered);
                search(vector, None, false, filtered);
                search(vector, Some(&sparse), false, filtered);
            }
        }
    };
    all();
    assert_eq!(allocations(all), 0, "{}", disk.storage.backend());
}

#[test]
fn what_large_searches_take_is_told_before_and_given_back() {
    let mut random = Random::new(14);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 30_000, &mut random);
    let (graph, _) = build(&mut rows, &disk, "large");
    let query = rows.query(&mut random);
    crate::warm::takes_what_it_says(&graph, &query, &disk, &[(500, 1.0), (2_000, 1.0), (20_000, 1.0)]);
}

#[test]
fn bytes_are_those_of_the_files() {
    let mut random = Random::new(13);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 6000, &mut random);
    let (graph, _) = build(&mut rows, &disk, "graph");
    let said = bytes_for(6000, DIMS, Element::F32, 64, 1);
    let memory = graph.memory();
    let near = |said: u64, is: u64| said.abs_diff(is) <= 4096 + is / 50;
    assert!(near(said.disk, memory.disk_bytes), "{said:?} {memory:?}");
    assert!(near(said.ram, memory.heap_bytes), "{said:?} {memory:?}");
    assert_eq!((said.degree, said.read), (64, 4096));
    // A million of 100 dimensions: a block each, half a megabyte of RAM.
    let million = bytes_for(1_000_000, 100, Element::F32, 64, 1);
    assert_eq!((million.degree, million.read), (64, 4096));
    assert!(
        million.ram < 700 << 10 && million.thread < 16 << 10,
        "{million:?}"
    );
    // Reads grow with the dimensions, by whole pages.
    let wide = bytes_for(1_000_000, 768, Element::F16, 64, 1);
    assert!(wide.degree >= 48 && wide.read.is_multiple_of(4096), "{wide:?}");
}

/// Share of hits that are as near as the last of the true ten.
fn near_enough(rows: &Rows, graph: &Graph, disk: &Disk, effort: u32, vectors: &[Vec<f32>]) -> f64 {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let mut found = 0;
    let want = IndexSearchParams {
        effort: Some(effort),
        ..IndexSearchParams::default()
    };
    for vector in vectors {
        let query = Query::new(rows.metric, rows.element, vector);
        top.clear(10);
        let mut allowed = Allowed::default();
        graph
            .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        let last = brute_force(&query, &rows.bytes, 10, rows.has)[9].distance;
        let near = |distance: f32| distance <= last + 1e-4 * last.abs();
        found += top.sorted().iter().filter(|hit| near(hit.distance)).count();
    }
    found as f64 / (10 * vectors.len()) as f64
}

/// Lists aren't filled with equal rows, nor with rows of zeros, which under cosine are like nothing.
#[test]
fn equal_rows_and_zeros_do_not_take_the_place_of_others() {
    let mut random = Random::new(11);
    let mut vector = || -> Vec<f32> { (0..DIMS).map(|_| random.normal()).collect() };
    let distinct: Vec<Vec<f32>> = (0..30).map(|_| vector()).collect();
    let equals: Vec<Vec<f32>> = (0..6000).map(|i| distinct[i * 7 % 30].clone()).collect();
    let mut zeros: Vec<Vec<f32>> = (0..9000).map(|_| vector()).collect();
    zeros.iter_mut().step_by(3).for_each(|vector| vector.fill(0.0));
    let queries: Vec<Vec<f32>> = (0..40).map(|_| vector()).collect();
    // In RAM a beam search may know of no more rows than are equal: then it takes more.
    for (metric, vectors, effort) in [
        (Metric::Euclid, &equals, 512),
        (Metric::Cosine, &equals, 512),
        (Metric::Cosine, &zeros, 128),
    ] {
        let mut rows = Rows::clustered(metric, Element::F32, 0, &mut Random::new(1));
        for vector in vectors {
            encode_row(metric, Element::F32, vector, &mut rows.bytes);
        }
        let disk = Disk::ram();
        let (graph, built) = build(&mut rows, &disk, "graph");
        let recall = near_enough(&rows, &graph, &disk, 128, &queries);
        assert!(
            recall > 0.9,
            "{metric:?}: recall {recall}, {} entries",
            built.entries
        );
        let graph = into_ram(
            graph,
            &disk,
            RamForm {
                edges: 64,
                vectors: true,
            },
        );
        let recall = near_enough(&rows, &graph, &disk, effort, &queries);
        assert!(
            recall > 0.9,
            "{metric:?} in RAM: recall {recall}, {} entries",
            built.entries
        );
    }
}

/// Of fewer than ten rows, and of a graph that is searched after another, as many are found as of ten.
#[test]
fn the_nearest_are_found_and_what_another_graph_has() {
    let mut random = Random::new(61);
    let disk = Disk::ram();
    let mut parts = [0, 1].map(|part| {
        let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 0, &mut random);
        for _ in 0..[6000, 4000][part] {
            let vector: Vec<f32> = (0..DIMS).map(|_| random.normal()).collect();
            encode_row(rows.metric, rows.element, &vector, &mut rows.bytes);
        }
        rows
    });
    let graphs = [0, 1].map(|part| build(&mut parts[part], &disk, ["a", "b"][part]).0);
    let mut found = |which: &[usize], k: usize| {
        const QUERIES: usize = 150;
        let rows: Vec<(u32, &Rows)> = which.iter().map(|part| (*part as u32, &parts[*part])).collect();
        let graphs: Vec<(u32, &dyn VectorIndex, IndexSearchParams)> = which
            .iter()
            .map(|part| {
                (
                    *part as u32,
                    &graphs[*part] as &dyn VectorIndex,
                    IndexSearchParams::default(),
                )
            })
            .collect();
        let mut found = 0;
        for _ in 0..QUERIES {
            let vector: Vec<f32> = (0..DIMS).map(|_| random.normal()).collect();
            let query = Query::new(Metric::Euclid, Element::F32, &vector);
            let (hits, _) = found_by(&graphs, &disk, &query, k);
            let truth = nearest_of(&rows, &query, k);
            found += truth.iter().filter(|row| hits.contains(row)).count();
        }
        found as f64 / (k * QUERIES) as f64
    };
    for which in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        for k in [1, 3, 10] {
            let recall = found(which, k);
            assert!(recall >= 0.91, "{k} nearest of graphs {which:?}: {recall}");
        }
    }
}
