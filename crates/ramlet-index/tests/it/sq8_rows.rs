//! SQ8 rows: fewer pages are read, and what is found is as good.

use ramlet_index::{
    Allowed, CodeKind, CodesWanted, Element, Hit, IndexError, IndexSearchParams, Ivf, Metric, Query, TopK,
    VectorIndex, decode_row,
};
use roaring::RoaringBitmap;

use crate::disk::Disk;
use crate::flat::{Multiples, brute_force};
use crate::ivf::{Rows, open, scratch};
use crate::random::Random;

/// Codes beside which SQ8 rows are of use.
const TIERS: [&[CodeKind]; 3] = [
    &[CodeKind::OneBit, CodeKind::Sq8],
    &[CodeKind::OneBit, CodeKind::Extended { bits: 2 }, CodeKind::Sq8],
    &[PRODUCT, CodeKind::Sq8],
];
const PRODUCT: CodeKind = CodeKind::Product {
    m: 50,
    row_ids: false,
};

#[test]
fn a_row_takes_a_byte_a_dimension_and_twelve() {
    assert_eq!(CodeKind::Sq8.row_bytes(100, 1_000_000), 112);
    assert_eq!(CodeKind::Sq8.file_rows(1_000_000), 1_000_000);
    let pages = |dims| {
        let layout = CodeKind::Sq8.layout(dims, 1_000_000);
        (layout.rows_per_block(), layout.block_pages())
    };
    assert_eq!(
        [100, 768, 1024, 1536, 2048].map(pages),
        [(36, 1), (5, 1), (3, 1), (2, 1), (3, 2)]
    );
}

/// What searches found, of the true ten nearest, and what it took.
#[derive(Debug, Default)]
struct Sum {
    found: usize,
    reads: u64,
    bytes: u64,
}

fn searched(rows: &Rows, ivf: &Ivf, disk: &Disk, queries: &[Query], want: &IndexSearchParams) -> Sum {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let mut sum = Sum::default();
    for query in queries {
        top.clear(10);
        ivf.search(
            query,
            want,
            &mut Allowed::default(),
            &mut scratch,
            &mut io,
            &mut top,
        )
        .expect("a search");
        assert_eq!(top.len(), 10);
        let truth = brute_force(query, &rows.bytes, 10, rows.has);
        let is_true = |hit: &&Hit| truth.iter().any(|of| of.row == hit.row);
        sum.found += top.sorted().iter().filter(is_true).count();
        sum.reads += scratch.stats.reads;
    }
    sum.bytes = io.bytes();
    sum
}

#[test]
fn as_much_is_found_and_fewer_pages_are_read() {
    let mut random = Random::new(61);
    for (dims, metric, element) in [
        (100, Metric::Cosine, Element::F32),
        (100, Metric::Dot, Element::F32),
        (100, Metric::Euclid, Element::F16),
        (384, Metric::Euclid, Element::F32),
        (768, Metric::Cosine, Element::F32),
    ] {
        let disk = Disk::files();
        let mut rows = Rows::of_dims(dims, metric, element, 12_000, &mut random);
        let queries: Vec<Query> = (0..30).map(|_| rows.query(&mut random)).collect();
        // So few sub-quantizers tell hardly anything of many dimensions.
        let tiers = if dims > 100 { &TIERS[..2] } else { &TIERS[..] };
        for tier in tiers {
            let name = format!("{dims}-{metric:?}-{element:?}-{tier:?}");
            let (ivf, _) = rows.build_with(&disk, &name, 16 << 20, 2, tier);
            let without = open(&disk, &name, &tier[..tier.len() - 1]).expect("an index");
            // All clusters: what is missed is missed by codes.
            let want = IndexSearchParams {
                effort: Some(1 << 20),
                ..IndexSearchParams::default()
            };
            let [with, without] = [&ivf, &without].map(|ivf| searched(&rows, ivf, &disk, &queries, &want));
            let told = format!("{name}: {with:?}, {without:?} without");
            assert!(with.found >= 297 && with.found + 2 >= without.found, "{told}");
            assert!(with.bytes < without.bytes, "{told}");
            if element == Element::F32 && dims >= 384 {
                assert!(3 * with.bytes < 2 * without.bytes, "{told}");
            }
        }
    }
}

