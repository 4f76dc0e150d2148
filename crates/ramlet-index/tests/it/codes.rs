//! Searching codes: against brute force, and against searching without them.

use ramlet_index::ivf::{CodesInRam, IvfParams, built_most, scratch_least};
use ramlet_index::{
    Allowed, CodeKind, CodesWanted, Element, Hit, IndexError, IndexSearchParams, Ivf, Metric, Progress,
    Query, TopK, VectorIndex,
};
use roaring::RoaringBitmap;

use crate::disk::Disk;
use crate::flat::{Multiples, brute_force};
use crate::ivf::{DIMS, Rows, open, recall, scratch};
use crate::random::Random;

const EXTENDED: CodeKind = CodeKind::Extended { bits: 8 };
const WITH_IDS: CodeKind = CodeKind::Product { m: 20, row_ids: true };
const SQ8: [[CodeKind; 2]; 2] = [
    [
        CodeKind::Product {
            m: 12,
            row_ids: false,
        },
        CodeKind::Sq8,
    ],
    [CodeKind::OneBit, CodeKind::Sq8],
];
const TIERS: [&[CodeKind]; 5] = [
    &[CodeKind::OneBit, EXTENDED, CodeKind::Residual { bits: 4 }],
    &[CodeKind::OneBit, EXTENDED],
    &[CodeKind::OneBit, CodeKind::Extended { bits: 4 }],
    &[CodeKind::OneBit],
    &[CodeKind::Product {
        m: 12,
        row_ids: false,
    }],
];

#[test]
fn reaches_the_recall_target_and_reads_few_rows() {
    let mut random = Random::new(1);
    for (metric, element) in [
        (Metric::Euclid, Element::F32),
        (Metric::Euclid, Element::U8),
        (Metric::Cosine, Element::F16),
        (Metric::Cosine, Element::U8),
        (Metric::Dot, Element::F32),
    ] {
        let mut rows = Rows::clustered(metric, element, 10_000, &mut random);
        let disk = &Disk::files();
        // With effort without end signs leave so many to be rescored that all rows are read as they lie, 80 to a page.
        let bounds = [(1, 1), (8, 32), (40, 160), (400, 10_000), (300, 1200)];
        for (tier, (most, most_of_all)) in TIERS.iter().zip(bounds) {
            let name = format!("{metric:?}-{element:?}-{tier:?}");
            let (ivf, _) = rows.build_with(disk, &name, 2 << 20, 2, tier);
            let (found, scored) = recall(&rows, &ivf, disk, &IndexSearchParams::default(), &mut random);
            assert!(found >= 0.91, "{name}: recall {found}");
            assert!(scored < most, "{name}: {scored} rows read");
            // Every cluster visited: what is missed now is missed by the codes.
            let all = IndexSearchParams {
                exact: false,
                effort: Some(1 << 20),
                ..IndexSearchParams::default()
            };
            let (found, scored) = recall(&rows, &ivf, disk, &all, &mut random);
            assert!(found >= 0.985, "{name}: recall {found} of all");
            assert!(scored < most_of_all, "{name}: {scored} rows read of all");
            let exact = IndexSearchParams {
                exact: true,
                effort: None,
                ..IndexSearchParams::default()
            };
            assert_eq!(
                recall(&rows, &ivf, disk, &exact, &mut random),
                (1.0, 10_000),
                "{name}"
            );
        }
    }
}

/// Their numbers spare the reads of rows that are surely among the nearest or surely aren't.
#[test]
fn product_codes_with_ids_reach_the_recall_target_and_read_few_rows() {
    let mut random = Random::new(31);
    for (metric, element, most) in [
        (Metric::Cosine, Element::F32, 40),
        (Metric::Cosine, Element::U8, 40),
        (Metric::Dot, Element::F16, 40),
        (Metric::Euclid, Element::F32, 60),
    ] {
        let mut rows = Rows::clustered(metric, element, 10_000, &mut random);
        for (disk, is_read) in [(Disk::ram(), false), (Disk::files(), true)] {
            let name = format!("{metric:?}-{element:?}");
            let (ivf, _) = rows.build_with(&disk, &name, 2 << 20, 2, &[WITH_IDS]);
            let (found, read) = recall(&rows, &ivf, &disk, &IndexSearchParams::default(), &mut random);
            assert!(
                found >= 0.9 && (read < most || !is_read),
                "{name}: recall {found}, {read} rows read"
            );
            let all = IndexSearchParams {
                effort: Some(1 << 20),
                ..IndexSearchParams::default()
            };
            let (found, read) = recall(&rows, &ivf, &disk, &all, &mut random);
            assert!(
                found >= 0.985 && (read < 8 * most || !is_read),
                "{name}: recall {found} of all, {read} rows read"
            );
        }
    }
}

