//! Searching codes: against brute force, and against searching without them.

use ramlet_index::ivf::IvfParams;
use ramlet_index::{Allowed, CodeBits, Element, IndexError, Ivf, Metric, TopK, VectorIndex, Want};
use ramlet_io::IoErrorKind;
use roaring::RoaringBitmap;

use crate::disk::Disk;
use crate::flat::{Multiples, brute_force};
use crate::ivf::{DIMS, Rows, recall, scratch};
use crate::random::Random;

const BITS: [CodeBits; 2] = [CodeBits::Four, CodeBits::Eight];

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
        for (disk, bits) in Disk::all().iter().zip(BITS) {
            let name = format!("{metric:?}-{element:?}-{bits:?}");
            let (ivf, _) = rows.build_with(disk, &name, 2 << 20, 2, Some(bits));
            let (found, scored) = recall(&rows, &ivf, disk, &Want::default(), &mut random);
            assert!(found >= 0.93, "{name}: recall {found}");
            assert!(scored < 120, "{name}: {scored} rows read");
            // Every cluster visited: what is missed now is missed by the codes.
            let all = Want {
                exact: false,
                effort: Some(1 << 20),
                ..Want::default()
            };
            let (found, scored) = recall(&rows, &ivf, disk, &all, &mut random);
            assert!(found >= 0.985, "{name}: recall {found} of all");
            assert!(scored < 150, "{name}: {scored} rows read of all");
            let exact = Want {
                exact: true,
                effort: None,
                ..Want::default()
            };
            assert_eq!(
                recall(&rows, &ivf, disk, &exact, &mut random),
                (1.0, 10_000),
                "{name}"
            );
        }
    }
}

/// Rows found of those that brute force finds among the admitted: by each of the indexes.
fn filtered(
    rows: &Rows,
    indexes: [&Ivf; 2],
    disk: &Disk,
    bitmaps: [Option<&RoaringBitmap>; 2],
    of: Option<u32>,
    random: &mut Random,
) -> [usize; 2] {
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
            &Want::default(),
            &mut allowed,
            &mut scratch,
            &mut io,
            &mut top,
        )
        .expect("a search");
        let found = top.sorted();
        assert_eq!(found.len(), expected.len(), "as many as there are");
        assert!(found.iter().all(|hit| admits(hit.row)));
        found.iter().filter(|hit| expected.contains(hit)).count()
    })
}

#[test]
fn filters_are_kept_and_cost_no_more_recall_than_without_codes() {
    let mut random = Random::new(2);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 12_000, &mut random);
    rows.has = |row| !row.is_multiple_of(5);
    let (plain, _) = rows.build(&disk, "plain", 4 << 20, 2);
    let (coded, _) = rows.build_with(&disk, "coded", 4 << 20, 2, Some(CodeBits::Four));
    let indexes = [&plain, &coded];
    let deleted: RoaringBitmap = (0..12_000).filter(|_| random.below(4) == 0).collect();
    for one_in in [2, 20, 3000] {
        let only: RoaringBitmap = (0..12_000).filter(|_| random.below(one_in) == 0).collect();
        for of in [None, Some(2)] {
            let bitmaps = [Some(&deleted), Some(&only)];
            let mut sums = [0; 2];
            for _ in 0..20 {
                let found = filtered(&rows, indexes, &disk, bitmaps, of, &mut random);
                sums = [sums[0] + found[0], sums[1] + found[1]];
            }
            let [plain, coded] = sums;
            assert!(
                coded + 6 >= plain,
                "one in {one_in}, {of:?}: {coded} found, {plain} without codes"
            );
        }
    }
    // The search goes on until it has all that there are: 8.
    for _ in 0..3 {
        let [_, found] = filtered(&rows, indexes, &disk, [None, None], Some(1199), &mut random);
        assert_eq!(found, 8);
    }
}

