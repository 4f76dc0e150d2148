//! A warm search allocates nothing.

use ramlet_index::{
    Allowed, CodeKind, CodesWanted, Element, Flat, IndexScratch, IndexSearchParams, Ivf, Metric, Query, TopK,
    VectorIndex,
};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use crate::counting::{allocations, peak_and_kept_bytes};
use crate::disk::Disk;
use crate::flat::Multiples;
use crate::ivf::Rows;
use crate::random::Random;

#[test]
fn a_warm_search_allocates_nothing() {
    let mut random = Random::new(1);
    for disk in Disk::all() {
        for (metric, element) in [(Metric::Cosine, Element::F32), (Metric::Euclid, Element::U8)] {
            let mut rows = Rows::clustered(metric, element, 8000, &mut random);
            let name = format!("{metric:?}");
            let (ivf, _): (Ivf, _) = rows.build(&disk, &name, 2 << 20, 1);
            let coded = format!("{metric:?}-coded");
            let (coded, _) = rows.build_with(
                &disk,
                &coded,
                2 << 20,
                1,
                &[CodeKind::OneBit, CodeKind::extended(24)],
            );
            let file = disk.write_rows(&format!("{name}-flat"), element.row_bytes(24), &rows.bytes);
            let product = format!("{metric:?}-product");
            let (product, _) = rows.build_with(&disk, &product, 2 << 20, 1, &[CodeKind::product(24)]);
            let with_ids = format!("{metric:?}-with_ids");
            let (with_ids, _) = rows.build_with(
                &disk,
                &with_ids,
                2 << 20,
                1,
                &[CodeKind::Product { m: 20, row_ids: true }],
            );
            let indexes: [&dyn VectorIndex; 5] = [&ivf, &coded, &product, &with_ids, &Flat::new(file)];
            for index in indexes {
                check(index, &disk, &rows, &mut random);
            }
            for kind in [CodeKind::OneBit, CodeKind::product(24)] {
                let name = format!("{metric:?}-{kind:?}-sq8");
                let kinds = [kind, CodeKind::Sq8];
                let (sq8, _) = rows.build_with(&disk, &name, 2 << 20, 1, &kinds);
                check(&sq8, &disk, &rows, &mut random);
            }
        }
    }
}

fn check(index: &dyn VectorIndex, disk: &Disk, rows: &Rows, random: &mut Random) {
    let sparse: RoaringBitmap = (0..30).map(|i| i * 250).collect();
    let deleted: RoaringBitmap = (0..8000).step_by(9).collect();
    let (mut io, mut top) = (disk.io(), TopK::new(10));
    let mut scratch = IndexScratch::new(AnonBuf::new(64 << 10));
    let vectors: Vec<Vec<f32>> = (0..12).map(|_| random.vector(24)).collect();
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
        index
            .search(&query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
            .expect("a search");
        assert_eq!(top.sorted().len(), 10);
    };
    for (only, exact) in [(None, true), (None, false), (Some(&sparse), false)] {
        for filtered in [false, true] {
            search(&vectors[0], only, exact, filtered);
            search(&vectors[1], only, exact, filtered);
        }
    }
    let count = allocations(|| {
        for vector in &vectors {
            for filtered in [false, true] {
                search(vector, None, true, filtered);
                search(vector, None, false, filtered);
                search(vector, Some(&sparse), false, filtered);
            }
        }
    });
    let memory = index.memory();
    assert_eq!(
        count,
        0,
        "{} on {}: {memory:?}",
        index.kind(),
        disk.storage.backend()
    );
}

/// What usual searches keep, and what reads and rounds of a large one need besides: it doesn't grow with what is asked for.
const USUAL_BYTES: usize = 300 << 10;

#[test]
fn what_large_searches_take_is_told_before_and_given_back() {
    let mut random = Random::new(3);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 20_000, &mut random);
    let with_ids = CodeKind::Product { m: 20, row_ids: true };
    let all: [&[CodeKind]; 5] = [
        &[CodeKind::OneBit, CodeKind::extended(24)],
        &[CodeKind::OneBit, CodeKind::Sq8],
        &[CodeKind::product(24)],
        &[CodeKind::product(24), CodeKind::Sq8],
        &[with_ids],
    ];
    for (number, kinds) in all.into_iter().enumerate() {
        let (ivf, _) = rows.build_with(&disk, &format!("large-{number}"), 2 << 20, 1, kinds);
        let query = rows.query(&mut random);
        takes_what_it_says(
            &ivf,
            &query,
            &disk,
            &[
                (3_000, 1.0),
                (10_000, 1.0),
                (10, 2_000.0),
                (500, 40.0),
                (40_000, 1.0),
            ],
        );
    }
    // Wide vectors make what is made of a query large.
    let mut rows = Rows::of_dims(20_000, Metric::Cosine, Element::F32, 300, &mut random);
    let (wide, _) = rows.build_with(&disk, "wide", 64 << 20, 1, &[CodeKind::OneBit]);
    takes_what_it_says(&wide, &rows.query(&mut random), &disk, &[(10, 1.0)]);
}

/// Searches for so many rows, with so much oversampling.
pub fn takes_what_it_says(index: &dyn VectorIndex, query: &Query, disk: &Disk, asked: &[(usize, f32)]) {
    let mut scratch = IndexScratch::new(AnonBuf::new(64 << 10));
    let mut io = disk.io();
    let mut search = |k: usize, oversampling: f32| {
        let want = IndexSearchParams {
            codes: CodesWanted {
                oversampling: (oversampling > 1.0).then_some(oversampling),
                ..CodesWanted::default()
            },
            ..IndexSearchParams::default()
        };
        let mut allowed = Allowed {
            deleted: None,
            only: None,
            filter: None,
            filter_share: None,
        };
        let said = index.search_bytes(query, &want, &allowed, k) as usize;
        let mut top = TopK::new(k);
        let (peak, kept) = peak_and_kept_bytes(|| {
            index
                .search(query, &want, &mut allowed, &mut scratch, &mut io, &mut top)
                .expect("a search");
        });
        (said, peak, kept)
    };
    for &(k, oversampling) in asked {
        let (said, peak, kept) = search(k, oversampling);
        let context = format!(
            "{} {k} x {oversampling}: says {said}, takes {peak}, keeps {kept}",
            index.kind()
        );
        assert!(peak <= said + USUAL_BYTES, "{context}");
        assert!(kept <= USUAL_BYTES, "{context}");
        assert!(said <= 2 * peak + USUAL_BYTES, "{context}");
    }
}