/// Of the hits of a few searches, how many have their row's own distance.
fn own_distances(
    rows: &Rows,
    ivf: &Ivf,
    disk: &Disk,
    rescore: Option<bool>,
    random: &mut Random,
) -> (usize, usize) {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let want = IndexSearchParams {
        codes: CodesWanted {
            rescore,
            ..CodesWanted::default()
        },
        ..IndexSearchParams::default()
    };
    let (mut own, mut all) = (0, 0);
    for _ in 0..20 {
        let query = rows.query(random);
        top.clear(10);
        let mut allowed = Allowed::default();
        ivf.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        let truth = brute_force(&query, &rows.bytes, 10_000, rows.has);
        all += top.len();
        own += top
            .sorted()
            .iter()
            .filter(|hit| {
                truth
                    .iter()
                    .any(|of| (of.row, of.distance) == (hit.row, hit.distance))
            })
            .count();
    }
    (own, all)
}

/// As scores go that are told to people: those of the codes, unless the rows lie in memory, or the codes are of two bits at most.
#[test]
fn scores_are_the_rows_own_where_that_costs_little_or_codes_are_rough() {
    let mut random = Random::new(77);
    for metric in [Metric::Euclid, Metric::Cosine, Metric::Dot] {
        let mut rows = Rows::clustered(metric, Element::F32, 10_000, &mut random);
        let tiers: [(&[CodeKind], bool); 4] = [
            (&[CodeKind::OneBit], true),
            (&[CodeKind::OneBit, CodeKind::Extended { bits: 2 }], true),
            (&[CodeKind::OneBit, CodeKind::Extended { bits: 4 }], false),
            (&[WITH_IDS], false),
        ];
        for (tier, is_rough) in tiers {
            for (disk, in_memory) in [(Disk::ram(), true), (Disk::files(), false)] {
                let name = format!("{metric:?} {tier:?}, in memory: {in_memory}");
                let (ivf, _) = rows.build_with(&disk, &name.replace([' ', ':'], "-"), 2 << 20, 2, tier);
                let (own, all) = own_distances(&rows, &ivf, &disk, None, &mut random);
                assert_eq!(own == all, in_memory || is_rough, "{name}: {own} of {all}");
                let (own, all) = own_distances(&rows, &ivf, &disk, Some(true), &mut random);
                assert_eq!(own, all, "{name}: asked for");
                let (own, all) = own_distances(&rows, &ivf, &disk, Some(false), &mut random);
                assert!(own < all / 4, "{name}: {own} of {all} where none was to be read");
            }
        }
    }
}

/// Rows that prove to be farther than their codes said let others move up, which have their own scores too.
#[test]
fn those_that_move_up_have_their_own_scores() {
    let mut random = Random::new(13);
    for (metric, tier) in [
        (Metric::Euclid, &[CodeKind::OneBit][..]),
        (
            Metric::Euclid,
            &[CodeKind::OneBit, CodeKind::Extended { bits: 2 }],
        ),
        (Metric::Dot, &[CodeKind::OneBit, CodeKind::Extended { bits: 2 }]),
    ] {
        let mut rows = Rows::of_dims(200, metric, Element::F32, 4_000, &mut random);
        let disk = Disk::files();
        let (ivf, _) = rows.build_with(&disk, "moving", 4 << 20, 2, tier);
        for _ in 0..8 {
            let (own, all) = own_distances(&rows, &ivf, &disk, Some(true), &mut random);
            assert_eq!(own, all, "{metric:?} {tier:?}");
        }
    }
}

/// Rows found of those that brute force finds among the admitted: by each of the indexes.
fn filtered(
    rows: &Rows,
    indexes: [&Ivf; 4],
    disk: &Disk,
    bitmaps: [Option<&RoaringBitmap>; 2],
    of: Option<u32>,
    random: &mut Random,
) -> [usize; 4] {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let query = rows.query(random);
    let [deleted, only] = bitmaps;
    let admits = |row: u32| {
        (rows.has)(row)
            && !deleted.is_some_and(|deleted| deleted.contains(row))
            && only.is_none_or(|only| only.contains(row))
            && row.is_multiple_of(of.unwrap_or(1))
    };
    let expected = brute_force(&query, &rows.bytes, 10, admits);
    indexes.map(|ivf| {
        let mut filter = Multiples {
            of: of.unwrap_or(1),
            asked: 0,
        };
        let mut allowed = Allowed {
            deleted: deleted.map(|deleted| deleted as &dyn ramlet_index::RowSet),
            only,
            filter: if of.is_some() { Some(&mut filter) } else { None },
            // Of a filter for few rows nobody has an estimate.
            filter_share: of.filter(|of| *of < 10).map(|of| 1.0 / of as f32),
        };
        top.clear(10);
        ivf.search(
            &query,
            &IndexSearchParams::default(),
            &mut allowed,
            &mut scratch,
            &mut io,
            &mut top,
        )
        .expect("a search");
        let found = top.sorted();
        assert_eq!(found.len(), expected.len(), "as many as there are");
        assert!(found.iter().all(|hit| admits(hit.row)));
        // Scores may be those of codes.
        let is_there = |row: u32| expected.iter().any(|hit| hit.row == row);
        found.iter().filter(|hit| is_there(hit.row)).count()
    })
}

