use ramlet_index::{
    Allowed, Element, Flat, Hit, IndexError, IndexScratch, IndexSearchParams, Metric, Query, Result,
    RowFilter, SearchStats, TopK, VectorIndex, encode_row, scan_bytes, scan_rows,
};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use crate::disk::Disk;
use crate::query::{ELEMENTS, METRICS, vector_for};
use crate::random::Random;

const DIMS: usize = 37;

/// Small enough that a scan takes several reads.
fn scratch() -> IndexScratch {
    IndexScratch::new(AnonBuf::new(16 << 10))
}

fn encoded(metric: Metric, element: Element, count: usize, random: &mut Random) -> Vec<u8> {
    let mut rows = Vec::new();
    for _ in 0..count {
        encode_row(metric, element, &vector_for(element, random, DIMS), &mut rows);
    }
    rows
}

/// Every row scored, those admitted sorted.
pub fn brute_force(query: &Query, rows: &[u8], k: usize, admits: impl Fn(u32) -> bool) -> Vec<Hit> {
    let scored = rows.chunks_exact(query.row_bytes()).zip(0..);
    let mut hits: Vec<Hit> = scored
        .filter(|(_, row)| admits(*row))
        .map(|(bytes, row)| Hit {
            distance: query.distance_of_row(bytes),
            segment: 0,
            row,
        })
        .collect();
    hits.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.row.cmp(&b.row)));
    hits.truncate(k);
    hits
}

/// Admits multiples; counts how often it was asked.
pub struct Multiples {
    pub of: u32,
    pub asked: u32,
}

impl RowFilter for Multiples {
    fn admits(&mut self, row: u32, _io: &mut IoContext) -> Result<bool> {
        self.asked += 1;
        Ok(row.is_multiple_of(self.of))
    }
}

#[test]
fn equals_brute_force() {
    let mut random = Random::new(1);
    for disk in Disk::all() {
        let mut io = disk.io();
        let mut scratch = scratch();
        for (i, (metric, element)) in METRICS.iter().flat_map(|m| ELEMENTS.map(|e| (*m, e))).enumerate() {
            let rows = encoded(metric, element, 1000, &mut random);
            let file = disk.write_rows(&format!("rows-{i}"), element.row_bytes(DIMS), &rows);
            let flat = Flat::new(file);
            for k in [0, 1, 10, 1000, 1500] {
                let query = Query::new(metric, element, &vector_for(element, &mut random, DIMS));
                let mut top = TopK::new(k);
                let (want, mut allowed) = (IndexSearchParams::default(), Allowed::default());
                flat.search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                    .expect("a search");
                assert_eq!(
                    top.sorted(),
                    brute_force(&query, &rows, k, |_| true),
                    "{metric:?} {element:?} {k}"
                );
                assert_eq!(scratch.stats.rows_scored, 1000);
            }
        }
    }
}

