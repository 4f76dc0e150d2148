//! Lloyd's k-means with prices that balance the clusters.
//!
//! A point belongs to the cluster of least `|x - c|^2 + price`. After each round a cluster with more points than the
//! mean becomes dearer, one with fewer cheaper, by [`STEP`] of the mean squared distance times the logarithm of the
//! ratio (an auction; the super-centroids are a power diagram: Aurenhammer, Hoffmann, Aronov, "Minkowski-type theorems and
//! least-squares clustering", 1998). The prices last: the final assignment uses them too, so that it needs no order.

use ramlet_kernels::{Nearest, kernels};

use super::points::{PointQueries, Points};
use crate::build::random::Random;
use crate::centroids::Centroids;

/// Change of a price in a round, per mean squared distance and per e-fold of the size.
const STEP: f32 = 0.003;

/// Last rounds in which no cluster of few points is given up.
const SETTLED: usize = 3;

/// Centroids and what each costs.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) centroids: Centroids,
    pub(super) prices: Vec<f32>,
    /// What is compared besides the product: square and price.
    pub(super) base: Vec<f32>,
}

impl Level {
    pub(super) fn new(centroids: Centroids, prices: Vec<f32>) -> Level {
        let mut level = Level {
            base: Vec::with_capacity(prices.len()),
            centroids,
            prices,
        };
        level.rebase();
        level
    }

    pub(super) fn with_capacity(origin: &[f32], count: usize) -> Level {
        Level {
            centroids: Centroids::with_capacity(origin, count),
            prices: Vec::with_capacity(count),
            base: Vec::with_capacity(count),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.prices.len()
    }

    pub(super) fn push_of(&mut self, other: &Level, i: usize) {
        self.centroids.push_of(&other.centroids, i);
        self.prices.push(other.prices[i]);
        self.base.push(other.base[i]);
    }

    /// Appends a centroid given from the origin.
    pub(super) fn push_relative(&mut self, vector: &[f32], price: f32) {
        self.centroids.push_relative(vector);
        self.prices.push(price);
        self.base
            .push(self.centroids.square(self.prices.len() - 1) + price);
    }

    /// Puts a centroid in the place of another.
    pub(super) fn move_to(&mut self, from: usize, to: usize) {
        if from != to {
            self.centroids.move_to(from, to);
            (self.prices[to], self.base[to]) = (self.prices[from], self.base[from]);
        }
    }

    /// Replaces a centroid by one given from the origin.
    pub(super) fn set_relative(&mut self, i: usize, vector: &[f32], price: f32) {
        self.centroids.set_relative(i, vector);
        (self.prices[i], self.base[i]) = (price, self.centroids.square(i) + price);
    }

    /// Drops the last ones, or appends such as are to be set.
    pub(super) fn resize(&mut self, count: usize) {
        self.centroids.resize(count);
        self.prices.resize(count, 0.0);
        self.base.resize(count, 0.0);
    }

    /// After centroids or prices have changed.
    pub(super) fn rebase(&mut self) {
        self.base.clear();
        let squares = (0..self.prices.len()).map(|i| self.centroids.square(i));
        self.base
            .extend(squares.zip(&self.prices).map(|(square, price)| square + price));
    }

    /// The nearest of some centroids of `range` to each of the points that are picked, if nearer than what stands there.
    pub(super) fn nearest(
        &self,
        points: &PointQueries,
        picked: impl IntoIterator<Item = u32>,
        range: std::ops::Range<usize>,
        nearest: &mut [Nearest],
    ) {
        /// Points of one call, more than the kernels compare at a time.
        const TOGETHER: usize = 16;
        let (table, interleaved_blocks) = (kernels(), self.centroids.interleaved_blocks(&self.base));
        let mut picked = picked.into_iter().peekable();
        while let Some(first) = picked.peek() {
            let mut numbers = [*first; TOGETHER];
            let taken = numbers
                .iter_mut()
                .zip(&mut picked)
                .map(|(number, i)| *number = i)
                .count();
            let queries = numbers.map(|i| points.distances(i as usize));
            let mut found = numbers.map(|i| nearest[i as usize]);
            table.nearest_interleaved(
                &queries[..taken],
                &interleaved_blocks,
                range.clone(),
                &mut found[..taken],
            );
            for (i, found) in numbers[..taken].iter().zip(found) {
                nearest[*i as usize] = found;
            }
        }
    }

    /// The cluster of each point, by all threads.
    fn assign(&self, points: Points<'_>, clusters: &mut [u32], threads: usize) {
        let share = points.count().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let shares = points.bytes.chunks(share * points.stride());
            for (bytes, clusters) in shares.zip(clusters.chunks_mut(share)) {
                let mut work = move || {
                    let (mut queries, mut nearest) = (PointQueries::default(), Vec::new());
                    let blocks = bytes.chunks(block_points(points.dims) * points.stride());
                    for (bytes, clusters) in blocks.zip(clusters.chunks_mut(block_points(points.dims))) {
                        queries.clear(points.dims);
                        let points = Points { bytes, ..points };
                        points
                            .iter()
                            .for_each(|(codes, scale)| queries.push(codes, scale));
                        nearest.clear();
                        nearest.resize(clusters.len(), FAR);
                        self.nearest(&queries, 0..clusters.len() as u32, 0..self.count(), &mut nearest);
                        for (cluster, nearest) in clusters.iter_mut().zip(&nearest) {
                            *cluster = nearest.code;
                        }
                    }
                };
                if threads > 1 {
                    scope.spawn(work);
                } else {
                    work();
                }
            }
        });
    }
}