#[test]
fn filters_are_kept_and_cost_no_more_recall_than_without_codes() {
    let mut random = Random::new(2);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 12_000, &mut random);
    rows.has = |row| !row.is_multiple_of(5);
    let (plain, _) = rows.build(&disk, "plain", 4 << 20, 2);
    let (coded, _) = rows.build_with(&disk, "coded", 4 << 20, 2, &[CodeKind::OneBit, EXTENDED]);
    let product = [CodeKind::product(DIMS)];
    let (product, _) = rows.build_with(&disk, "product", 4 << 20, 2, &product);
    let (with_ids, _) = rows.build_with(&disk, "with ids", 4 << 20, 2, &[WITH_IDS]);
    let indexes = [&plain, &coded, &product, &with_ids];
    let deleted: RoaringBitmap = (0..12_000).filter(|_| random.below(4) == 0).collect();
    for one_in in [2, 20, 3000] {
        let only: RoaringBitmap = (0..12_000).filter(|_| random.below(one_in) == 0).collect();
        for of in [None, Some(2)] {
            let bitmaps = [Some(&deleted), Some(&only)];
            let mut sums = [0; 4];
            for _ in 0..20 {
                let found = filtered(&rows, indexes, &disk, bitmaps, of, &mut random);
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
            let [plain, coded, ..] = sums;
            assert!(
                sums.iter().all(|found| found + 6 >= plain),
                "one in {one_in}, {of:?}: {sums:?} found, {plain} of them without codes, {coded} with extended ones"
            );
        }
    }
    // The search goes on until it has all that there are: 8.
    for _ in 0..3 {
        let [_, found @ ..] = filtered(&rows, indexes, &disk, [None, None], Some(1199), &mut random);
        assert_eq!(found, [8; 3]);
    }
}

/// Rows compared (a code is a 64th), and bytes read: of the usual search, and of an exact one.
fn costs(ivf: &Ivf, disk: &Disk, query: &Query, only: &RoaringBitmap) -> [(u64, u64); 2] {
    [false, true].map(|exact| {
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
        let mut allowed = Allowed {
            only: Some(only),
            ..Allowed::default()
        };
        let want = IndexSearchParams {
            exact,
            ..IndexSearchParams::default()
        };
        ivf.search(query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        let stats = scratch.stats;
        assert!(top.sorted().iter().all(|hit| only.contains(hit.row)));
        (stats.rows_scored + stats.codes_scored / 64, io.bytes())
    })
}

#[test]
fn a_filtered_search_costs_no_more_than_an_exact_one() {
    let mut random = Random::new(9);
    let disk = Disk::files();
    const ROWS: u32 = 12_000;
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, ROWS as usize, &mut random);
    let (plain, _) = rows.build(&disk, "plain", 4 << 20, 2);
    let (coded, _) = rows.build_with(&disk, "coded", 4 << 20, 2, &[CodeKind::OneBit, EXTENDED]);
    let product = [CodeKind::product(DIMS)];
    let (product, _) = rows.build_with(&disk, "product", 4 << 20, 2, &product);
    let (with_ids, _) = rows.build_with(&disk, "with ids", 4 << 20, 2, &[WITH_IDS]);
    let (sq8, _) = rows.build_with(&disk, "sq8", 4 << 20, 2, &SQ8[0]);
    let mut sums = [0; 2];
    for wanted in [ROWS / 2, ROWS / 10, ROWS / 100, ROWS / 500] {
        for _ in 0..4 {
            let query = rows.query(&mut random);
            let nearest = brute_force(&query, &rows.bytes, ROWS as usize, |_| true);
            let ids = |hits: &[Hit]| -> RoaringBitmap { hits.iter().map(|hit| hit.row).collect() };
            let near = ids(&nearest[..wanted as usize]);
            let far = ids(&nearest[(ROWS - wanted) as usize..]);
            let chance = (0..ROWS).filter(|_| random.below(ROWS / wanted) == 0).collect();
            for (what, only) in [("near", &near), ("far", &far), ("chance", &chance)] {
                let indexes = [
                    ("plain", &plain),
                    ("coded", &coded),
                    ("product", &product),
                    ("with ids", &with_ids),
                    ("sq8", &sq8),
                ];
                for (name, ivf) in indexes {
                    let [usual, exact] = costs(ivf, &disk, &query, only);
                    let told = format!("{name}, {wanted} {what}: {usual:?}, exact {exact:?}");
                    // Of product codes of so few dimensions many rows are rescored, and an exact search of half of so few rows
                    // reads all of them in one go: there reads are not compared.
                    let reads_less = usual.1 <= exact.1 || ["product", "with ids", "sq8"].contains(&name);
                    assert!(usual.0 <= exact.0 && reads_less, "{told}");
                    if name == "coded" {
                        sums[0] += usual.1;
                        sums[1] += exact.1;
                    }
                }
            }
        }
    }
    assert!(3 * sums[0] < sums[1], "codes spare reads: {sums:?}");
}

