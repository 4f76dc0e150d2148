//! Lloyd's k-means over a sample of rows.

use super::centroids::Centroids;
use super::random::Random;
use super::sample::Points;

/// Rounds of assignment: a fixed number, so that the time of a build can be told beforehand.
const ROUNDS: usize = 8;

/// At most `k` (at least 1) centroids of the points `members` (at least 1), which are put in another order.
///
/// Holds `8 * k * dims` bytes beside the result. A cluster that loses all its points takes half of the largest.
/// The same seed gives the same centroids.
pub(crate) fn kmeans(points: &Points<'_>, members: &mut [u32], k: usize, seed: u64) -> Centroids {
    let dims = points.decoder.dims;
    let k = k.min(members.len());
    let mut centroids = choose(points, members, k, seed);
    if k == members.len() {
        return centroids;
    }
    let mut sums = vec![0.0f64; k * dims];
    let mut counts = vec![0u32; k];
    let mut vector = Vec::with_capacity(dims);
    for _ in 0..ROUNDS {
        sums.fill(0.0);
        counts.fill(0);
        for member in &*members {
            points.decode(*member, &mut vector);
            let (nearest, _) = centroids.nearest(&vector, 0..k);
            counts[nearest] += 1;
            for (sum, value) in sums[nearest * dims..][..dims].iter_mut().zip(&vector) {
                *sum += f64::from(*value);
            }
        }
        for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let sum = &sums[i * dims..][..dims];
            centroids.set(i, sum.iter().map(|sum| (sum / f64::from(*count)) as f32));
        }
        split_into_empty(&mut centroids, &mut counts);
    }
    centroids
}

/// `k` different points as the first centroids.
fn choose(points: &Points<'_>, members: &mut [u32], k: usize, seed: u64) -> Centroids {
    let mut random = Random::new(seed);
    let mut centroids = Centroids::with_capacity(points.decoder.dims, k);
    let mut vector = Vec::with_capacity(points.decoder.dims);
    for i in 0..k {
        let other = i + random.below((members.len() - i) as u64) as usize;
        members.swap(i, other);
        points.decode(members[i], &mut vector);
        centroids.push(vector.iter().copied());
    }
    centroids
}

/// Puts each empty cluster's centroid beside that of the largest cluster, a hair apart, so that they share its points.
fn split_into_empty(centroids: &mut Centroids, counts: &mut [u32]) {
    const APART: f32 = 1.0 / 1024.0;
    for empty in 0..counts.len() {
        if counts[empty] > 0 {
            continue;
        }
        let largest = (0..counts.len()).max_by_key(|i| counts[*i]).unwrap_or(empty);
        if counts[largest] < 2 {
            return;
        }
        let centre: Vec<f32> = centroids.row(largest).collect();
        let shifted = |sign: f32| {
            let wiggle = move |i: usize| if i.is_multiple_of(2) { sign } else { -sign };
            centre
                .iter()
                .enumerate()
                .map(move |(i, value)| value * (1.0 + APART * wiggle(i)))
        };
        centroids.set(empty, shifted(1.0));
        centroids.set(largest, shifted(-1.0));
        counts[empty] = counts[largest] / 2;
        counts[largest] -= counts[empty];
    }
}