/// Before any centroid was compared.
pub(super) const FAR: Nearest = Nearest {
    score: f32::INFINITY,
    code: 0,
};

/// Points that are compared at a time: so many that a super-centroid's leaves, once they are near, serve dozens of them, in the least memory.
pub(super) fn block_points(dims: usize) -> usize {
    const BLOCK_BYTES: usize = 48 << 10;
    (BLOCK_BYTES / dims.max(1)).clamp(16, 512)
}

/// One round's sums, of as many clusters at a time as there is memory for: `4 * dims` bytes each.
pub(super) struct Round {
    dims: usize,
    sums: Vec<f32>,
    /// The cluster of the first sum.
    first: usize,
    pub(super) counts: Vec<u32>,
    /// Clusters that have met so many points, and that point, again and again: where to put another centroid.
    pub(super) crossings: Vec<(u32, Vec<u8>)>,
    crossing: u32,
    /// Sum of the points' squared lengths, and their number.
    squares: f64,
    points: u64,
    /// What of the squared lengths the means explain, and the squared ways from the centroids to them, of the clusters moved.
    explained: f64,
    ways: f64,
}

impl Round {
    pub(super) fn bytes_for(at_once: usize, dims: usize) -> usize {
        4 * at_once * dims
    }

    /// With sums of `at_once` clusters. Notes a point of each cluster whenever it has `crossing` more; 0 notes none.
    pub(super) fn new(count: usize, at_once: usize, dims: usize, crossing: u32) -> Round {
        Round {
            dims,
            sums: vec![0.0; at_once * dims],
            first: 0,
            counts: vec![0; count],
            crossings: Vec::new(),
            crossing,
            squares: 0.0,
            points: 0,
            explained: 0.0,
            ways: 0.0,
        }
    }

    fn clear(&mut self) {
        self.begin(0);
        self.counts.fill(0);
        self.crossings.clear();
        (self.squares, self.points) = (0.0, 0);
        (self.explained, self.ways) = (0.0, 0.0);
    }

    /// From now on the sums are those of the clusters from `first` on.
    pub(super) fn begin(&mut self, first: usize) {
        self.first = first;
        self.sums.fill(0.0);
    }

    /// The clusters that there are sums of.
    fn summed(&self) -> std::ops::Range<usize> {
        self.first..(self.first + self.sums.len() / self.dims).min(self.counts.len())
    }

    /// Counts points, of which each cluster is known, and notes crossings. Each point once a round.
    pub(super) fn count(&mut self, points: Points<'_>, clusters: &[u32]) {
        for (point, cluster) in points.bytes.chunks_exact(points.stride()).zip(clusters) {
            let count = &mut self.counts[*cluster as usize];
            *count += 1;
            if self.crossing > 0 && count.is_multiple_of(self.crossing) {
                self.crossings.push((*cluster, point.to_vec()));
            }
        }
        self.points += points.count() as u64;
        self.squares += points
            .iter()
            .map(|(codes, scale)| f64::from(crate::centroids::square(codes, scale)))
            .sum::<f64>();
    }