#[test]
fn files_repeat_and_fit_the_scratch() {
    let mut random = Random::new(3);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 15_000, &mut random);
    let scratch_bytes = 512 << 10;
    let build = |rows: &mut Rows, name: &str, threads: usize| {
        let (ivf, _) = rows.build_with(&disk, name, scratch_bytes, threads, &[CodeKind::OneBit, EXTENDED]);
        let codes = [CodeKind::OneBit, EXTENDED].map(|kind| kind.bytes_for(15_000, DIMS, 15_000));
        let cached_rows = ivf.memory().pinned_bytes;
        assert!(
            (codes[0] + codes[1]..codes[0] + codes[1] + 8192).contains(&cached_rows),
            "{cached_rows}, {codes:?}"
        );
    };
    build(&mut rows, "one", 1);
    build(&mut rows, "three", 3);
    let (_, _) = rows.build(&disk, "none", scratch_bytes, 1);
    for part in ["rows", "positions", "centroids", "OneBit", "Extended { bits: 8 }"] {
        let [one, three] = ["one", "three"].map(|name| disk.read_all(&format!("{name}-{part}")));
        assert!(*one == *three, "{part} differ");
        if part == "rows" || part == "positions" {
            assert!(
                *one == *disk.read_all(&format!("none-{part}")),
                "{part} differ by the codes"
            );
        }
    }
    let params = IvfParams {
        metric: Metric::Cosine,
        element: Element::F32,
        dims: DIMS,
        segment_rows: 15_000,
        scratch_bytes,
        threads: 1,
        seed: 42,
        clusters: None,
        centroid_bytes: 0,
        seed_centroids: None,
        progress: Progress::default(),
    };
    let build = |name: &str, kinds: &[CodeKind], rows: &mut Rows| {
        crate::counting::peak_bytes(|| rows.try_build(&disk, name, &params, kinds).expect("a build")).0
    };
    let (plain, coded) = (
        build("peak-none", &[], &mut rows),
        build("peak-codes", &[CodeKind::OneBit, EXTENDED], &mut rows),
    );
    assert!(
        coded < scratch_bytes,
        "resident {coded} bytes, {plain} without codes"
    );
}

/// In many dimensions it isn't the scratch that counts, but what a build holds of each dimension however little it is given.
#[test]
fn a_build_of_wide_rows_says_what_it_needs_and_holds_no_more() {
    const WIDE: usize = 8192;
    let mut random = Random::new(5);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(WIDE, Metric::Cosine, Element::F32, 120, &mut random);
    let tiers: [&[CodeKind]; 2] = [
        &[CodeKind::OneBit, EXTENDED],
        &[CodeKind::Product {
            m: 64,
            row_ids: false,
        }],
    ];
    for (i, kinds) in tiers.into_iter().enumerate() {
        let least = scratch_least(WIDE, kinds);
        let mut build = |name: &str, scratch_bytes: usize| {
            let params = rows.params(scratch_bytes);
            crate::counting::peak_bytes(|| rows.try_build(&disk, &format!("{name}{i}"), &params, kinds))
        };
        let (peak, built) = build("least", least);
        built.expect("a build");
        assert!(peak < least / 8 * 15, "{kinds:?}: {peak} of {least}");
        let (peak, refused) = build("less", least - 1);
        assert!(
            matches!(refused, Err(IndexError::Scratch { needed_bytes, .. }) if needed_bytes == least as u64),
            "{refused:?}"
        );
        assert!(peak < 4096, "{peak}");
    }
}

/// Few rows are held out where there is little scratch; what they miss by chance isn't believed.
#[test]
fn few_rows_held_out_do_not_promise_too_much() {
    let kinds: &[CodeKind] = &[CodeKind::OneBit, EXTENDED];
    for (seed, scratch) in [(11, 560), (12, 560), (13, 560), (11, 780), (12, 780), (13, 780)] {
        let disk = Disk::files();
        let mut random = Random::new(seed);
        let mut rows = Rows::of_dims(1536, Metric::Cosine, Element::F32, 3000, &mut random);
        let params = IvfParams {
            clusters: Some(375),
            ..rows.params(scratch << 10)
        };
        rows.try_build(&disk, "few", &params, kinds).expect("a build");
        let ivf = open(&disk, "few", kinds).expect("an index");
        let (recall, _) = recall(&rows, &ivf, &disk, &IndexSearchParams::default(), &mut random);
        assert!(recall > 0.93, "{seed}, {scratch} KiB: recall {recall}");
    }
}

