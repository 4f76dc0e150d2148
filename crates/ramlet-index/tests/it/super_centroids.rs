//! Searches that rank super-centroids before clusters, beside the same index that ranks all clusters.

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_index::ivf::{CodesInRam, IvfParams};
use ramlet_index::{
    Allowed, CodeKind, Element, Hit, IndexSearchParams, Ivf, Metric, Query, TopK, VectorIndex,
};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use crate::counting::allocations;
use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{Rows, open, recall, scratch};
use crate::random::Random;

const EXTENDED: &[CodeKind] = &[CodeKind::OneBit, CodeKind::Extended { bits: 6 }];
const ROWS: usize = 24_000;
/// The last of its super-centroids has 8.
const CLUSTERS: u32 = 1_528;

fn build(disk: &Disk, rows: &mut Rows, name: &str, kinds: &[CodeKind], clusters: u32) -> Ivf {
    let params = IvfParams {
        threads: 2,
        clusters: Some(clusters),
        ..rows.params(4 << 20)
    };
    rows.try_build(disk, name, &params, kinds).expect("a build");
    open(disk, name, kinds).expect("an index")
}

/// The same index as one that ranks all clusters.
fn of_all(ivf: Ivf) -> Ivf {
    let mut calibration = ivf.calibration().clone();
    calibration
        .points
        .iter_mut()
        .for_each(|point| point.super_centroids = u32::MAX);
    ivf.with_calibration(calibration).expect("a sane calibration")
}

fn search(
    ivf: &Ivf,
    disk: &Disk,
    query: &Query,
    k: usize,
    want: &IndexSearchParams,
    allowed: &mut Allowed<'_>,
) -> Vec<Hit> {
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(k));
    ivf.search(query, want, allowed, &mut scratch, &mut io, &mut top)
        .expect("a search");
    top.sorted().to_vec()
}

#[test]
fn the_nearest_super_centroids_find_about_as_much_as_all_clusters() {
    let mut random = Random::new(91);
    for (metric, element, kinds) in [
        (Metric::Cosine, Element::F32, EXTENDED),
        (Metric::Euclid, Element::U8, EXTENDED),
        (Metric::Dot, Element::F32, EXTENDED),
        (Metric::Cosine, Element::F32, &[]),
        (
            Metric::Cosine,
            Element::F32,
            &[CodeKind::Product {
                m: 12,
                row_ids: false,
            }],
        ),
        (
            Metric::Euclid,
            Element::F32,
            &[CodeKind::Product { m: 20, row_ids: true }],
        ),
    ] {
        let mut rows = Rows::clustered(metric, element, ROWS, &mut random);
        let (disk, name) = (Disk::ram(), format!("{metric:?} {element:?} {kinds:?}"));
        let ivf = build(&disk, &mut rows, "ivf", kinds, CLUSTERS);
        let points = &ivf.calibration().points;
        assert!(
            points.is_sorted_by_key(|point| point.super_centroids),
            "{name}: {points:?}"
        );
        let few = points
            .iter()
            .filter(|point| point.super_centroids < CLUSTERS / 16 / 2);
        assert!(few.count() > 8, "{name}: {points:?}");
        assert_eq!(points.last().map(|point| point.super_centroids), Some(u32::MAX));
        let all = of_all(open(&disk, "ivf", kinds).expect("the same"));
        for effort in [8, 32, 128, 512] {
            let want = IndexSearchParams {
                effort: Some(effort),
                ..IndexSearchParams::default()
            };
            let of = |ivf: &Ivf| recall(&rows, ivf, &disk, &want, &mut Random::new(5)).0;
            let (by_super_centroids, by_all) = (of(&ivf), of(&all));
            let name = format!("{name} effort {effort}: recall {by_super_centroids}, of all {by_all}");
            assert!(by_super_centroids >= by_all - 0.06, "{name}");
            assert!(effort < 128 || by_super_centroids >= 0.91, "{name}");
        }
        let most = IndexSearchParams {
            effort: Some(1 << 20),
            ..IndexSearchParams::default()
        };
        assert!(
            recall(&rows, &ivf, &disk, &most, &mut random).0 >= 0.985,
            "{name}"
        );
    }
}