    /// Adds points to the sums of their clusters. Each thread has clusters of its own, so that sums don't depend on
    /// how many threads there are.
    pub(super) fn add(&mut self, points: Points<'_>, clusters: &[u32], threads: usize) {
        let (dims, first) = (self.dims, self.first);
        let summed = self.summed().len();
        let (share, table) = (summed.div_ceil(threads.max(1)).max(1), kernels());
        std::thread::scope(|scope| {
            let shares = self.sums[..summed * dims].chunks_mut(share * dims);
            for (first, sums) in (first..).step_by(share).zip(shares) {
                let mut work = move || {
                    for ((codes, scale), cluster) in points.iter().zip(clusters) {
                        let at = (*cluster as usize).checked_sub(first);
                        let sum = at.and_then(|at| sums.get_mut(at * dims..(at + 1) * dims));
                        if let Some(sum) = sum {
                            table.add_bytes(sum, codes, scale);
                        }
                    }
                };
                if threads > 1 {
                    scope.spawn(work);
                } else {
                    work();
                }
            }
        });
    }

    /// Moves the centroids that there are sums of to the means of their points.
    pub(super) fn move_centroids(&mut self, level: &mut Level) {
        let mut centre = Vec::new();
        for i in self.summed() {
            let count = self.counts[i] as f32;
            if count == 0.0 {
                continue;
            }
            let sum = &mut self.sums[(i - self.first) * self.dims..][..self.dims];
            level.centroids.decode_relative(i, &mut centre);
            let inverse = 1.0 / count;
            let (mut square, mut along) = (0.0f32, 0.0f32);
            for (sum, centre) in sum.iter_mut().zip(&centre) {
                square += *sum * *sum;
                along += (*sum - centre * count).powi(2);
                *sum *= inverse;
            }
            self.explained += f64::from(square) / f64::from(count);
            self.ways += f64::from(along / count);
            level.centroids.set_relative(i, sum);
        }
    }

    /// Mean squared distance of the points to the means of their clusters, once all are moved.
    fn distance(&self) -> f32 {
        ((self.squares - self.explained).max(0.0) / self.points.max(1) as f64) as f32
    }

    /// Mean squared way from the centroids to the means of their points, per [`Round::distance`].
    pub(super) fn drift(&self) -> f32 {
        (self.ways / self.points.max(1) as f64) as f32 / self.distance().max(f32::MIN_POSITIVE)
    }

    /// Changes the prices once all centroids are moved; the empty ones go to where there are many. The sums are gone.
    pub(super) fn finish(&mut self, level: &mut Level) {
        self.sums = Vec::new();
        self.set_prices(level, 0);
    }

    /// The same; clusters of few points count as empty.
    fn set_prices(&mut self, level: &mut Level, few: u32) {
        let distance = self.distance();
        let mean = self.points as f32 / self.counts.len() as f32;
        for (price, count) in level.prices.iter_mut().zip(&self.counts) {
            let ratio = (*count as f32 + 0.5) / (mean + 0.5);
            *price += STEP * distance * ratio.ln().clamp(-1.0, 1.0);
        }
        split_into_empty(level, &mut self.counts, few);
        level.rebase();
    }
}

/// `k` clusters at most (1 at least) of the points (1 at least), with about so many bytes of sums.
///
/// Clusters of `few` points or fewer, which began at a point amid nothing, begin anew elsewhere, but for the last rounds.
pub(super) fn kmeans(
    points: Points<'_>,
    origin: &[f32],
    (k, sums_bytes, few): (usize, usize, u32),
    rounds: usize,
    threads: usize,
    seed: u64,
) -> Level {
    let k = k.min(points.count());
    let mut level = choose(points, origin, k, seed);
    if k == points.count() {
        return level;
    }
    let at_once = (sums_bytes / Round::bytes_for(1, points.dims).max(1)).clamp(1, k);
    let mut round = Round::new(k, at_once, points.dims, 0);
    let mut clusters = vec![0; points.count()];
    // A thread costs more to start than a few points to compare.
    let threads = if points.count() * k * points.dims < 1 << 21 {
        1
    } else {
        threads
    };
    for i in 0..rounds {
        level.assign(points, &mut clusters, threads);
        round.clear();
        round.count(points, &clusters);
        for first in (0..k).step_by(at_once) {
            round.begin(first);
            round.add(points, &clusters, threads);
            round.move_centroids(&mut level);
        }
        let few = if i + SETTLED < rounds { few } else { 0 };
        round.set_prices(&mut level, few);
    }
    level
}