/// The least scratch does for any number of rows: where not all buckets get a buffer, they are filled in several passes.
#[test]
fn the_least_scratch_builds_an_index_of_many_wide_rows() {
    let mut random = Random::new(8);
    for (dims, count, more, centroid_bytes) in [
        (384, 20_000, 0, 0),
        (768, 6000, 0, 0),
        (1536, 3000, 0, 0),
        (4096, 900, 0, 0),
        // More of it has more clusters.
        (768, 8_000, 1 << 20, 0),
        // So has what is there for centroids alone.
        (768, 8_000, 1 << 20, 1 << 19),
    ] {
        let disk = Disk::files();
        let mut rows = Rows::of_dims(dims, Metric::Cosine, Element::F32, count, &mut random);
        let kinds: &[CodeKind] = &[CodeKind::OneBit, EXTENDED];
        // What an index gets of the least that is set aside for jobs.
        let least = scratch_least(dims, kinds).max(560 << 10).max(more);
        let params = IvfParams {
            // Many small buckets.
            clusters: Some(count as u32 / 8),
            centroid_bytes,
            ..rows.params(least)
        };
        let (peak, built) = crate::counting::peak_bytes(|| rows.try_build(&disk, "many", &params, kinds));
        let built = built.unwrap_or_else(|error| panic!("{count} x {dims} in {least} bytes: {error}"));
        assert_eq!(built.rows, count as u32);
        let most = built_most((least as u64, centroid_bytes as u64), Metric::Cosine, dims);
        let wanted = most.min(u64::from(params.clusters.unwrap_or(0))) as u32;
        assert!(
            (wanted / 10 * 9..=wanted).contains(&built.clusters),
            "{built:?} of {wanted}"
        );
        // Files have buffers of their own, that of the held-out rows among them.
        let bound = least / 5 * 13 + centroid_bytes;
        assert!(peak < bound, "{count} x {dims}: {peak} of {least}");
        let ivf = open(&disk, "many", kinds).expect("an index");
        // Nor does a build hold more that begins with the centroids of another.
        let params = IvfParams {
            seed_centroids: Some(&ivf),
            ..params
        };
        let (peak, built) = crate::counting::peak_bytes(|| rows.try_build(&disk, "again", &params, kinds));
        let is_reused = built.map(|built| built.is_reused);
        assert!(
            peak < bound,
            "{count} x {dims}, reused {is_reused:?}: {peak} of {least}"
        );
        let want = IndexSearchParams::default();
        let (recall, _) = recall(&rows, &ivf, &disk, &want, &mut random);
        assert!(recall > 0.85, "{count} x {dims}: recall {recall}");
    }
}

#[test]
fn odd_sets_are_searched() {
    let mut random = Random::new(4);
    let disk = Disk::ram();
    let equal = |metric: Metric, value: f32, count: usize| Rows {
        metric,
        element: Element::F32,
        dims: DIMS,
        bytes: [value; DIMS]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>()
            .repeat(count),
        has: |_| true,
    };
    let mut none = Rows::clustered(Metric::Dot, Element::F32, 40, &mut random);
    none.has = |_| false;
    let sets = [
        none,
        Rows::clustered(Metric::Dot, Element::U8, 1, &mut random),
        equal(Metric::Cosine, 0.0, 9),
        equal(Metric::Euclid, 1.0, 9000),
        // Distances overflow.
        equal(Metric::Euclid, 2e19, 300),
        equal(Metric::Euclid, 1e-22, 300),
    ];
    for (i, mut rows) in sets.into_iter().enumerate() {
        let sq8 = [SQ8[0].as_slice(), &SQ8[1]];
        for tier in TIERS.into_iter().chain([&[WITH_IDS][..]]).chain(sq8) {
            let (ivf, _) = rows.build_with(&disk, &format!("odd-{i}-{tier:?}"), 1 << 20, 2, tier);
            let (mut io, mut scratch) = (disk.io(), scratch());
            let (query, mut top) = (rows.query(&mut random), TopK::new(5));
            ivf.search(
                &query,
                &IndexSearchParams::default(),
                &mut Allowed::default(),
                &mut scratch,
                &mut io,
                &mut top,
            )
            .expect("a search");
            let there = (0..rows.segment_rows()).filter(|row| (rows.has)(*row)).count();
            assert_eq!(top.len(), 5.min(there), "set {i}");
        }
    }
}

