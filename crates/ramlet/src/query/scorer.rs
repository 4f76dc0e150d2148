//! Scores computed from several vectors.

use ramlet_index::{Element, Metric, Query};

use crate::error::Result;
use crate::schema::VectorField;
use crate::types::vector::Vector;
use crate::write::encoding::prepare_query;

/// A vector made ready to be compared with stored ones.
pub struct Probe {
    query: Query,
    /// What it was made of.
    values: Vec<f32>,
}

impl Probe {
    pub fn new(field: &VectorField, vector: &Vector) -> Result<Probe> {
        let mut query = Query::new(field.metric, field.element, &[]);
        prepare_query(&mut query, field, vector)?;
        let values = vector.dense().unwrap_or_default().to_vec();
        Ok(Probe { query, values })
    }

    /// Smaller is nearer.
    pub fn distance(&self, row: &[u8]) -> f32 {
        self.query.distance_of_row(row)
    }

    /// Larger is nearer, for every distance: the product, the negative squared distance, the negative sum of differences.
    pub fn similarity(&self, row: &[u8]) -> f32 {
        match self.distance(row) {
            // A sparse vector that shares nothing with it.
            f32::INFINITY if self.query.sparse().is_some() => 0.0,
            distance => 0.0 - distance,
        }
    }

    fn is_dense(&self) -> bool {
        !self.values.is_empty()
    }
}

/// How a stored vector is scored.
pub enum Scorer {
    Nearest(Probe),
    /// The nearest example decides: towards positive ones, away from negative ones.
    Best {
        positive: Vec<Probe>,
        negative: Vec<Probe>,
    },
    /// Weighted sum of similarities.
    Linear(Vec<(f32, Probe)>),
    /// Pairs won, and within those the similarity to the target.
    Discover {
        target: Probe,
        pairs: Vec<(Probe, Probe)>,
    },
    /// What is lost against the pairs: at most 0.
    Context(Vec<(Probe, Probe)>),
}

impl Scorer {
    /// What rows are compared with, if that is all.
    pub fn one_query(&self) -> Option<&Query> {
        match self {
            Scorer::Nearest(probe) => Some(&probe.query),
            _ => None,
        }
    }

    /// Smaller is better.
    pub fn distance(&self, row: &[u8]) -> f32 {
        match self {
            Scorer::Nearest(probe) => probe.distance(row),
            Scorer::Best { positive, negative } => 0.0 - best(positive, negative, row),
            Scorer::Linear(parts) => {
                let part = |(weight, probe): &(f32, Probe)| weight * probe.similarity(row);
                0.0 - parts.iter().map(part).sum::<f32>()
            }
            Scorer::Discover { target, pairs } => {
                let rank: i32 = pairs.iter().map(|pair| won(pair, row)).sum();
                0.0 - (rank as f32 + scaled_sigmoid(target.similarity(row)))
            }
            Scorer::Context(pairs) => 0.0 - pairs.iter().map(|pair| lost(pair, row)).sum::<f32>(),
        }
    }

    /// The API's score of a distance.
    pub fn score(&self, metric: Metric, distance: f32) -> f32 {
        match self {
            Scorer::Nearest(_) => metric.score(distance),
            _ => 0.0 - distance,
        }
    }

    /// Vectors near which the best rows lie, if that can be told; and how many times the rows wanted are to be looked at.
    pub fn seeds(&self, field: &VectorField) -> Option<(Vec<Vec<f32>>, usize)> {
        match self {
            Scorer::Nearest(probe) if !probe.is_dense() => None,
            Scorer::Best { positive, .. } if positive.iter().any(|probe| !probe.is_dense()) => None,
            Scorer::Linear(parts) if parts.iter().any(|(_, probe)| !probe.is_dense()) => None,
            Scorer::Nearest(probe) => Some((vec![probe.values.clone()], 1)),
            Scorer::Best { positive, negative } if !positive.is_empty() => {
                let times = if negative.is_empty() { 1 } else { 4 };
                Some((positive.iter().map(|p| p.values.clone()).collect(), times))
            }
            Scorer::Linear(parts) => Some((vec![one_vector(parts, field)?], 2)),
            _ => None,
        }
    }

