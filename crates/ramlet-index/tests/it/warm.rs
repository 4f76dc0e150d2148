//! A warm search allocates nothing.

use ramlet_index::{
    Allowed, CodeKind, Element, Flat, IndexScratch, IndexSearchParams, Ivf, Metric, TopK, VectorIndex,
};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use crate::counting::allocations;
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