/// Codes that aren't in memory are read: the answers are the same, for some pages more. Without their file whole clusters are, and the answers
/// no worse.
#[test]
fn codes_that_are_not_in_memory_are_read() {
    let mut random = Random::new(8);
    let metrics = [Metric::Cosine, Metric::Euclid, Metric::Dot];
    let kinds = [
        CodeKind::Product {
            m: 12,
            row_ids: false,
        },
        WITH_IDS,
        CodeKind::OneBit,
    ];
    let but_one_in = |n: u32| {
        (0..10_000)
            .filter(move |row| row % n != 0)
            .collect::<RoaringBitmap>()
    };
    let (most, half) = (but_one_in(10), but_one_in(2));
    let filters = [None, Some(&most), Some(&half)];
    let mut filtered_by_codes = false;
    for (metric, kind, only) in metrics.into_iter().flat_map(|metric| {
        let of_metric = kinds.map(|kind| filters.map(|only| (metric, kind, only)));
        of_metric.into_iter().flatten()
    }) {
        let disk = Disk::files();
        let mut rows = Rows::clustered(metric, Element::F32, 10_000, &mut random);
        let name = format!("away-{metric:?}");
        rows.build_with(&disk, &name, 2 << 20, 2, &[kind]);
        let codes_name = format!("{name}-{kind:?}");
        let open = |released: u64, with_file: bool| {
            let [rows, positions] =
                ["rows", "positions"].map(|part| disk.open_rows(&format!("{name}-{part}")));
            let cached_rows = disk.load_rows(&codes_name);
            cached_rows.release(released);
            let codes = CodesInRam {
                scanned: Some((kind, cached_rows)),
                scanned_file: with_file.then(|| disk.open_rows(&codes_name)),
                ..CodesInRam::default()
            };
            let centroids = disk.read_all(&format!("{name}-centroids"));
            Ivf::new(rows, positions, centroids, codes, 0.95).expect("an index")
        };
        let indexes = [open(0, true), open(u64::MAX, true), open(u64::MAX, false)];
        let (mut io, mut scratch) = (disk.io(), scratch());
        let what = format!("{metric:?} {kind:?}, of {:?}", only.map(RoaringBitmap::len));
        let (mut pages, mut same) = ([0; 3], 0);
        for _ in 0..20 {
            let query = rows.query(&mut random);
            let found = indexes.each_ref().map(|ivf| {
                let (mut allowed, mut top) = (Allowed::default(), TopK::new(10));
                allowed.only = only;
                let want = IndexSearchParams::default();
                ivf.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                    .expect("a search");
                (top.sorted().to_vec(), scratch.stats)
            });
            for (pages, (_, stats)) in pages.iter_mut().zip(&found) {
                *pages += stats.pages_read;
            }
            for (hits, stats) in &found {
                let rows: std::collections::BTreeSet<u32> = hits.iter().map(|hit| hit.row).collect();
                assert_eq!(
                    rows.len(),
                    10,
                    "no row is found twice, though all rows of a block are compared"
                );
                assert!(rows.iter().all(|row| only.is_none_or(|only| only.contains(*row))));
                assert!(stats.rows_scored >= stats.rows_read, "{stats:?}");
            }
            let [(all, stats), (away, away_stats), _] = found;
            // What was dropped on account of others depends on the order of the visit, what is found hardly does.
            let found_by_both = away
                .iter()
                .filter(|hit| all.iter().any(|other| other.row == hit.row));
            same += found_by_both.count();
            if only.is_none() {
                assert_eq!(stats.probes, away_stats.probes, "{what}");
                assert_eq!(stats.codes_scored, away_stats.codes_scored, "{what}");
            }
        }
        // Of few rows all are compared, whatever codes there are.
        let by_codes = only.is_none() || pages[0] != pages[2];
        assert!(pages[0] < pages[1] || !by_codes, "{what}: {pages:?} pages");
        filtered_by_codes |= by_codes && only.is_some() && kind == CodeKind::OneBit;
        assert!(same >= 190, "{what}: {same} of 200 rows are the same");
    }
    assert!(filtered_by_codes, "no bitmap had its codes read");
}

/// What a calibrated search finds of rows that it has never seen lies near the target, and more effort finds more.
#[test]
fn product_codes_are_calibrated() {
    let mut random = Random::new(9);
    for (metric, kind) in [
        (
            Metric::Cosine,
            CodeKind::Product {
                m: 12,
                row_ids: false,
            },
        ),
        (Metric::Cosine, CodeKind::Product { m: 6, row_ids: false }),
        (
            Metric::Euclid,
            CodeKind::Product {
                m: 12,
                row_ids: false,
            },
        ),
        (
            Metric::Dot,
            CodeKind::Product {
                m: 12,
                row_ids: false,
            },
        ),
        (Metric::Cosine, WITH_IDS),
        (Metric::Euclid, WITH_IDS),
        (Metric::Dot, WITH_IDS),
    ] {
        let disk = Disk::ram();
        let mut rows = Rows::clustered(metric, Element::F32, 10_000, &mut random);
        let (ivf, _) = rows.build_with(&disk, "calibrated", 8 << 20, 2, &[kind]);
        for deviations in &ivf.calibration().deviations[0] {
            assert!(deviations.is_sorted() && deviations[0] >= 0.05, "{deviations:?}");
        }
        let mut find = |effort: u32| {
            let want = IndexSearchParams {
                effort: Some(effort),
                ..IndexSearchParams::default()
            };
            recall(&rows, &ivf, &disk, &want, &mut random).0
        };
        let (usual, high) = (find(128), find(1024));
        assert!((0.92..=1.0).contains(&usual), "{metric:?} {kind:?}: {usual}");
        assert!(
            high >= 0.97 && high + 0.01 >= usual,
            "{metric:?} {kind:?}: {high} after {usual}"
        );
    }
}

