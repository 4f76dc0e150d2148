//! A random rotation of any dimension in n log n: so that no axis of a made-up set means anything.

use crate::Random;

const ROUNDS: usize = 3;

/// Orthogonal: lengths and distances stay. Each round shuffles the coordinates, flips signs and applies a Walsh-Hadamard
/// transform to the first and to the last power of two of them.
#[derive(Debug, Clone)]
pub(crate) struct Rotation {
    rounds: Vec<Round>,
    /// Largest power of two within the dimension.
    width: usize,
}

#[derive(Debug, Clone)]
struct Round {
    from: Vec<u32>,
    signs: Vec<f32>,
}

impl Rotation {
    pub(crate) fn new(dims: usize, random: &mut Random) -> Rotation {
        let rounds = (0..ROUNDS)
            .map(|_| {
                let mut from: Vec<u32> = (0..dims as u32).collect();
                for at in (1..dims).rev() {
                    from.swap(at, random.below(at as u64 + 1) as usize);
                }
                let signs = (0..dims)
                    .map(|_| if random.next_u64() >> 63 == 0 { 1.0 } else { -1.0 })
                    .collect();
                Round { from, signs }
            })
            .collect();
        Rotation {
            rounds,
            width: 1 << dims.max(1).ilog2(),
        }
    }

    /// Rotates `vector` in place; `other` is as long and holds nothing of value.
    pub(crate) fn apply(&self, vector: &mut [f32], other: &mut [f32]) {
        for round in &self.rounds {
            for ((out, &from), sign) in other.iter_mut().zip(&round.from).zip(&round.signs) {
                *out = vector[from as usize] * sign;
            }
            hadamard(&mut other[..self.width]);
            let rest = other.len() - self.width;
            if rest > 0 {
                hadamard(&mut other[rest..]);
            }
            vector.copy_from_slice(other);
        }
    }
}

/// In place, length a power of two, scaled to keep lengths.
fn hadamard(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(half * 2) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (values.len() as f32).sqrt();
    values.iter_mut().for_each(|value| *value *= scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_stay() {
        for dims in [1, 2, 3, 64, 100, 768] {
            let mut random = Random::new(1, dims as u64);
            let rotation = Rotation::new(dims, &mut random);
            let mut a: Vec<f32> = (0..dims).map(|_| random.normal()).collect();
            let mut b: Vec<f32> = (0..dims).map(|_| random.normal()).collect();
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
            let before = [dot(&a, &a), dot(&a, &b), dot(&b, &b)];
            let mut other = vec![0.0; dims];
            rotation.apply(&mut a, &mut other);
            rotation.apply(&mut b, &mut other);
            let after = [dot(&a, &a), dot(&a, &b), dot(&b, &b)];
            for (x, y) in before.iter().zip(after) {
                assert!(
                    (x - y).abs() < 1e-3 * before[0].max(before[2]),
                    "{dims}: {before:?} {after:?}"
                );
            }
        }
    }

    #[test]
    fn one_axis_spreads_over_all() {
        let rotation = Rotation::new(100, &mut Random::new(1, 0));
        let (mut vector, mut other) = (vec![0.0; 100], vec![0.0; 100]);
        vector[0] = 1.0;
        rotation.apply(&mut vector, &mut other);
        assert!(vector.iter().all(|v| v.abs() < 0.6), "{vector:?}");
        assert!(
            vector.iter().filter(|v| v.abs() > 0.01).count() > 80,
            "{vector:?}"
        );
    }
}
