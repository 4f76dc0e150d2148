//! Fusion of several lists of points.

use ramlet_memory::Consumer;

use super::found::{Found, FoundList};
use super::request::{Fusion, RRF_K_DEFAULT};
use crate::error::{Error, Result};

/// A point of a list that is ordered by scores.
pub trait Ranked: Copy {
    type Key: Copy + Ord;

    fn key(&self) -> Self::Key;
    fn score(&self) -> f32;
    fn scored(self, score: f32) -> Self;
}

impl Ranked for Found {
    type Key = u64;

    fn key(&self) -> u64 {
        Found::key(self)
    }

    fn score(&self) -> f32 {
        self.score
    }

    fn scored(self, score: f32) -> Found {
        Found { score, ..self }
    }
}

/// Merges the lists; the points of the result are ordered by their new scores, and where these are equal by where they came
/// first.
pub fn fuse(fusion: &Fusion, lists: &[FoundList], from: &Consumer) -> Result<FoundList> {
    let all: usize = lists.iter().map(|list| list.found.len()).sum();
    let mut merged = FoundList::with_room(2 * all, from)?;
    let lists: Vec<&[Found]> = lists.iter().map(|list| &list.found[..]).collect();
    merged.found = fused(fusion, &lists)?;
    Ok(merged)
}

/// The same of lists of any kind, whose memory the caller holds.
pub fn fused<T: Ranked>(fusion: &Fusion, lists: &[&[T]]) -> Result<Vec<T>> {
    match fusion {
        Fusion::Rrf { k, weights } => {
            let k = k.unwrap_or(RRF_K_DEFAULT);
            check_weights(weights.as_deref(), lists.len())?;
            let score = |list: usize, rank: usize, _: f32| {
                let weight = weights.as_ref().map_or(1.0, |weights| weights[list]);
                reciprocal(rank, weight, k)
            };
            Ok(sum(lists, &score))
        }
        Fusion::Dbsf => {
            let spreads: Vec<Spread> = lists.iter().map(|list| Spread::of(list)).collect();
            Ok(sum(lists, &|list, _, score| spreads[list].scale(score)))
        }
    }
}

fn check_weights(weights: Option<&[f32]>, lists: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    if weights.len() != lists {
        return Err(Error::bad_input(format!(
            "Bad request: rrf has {} weights for {lists} prefetches; there must be one for each",
            weights.len()
        )));
    }
    if weights.iter().any(|weight| !weight.is_finite()) {
        return Err(Error::bad_input("Bad request: a weight of rrf is not a number"));
    }
    Ok(())
}

/// Ranks from 0.
fn reciprocal(rank: usize, weight: f32, k: usize) -> f32 {
    if weight <= 0.0 {
        return 0.0;
    }
    1.0 / ((rank as f32 + 1.0) / weight + k as f32 - 1.0)
}

/// Sums what `score` makes of each list, rank and score.
fn sum<T: Ranked>(lists: &[&[T]], score: &dyn Fn(usize, usize, f32) -> f32) -> Vec<T> {
    let all: usize = lists.iter().map(|list| list.len()).sum();
    let mut parts: Vec<(T::Key, usize, T)> = Vec::with_capacity(all);
    for (number, list) in lists.iter().enumerate() {
        for (rank, found) in list.iter().enumerate() {
            let score = score(number, rank, found.score());
            parts.push((found.key(), parts.len(), found.scored(score)));
        }
    }
    parts.sort_unstable_by_key(|(key, at, _)| (*key, *at));
    parts.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.2 = first.2.scored(first.2.score() + next.2.score());
        }
        same
    });
    parts.sort_unstable_by(|a, b| b.2.score().total_cmp(&a.2.score()).then(a.1.cmp(&b.1)));
    parts.into_iter().map(|(.., found)| found).collect()
}

/// Three deviations around the mean of a list's scores become 0 to 1.
struct Spread {
    low: f64,
    width: f64,
}

impl Spread {
    fn of<T: Ranked>(found: &[T]) -> Spread {
        let n = found.len() as f64;
        let mean = found.iter().map(|f| f64::from(f.score())).sum::<f64>() / n;
        let squares: f64 = found.iter().map(|f| (f64::from(f.score()) - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        Spread {
            low: mean - 3.0 * deviation,
            width: 6.0 * deviation,
        }
    }

    /// Where all scores are the same, one half.
    fn scale(&self, score: f32) -> f32 {
        if self.width.is_nan() || self.width <= 0.0 {
            return 0.5;
        }
        ((f64::from(score) - self.low) / self.width) as f32
    }
}