/// Scores are within a hundredth of what tells rows apart; who asks for the rows' own gets those, and so does what lies near a threshold.
#[test]
fn scores_are_near_and_exact_where_that_is_asked_for() {
    let mut random = Random::new(62);
    let disk = Disk::files();
    for metric in [Metric::Euclid, Metric::Cosine, Metric::Dot] {
        let mut rows = Rows::of_dims(100, metric, Element::F32, 6_000, &mut random);
        for tier in TIERS {
            let name = format!("{metric:?}-{tier:?}");
            let (ivf, _) = rows.build_with(&disk, &name, 8 << 20, 2, tier);
            let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
            let mut search = |query: &Query, codes: CodesWanted| {
                let want = IndexSearchParams {
                    effort: Some(1 << 20),
                    codes,
                    ..IndexSearchParams::default()
                };
                top.clear(10);
                ivf.search(
                    query,
                    &want,
                    &mut Allowed::default(),
                    &mut scratch,
                    &mut io,
                    &mut top,
                )
                .expect("a search");
                top.sorted().to_vec()
            };
            for _ in 0..10 {
                let query = rows.query(&mut random);
                let truth = brute_force(&query, &rows.bytes, 6_000, rows.has);
                let exact = |hit: &Hit| truth.iter().find(|of| of.row == hit.row).expect("a row").distance;
                let scale = truth[3000].distance - truth[0].distance;
                for hit in search(&query, CodesWanted::default()) {
                    let off = (hit.distance - exact(&hit)).abs() / scale;
                    assert!(off < 0.01, "{name}: {hit:?} is off by {off}");
                }
                let rescored = CodesWanted {
                    rescore: Some(true),
                    ..CodesWanted::default()
                };
                for hit in search(&query, rescored) {
                    assert_eq!(hit.distance, exact(&hit), "{name}");
                }
                let threshold = CodesWanted {
                    threshold: Some(truth[4].distance),
                    ..CodesWanted::default()
                };
                let within = search(&query, threshold);
                let within = within
                    .iter()
                    .filter(|hit| hit.distance <= truth[4].distance)
                    .count();
                assert!(
                    (4..=5).contains(&within),
                    "{name}: {within} within a threshold of five"
                );
            }
            if metric == Metric::Dot {
                continue;
            }
            // A row finds itself.
            let mut vector = Vec::new();
            decode_row(Element::F32, rows.row(77), &mut vector);
            let query = Query::new(metric, Element::F32, &vector);
            assert_eq!(search(&query, CodesWanted::default())[0].row, 77, "{name}");
        }
    }
}

#[test]
fn deleted_rows_and_filters_are_kept_to() {
    let mut random = Random::new(63);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(100, Metric::Cosine, Element::F32, 10_000, &mut random);
    rows.has = |row| !row.is_multiple_of(7);
    let deleted: RoaringBitmap = (0..10_000).filter(|_| random.below(3) == 0).collect();
    for tier in TIERS {
        let (ivf, _) = rows.build_with(&disk, &format!("{tier:?}"), 8 << 20, 2, tier);
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
        let mut found = 0;
        for round in 0..24 {
            let only: RoaringBitmap = (0..10_000).filter(|_| random.below(5) == 0).collect();
            let (listed, filtered) = (round % 2 == 1, round % 3 == 1);
            let mut filter = Multiples { of: 2, asked: 0 };
            let mut allowed = Allowed {
                deleted: Some(&deleted),
                only: listed.then_some(&only),
                filter: if filtered { Some(&mut filter) } else { None },
                filter_share: filtered.then_some(0.5),
            };
            let query = rows.query(&mut random);
            let want = IndexSearchParams {
                effort: Some(2048),
                ..IndexSearchParams::default()
            };
            top.clear(10);
            ivf.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                .expect("a search");
            let admits = |row: u32| {
                (rows.has)(row)
                    && !deleted.contains(row)
                    && (!listed || only.contains(row))
                    && (!filtered || row.is_multiple_of(2))
            };
            let truth = brute_force(&query, &rows.bytes, 10, admits);
            assert!(top.sorted().iter().all(|hit| admits(hit.row)), "{tier:?}");
            found += top
                .sorted()
                .iter()
                .filter(|hit| truth.iter().any(|of| of.row == hit.row))
                .count();
        }
        assert!(found >= 228, "{tier:?}: {found} of 240");
    }
}

#[test]
fn files_that_do_not_belong_are_refused() {
    let mut random = Random::new(64);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(100, Metric::Cosine, Element::F32, 2_000, &mut random);
    rows.build_with(&disk, "one", 8 << 20, 1, TIERS[2]);
    let mut fewer = Rows::of_dims(100, Metric::Cosine, Element::F32, 1_900, &mut random);
    fewer.build_with(&disk, "two", 8 << 20, 1, TIERS[2]);
    let swapped = open(&disk, "two", &[PRODUCT]).map(|_| ());
    assert!(swapped.is_ok());
    let [one, two] = ["one", "two"].map(|name| format!("{name}-{:?}", CodeKind::Sq8));
    let bytes = disk.read_all(&one);
    disk.storage.remove(&two).expect("removing");
    let mut file = disk.storage.create(&two).expect("a file");
    file.append(&bytes).expect("writing");
    file.sync().expect("syncing");
    drop(file);
    let refused = open(&disk, "two", TIERS[2]);
    assert!(matches!(refused, Err(IndexError::Mismatch(_))), "{refused:?}");
}
