//! Anisotropic coding: keeps the error of a code away from the vector's own direction.
//!
//! Guo et al., "Accelerating large-scale inference with anisotropic vector quantization", ICML 2020. The nearest words make
//! `|e|^2` least. But the queries for which a row's distance matters lie in the row's own direction, and words leave out a part of
//! it: near rows seem farther than they are, by `<x, e>`. So the codes are chosen to make
//!
//! ```text
//! |e|^2 + ANISOTROPY <x, e>^2 / |x|^2
//! ```
//!
//! least, one after another until none changes. It costs no byte and nothing at the time of a search.
//!
//! 1M x 100, 50 sub-quantizers, 50 queries: how many of their ten nearest (`.905` of which lie in the 200 clusters visited) are among so
//! many rows that seem nearest.
//!
//! | weight | `\|e\|^2` | near rows seem farther by | 30 | 40 | 60 | 100 |
//! |---|---|---|---|---|---|---|
//! | none | .0696 | .0156 | .766 | .792 | .830 | .860 |
//! | 2 | .0723 | .0036 | .782 | .814 | .858 | .874 |
//! | 6 | .0759 | -.0017 | .788 | .830 | .862 | .882 |
//! | none, but `<c, e>` known | .0696 | .0159 | .780 | .806 | .844 | .864 |
//!
//! With other queries 20 and 60 lay between none and 6.

use ramlet_kernels::kernels;

use super::chains::{ANISOTROPY, Chains};
use super::nearest_word::least;
use super::{ProductModel, WORDS};

/// Rounds over all codes at most; the third changes about one in a hundred.
const ROUNDS: usize = 3;

/// One thread's memory for coding: 128 bytes a code, 1.2 KB where words overlap.
#[derive(Debug, Default)]
pub(crate) struct AnisotropicEncoder {
    /// For each part and word, what it leaves out, squared.
    squares: Vec<[f32; WORDS]>,
    /// The same along the direction.
    along: Vec<[f32; WORDS]>,
    /// Where words overlap.
    chains: Option<Chains>,
}

impl AnisotropicEncoder {
    /// For codes of this model only.
    pub(crate) fn new(model: &ProductModel) -> AnisotropicEncoder {
        AnisotropicEncoder {
            chains: model.overlaps().then(|| Chains::new(model)),
            ..AnisotropicEncoder::default()
        }
    }

    /// Writes the codes of a vector, one to a byte, so that what they leave out lies across `towards` rather than along it.
    /// Vectors that have no direction get the nearest words.
    pub(crate) fn encode(&mut self, model: &ProductModel, vector: &[f32], towards: &[f32], codes: &mut [u8]) {
        let length = kernels().dot_f64(towards, towards) as f32;
        let weight = ANISOTROPY / length;
        if let Some(chains) = &mut self.chains {
            let weight = if weight.is_normal() { weight } else { 0.0 };
            return chains.encode(model, vector, (towards, weight), codes);
        }
        if !weight.is_normal() {
            return model.encode(vector, codes);
        }
        let mut total = self.fill(model, vector, towards, codes);
        for _ in 0..ROUNDS {
            let mut changed = false;
            let parts = self.squares.iter().zip(&self.along);
            for ((squares, along), code) in parts.zip(&mut *codes) {
                let others = total - along[usize::from(*code)];
                let word = best(squares, along, others, weight);
                changed |= word != *code;
                *code = word;
                total = others + along[usize::from(word)];
            }
            if !changed {
                break;
            }
        }
    }

    /// What each word leaves out, and the nearest words; what these leave out along the direction.
    fn fill(&mut self, model: &ProductModel, vector: &[f32], towards: &[f32], codes: &mut [u8]) -> f32 {
        let parts = model.shape.parts;
        self.squares.clear();
        self.squares.resize(parts, [0.0; WORDS]);
        self.along.clear();
        self.along.resize(parts, [0.0; WORDS]);
        let mut total = 0.0;
        for part in 0..parts {
            let (squares, along) = (&mut self.squares[part], &mut self.along[part]);
            let dims = model.part(part);
            let columns = model.book(part).as_chunks::<WORDS>().0;
            for ((value, towards), column) in vector[dims.clone()].iter().zip(&towards[dims]).zip(columns) {
                for word in 0..WORDS {
                    let off = value - column[word];
                    squares[word] += off * off;
                    along[word] += off * towards;
                }
            }
            codes[part] = least(squares).0;
            total += along[usize::from(codes[part])];
        }
        total
    }
}