/// `k` different points as the first centroids.
fn choose(points: Points<'_>, origin: &[f32], k: usize, seed: u64) -> Level {
    let mut random = Random::new(seed);
    let mut chosen: Vec<u32> = (0..points.count() as u32).collect();
    let mut centroids = Centroids::with_capacity(origin, k);
    let mut vector = Vec::with_capacity(points.dims);
    for i in 0..k {
        let other = i + random.below((chosen.len() - i) as u64) as usize;
        chosen.swap(i, other);
        let (codes, scale) = points.get(chosen[i] as usize);
        vector.clear();
        vector.extend(codes.iter().map(|code| scale * (f32::from(*code) - 128.0)));
        centroids.push_relative(&vector);
    }
    Level::new(centroids, vec![0.0; k])
}

/// Puts each empty cluster's centroid, or one of few points, beside that of the largest cluster, a hair apart, so that they share its points.
fn split_into_empty(level: &mut Level, counts: &mut [u32], few: u32) {
    const APART: f32 = 1.0 / 32.0;
    let (mut centre, mut moved) = (Vec::new(), Vec::new());
    for empty in 0..counts.len() {
        if counts[empty] > few {
            continue;
        }
        let largest = (0..counts.len()).max_by_key(|i| counts[*i]).unwrap_or(empty);
        if counts[largest] < 2 + 2 * few {
            return;
        }
        level.centroids.decode_relative(largest, &mut centre);
        for (place, sign) in [(empty, 1.0), (largest, -1.0)] {
            moved.clear();
            let wiggle = |i: usize| if i.is_multiple_of(2) { sign } else { -sign };
            let values = centre.iter().enumerate();
            moved.extend(values.map(|(i, value)| value * (1.0 + APART * wiggle(i))));
            level.centroids.set_relative(place, &moved);
        }
        level.prices[empty] = level.prices[largest];
        counts[empty] = counts[largest] / 2;
        counts[largest] -= counts[empty];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ivf::points::append_point;

    /// How many clusters are summed at a time, one of them alone at the end or not, makes no difference.
    #[test]
    fn sums_may_be_made_some_clusters_at_a_time() {
        const DIMS: usize = 8;
        let mut random = Random::new(3);
        let mut bytes = Vec::new();
        for _ in 0..500 {
            let vector: Vec<f32> = (0..DIMS).map(|_| random.below(2001) as f32 - 1000.0).collect();
            append_point(&vector, &mut bytes);
        }
        let points = Points {
            bytes: &bytes,
            dims: DIMS,
        };
        let clustered = |at_once: usize, threads: usize| {
            let sums_bytes = Round::bytes_for(at_once, DIMS);
            let level = kmeans(points, &[0.0; DIMS], (22, sums_bytes, 0), 6, threads, 1);
            let codes: Vec<u8> = (0..level.count())
                .flat_map(|i| level.centroids.row_i8(i))
                .collect();
            (codes, level.prices)
        };
        let whole = clustered(22, 1);
        for at_once in [1, 5, 7, 21] {
            for threads in [1, 4] {
                assert_eq!(
                    clustered(at_once, threads),
                    whole,
                    "{at_once} at a time, {threads} threads"
                );
            }
        }
    }

    /// A first centroid amid nothing stays alone for ever, unless it is given up.
    #[test]
    fn clusters_of_few_points_begin_anew() {
        const DIMS: usize = 16;
        const POINTS: usize = 162;
        let smallest = |few: u32| {
            let sizes = (0..30).map(|seed| {
                let mut random = Random::new(seed);
                let mut bytes = Vec::new();
                for i in 0..POINTS {
                    // Three clouds, and points far from them and from each other.
                    let value = |dim: usize| match i < POINTS - 12 {
                        true => (i % 3 * (dim % 3) * 10) as f32 + random.below(2001) as f32 / 1000.0,
                        false => random.below(201) as f32 - 100.0,
                    };
                    append_point(&(0..DIMS).map(value).collect::<Vec<f32>>(), &mut bytes);
                }
                let points = Points {
                    bytes: &bytes,
                    dims: DIMS,
                };
                let of = (4, Round::bytes_for(4, DIMS), few);
                let level = kmeans(points, &[0.0; DIMS], of, 8, 1, seed);
                let mut clusters = vec![0; POINTS];
                level.assign(points, &mut clusters, 1);
                let size = |cluster: u32| clusters.iter().filter(|own| **own == cluster).count();
                (0..4).map(size).min().unwrap_or(0)
            });
            sizes.filter(|size| *size <= 1).count()
        };
        let (kept, given_up) = (smallest(0), smallest(4));
        assert!(
            kept > 0 && given_up < kept,
            "{kept} of 30 have a cluster of a point, {given_up} if these are given up"
        );
    }
}