#[test]
fn codes_that_do_not_fit_are_refused() {
    let mut random = Random::new(5);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 3000, &mut random);
    let low = CodeKind::Extended { bits: 3 };
    rows.build_with(&disk, "both", 1 << 20, 1, &[CodeKind::OneBit, EXTENDED]);
    rows.build_with(&disk, "none", 1 << 20, 1, &[]);
    let refused = |result: Result<Ivf, IndexError>| assert!(matches!(result, Err(IndexError::Mismatch(_))));
    assert!(open(&disk, "both", &[CodeKind::OneBit]).is_ok());
    let with = |name: &str, scanned: (CodeKind, &str), extended: Option<(CodeKind, &str)>| {
        let [rows, positions] = ["rows", "positions"].map(|part| disk.open_rows(&format!("{name}-{part}")));
        let codes = CodesInRam {
            scanned: Some((scanned.0, disk.load_rows(scanned.1))),
            extended: extended.map(|(kind, name)| (kind, disk.load_rows(name))),
            ..CodesInRam::default()
        };
        let centroids = disk.read_all(&format!("{name}-centroids"));
        Ivf::new(rows, positions, centroids, codes, 0.95)
    };
    let (scanned, extended) = ("both-OneBit", "both-Extended { bits: 8 }");
    assert!(with("both", (CodeKind::OneBit, scanned), Some((EXTENDED, extended))).is_ok());
    refused(with("both", (CodeKind::OneBit, extended), None));
    refused(with(
        "both",
        (CodeKind::OneBit, scanned),
        Some((EXTENDED, scanned)),
    ));
    refused(with("both", (CodeKind::OneBit, scanned), Some((low, extended))));
    refused(with("both", (EXTENDED, extended), None));
    refused(with("none", (CodeKind::OneBit, scanned), None));
    for (metric, kind) in [
        (Metric::Manhattan, EXTENDED),
        (Metric::Euclid, CodeKind::Extended { bits: 9 }),
    ] {
        let params = IvfParams {
            metric,
            element: Element::F32,
            dims: DIMS,
            segment_rows: 3000,
            scratch_bytes: 1 << 20,
            threads: 1,
            seed: 1,
            clusters: None,
            centroid_bytes: 0,
            seed_centroids: None,
            progress: Progress::default(),
        };
        let result = rows.try_build(&disk, &format!("impossible-{metric:?}"), &params, &[kind]);
        assert!(matches!(result, Err(IndexError::Mismatch(_))));
    }
}

#[test]
fn any_number_of_dimensions_is_searched() {
    let mut random = Random::new(6);
    let disk = Disk::ram();
    for dims in [2, 3, 100, 128, 384, 768, 1536] {
        let metric = [Metric::Cosine, Metric::Euclid][dims % 2];
        let mut rows = Rows::of_dims(dims, metric, Element::F32, 1500, &mut random);
        let mut tiers = vec![
            vec![CodeKind::OneBit, CodeKind::extended(dims)],
            vec![CodeKind::OneBit],
            vec![CodeKind::product(dims)],
            vec![CodeKind::Product {
                m: (dims * 4).div_ceil(5) as u16,
                row_ids: true,
            }],
        ];
        tiers.extend(CodeKind::extended_low(dims).map(|low| vec![CodeKind::OneBit, low]));
        for tier in tiers {
            let (ivf, _) = rows.build_with(&disk, &format!("{dims}-{tier:?}"), 8 << 20, 1, &tier);
            let want = IndexSearchParams {
                effort: Some(1 << 20),
                ..IndexSearchParams::default()
            };
            let (found, _) = recall(&rows, &ivf, &disk, &want, &mut random);
            assert!(found >= 0.97, "{dims} dimensions, {tier:?}: {found}");
        }
    }
}

#[test]
fn memory_taken_back_costs_reads_and_no_recall() {
    let mut random = Random::new(7);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(100, Metric::Cosine, Element::F32, 20_000, &mut random);
    let kinds = [CodeKind::OneBit, CodeKind::extended(100)];
    let (ivf, _) = rows.build_with(&disk, "ivf", 8 << 20, 2, &kinds);
    let want = IndexSearchParams {
        effort: Some(1024),
        ..IndexSearchParams::default()
    };
    let (all, read) = recall(&rows, &ivf, &disk, &want, &mut random);
    ivf.extended().expect("extended codes").release(1 << 19);
    let (fewer, more) = recall(&rows, &ivf, &disk, &want, &mut random);
    assert!(
        fewer >= all - 0.02 && more > read,
        "{all} by {read}, {fewer} by {more}"
    );
    ivf.extended().expect("extended codes").release(1 << 30);
    ivf.scanned().expect("codes").release(1 << 30);
    let (none, more) = recall(&rows, &ivf, &disk, &want, &mut random);
    assert!(
        none >= all - 0.02 && more > 500,
        "{all} by {read}, {none} by {more}"
    );
}