    /// Whether the rows near the seeds have proved to be the best: rows that negative examples push back hide those behind.
    ///
    /// And a direction that leads away from examples more than towards them may have no rows around it, which is what an index
    /// finds. 40,000 x 128, cosine, ten wanted, by the tenth's cosine with the direction: from .5 on .997 of the best were found,
    /// below .46.
    pub fn is_settled(&self, field: &VectorField, worst_key: f32) -> bool {
        match self {
            Scorer::Best { .. } => worst_key < 0.0,
            Scorer::Linear(parts) if field.metric == Metric::Cosine && leads_away(parts) => {
                let squares = |seed: Vec<f32>| seed.iter().map(|v| v * v).sum::<f32>();
                one_vector(parts, field).is_some_and(|seed| 0.0 - worst_key >= AMID * squares(seed).sqrt())
            }
            _ => true,
        }
    }
}

/// Cosine with a direction from which on rows lie around it.
const AMID: f32 = 0.5;

fn leads_away(parts: &[(f32, Probe)]) -> bool {
    parts.iter().map(|(weight, _)| weight).sum::<f32>() <= 0.0
}

/// One vector to which nearness is the order of a weighted sum of similarities; `None` where there is none.
///
/// Products add up. Squared distances with a positive sum of weights do too, up to a constant: `sum w |x - e|^2 = W |x - c|^2 + C`
/// with the weighted mean `c`.
fn one_vector(parts: &[(f32, Probe)], field: &VectorField) -> Option<Vec<f32>> {
    if field.element == Element::U8 || field.metric == Metric::Manhattan {
        return None;
    }
    let total: f64 = parts.iter().map(|(weight, _)| f64::from(*weight)).sum();
    let scale = match field.metric {
        Metric::Euclid if total > 1e-6 => 1.0 / total,
        Metric::Euclid => return None,
        _ => 1.0,
    };
    let mut sum = vec![0f64; field.dim];
    for (weight, probe) in parts {
        let norm = match field.metric {
            Metric::Cosine => probe
                .values
                .iter()
                .map(|v| f64::from(*v).powi(2))
                .sum::<f64>()
                .sqrt(),
            _ => 1.0,
        };
        let factor = f64::from(*weight) * scale / norm.max(f64::MIN_POSITIVE);
        for (sum, value) in sum.iter_mut().zip(&probe.values) {
            *sum += factor * f64::from(*value);
        }
    }
    let vector: Vec<f32> = sum.into_iter().map(|v| v as f32).collect();
    (vector.iter().all(|v| v.is_finite()) && vector.iter().any(|v| v.abs() > 1e-12)).then_some(vector)
}

fn best(positive: &[Probe], negative: &[Probe], row: &[u8]) -> f32 {
    let most = |examples: &[Probe]| {
        let all = examples.iter().map(|e| e.similarity(row));
        all.fold(f32::NEG_INFINITY, f32::max)
    };
    let (positive, negative) = (most(positive), most(negative));
    if positive > negative {
        scaled_sigmoid(positive)
    } else {
        0.0 - scaled_sigmoid(negative)
    }
}

fn won((positive, negative): &(Probe, Probe), row: &[u8]) -> i32 {
    let (positive, negative) = (positive.similarity(row), negative.similarity(row));
    i32::from(positive > negative) - i32::from(positive < negative)
}

fn lost((positive, negative): &(Probe, Probe), row: &[u8]) -> f32 {
    let difference = positive.similarity(row) - negative.similarity(row) - f32::EPSILON;
    sigmoid(difference.min(0.0))
}

/// -1 to 1; as it is where it is no number.
fn sigmoid(x: f32) -> f32 {
    if x.is_finite() { x / (1.0 + x.abs()) } else { x }
}

/// 0 to 1.
fn scaled_sigmoid(x: f32) -> f32 {
    0.5 * (sigmoid(x) + 1.0)
}
