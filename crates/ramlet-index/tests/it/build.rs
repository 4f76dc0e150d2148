//! The clusters that a build makes.

use std::cell::RefCell;
use std::collections::HashMap;

use ramlet_index::ivf::{IvfBuilt, IvfParams, scratch_least};
use ramlet_index::{
    CodeKind, Element, IndexSearchParams, Ivf, Metric, Phase, Progress, RowSource, SeedCentroids, VectorIndex,
};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{DIMS, Rows, open, scratch};
use crate::random::Random;

fn params(rows: &Rows) -> IvfParams<'static> {
    IvfParams {
        metric: rows.metric,
        element: rows.element,
        dims: DIMS,
        segment_rows: rows.segment_rows(),
        scratch_bytes: 1 << 20,
        threads: 2,
        seed: 7,
        clusters: None,
        centroid_bytes: 0,
        seed_centroids: None,
        progress: Progress::default(),
    }
}

fn build(rows: &mut Rows, disk: &Disk, name: &str, seeds: Option<&dyn SeedCentroids>) -> (Ivf, IvfBuilt) {
    let params = IvfParams {
        seed_centroids: seeds,
        ..params(rows)
    };
    let built = rows.try_build(disk, name, &params, &[]).expect("a build");
    (open(disk, name, &[]).expect("an index"), built)
}

/// Rows in the order of their positions.
fn order(ivf: &Ivf, disk: &Disk) -> Vec<u32> {
    let (mut io, mut scratch, mut order) = (disk.io(), scratch(), Vec::new());
    ivf.for_each_row(&mut scratch, &mut io, &mut |row, _| {
        order.push(row);
        Ok(())
    })
    .expect("a stream");
    order
}

/// Share of the true 10 nearest in the nearest `probes` clusters.
fn coverage(rows: &Rows, ivf: &Ivf, disk: &Disk, probes: usize) -> f64 {
    const QUERIES: usize = 60;
    let mut random = Random::new(99);
    let order = order(ivf, disk);
    let positions: HashMap<u32, u32> = order.iter().copied().zip(0..).collect();
    let mut found = 0;
    for _ in 0..QUERIES {
        let query = rows.query(&mut random);
        let visited = ivf.ranked(&query);
        for hit in brute_force(&query, &rows.bytes, 10, rows.has) {
            let position = positions[&hit.row];
            found += usize::from(visited[..probes].iter().any(|range| range.contains(&position)));
        }
    }
    found as f64 / (QUERIES * 10) as f64
}

#[test]
fn clusters_are_about_equal() {
    let mut random = Random::new(31);
    let disk = Disk::ram();
    for (element, count) in [(Element::F32, 40_000), (Element::U8, 20_000)] {
        // The first centres are far more common than the others.
        let mut rows = Rows::clustered(Metric::Euclid, element, count, &mut random);
        let common = rows.row(0).to_vec();
        for row in (0..count).step_by(3) {
            let bytes = rows.row_bytes();
            let own: Vec<u8> = rows.bytes[row * bytes..][..bytes].to_vec();
            // Halfway to one row: a dense region.
            if element == Element::U8 {
                let target = &mut rows.bytes[row * bytes..][..bytes];
                for (target, (own, common)) in target.iter_mut().zip(own.iter().zip(&common)) {
                    *target = own.midpoint(*common);
                }
            }
        }
        let (ivf, built) = build(&mut rows, &disk, &format!("{element:?}"), None);
        assert!(
            (built.clusters as usize).abs_diff(count / 100) <= 4,
            "{element:?}: {built:?}"
        );
        let query = rows.query(&mut random);
        let sizes: Vec<u32> = ivf
            .ranked(&query)
            .iter()
            .map(|range| range.end - range.start)
            .collect();
        assert_eq!(sizes.iter().sum::<u32>() as usize, count);
        assert!(
            sizes.iter().all(|size| *size > 0),
            "{element:?}: an empty cluster"
        );
        let largest = sizes.iter().max().expect("clusters");
        assert!(
            *largest <= 300,
            "{element:?}: largest {largest} of 100 in the mean"
        );
        let covered = coverage(&rows, &ivf, &disk, 30);
        assert!(covered > 0.95, "{element:?}: coverage {covered}");
    }
}

