//! A random rotation that costs `d log d`.

use crate::build::random::Random;

/// Rounds of shuffling, flipping signs and mixing.
const ROUNDS: usize = 3;

/// On disk by what it did to the codes: another rotation needs another version of the codes.
const SEED: u64 = 0x7261_6d6c_6574;

/// A fixed orthogonal transformation that spreads any direction over all dimensions.
///
/// Each round permutes, flips signs at random, and applies a Hadamard transform to the first `p` and then to the last
/// `p` dimensions, `p` the largest power of two that fits: so nothing is padded (28 % of the codes at 100 dimensions).
/// Holds `24 * dims` bytes. Ailon and Chazelle, "The fast Johnson-Lindenstrauss transform" (2009).
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    dims: usize,
    /// Per round and dimension: where its value comes from, and the sign with the scale of the transform.
    rounds: Vec<Vec<(u32, f32)>>,
}

impl Rotation {
    /// The rotation of so many dimensions, always the same.
    pub(crate) fn new(dims: usize) -> Rotation {
        let mut random = Random::new(SEED ^ dims as u64);
        let rounds = (0..ROUNDS)
            .map(|_| {
                let mut round: Vec<(u32, f32)> = (0..dims as u32)
                    .map(|i| (i, if random.below(2) == 0 { 1.0 } else { -1.0 }))
                    .collect();
                for i in (1..dims).rev() {
                    let other = random.below(i as u64 + 1) as usize;
                    (round[i].0, round[other].0) = (round[other].0, round[i].0);
                }
                round
            })
            .collect();
        Rotation { dims, rounds }
    }

    /// Rotates in place; `scratch` is overwritten.
    pub(crate) fn apply(&self, vector: &mut [f32], scratch: &mut Vec<f32>) {
        scratch.resize(self.dims, 0.0);
        let window = 1 << self.dims.ilog2();
        let scale = 1.0 / (window as f32).sqrt();
        for round in &self.rounds {
            for (out, (from, sign)) in scratch.iter_mut().zip(round) {
                *out = vector[*from as usize] * sign;
            }
            hadamard(&mut scratch[..window], scale);
            if window < self.dims {
                hadamard(&mut scratch[self.dims - window..], scale);
            }
            vector.copy_from_slice(scratch);
        }
    }

    /// Rotates back in place; `scratch` is overwritten.
    pub(crate) fn undo(&self, vector: &mut [f32], scratch: &mut Vec<f32>) {
        scratch.resize(self.dims, 0.0);
        let window = 1 << self.dims.ilog2();
        let scale = 1.0 / (window as f32).sqrt();
        for round in self.rounds.iter().rev() {
            scratch.copy_from_slice(vector);
            // The transform undoes itself.
            if window < self.dims {
                hadamard(&mut scratch[self.dims - window..], scale);
            }
            hadamard(&mut scratch[..window], scale);
            for (value, (from, sign)) in scratch.iter().zip(round) {
                vector[*from as usize] = value * sign;
            }
        }
    }
}

/// The Walsh-Hadamard transform; the length is a power of two.
fn hadamard(values: &mut [f32], scale: f32) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(half * 2) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    values.iter_mut().for_each(|value| *value *= scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_and_a_single_dimension_is_spread() {
        for dims in [1, 2, 3, 24, 64, 100, 127, 300, 1536] {
            let rotation = Rotation::new(dims);
            let mut scratch = Vec::new();
            let mut largest = 0.0f32;
            for axis in 0..dims.min(50) {
                let mut vector = vec![0.0; dims];
                vector[axis] = 3.0;
                rotation.apply(&mut vector, &mut scratch);
                let mut back = vector.clone();
                rotation.undo(&mut back, &mut scratch);
                back[axis] -= 3.0;
                assert!(back.iter().all(|value| value.abs() < 1e-5), "{dims}: {back:?}");
                let squares = crate::quant::dot(&vector, &vector);
                assert!((squares - 9.0).abs() < 1e-4, "{dims}: {squares}");
                largest = vector.iter().fold(largest, |most, value| most.max(value.abs()));
            }
            assert!(largest <= 3.0001);
            // Nearly normal: none of some ten thousand values lies beyond eight deviations.
            assert!(
                dims < 100 || largest < 24.0 / (dims as f32).sqrt(),
                "{dims}: {largest}"
            );
        }
    }
}
