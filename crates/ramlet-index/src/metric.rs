//! Metrics, and the element types of stored vectors.

use ramlet_kernels::Measure;

/// How two vectors are compared.
///
/// A *score* is what the API shows. A *distance* is the same order with smaller always nearer, and without the square
/// root: indexes rank by distances, so that one [`crate::TopK`] serves every metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Dot product of the normalised vectors; larger is nearer. A zero vector has score 0 with everything.
    Cosine,
    /// Dot product; larger is nearer.
    Dot,
    /// Length of the difference; smaller is nearer.
    Euclid,
    /// Sum of absolute differences; smaller is nearer.
    Manhattan,
}

/// How the elements of a stored vector are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE 754 binary32, little endian.
    F32,
    /// IEEE 754 binary16, little endian; rounded to nearest even.
    F16,
    /// 0..=255; truncated towards zero and clamped. Never normalised, under cosine either.
    U8,
}

impl Metric {
    /// Whether a larger score is a nearer vector.
    pub fn larger_is_nearer(self) -> bool {
        matches!(self, Metric::Cosine | Metric::Dot)
    }

    /// The API's score of a distance.
    pub fn score(self, distance: f32) -> f32 {
        match self {
            // Subtracted, not negated: 0 stays +0.
            Metric::Cosine | Metric::Dot => 0.0 - distance,
            Metric::Euclid => distance.sqrt(),
            Metric::Manhattan => distance,
        }
    }

    /// The distance that has this score; of a distance below 0, which nothing has, one below all distances.
    pub fn distance_of_score(self, score: f32) -> f32 {
        match self {
            Metric::Cosine | Metric::Dot => 0.0 - score,
            Metric::Euclid => score * score.abs(),
            Metric::Manhattan => score,
        }
    }

    /// The distance of what [`Metric::measure`] gave for a pair of vectors.
    pub(crate) fn distance(self, measured: f32) -> f32 {
        match self {
            Metric::Cosine | Metric::Dot => 0.0 - measured,
            Metric::Euclid | Metric::Manhattan => measured,
        }
    }

    /// What a kernel has to sum.
    pub(crate) fn measure(self) -> Measure {
        match self {
            Metric::Cosine | Metric::Dot => Measure::Dot,
            Metric::Euclid => Measure::L2sq,
            Metric::Manhattan => Measure::L1,
        }
    }

    /// Whether encoding normalises: cosine on floats. Bytes would lose everything; their norms are divided out
    /// when they are scored.
    pub(crate) fn normalises(self, element: Element) -> bool {
        self == Metric::Cosine && element != Element::U8
    }
}

impl Element {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F16 => 2,
            Element::U8 => 1,
        }
    }

    /// Bytes of an encoded vector.
    pub const fn row_bytes(self, dims: usize) -> usize {
        self.bytes() * dims
    }
}