/// The word with which least is left out, `others` being what other parts leave out along the direction.
fn best(squares: &[f32; WORDS], along: &[f32; WORDS], others: f32, weight: f32) -> u8 {
    let mut costs = [0.0; WORDS];
    for word in 0..WORDS {
        let along = others + along[word];
        costs[word] = squares[word] + weight * along * along;
    }
    least(&costs).0
}

#[cfg(test)]
mod tests {
    use super::super::ProductShape;
    use super::*;
    use crate::build::random::Random;

    fn vectors(random: &mut Random, count: usize, dims: usize) -> Vec<f32> {
        let value =
            |random: &mut Random| (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 1e-3;
        (0..count * dims).map(|_| value(random)).collect()
    }

    /// `|e|^2`, and how much of it lies along the direction.
    fn left_out(model: &ProductModel, vector: &[f32], towards: &[f32], codes: &[u8]) -> (f32, f32) {
        let mut back = vec![0.0; vector.len()];
        model.decode(codes, &mut back);
        let errors = || vector.iter().zip(&back).map(|(x, word)| x - word);
        let along: f32 = errors()
            .zip(towards)
            .map(|(error, towards)| error * towards)
            .sum();
        let length: f32 = towards.iter().map(|value| value * value).sum();
        (errors().map(|error| error * error).sum(), along * along / length)
    }

    #[test]
    fn less_is_left_out_along_the_direction() {
        let mut random = Random::new(5);
        let dims = 31;
        let sample = vectors(&mut random, 1000, dims);
        for parts in [31, 16, 7] {
            let shape = ProductShape { dims, parts };
            let model = ProductModel::train(shape, &sample, 1, 1).unwrap();
            let mut encoder = AnisotropicEncoder::default();
            let (mut plain, mut anisotropic) = ((0.0, 0.0), (0.0, 0.0));
            for vector in sample.chunks(dims).take(200) {
                let towards = vectors(&mut random, 1, dims);
                let mut codes = vec![0; parts];
                let add = |sum: &mut (f32, f32), codes: &[u8]| {
                    let (all, along) = left_out(&model, vector, &towards, codes);
                    *sum = (sum.0 + all, sum.1 + along);
                    all + ANISOTROPY * along
                };
                model.encode(vector, &mut codes);
                let before = add(&mut plain, &codes);
                encoder.encode(&model, vector, &towards, &mut codes);
                let after = add(&mut anisotropic, &codes);
                assert!(after <= before * 1.0001, "{parts}: {after} after {before}");
            }
            assert!(
                anisotropic.1 < plain.1 / 2.0,
                "{parts}: {anisotropic:?} after {plain:?}"
            );
            assert!(
                anisotropic.0 < plain.0 * 1.3,
                "{parts}: {anisotropic:?} after {plain:?}"
            );
        }
    }

    #[test]
    fn without_a_direction_words_are_the_nearest() {
        let mut random = Random::new(6);
        let sample = vectors(&mut random, 300, 8);
        let shape = ProductShape::scanned(8);
        let model = ProductModel::train(shape, &sample, 1, 1).unwrap();
        for towards in [[0.0; 8], [f32::NAN; 8], [f32::MAX; 8]] {
            let (mut codes, mut nearest) = (vec![0; shape.parts], vec![0; shape.parts]);
            model.encode(&sample[..8], &mut nearest);
            AnisotropicEncoder::default().encode(&model, &sample[..8], &towards, &mut codes);
            assert_eq!(codes, nearest);
        }
    }
}