#[test]
fn what_a_request_says_of_codes_is_done() {
    let mut random = Random::new(8);
    let disk = Disk::files();
    for (metric, kinds) in [
        (
            Metric::Euclid,
            &[CodeKind::OneBit, CodeKind::Extended { bits: 4 }][..],
        ),
        (Metric::Cosine, &[CodeKind::Product { m: 60, row_ids: true }]),
    ] {
        let mut rows = Rows::of_dims(64, metric, Element::F32, 8000, &mut random);
        let (ivf, _) = rows.build_with(&disk, &format!("ivf-{metric:?}"), 8 << 20, 2, kinds);
        requests_are_kept(&rows, &ivf, &disk, &mut random);
    }
}

fn requests_are_kept(rows: &Rows, ivf: &Ivf, disk: &Disk, random: &mut Random) {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    for _ in 0..20 {
        let query = rows.query(random);
        let truth = brute_force(&query, &rows.bytes, 10, rows.has);
        let mut search = |codes: CodesWanted| {
            let want = IndexSearchParams {
                codes,
                effort: Some(1 << 20),
                ..IndexSearchParams::default()
            };
            top.clear(10);
            ivf.search(
                &query,
                &want,
                &mut Allowed::default(),
                &mut scratch,
                &mut io,
                &mut top,
            )
            .expect("a search");
            (top.sorted().to_vec(), scratch.stats)
        };
        let exact_distances = |hits: &[Hit]| hits.iter().filter(|hit| truth.contains(hit)).count();
        let none = CodesWanted::default();
        let (hits, stats) = search(CodesWanted { ignore: true, ..none });
        assert_eq!((&hits, stats.codes_scored), (&truth, 0));
        let (hits, stats) = search(CodesWanted {
            rescore: Some(false),
            ..none
        });
        assert_eq!((exact_distances(&hits), stats.reads), (0, 0));
        assert_eq!(hits.len(), 10);
        let (hits, stats) = search(CodesWanted {
            rescore: Some(true),
            ..none
        });
        assert!(exact_distances(&hits) >= 9 && stats.rows_read >= 10, "{stats:?}");
        let (hits, stats) = search(CodesWanted {
            oversampling: Some(3.0),
            ..none
        });
        assert!(exact_distances(&hits) >= 9 && stats.rows_read >= 30, "{stats:?}");
    }
}

#[test]
fn hits_lie_on_the_side_of_a_threshold_on_which_their_rows_do() {
    let mut random = Random::new(9);
    let disk = Disk::files();
    for (metric, kinds) in [
        (
            Metric::Euclid,
            &[CodeKind::OneBit, CodeKind::Extended { bits: 4 }][..],
        ),
        (Metric::Cosine, &[CodeKind::Product { m: 60, row_ids: true }]),
        (Metric::Dot, &[CodeKind::OneBit, CodeKind::Extended { bits: 6 }]),
    ] {
        let mut rows = Rows::of_dims(64, metric, Element::F32, 8000, &mut random);
        let (ivf, _) = rows.build_with(&disk, &format!("sides-{metric:?}"), 8 << 20, 2, kinds);
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(30));
        let (mut wrong, mut wrong_untold, mut reads, mut reads_of_all) = (0, 0, 0, 0);
        for _ in 0..40 {
            let query = rows.query(&mut random);
            let all = brute_force(&query, &rows.bytes, 8000, rows.has);
            let threshold = all[12].distance;
            let distance_of = |row: u32| all.iter().find(|hit| hit.row == row).map(|hit| hit.distance);
            let mut search = |codes: CodesWanted| {
                let want = IndexSearchParams {
                    codes,
                    ..IndexSearchParams::default()
                };
                top.clear(30);
                let mut allowed = Allowed::default();
                let done = ivf.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top);
                done.expect("a search");
                let beyond = |distance: f32| distance > threshold;
                let hits = top.sorted().iter();
                let wrong = hits.filter(|hit| Some(beyond(hit.distance)) != distance_of(hit.row).map(beyond));
                (wrong.count(), scratch.stats.rows_read)
            };
            let none = CodesWanted::default();
            let told = search(CodesWanted {
                threshold: Some(threshold),
                ..none
            });
            (wrong, reads) = (wrong + told.0, reads + told.1);
            wrong_untold += search(none).0;
            let rescore = Some(true);
            reads_of_all += search(CodesWanted { rescore, ..none }).1;
        }
        assert_eq!(wrong, 0, "{metric:?}: of {wrong_untold} that aren't told");
        assert!(wrong_untold >= 20, "{metric:?}: {wrong_untold}");
        assert!(
            reads < reads_of_all,
            "{metric:?}: {reads} rows, {reads_of_all} if all are read"
        );
    }
}
