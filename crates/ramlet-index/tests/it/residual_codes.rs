//! Codes that leave nothing to read.

use ramlet_index::ivf::CodesInRam;
use ramlet_index::{
    Allowed, CodeKind, CodesWanted, Element, Hit, IndexError, IndexSearchParams, Ivf, Metric, Query, TopK,
    VectorIndex, decode_row,
};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{Rows, recall, scratch};
use crate::random::Random;

/// All kinds of codes that a segment of so many dimensions gets.
fn kinds(dims: usize) -> [CodeKind; 3] {
    let CodeKind::Extended { bits } = CodeKind::extended(dims) else {
        unreachable!("extended codes");
    };
    [
        CodeKind::OneBit,
        CodeKind::extended(dims),
        CodeKind::residual(dims, bits),
    ]
}

#[test]
fn sizes_are_what_was_planned() {
    // 6 planes of 13 bytes, and three factors.
    assert_eq!(kinds(100)[2].row_bytes(100, 0), 84);
    let bits = [24, 100, 128, 384, 768, 1536].map(|dims| kinds(dims)[2]);
    assert_eq!(bits, [6, 6, 7, 7, 7, 7].map(|bits| CodeKind::Residual { bits }));
}

#[test]
fn nothing_is_read_and_scores_are_as_good_as_exact() {
    let mut random = Random::new(31);
    let disk = Disk::files();
    let want = IndexSearchParams {
        effort: Some(1 << 20),
        ..IndexSearchParams::default()
    };
    for (dims, metric, element) in [
        (100, Metric::Cosine, Element::F32),
        (100, Metric::Dot, Element::F32),
        (128, Metric::Euclid, Element::F32),
        (128, Metric::Cosine, Element::F16),
        (768, Metric::Cosine, Element::F32),
        (768, Metric::Dot, Element::F16),
        // Of two bits and seven.
        (1536, Metric::Cosine, Element::F32),
        (1536, Metric::Euclid, Element::U8),
        (13, Metric::Euclid, Element::U8),
    ] {
        let mut rows = Rows::of_dims(dims, metric, element, 2000, &mut random);
        let name = format!("{dims}-{metric:?}-{element:?}");
        let (ivf, _) = rows.build_with(&disk, &name, 8 << 20, 2, &kinds(dims));
        let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
        let mut found = 0;
        for _ in 0..20 {
            let query = rows.query(&mut random);
            let truth = brute_force(&query, &rows.bytes, 2000, rows.has);
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
            assert_eq!((scratch.stats.rows_read, scratch.stats.reads), (0, 0), "{name}");
            // What tells rows from each other: from the nearest distance to the one in the middle.
            let scale = truth[1000].distance - truth[0].distance;
            for hit in top.sorted() {
                let exact = truth.iter().find(|known| known.row == hit.row).expect("a row");
                let off = (hit.distance - exact.distance).abs() / scale;
                // Codes of 3 and 7 bits lose some of their range where values were clipped.
                let most = if dims > 128 { 5e-3 } else { 2e-3 };
                assert!(
                    off < most,
                    "{name}: {} for {}, {off} of {scale}",
                    hit.distance,
                    exact.distance
                );
                found += usize::from(truth[..10].contains(exact));
            }
        }
        assert!(found >= 197, "{name}: {found} of 200");
        if metric == Metric::Dot {
            continue;
        }
        // A row finds itself, with its own distance.
        let mut vector = Vec::new();
        decode_row(element, rows.row(77), &mut vector);
        let query = Query::new(metric, element, &vector);
        let exact = brute_force(&query, &rows.bytes, 2000, rows.has);
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
        let scale = exact[1000].distance - exact[0].distance;
        let own = |hits: &[Hit]| hits.iter().find(|hit| hit.row == 77).map(|hit| hit.distance);
        let (distance, exact) = (own(top.sorted()).expect("itself"), own(&exact).expect("itself"));
        assert!(
            (distance - exact).abs() < 1e-3 * scale,
            "{name}: {distance} for {exact} of {scale}"
        );
    }
}

