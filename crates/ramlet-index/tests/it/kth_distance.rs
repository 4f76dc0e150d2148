//! Searches that hold clusters against the k-th distance, beside the same index without.

use std::collections::BTreeSet;

use ramlet_index::{
    CodeKind, Element, IndexSearchParams, Ivf, Metric, Query, Reached, VectorIndex, encode_row,
};

use crate::disk::Disk;
use crate::flat::brute_force;
use crate::ivf::{Rows, found_by, nearest_of, open};
use crate::random::Random;

const EXTENDED: &[CodeKind] = &[CodeKind::OneBit, CodeKind::Extended { bits: 6 }];
const WITH_IDS: &[CodeKind] = &[CodeKind::Product { m: 20, row_ids: true }];
const ROWS: usize = 20_000;
const QUERIES: usize = 100;

/// The same index where nothing was measured by the k-th distance: all its searches go by the probe threshold.
fn without(ivf: Ivf) -> Ivf {
    let mut calibration = ivf.calibration().clone();
    for point in &mut calibration.points {
        point.by_kth_distance = Reached {
            threshold: f32::MAX,
            recall_10: 0.0,
            recall_100: 0.0,
        };
    }
    ivf.with_calibration(calibration).expect("a sane calibration")
}

/// Rows in many groups, some of them tight and others wide, which lie amid each other: how far a row's neighbours are differs
/// from row to row.
fn varied(metric: Metric, element: Element, count: usize, random: &mut Random) -> Rows {
    grouped(metric, element, count, usize::MAX, random)
}

/// The same in the first `used` dimensions, with hardly anything in the others.
fn grouped(metric: Metric, element: Element, count: usize, used: usize, random: &mut Random) -> Rows {
    const FLAT: f32 = 0.1;
    const GROUPS: u32 = 1_000;
    let mut rows = Rows::clustered(metric, element, 0, random);
    let (middle, wide) = if element == Element::U8 {
        (128.0, 20.0)
    } else {
        (0.0, 1.0)
    };
    let mut normal = |scale: f32| -> Vec<f32> { (0..rows.dims).map(|_| random.normal() * scale).collect() };
    let centres: Vec<(Vec<f32>, f32)> = (0..GROUPS)
        .map(|group| (normal(wide), wide * [0.2, 0.4, 0.6, 0.8, 1.0][group as usize % 5]))
        .collect();
    for _ in 0..count {
        let (centre, scale) = &centres[random.below(GROUPS) as usize];
        let part = |i: usize, value: f32| middle + if i < used { value } else { FLAT * value };
        let vector: Vec<f32> = centre
            .iter()
            .enumerate()
            .map(|(i, value)| part(i, value + random.normal() * scale))
            .collect();
        encode_row(metric, element, &vector, &mut rows.bytes);
    }
    rows
}

/// The rows found nearest to a query, by two indexes one after the other if there are two.
fn found(
    parts: &[&Ivf],
    disk: &Disk,
    query: &Query,
    k: usize,
    want: &IndexSearchParams,
) -> (BTreeSet<(u32, u32)>, u64) {
    let parts: Vec<(u32, &dyn VectorIndex, IndexSearchParams)> = (0..)
        .zip(parts)
        .map(|(part, ivf)| (part, *ivf as &dyn VectorIndex, *want))
        .collect();
    found_by(&parts, disk, query, k)
}

/// Recall among the `k` nearest, and codes compared per search.
fn measured(rows: &Rows, ivf: &Ivf, disk: &Disk, k: usize, seed: u64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let (mut right, mut codes) = (0, 0);
    for _ in 0..QUERIES {
        let query = rows.query(&mut random);
        let (found, compared) = found(&[ivf], disk, &query, k, &IndexSearchParams::default());
        let truth = brute_force(&query, &rows.bytes, k, rows.has);
        right += truth.iter().filter(|hit| found.contains(&(0, hit.row))).count();
        codes += compared;
    }
    (right as f64 / (k * QUERIES) as f64, codes as f64 / QUERIES as f64)
}

