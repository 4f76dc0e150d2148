//! Vectors like word embeddings: hard to search, made from a seed, any row without the rows before it.

use serde::{Deserialize, Serialize};

use crate::Random;
use crate::rotation::Rotation;

/// How hard the neighbours are to find. At a million rows of 100 dimensions the local intrinsic dimension is about 36 (hard) and
/// 28 (easy); glove-100-angular lies between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difficulty {
    Hard,
    Easy,
}

impl Difficulty {
    /// Mean of the logarithm of signal to noise, and how fast the spectrum decays.
    fn figures(self) -> (f32, f64) {
        match self {
            Difficulty::Hard => (-0.4, 0.45),
            Difficulty::Easy => (0.1, 0.65),
        }
    }
}

/// What a made-up set looks like, beside how many rows of it are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    pub dims: usize,
    pub seed: u64,
    pub difficulty: Difficulty,
    /// Clusters, of Zipf-like sizes.
    pub clusters: usize,
}

/// Standard deviation of the logarithm of signal to noise: some points lie in the core of their cluster, some hardly in it.
const SIGNAL_SPREAD: f32 = 0.5;
/// Centres of the upper level, around which the clusters' centres lie.
const TOPS: usize = 200;
/// Added to a cluster's rank, so that the first ones don't hold everything.
const RANK_OFFSET: f64 = 20.0;

/// Streams of the seed: rows have their own number, the rest counts down from the end.
const TOP_STREAM: u64 = u64::MAX;
const CENTRE_STREAM: u64 = u64::MAX - 1;
const OFFSET_STREAM: u64 = u64::MAX - 2;
const ROTATION_STREAM: u64 = u64::MAX - 3;

/// A Zipf mixture of clusters on two levels, with a decaying spectrum, heavy-tailed signal to noise, a common offset and a random
/// rotation; rows have unit length.
///
/// Holds `clusters x dims x 4` bytes (6 MB at 15,000 x 100), however many rows are made of it.
#[derive(Debug)]
pub struct Clustered {
    shape: Shape,
    /// Of unit signal, before the rotation.
    centres: Vec<f32>,
    /// Share of rows in this cluster and all before it.
    cumulative: Vec<f64>,
    noise: Vec<f32>,
    offset: Vec<f32>,
    rotation: Rotation,
}

/// A row being made: memory to be used again.
#[derive(Debug, Default)]
pub struct RowScratch(Vec<f32>);

impl Clustered {
    pub fn new(shape: Shape) -> Clustered {
        let Shape { dims, seed, .. } = shape;
        let (_, decay) = shape.difficulty.figures();
        let spectrum = spectrum(dims, decay);
        let mut random = Random::new(seed, TOP_STREAM);
        let tops: Vec<f32> = (0..TOPS * dims)
            .map(|at| random.normal() * spectrum[at % dims])
            .collect();
        let mut random = Random::new(seed, CENTRE_STREAM);
        let mut centres = Vec::with_capacity(shape.clusters * dims);
        for _ in 0..shape.clusters {
            let top = random.below(TOPS as u64) as usize;
            for (of_top, scale) in tops[top * dims..][..dims].iter().zip(&spectrum) {
                centres.push(0.7 * of_top + 0.8 * random.normal() * scale);
            }
        }
        let mut random = Random::new(seed, OFFSET_STREAM);
        Clustered {
            shape,
            centres,
            cumulative: cumulative(shape.clusters),
            noise: self::spectrum(dims, decay * 0.6),
            offset: (0..dims).map(|_| 0.25 * random.normal()).collect(),
            rotation: Rotation::new(dims, &mut Random::new(seed, ROTATION_STREAM)),
        }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Writes row number `row` to `out`, which has exactly the set's dimensions. All rows are drawn alike: queries are rows that no
    /// one else uses.
    pub fn row(&self, row: u64, scratch: &mut RowScratch, out: &mut [f32]) {
        let dims = self.shape.dims;
        let mut random = Random::new(self.shape.seed, row);
        let drawn = random.unit();
        let cluster = self.cumulative.partition_point(|share| *share <= drawn);
        let cluster = cluster.min(self.shape.clusters - 1);
        let (mean, _) = self.shape.difficulty.figures();
        let signal = (mean + SIGNAL_SPREAD * random.normal()).exp();
        let centre = &self.centres[cluster * dims..][..dims];
        for (at, value) in out.iter_mut().enumerate() {
            *value = centre[at] * signal + random.normal() * self.noise[at] + self.offset[at];
        }
        scratch.0.resize(dims, 0.0);
        self.rotation.apply(out, &mut scratch.0);
        let norm = out
            .iter()
            .map(|v| f64::from(*v) * f64::from(*v))
            .sum::<f64>()
            .sqrt() as f32;
        out.iter_mut().for_each(|value| *value /= norm);
    }

    /// Rows `first..` of `out.len() / dims` rows.
    pub fn rows(&self, first: u64, out: &mut [f32]) {
        let mut scratch = RowScratch::default();
        for (row, out) in (first..).zip(out.chunks_exact_mut(self.shape.dims)) {
            self.row(row, &mut scratch, out);
        }
    }
}

/// Scales by dimension that fall with a power of it; their mean square is 1.
fn spectrum(dims: usize, exponent: f64) -> Vec<f32> {
    let raw: Vec<f64> = (1..=dims).map(|i| (i as f64).powf(-exponent)).collect();
    let norm = (raw.iter().map(|s| s * s).sum::<f64>() / dims as f64).sqrt();
    raw.iter().map(|s| (s / norm) as f32).collect()
}

fn cumulative(clusters: usize) -> Vec<f64> {
    let weight = |rank: usize| 1.0 / (rank as f64 + 1.0 + RANK_OFFSET);
    let total: f64 = (0..clusters).map(weight).sum();
    let mut sum = 0.0;
    (0..clusters)
        .map(|rank| {
            sum += weight(rank) / total;
            sum
        })
        .collect()
}