#[test]
fn files_repeat_and_fit_the_scratch() {
    let mut random = Random::new(3);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 15_000, &mut random);
    let scratch_bytes = 512 << 10;
    let build = |rows: &mut Rows, name: &str, threads: usize| {
        let (ivf, _) = rows.build_with(&disk, name, scratch_bytes, threads, Some(CodeBits::Four));
        assert_eq!(
            ivf.memory().pinned_bytes,
            disk.read_all(&format!("{name}-codes")).len() as u64
        );
    };
    build(&mut rows, "one", 1);
    build(&mut rows, "three", 3);
    let (_, _) = rows.build(&disk, "none", scratch_bytes, 1);
    for part in ["rows", "positions", "centroids", "codes"] {
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
    };
    let build = |name: &str, bits: Option<CodeBits>, rows: &mut Rows| {
        crate::counting::peak_bytes(|| rows.try_build(&disk, name, &params, bits).expect("a build")).0
    };
    let (plain, coded) = (
        build("peak-none", None, &mut rows),
        build("peak-codes", Some(CodeBits::Eight), &mut rows),
    );
    assert!(coded < scratch_bytes, "held {coded} bytes, {plain} without codes");
}

#[test]
fn odd_sets_are_searched() {
    let mut random = Random::new(4);
    let disk = Disk::ram();
    let equal = |metric: Metric, value: f32, count: usize| Rows {
        metric,
        element: Element::F32,
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
        // Keys overflow.
        equal(Metric::Euclid, 2e19, 300),
        equal(Metric::Euclid, 1e-22, 300),
    ];
    for (i, mut rows) in sets.into_iter().enumerate() {
        for bits in BITS {
            let (ivf, _) = rows.build_with(&disk, &format!("odd-{i}-{bits:?}"), 1 << 20, 2, Some(bits));
            let (mut io, mut scratch) = (disk.io(), scratch());
            let (query, mut top) = (rows.query(&mut random), TopK::new(5));
            ivf.search(
                &query,
                &Want::default(),
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

#[test]
fn codes_that_do_not_fit_are_refused() {
    let mut random = Random::new(5);
    let disk = Disk::files();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 3000, &mut random);
    rows.build_with(&disk, "four", 1 << 20, 1, Some(CodeBits::Four));
    rows.build_with(&disk, "eight", 1 << 20, 1, Some(CodeBits::Eight));
    rows.build(&disk, "none", 1 << 20, 1);
    let open = |name: &str| {
        let [rows, positions] = ["rows", "positions"].map(|part| disk.open_rows(&format!("{name}-{part}")));
        Ivf::open(rows, positions, disk.read_all(&format!("{name}-centroids")), 0.95).expect("an index")
    };
    let pinned = |name: &str| disk.open_pinned(&format!("{name}-codes")).expect("codes");
    let refused = |result: Result<Ivf, IndexError>| assert!(matches!(result, Err(IndexError::Mismatch(_))));
    assert!(open("four").with_codes(pinned("four")).is_ok());
    refused(open("four").with_codes(pinned("eight")));
    refused(open("four").with_codes(disk.open_rows("four-codes")));
    refused(open("none").with_codes(pinned("four")));
    refused(open("four").with_codes(disk.open_rows("four-rows")));
    // A damaged file is found when it is pinned.
    let mut bytes = disk.read_all("four-codes").to_vec();
    bytes[5000] ^= 1;
    let mut file = disk.storage.create("damaged-codes").expect("a new file");
    file.append(&bytes).expect("writing");
    file.sync().expect("syncing");
    let error = disk.open_pinned("damaged-codes").expect_err("damage");
    assert_eq!(error.kind, IoErrorKind::Corrupt);
    let manhattan = IvfParams {
        metric: Metric::Manhattan,
        element: Element::F32,
        dims: DIMS,
        segment_rows: 3000,
        scratch_bytes: 1 << 20,
        threads: 1,
        seed: 1,
        clusters: None,
    };
    let result = rows.try_build(&disk, "manhattan", &manhattan, Some(CodeBits::Four));
    assert!(matches!(result, Err(IndexError::Mismatch(_))));
}