#[test]
fn what_is_missing_is_read() {
    missing_is_read(100, 20_000);
}

/// By codes of two bits hits are read, but those that residual codes tell.
#[test]
fn what_is_missing_is_read_beside_rough_codes() {
    missing_is_read(1536, 4_000);
}

fn missing_is_read(dims: usize, count: usize) {
    let mut random = Random::new(32);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(dims, Metric::Cosine, Element::F32, count, &mut random);
    let (ivf, _) = rows.build_with(&disk, "ivf", 8 << 20, 2, &kinds(dims));
    let want = |codes| IndexSearchParams {
        effort: Some(1024),
        codes,
        ..IndexSearchParams::default()
    };
    let usual = want(CodesWanted::default());
    let mut search = |want: &IndexSearchParams| recall(&rows, &ivf, &disk, want, &mut random);
    let (all, read) = search(&usual);
    assert_eq!(read, 0);
    let rescored = CodesWanted {
        rescore: Some(true),
        ..CodesWanted::default()
    };
    assert!(search(&want(rescored)).1 >= 10, "rescoring is reading");
    let whole = ivf.residual().expect("the residual").bytes_whole();
    ivf.residual().expect("the residual").release(whole / 2);
    let (fewer, some) = search(&usual);
    ivf.residual().expect("the residual").release(1 << 30);
    let (none, more) = search(&usual);
    assert!(
        fewer >= all - 0.02 && none >= all - 0.02,
        "{all}, {fewer}, {none}"
    );
    assert!(some < more, "{some} and {more} rows read");
    let (mut io, mut buf) = (disk.io(), ramlet_memory::AnonBuf::new(64 << 10));
    let file = disk.open_rows(&format!("ivf-{:?}", kinds(dims)[2]));
    ivf.residual()
        .expect("the residual")
        .restore(&file, &mut io, &mut buf)
        .expect("room");
    assert_eq!(search(&usual).1, 0);
}

#[test]
fn the_rest_of_other_codes_is_refused() {
    let mut random = Random::new(33);
    let disk = Disk::files();
    let mut rows = Rows::of_dims(100, Metric::Cosine, Element::F32, 2000, &mut random);
    let [scanned, extended, residual] = kinds(100);
    let low = CodeKind::Extended { bits: 3 };
    let all = [scanned, extended, low, CodeKind::product(100), residual];
    let params = rows.params(1 << 20);
    rows.try_build(&disk, "ivf", &params, &all).expect("a build");
    let open = |extended: CodeKind, residual: CodeKind, file: CodeKind| {
        let part = |part: &str| format!("ivf-{part}");
        let [rows, positions] = ["rows", "positions"].map(|name| disk.open_rows(&part(name)));
        let load = |kind: CodeKind| disk.load_rows(&part(&format!("{kind:?}")));
        let codes = CodesInRam {
            scanned: Some((scanned, load(scanned))),
            extended: Some((extended, load(extended))),
            residual: Some((residual, load(file))),
            ..CodesInRam::default()
        };
        Ivf::new(rows, positions, disk.read_all(&part("centroids")), codes, 0.95)
    };
    let refused = |result: Result<Ivf, IndexError>| assert!(matches!(result, Err(IndexError::Mismatch(_))));
    let opened = open(extended, residual, residual).expect("an index");
    assert_eq!(opened.kinds().collect::<Vec<_>>(), all);
    refused(open(low, residual, residual));
    refused(open(extended, CodeKind::Residual { bits: 5 }, residual));
    refused(open(extended, residual, extended));
    // Codes that come after what is left over of them, none that it could be of, and too many bits.
    for (name, kinds) in [
        ("after", vec![scanned, residual, extended]),
        ("finer", vec![scanned, low, residual, extended]),
        ("none", vec![scanned, residual]),
        ("bits", vec![scanned, extended, CodeKind::Residual { bits: 8 }]),
    ] {
        let built = rows.try_build(&disk, name, &params, &kinds);
        assert!(matches!(built, Err(IndexError::Mismatch(_))), "{name}");
    }
}