#[test]
fn fewer_codes_find_as_much() {
    let mut random = Random::new(71);
    for (metric, element, kinds) in [
        (Metric::Cosine, Element::F32, EXTENDED),
        (Metric::Euclid, Element::F32, EXTENDED),
        (Metric::Dot, Element::F32, EXTENDED),
        (Metric::Cosine, Element::U8, EXTENDED),
        (Metric::Cosine, Element::F32, WITH_IDS),
    ] {
        let mut rows = varied(metric, element, ROWS, &mut random);
        let disk = Disk::ram();
        let (ivf, _) = rows.build_with(&disk, "ivf", 4 << 20, 2, kinds);
        let by_threshold = without(open(&disk, "ivf", kinds).expect("the same"));
        for k in [1, 10, 100] {
            let (recall, codes) = measured(&rows, &ivf, &disk, k, 5);
            let (recall_by_threshold, codes_by_threshold) = measured(&rows, &by_threshold, &disk, k, 5);
            let name = format!("{metric:?} {element:?} {kinds:?} {k}");
            assert!(recall >= 0.92, "{name}: recall {recall}");
            // For a hundred the tenth row says less, and of products less than of distances.
            let most = match metric {
                _ if k > 10 => 1.1,
                Metric::Dot => 1.02,
                _ => 0.9,
            };
            assert!(
                codes <= most * codes_by_threshold,
                "{name}: {codes} codes find {recall}, {codes_by_threshold} {recall_by_threshold}"
            );
        }
    }
}

#[test]
fn what_other_segments_have_is_no_kth_distance() {
    let mut random = Random::new(72);
    let disk = Disk::ram();
    let mut parts: Vec<(Rows, Ivf)> = Vec::new();
    for name in ["a", "b"] {
        let mut rows = varied(Metric::Cosine, Element::F32, ROWS / 2, &mut random);
        let (ivf, _) = rows.build_with(&disk, name, 4 << 20, 2, EXTENDED);
        parts.push((rows, ivf));
    }
    for (first, second) in [(0, 1), (1, 0)] {
        let (rows, both) = (&parts[first].0, [&parts[first].1, &parts[second].1]);
        let (mut right, mut alone, mut after) = (0, 0, 0);
        for _ in 0..QUERIES {
            // Amid the rows of the first: of the second it finds hardly any.
            let query = rows.query(&mut random);
            let (here, codes) = found(&both, &disk, &query, 10, &IndexSearchParams::default());
            let truth = nearest_of(&[(0, rows), (1, &parts[second].0)], &query, 10);
            right += truth.iter().filter(|row| here.contains(row)).count();
            let codes_of = |ivf| found(&[ivf], &disk, &query, 10, &IndexSearchParams::default()).1;
            alone += codes_of(both[0]) + codes_of(both[1]);
            after += codes;
        }
        let recall = right as f64 / (10 * QUERIES) as f64;
        assert!(recall >= 0.93, "{recall}");
        assert!(
            after.abs_diff(alone) <= alone / 50,
            "{after} codes in turn, {alone} alone"
        );
    }
}

/// Recall among the 10 nearest of queries in any direction, far from all rows, and codes compared per search.
fn measured_out_of_distribution(rows: &Rows, ivf: &Ivf, disk: &Disk) -> (f64, f64) {
    let mut random = Random::new(6);
    let (mut right, mut codes) = (0, 0);
    for _ in 0..QUERIES {
        let vector: Vec<f32> = (0..rows.dims).map(|_| random.normal()).collect();
        let query = Query::new(ivf.metric(), ivf.element(), &vector);
        let (found, compared) = found(&[ivf], disk, &query, 10, &IndexSearchParams::default());
        let truth = brute_force(&query, &rows.bytes, 10, rows.has);
        right += truth.iter().filter(|hit| found.contains(&(0, hit.row))).count();
        codes += compared;
    }
    (
        right as f64 / (10 * QUERIES) as f64,
        codes as f64 / QUERIES as f64,
    )
}