#[test]
fn filters_and_deletions_hold() {
    let mut random = Random::new(2);
    let (metric, element) = (Metric::Euclid, Element::F32);
    let count = 3000;
    let rows = encoded(metric, element, count, &mut random);
    let deleted: RoaringBitmap = (0..count as u32).filter(|_| random.below(3) == 0).collect();
    for disk in Disk::all() {
        let mut io = disk.io();
        let flat = Flat::new(disk.write_rows("rows", element.row_bytes(DIMS), &rows));
        let mut scratch = scratch();
        // From every row to none: dense bitmaps are scanned, sparse ones read block by block.
        for one_in in [1, 2, 50, 400, 5000] {
            let only: RoaringBitmap = (0..count as u32).filter(|_| random.below(one_in) == 0).collect();
            for of in [1, 7] {
                let query = Query::new(metric, element, &random.vector(DIMS));
                let mut filter = Multiples { of, asked: 0 };
                let mut allowed = Allowed {
                    deleted: Some(&deleted),
                    only: Some(&only),
                    filter: Some(&mut filter),
                    filter_share: None,
                };
                let mut top = TopK::new(12);
                flat.search(
                    &query,
                    &IndexSearchParams::default(),
                    &mut allowed,
                    &mut scratch,
                    &mut io,
                    &mut top,
                )
                .expect("a search");
                let admits = |row| !deleted.contains(row) && only.contains(row) && row.is_multiple_of(of);
                assert_eq!(
                    top.sorted(),
                    brute_force(&query, &rows, 12, admits),
                    "one in {one_in}, {of}"
                );
                assert!(scratch.stats.rows_scored <= count as u64);
                if one_in >= 400 {
                    assert_eq!(
                        scratch.stats.rows_scored,
                        only.len(),
                        "only the listed rows are read"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_in_ram_are_found_and_not_read() {
    let mut random = Random::new(9);
    let (metric, element, count) = (Metric::Cosine, Element::F32, 60_000u32);
    let rows = encoded(metric, element, count as usize, &mut random);
    let row_bytes = element.row_bytes(DIMS);
    let whole = rows.len() as u64;
    for disk in Disk::all() {
        disk.write_rows("rows", row_bytes, &rows);
        let (mut io, mut scratch) = (disk.io(), scratch());
        let mut pages_before = u64::MAX;
        for share in [0, whole / 3, whole * 2 / 3, 2 * whole] {
            let file = disk.rows_partly_in_ram("rows", share);
            let flat = Flat::new(file);
            let every: RoaringBitmap = (0..count).collect();
            let few: RoaringBitmap = (0..count).step_by(10_000).collect();
            let mut pages = 0;
            for only in [None, Some(&every), Some(&few)] {
                let query = Query::new(metric, element, &random.vector(DIMS));
                let mut allowed = Allowed {
                    only,
                    ..Allowed::default()
                };
                let mut top = TopK::new(10);
                flat.search(
                    &query,
                    &IndexSearchParams::default(),
                    &mut allowed,
                    &mut scratch,
                    &mut io,
                    &mut top,
                )
                .expect("a search");
                let admits = |row| only.is_none_or(|only| only.contains(row));
                assert_eq!(
                    top.sorted(),
                    brute_force(&query, &rows, 10, admits),
                    "{share} bytes in RAM"
                );
                pages += scratch.stats.pages_read;
            }
            assert!(pages < pages_before, "{pages} pages with {share} bytes in RAM");
            assert!(
                share < whole || pages == 0,
                "{pages} pages of rows that are in RAM"
            );
            pages_before = pages;
            let asked = [0, 7, 30_000, count - 1];
            let mut shown = Vec::new();
            flat.read_rows(&asked, &mut scratch, &mut io, &mut |row, bytes| {
                shown.push((row, bytes.to_vec()));
                Ok(())
            })
            .expect("rows");
            let wanted = asked.map(|row| (row, rows[row as usize * row_bytes..][..row_bytes].to_vec()));
            assert_eq!(shown, wanted, "{share} bytes in RAM");
        }
    }
}

#[test]
fn the_filter_is_asked_only_about_rows_that_would_enter() {
    let mut random = Random::new(3);
    let (metric, element) = (Metric::Dot, Element::F32);
    let disk = Disk::ram();
    let flat = Flat::new(disk.write_rows(
        "rows",
        element.row_bytes(DIMS),
        &encoded(metric, element, 20_000, &mut random),
    ));
    let mut filter = Multiples { of: 1, asked: 0 };
    let mut allowed = Allowed {
        filter: Some(&mut filter),
        ..Allowed::default()
    };
    let (query, mut top) = (Query::new(metric, element, &random.vector(DIMS)), TopK::new(10));
    let mut scratch = scratch();
    flat.search(
        &query,
        &IndexSearchParams::default(),
        &mut allowed,
        &mut scratch,
        &mut disk.io(),
        &mut top,
    )
    .expect("a search");
    // In random order about k (1 + ln(n / k)) = 86 rows enter.
    assert_eq!(u64::from(filter.asked), scratch.stats.rows_checked);
    assert!((10..200).contains(&filter.asked), "asked {} times", filter.asked);
}

#[test]
fn a_failing_filter_ends_the_search() {
    struct Fails;
    impl RowFilter for Fails {
        fn admits(&mut self, _row: u32, _io: &mut IoContext) -> Result<bool> {
            Err(IndexError::Filter("no payload".into()))
        }
    }
    let mut random = Random::new(4);
    let disk = Disk::ram();
    let rows = encoded(Metric::Dot, Element::F32, 10, &mut random);
    let flat = Flat::new(disk.write_rows("rows", DIMS * 4, &rows));
    let mut allowed = Allowed {
        filter: Some(&mut Fails),
        ..Allowed::default()
    };
    let query = Query::new(Metric::Dot, Element::F32, &random.vector(DIMS));
    let (mut scratch, mut top) = (scratch(), TopK::new(1));
    let result = flat.search(
        &query,
        &IndexSearchParams::default(),
        &mut allowed,
        &mut scratch,
        &mut disk.io(),
        &mut top,
    );
    assert_eq!(result.unwrap_err().to_string(), "filter: no payload");
}

#[test]
fn segments_share_one_result() {
    let mut random = Random::new(5);
    let disk = Disk::ram();
    let rows = encoded(Metric::Euclid, Element::F16, 500, &mut random);
    let query = Query::new(Metric::Euclid, Element::F16, &random.vector(DIMS));
    let stride = query.row_bytes();
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(20));
    // The second segment lies in memory, as a memtable does.
    let flat = Flat::new(disk.write_rows("rows", stride, &rows[..300 * stride]));
    let mut allowed = Allowed::default();
    top.begin_segment(0);
    flat.search(
        &query,
        &IndexSearchParams::default(),
        &mut allowed,
        &mut scratch,
        &mut io,
        &mut top,
    )
    .expect("a search");
    top.begin_segment(1);
    let (rest, mut stats) = (&rows[300 * stride..], SearchStats::default());
    scan_bytes(
        &query,
        rest,
        stride,
        0,
        200,
        &mut allowed,
        &mut io,
        &mut top,
        &mut stats,
    )
    .expect("a scan");
    assert_eq!(stats.rows_scored, 200);
    let got: Vec<(f32, u32)> = top
        .sorted()
        .iter()
        .map(|hit| (hit.distance, hit.segment * 300 + hit.row))
        .collect();
    let want = brute_force(&query, &rows, 20, |_| true);
    assert_eq!(
        got,
        want.iter().map(|hit| (hit.distance, hit.row)).collect::<Vec<_>>()
    );
}

#[test]
fn a_range_of_rows_can_be_scanned() {
    let mut random = Random::new(6);
    let disk = Disk::files();
    let rows = encoded(Metric::Manhattan, Element::U8, 2000, &mut random);
    let file = disk.write_rows("rows", DIMS, &rows);
    let query = Query::new(
        Metric::Manhattan,
        Element::U8,
        &vector_for(Element::U8, &mut random, DIMS),
    );
    let (mut io, mut scratch) = (disk.io(), scratch());
    for range in [0..2000, 0..0, 5..6, 300..1700, 1990..9999] {
        let mut top = TopK::new(7);
        scan_rows(
            &file,
            range.clone(),
            &query,
            &mut Allowed::default(),
            &mut scratch,
            &mut io,
            &mut top,
        )
        .expect("a scan");
        assert_eq!(
            top.sorted(),
            brute_force(&query, &rows, 7, |row| range.contains(&row)),
            "{range:?}"
        );
    }
}

#[test]
fn rows_are_read_back() {
    let mut random = Random::new(7);
    for disk in Disk::all() {
        let rows = encoded(Metric::Dot, Element::F32, 700, &mut random);
        let flat = Flat::new(disk.write_rows("rows", DIMS * 4, &rows));
        let (mut io, mut scratch) = (disk.io(), scratch());
        let mut next = 0;
        flat.for_each_row(&mut scratch, &mut io, &mut |row, bytes| {
            assert_eq!((row, bytes), (next, &rows[row as usize * DIMS * 4..][..DIMS * 4]));
            next += 1;
            Ok(())
        })
        .expect("a stream");
        assert_eq!(next, 700);
        let mut seen = Vec::new();
        flat.read_rows(
            &[650, 3, 699, 700, 4],
            &mut scratch,
            &mut io,
            &mut |row, bytes| {
                assert_eq!(bytes, &rows[row as usize * DIMS * 4..][..DIMS * 4]);
                seen.push(row);
                Ok(())
            },
        )
        .expect("reads");
        seen.sort_unstable();
        assert_eq!(seen, [3, 4, 650, 699]);
    }
}

#[test]
fn a_query_of_other_dimensions_is_refused() {
    let disk = Disk::ram();
    let flat = Flat::new(disk.write_rows("rows", 12, &[0; 120]));
    let query = Query::new(Metric::Dot, Element::F32, &[1.0; 4]);
    let (mut scratch, mut top) = (scratch(), TopK::new(1));
    let result = flat.search(
        &query,
        &IndexSearchParams::default(),
        &mut Allowed::default(),
        &mut scratch,
        &mut disk.io(),
        &mut top,
    );
    assert!(matches!(result, Err(IndexError::Mismatch(_))), "{result:?}");
}