/// Of rows that are nearly all deleted some lie in super-centroids that nobody ranked at first.
#[test]
fn what_is_wanted_is_found_wherever_it_lies() {
    let mut random = Random::new(92);
    for kinds in [
        EXTENDED,
        &[],
        &[CodeKind::Product {
            m: 12,
            row_ids: false,
        }],
        &[CodeKind::Product { m: 20, row_ids: true }],
    ] {
        let mut rows = Rows::clustered(Metric::Cosine, Element::F32, ROWS, &mut random);
        let disk = Disk::ram();
        let ivf = build(&disk, &mut rows, "ivf", kinds, CLUSTERS);
        let left: RoaringBitmap = (0..12).map(|_| random.below(ROWS as u32)).collect();
        let deleted: RoaringBitmap = (0..ROWS as u32).filter(|row| !left.contains(*row)).collect();
        for _ in 0..20 {
            let query = rows.query(&mut random);
            // As many clusters as little effort visits, and as a filter's rounds do.
            let want = IndexSearchParams {
                effort: Some(1),
                ..IndexSearchParams::default()
            };
            let mut allowed = Allowed {
                deleted: Some(&deleted),
                ..Allowed::default()
            };
            let found = search(&ivf, &disk, &query, left.len() as usize, &want, &mut allowed);
            let truth = brute_force(&query, &rows.bytes, left.len() as usize, |row| left.contains(row));
            let rows_of = |hits: &[Hit]| hits.iter().map(|hit| hit.row).collect::<Vec<u32>>();
            assert_eq!(rows_of(&found), rows_of(&truth), "{kinds:?}");
            let mut allowed = Allowed {
                only: Some(&left),
                ..Allowed::default()
            };
            let found = search(&ivf, &disk, &query, left.len() as usize, &want, &mut allowed);
            assert_eq!(rows_of(&found), rows_of(&truth), "{kinds:?}");
        }
        // Far from all rows, all clusters are about as far.
        let mut right = 0;
        for _ in 0..20 {
            let vector: Vec<f32> = (0..rows.dims).map(|_| random.normal()).collect();
            let query = Query::new(Metric::Cosine, Element::F32, &vector);
            let found = search(
                &ivf,
                &disk,
                &query,
                10,
                &IndexSearchParams::default(),
                &mut Allowed::default(),
            );
            let truth = brute_force(&query, &rows.bytes, 10, |_| true);
            let is_found = |hit: &&Hit| found.iter().any(|one| one.row == hit.row);
            right += truth.iter().filter(is_found).count();
        }
        assert!(right >= 160, "{kinds:?}: {right} of 200");
    }
}

#[test]
fn a_warm_search_by_super_centroids_allocates_nothing() {
    let mut random = Random::new(93);
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, ROWS, &mut random);
    let disk = Disk::ram();
    let ivf = build(&disk, &mut rows, "ivf", EXTENDED, CLUSTERS);
    let queries: Vec<Query> = (0..40).map(|_| rows.query(&mut random)).collect();
    let (mut io, mut scratch, mut top) = (disk.io(), scratch(), TopK::new(10));
    let mut run = |queries: &[Query]| {
        for query in queries {
            top.clear(10);
            ivf.search(
                query,
                &IndexSearchParams::default(),
                &mut Allowed::default(),
                &mut scratch,
                &mut io,
                &mut top,
            )
            .expect("a search");
        }
    };
    run(&queries[..2]);
    assert_eq!(allocations(|| run(&queries[2..])), 0);
}

/// Fewer clusters have no super-centroids, and nor have those under Manhattan.
#[test]
fn few_clusters_have_no_super_centroids() {
    let mut random = Random::new(94);
    for (metric, clusters) in [(Metric::Cosine, 1_023), (Metric::Manhattan, CLUSTERS)] {
        let mut rows = Rows::clustered(metric, Element::F32, ROWS, &mut random);
        let disk = Disk::ram();
        let ivf = build(&disk, &mut rows, "ivf", &[], clusters);
        let points = &ivf.calibration().points;
        assert!(
            points.iter().all(|point| point.super_centroids == u32::MAX),
            "{points:?}"
        );
        let (found, _) = recall(&rows, &ivf, &disk, &IndexSearchParams::default(), &mut random);
        assert!(found >= 0.91, "{metric:?}: recall {found}");
    }
}

/// What says otherwise about super-centroids than there are is refused, and so are points that don't ascend.
#[test]
fn files_with_other_super_centroids_are_refused() {
    let mut random = Random::new(95);
    let mut rows = Rows::clustered(Metric::Cosine, Element::F32, ROWS, &mut random);
    let disk = Disk::ram();
    let ivf = build(&disk, &mut rows, "ivf", &[], CLUSTERS);
    let whole = disk.read_all("ivf-centroids");
    let body = envelope::decode(EnvelopeKind::Centroids, &whole).expect("intact");
    const RUN: usize = 56;
    const FIRST_POINT: usize = 60;
    assert_eq!(body[RUN..RUN + 4], 16u32.to_le_bytes());
    let opened = |at: usize, value: u32| {
        let mut body = body.to_vec();
        body[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let sealed = envelope::encode(EnvelopeKind::Centroids, &body);
        let mut centroids = AnonBuf::new(sealed.len());
        centroids.copy_from_slice(&sealed);
        let [vectors, positions] = ["ivf-rows", "ivf-positions"].map(|name| disk.open_rows(name));
        Ivf::new(vectors, positions, centroids, CodesInRam::default(), 0.95)
    };
    for run in [0, 1, 8, 17, u32::MAX] {
        let refused = opened(RUN, run)
            .map(|ivf| ivf.clusters())
            .expect_err("other super-centroids");
        assert!(refused.to_string().contains("centroids"), "{refused}");
    }
    let super_centroids = FIRST_POINT + 4;
    opened(super_centroids, u32::MAX)
        .map(|ivf| ivf.clusters())
        .expect_err("more than the next");
    // None is taken for one.
    let least = opened(super_centroids, 0).expect("an index");
    let want = IndexSearchParams {
        effort: Some(1),
        ..IndexSearchParams::default()
    };
    let query = rows.query(&mut random);
    assert_eq!(
        search(&least, &disk, &query, 10, &want, &mut Allowed::default()).len(),
        10
    );
    drop(ivf);
}