#[test]
fn rows_of_a_page_are_near_each_other() {
    let mut random = Random::new(32);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 20_000, &mut random);
    let (ivf, _) = build(&mut rows, &disk, "near", None);
    let order = order(&ivf, &disk);
    let per_page = 4096 / (rows.row_bytes() + 4);
    let vector = |row: u32| {
        let mut vector = Vec::new();
        ramlet_index::decode_row(Element::F32, rows.row(row), &mut vector);
        vector
    };
    let distance = |a: u32, b: u32| -> f32 {
        vector(a)
            .iter()
            .zip(vector(b))
            .map(|(a, b)| (a - b).powi(2))
            .sum()
    };
    let (mut same, mut next) = (0.0, 0.0);
    let pages: Vec<&[u32]> = order.chunks_exact(per_page).collect();
    for pair in pages.windows(3) {
        same += distance(pair[0][0], pair[0][per_page - 1]);
        next += distance(pair[0][0], pair[2][0]);
    }
    assert!(same < next * 0.9, "within a page {same}, to another {next}");
}

#[test]
fn centroids_are_reused_where_they_suit() {
    let mut random = Random::new(33);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, 40_000, &mut random);
    let (before, built) = build(&mut rows, &disk, "before", None);
    assert!(!built.is_reused);
    assert_eq!(SeedCentroids::count(&before) as u32, before.clusters());
    // The same rows again: nothing to learn. Twice as many rows: clusters are split.
    let (same, built) = build(&mut rows, &disk, "same", Some(&before));
    assert!(
        built.is_reused && built.clusters.abs_diff(before.clusters()) <= 4,
        "{built:?}"
    );
    let [old, new] = [&before, &same].map(|ivf| coverage(&rows, ivf, &disk, 12));
    assert!(new > old - 0.02, "coverage {old} and {new}");
    let doubled = rows.bytes.clone();
    rows.bytes.extend_from_slice(&doubled);
    let (_, built) = build(&mut rows, &disk, "more", Some(&before));
    assert!(built.is_reused && built.clusters > 600, "{built:?}");
    assert!(built.largest_cluster <= 400, "{built:?}");
}

#[test]
fn half_of_the_rows_replaced_search_as_a_fresh_build() {
    let mut random = Random::new(34);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Euclid, Element::F32, 30_000, &mut random);
    let (before, _) = build(&mut rows, &disk, "before", None);
    let half = rows.bytes.len() / 2;
    let other = Rows::clustered(Metric::Euclid, Element::F32, 15_000, &mut random);
    rows.bytes[half..].copy_from_slice(&other.bytes);
    let (merged, _) = build(&mut rows, &disk, "merged", Some(&before));
    let (fresh, _) = build(&mut rows, &disk, "fresh", None);
    for probes in [5, 10, 20] {
        let [merged, fresh] = [&merged, &fresh].map(|ivf| coverage(&rows, ivf, &disk, probes));
        assert!(merged >= fresh - 0.01, "{probes} probes: {merged} of {fresh}");
    }
}

/// Scratch in which 160 clusters of so many dimensions are trained, and 459 built.
const WIDE: usize = 768;
const LITTLE: usize = 560 << 10;

/// In the least budgets a few points of the sample are in memory at a time, and fewer of a bucket.
#[test]
fn in_little_memory_clusters_are_moved_to_all_their_rows() {
    let mut random = Random::new(41);
    let disk = Disk::ram();
    let mut rows = Rows::of_dims(WIDE, Metric::Cosine, Element::F32, 8000, &mut random);
    let mut built = |name: &str, scratch_bytes: usize| {
        let params = IvfParams {
            clusters: Some(150),
            ..rows.params(scratch_bytes)
        };
        let built = rows.try_build(&disk, name, &params, &[]).expect("a build");
        assert!((140..=150).contains(&built.clusters), "{}", built.clusters);
        let ivf = open(&disk, name, &[]).expect("an index");
        coverage(&rows, &ivf, &disk, 2)
    };
    let [little, much] = [("little", 200 << 10), ("much", 8 << 20)].map(|(name, bytes)| built(name, bytes));
    assert!(little > 0.9 * much, "{little}, {much} with much memory");
}