#[test]
fn out_of_distribution_queries_find_as_much() {
    let mut random = Random::new(74);
    let mut gained = 0;
    for (metric, kinds) in [
        (Metric::Cosine, EXTENDED),
        (Metric::Cosine, &EXTENDED[..1]),
        (Metric::Cosine, WITH_IDS),
        (Metric::Dot, EXTENDED),
    ] {
        let mut rows = grouped(metric, Element::F32, ROWS, 12, &mut random);
        let disk = Disk::ram();
        let (ivf, _) = rows.build_with(&disk, "ivf", 4 << 20, 2, kinds);
        let mut capped = ivf.calibration().clone();
        capped.far = f32::MAX;
        let capped = open(&disk, "ivf", kinds)
            .expect("the same")
            .with_calibration(capped)
            .expect("a sane calibration");
        let name = format!("{metric:?} {kinds:?}");
        let (recall, codes) = measured_out_of_distribution(&rows, &ivf, &disk);
        let (before, fewer) = measured_out_of_distribution(&rows, &capped, &disk);
        println!("{name}: {before} by {fewer} codes, {recall} by {codes}");
        assert!(recall >= 0.93 && recall >= before, "{name}: {before}, {recall}");
        // Where that was enough already, little is gained.
        assert!(
            recall > before + 0.005 || before >= 0.95,
            "{name}: {before}, {recall}"
        );
        gained += usize::from(recall > before + 0.005);
        // Those like the rows go on as they did: of a hundred one or two lie at their edge.
        let (_, usual) = measured(&rows, &ivf, &disk, 10, 5);
        let (_, usual_capped) = measured(&rows, &capped, &disk, 10, 5);
        assert!(
            usual <= 1.2 * usual_capped,
            "{name}: {usual} codes, {usual_capped}"
        );
    }
    assert!(gained >= 2, "{gained}");
}

/// A stored row is nearer to its own cluster than to any other, whatever its neighbours are.
#[test]
fn queries_near_rows_without_structure_find_as_much() {
    let mut random = Random::new(75);
    for (metric, kinds) in [
        (Metric::Cosine, EXTENDED),
        (Metric::Euclid, &EXTENDED[..1]),
        (Metric::Dot, EXTENDED),
    ] {
        let mut rows = Rows::clustered(metric, Element::F32, 0, &mut random);
        rows.dims = 384;
        let vectors: Vec<Vec<f32>> = (0..4_000)
            .map(|_| (0..rows.dims).map(|_| random.normal()).collect())
            .collect();
        for vector in &vectors {
            encode_row(metric, Element::F32, vector, &mut rows.bytes);
        }
        let disk = Disk::ram();
        let (ivf, _) = rows.build_with(&disk, "ivf", 4 << 20, 2, kinds);
        let recall = |noise: f32, random: &mut Random| {
            let mut right = 0;
            for vector in vectors.iter().step_by(vectors.len() / QUERIES) {
                let near: Vec<f32> = vector
                    .iter()
                    .map(|value| value + noise * random.normal())
                    .collect();
                let query = Query::new(metric, Element::F32, &near);
                let (found, _) = found(&[&ivf], &disk, &query, 10, &IndexSearchParams::default());
                let truth = brute_force(&query, &rows.bytes, 10, rows.has);
                right += truth.iter().filter(|hit| found.contains(&(0, hit.row))).count();
            }
            right as f64 / (10 * QUERIES) as f64
        };
        for noise in [0.001, 0.3] {
            let recall = recall(noise, &mut random);
            println!("{metric:?} {kinds:?} {noise}: {recall}");
            assert!(recall >= 0.9, "{metric:?} {kinds:?} {noise}: {recall}");
        }
    }
}