#[test]
fn clusters_that_there_is_no_room_to_train_are_divided() {
    let mut random = Random::new(37);
    for metric in [Metric::Cosine, Metric::Euclid] {
        let disk = Disk::ram();
        let mut rows = Rows::of_dims(WIDE, metric, Element::F32, 5000, &mut random);
        let little = |threads: usize| IvfParams {
            threads,
            clusters: Some(400),
            ..rows.params(LITTLE)
        };
        let (params, other_threads) = (little(2), little(3));
        let kinds: &[CodeKind] = if metric == Metric::Euclid {
            &[]
        } else {
            &[CodeKind::OneBit]
        };
        let built = rows.try_build(&disk, "divided", &params, kinds).expect("a build");
        assert!(
            (380..=400).contains(&built.clusters),
            "{metric:?}: {}",
            built.clusters
        );
        assert!(
            built.largest_cluster < 60,
            "{metric:?}: {}",
            built.largest_cluster
        );
        let divided = open(&disk, "divided", kinds).expect("an index");
        let mut seen = order(&divided, &disk);
        seen.sort_unstable();
        assert!(
            seen.into_iter().eq(0..rows.segment_rows()),
            "{metric:?}: rows are missing"
        );
        rows.try_build(&disk, "threads", &other_threads, kinds)
            .expect("a build");
        for part in ["rows", "positions", "centroids"] {
            let [one, other] = ["divided", "threads"].map(|name| disk.read_all(&format!("{name}-{part}")));
            assert!(
                one[..] == other[..],
                "{metric:?}: {part} depend on the number of threads"
            );
        }
        // Not much worse than if all had been trained, and what was measured of it is so.
        let more = IvfParams {
            scratch_bytes: 4 << 20,
            ..params
        };
        rows.try_build(&disk, "trained", &more, &[]).expect("a build");
        let trained = open(&disk, "trained", &[]).expect("an index");
        assert!(trained.clusters() >= 390);
        let [own, others] = [&divided, &trained].map(|ivf| coverage(&rows, ivf, &disk, 12));
        assert!(
            own > others - 0.05,
            "{metric:?}: coverage {own}, {others} of trained ones"
        );
        let (recall, _) =
            crate::ivf::recall(&rows, &divided, &disk, &IndexSearchParams::default(), &mut random);
        assert!(recall > 0.92, "{metric:?}: recall {recall} for .95");
    }
}

/// A cluster that can't be divided, one that is larger than all the scratch, and ones of a row.
#[test]
fn odd_clusters_are_divided() {
    let mut random = Random::new(38);
    let disk = Disk::ram();
    let mut rows = Rows::of_dims(WIDE, Metric::Euclid, Element::F32, 6000, &mut random);
    let (bytes, own) = (rows.row_bytes(), rows.row(0).to_vec());
    // Half are one point.
    rows.bytes[..bytes * 3000]
        .chunks_exact_mut(bytes)
        .for_each(|row| row.copy_from_slice(&own));
    let params = IvfParams {
        clusters: Some(400),
        ..rows.params(LITTLE)
    };
    let built = rows.try_build(&disk, "odd", &params, &[]).expect("a build");
    assert!(built.largest_cluster >= 3000, "{}", built.largest_cluster);
    assert!(built.clusters > 150, "{}", built.clusters);
    let ivf = open(&disk, "odd", &[]).expect("an index");
    let query = rows.query(&mut random);
    assert!(
        ivf.ranked(&query).iter().all(|range| !range.is_empty()),
        "an empty cluster"
    );
    let mut seen = order(&ivf, &disk);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..rows.segment_rows()));
}

#[test]
fn phases_come_in_order() {
    let mut random = Random::new(35);
    let disk = Disk::ram();
    let mut rows = Rows::clustered(Metric::Dot, Element::F16, 5000, &mut random);
    let heard: RefCell<Vec<(Phase, u64, u64)>> = RefCell::default();
    let hear = |phase, done, total| heard.borrow_mut().push((phase, done, total));
    let params = IvfParams {
        progress: Progress(Some(&hear)),
        ..params(&rows)
    };
    rows.try_build(&disk, "heard", &params, &[]).expect("a build");
    let heard = heard.into_inner();
    assert!(heard.is_sorted_by(|a, b| (a.0, a.1) <= (b.0, b.1)), "{heard:?}");
    assert!(heard.iter().all(|(_, done, total)| done <= total), "{heard:?}");
    let mut phases: Vec<Phase> = heard.iter().map(|(phase, ..)| *phase).collect();
    phases.dedup();
    let all = [
        Phase::Sample,
        Phase::Train,
        Phase::Assign,
        Phase::Distribute,
        Phase::Write,
    ];
    assert_eq!(phases, all);
}

/// Few rows of any shape.
struct Odd {
    element: Element,
    dims: usize,
    rows: Vec<Vec<f32>>,
}

impl RowSource for Odd {
    fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    fn replay(
        &mut self,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut bytes = Vec::new();
        self.rows.iter().zip(0..).try_for_each(|(row, number)| {
            bytes.clear();
            ramlet_index::encode_row(Metric::Euclid, self.element, row, &mut bytes);
            each(number, &bytes)
        })
    }
}

#[test]
fn odd_shapes_build() {
    use ramlet_index::ivf::{IvfFiles, build_ivf};
    let mut random = Random::new(36);
    let mut shapes: Vec<Odd> = Vec::new();
    for (dims, count) in [(2, 40_000), (3, 1), (1000, 500), (65_536, 3)] {
        let rows = (0..count)
            .map(|_| (0..dims).map(|_| random.normal()).collect())
            .collect();
        shapes.push(Odd {
            element: Element::F32,
            dims,
            rows,
        });
    }
    // Far from zero, mostly duplicates, huge, and tiny.
    let mut pushed = |scale: f32, shift: f32, kinds: u32| {
        let rows = (0..30_000)
            .map(|i| vec![shift + scale * (i % kinds) as f32; 7])
            .collect();
        shapes.push(Odd {
            element: Element::F32,
            dims: 7,
            rows,
        });
    };
    pushed(1.0, 1e6, 30_000);
    pushed(1.0, 0.0, 3);
    pushed(1e33, 0.0, 30_000);
    pushed(1e-42, 0.0, 30_000);
    for (i, mut odd) in shapes.into_iter().enumerate() {
        let disk = Disk::ram();
        let mut files: Vec<_> = ["rows", "positions", "centroids"]
            .iter()
            .map(|part| disk.storage.create(&format!("odd-{part}")).expect("a file"))
            .collect();
        let [rows, positions, centroids] = &mut files[..] else {
            panic!("three files")
        };
        let params = IvfParams {
            metric: Metric::Euclid,
            element: odd.element,
            dims: odd.dims,
            segment_rows: odd.rows(),
            scratch_bytes: scratch_least(odd.dims, &[]).max(1 << 20),
            threads: 2,
            seed: 1,
            clusters: None,
            centroid_bytes: 0,
            seed_centroids: None,
            progress: Progress::default(),
        };
        let mut targets = IvfFiles {
            rows: &mut **rows,
            rows_seed: crate::disk::SEED,
            positions: &mut **positions,
            positions_seed: crate::disk::SEED,
            centroids: &mut **centroids,
            codes: Vec::new(),
        };
        let built = build_ivf(&params, &mut odd, &*disk.storage, &mut targets).expect("a build");
        files.iter_mut().for_each(|file| file.sync().expect("syncing"));
        assert_eq!(built.rows, odd.rows(), "shape {i}");
        let ivf = open(&disk, "odd", &[]).expect("an index");
        let mut seen = order(&ivf, &disk);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..odd.rows()), "shape {i}");
        // Values one apart and a million from zero still part.
        assert!(i != 4 || built.largest_cluster < 3000, "shape {i}: {built:?}");
    }
}
