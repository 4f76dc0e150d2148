//! Overlapping words: a code describes its own part, and some of the next part's dimensions.
//!
//! The vector that codes stand for is, in each part, the sum of a word of the part's own code and a word of the code before.
//! A distance is a sum of one table entry a code as before, so that a scan costs the same; but a part is served by 256 sums of two
//! words instead of 16 words. The best codes are those of the cheapest of 16^m chains, which are found part by part, since what a
//! code costs depends on the one before it only ([`ramlet_kernels::Kernels::cheapest_chain`]). This is trellis-coded quantization
//! (Marcellin and Fischer 1990) with words that are learnt.
//!
//! 48 sub-quantizers of 100 normal numbers leave over .096 of the variance, where 16 words a part leave over .127 (anisotropic .109 and
//! .138). Distances aren't sums of entries any more: for products only.

use ramlet_kernels::TRELLIS_STATES;

use super::ProductModel;
use super::anisotropic::AnisotropicEncoder;
use crate::build::random::Random;

/// Rounds of coding the sample and fitting words to it, and of fitting both words of a part in turns.
const ROUNDS: usize = 16;
const TURNS: usize = 4;

/// Overlapping words begin as so much of a number's deviation, by chance.
const OVERLAP: f32 = 0.3;

/// Gives words that serve their parts alone a overlap, and fits both to the sample.
pub(super) fn train(model: &mut ProductModel, sample: &[f32], seed: u64, threads: usize) {
    let (dims, parts) = (model.shape.dims, model.shape.parts);
    let count = sample.len() / dims;
    let squares: f64 = sample.iter().map(|value| f64::from(*value).powi(2)).sum();
    let deviation = (squares / sample.len().max(1) as f64).sqrt() as f32;
    let mut random = Random::new(seed ^ 0x0072_6561_6368);
    let overlaps = model.part(0).end * TRELLIS_STATES..dims * TRELLIS_STATES;
    model.overlap = vec![0.0; dims * TRELLIS_STATES];
    for word in &mut model.overlap[overlaps] {
        // About normal.
        let sum: f32 = (0..4).map(|_| random.below(2001) as f32 * 1e-3 - 1.0).sum();
        *word = OVERLAP * deviation * sum;
    }
    let mut codes = vec![0; count * parts];
    let share = count.div_ceil(threads.max(1)).max(1);
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            let model = &*model;
            for (vectors, codes) in sample.chunks(share * dims).zip(codes.chunks_mut(share * parts)) {
                scope.spawn(move || {
                    let mut encoder = AnisotropicEncoder::new(model);
                    let none = vec![0.0; dims];
                    for (vector, codes) in vectors.chunks_exact(dims).zip(codes.chunks_exact_mut(parts)) {
                        encoder.encode(model, vector, &none, codes);
                    }
                });
            }
        });
        for part in 0..parts {
            fit(model, part, sample, &codes);
        }
    }
}

/// Fits the words that serve a part to what they stand for.
fn fit(model: &mut ProductModel, part: usize, sample: &[f32], codes: &[u8]) {
    const K: usize = TRELLIS_STATES;
    let (dims, parts) = (model.shape.dims, model.shape.parts);
    let of = |codes: &[u8]| {
        let before = if part > 0 {
            usize::from(codes[part - 1]) % K
        } else {
            0
        };
        (before, usize::from(codes[part]) % K)
    };
    let mut counts = [[0.0f64; K]; K];
    codes
        .chunks_exact(parts)
        .map(of)
        .for_each(|(before, own)| counts[before][own] += 1.0);
    for dim in model.part(part) {
        let (mut by_own, mut by_before) = ([0.0f64; K], [0.0f64; K]);
        for (vector, codes) in sample.chunks_exact(dims).zip(codes.chunks_exact(parts)) {
            let ((before, own), value) = (of(codes), f64::from(vector[dim]));
            by_own[own] += value;
            by_before[before] += value;
        }
        let columns = dim * K..(dim + 1) * K;
        let (own, overlap) = (&mut model.books[columns.clone()], &mut model.overlap[columns]);
        for _ in 0..TURNS {
            for (word, value) in own.iter_mut().enumerate() {
                let others = (0..K).map(|before| counts[before][word] * f64::from(overlap[before]));
                let (left, count) = (
                    by_own[word] - others.sum::<f64>(),
                    counts.iter().map(|of| of[word]).sum::<f64>(),
                );
                // A word that stands for nothing stays.
                *value = if count > 0.0 {
                    (left / count) as f32
                } else {
                    *value
                };
            }
            if part == 0 {
                break;
            }
            for (word, value) in overlap.iter_mut().enumerate() {
                let others = (0..K).map(|after| counts[word][after] * f64::from(own[after]));
                let (left, count) = (
                    by_before[word] - others.sum::<f64>(),
                    counts[word].iter().sum::<f64>(),
                );
                *value = if count > 0.0 {
                    (left / count) as f32
                } else {
                    *value
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chains::ANISOTROPY;
    use super::super::{ProductShape, ProductTables, TableKind};
    use super::*;

    const DIMS: usize = 33;
    const PARTS: usize = 16;

    fn vectors(random: &mut Random, count: usize) -> Vec<f32> {
        let value =
            |random: &mut Random| (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 1e-3;
        (0..count * DIMS).map(|_| value(random)).collect()
    }

    fn model(sample: &[f32], threads: usize) -> ProductModel {
        let shape = ProductShape {
            dims: DIMS,
            parts: PARTS,
        };
        ProductModel::train_overlapping(shape, sample, 1, threads).unwrap()
    }

    /// `|e|^2` and `<x, e>^2 / |x|^2` on average.
    fn left_out(model: &ProductModel, vectors: &[f32], towards: Option<&[f32]>) -> (f32, f32) {
        let (mut encoder, none) = (AnisotropicEncoder::new(model), vec![0.0; vectors.len()]);
        let (mut codes, mut back) = ([0; PARTS], [0.0; DIMS]);
        let (mut all, mut along_all) = (0.0, 0.0);
        for (at, vector) in vectors.chunks_exact(DIMS).enumerate() {
            let of = |list: &'_ [f32]| -> [f32; DIMS] { std::array::from_fn(|dim| list[at * DIMS + dim]) };
            let direction = of(towards.unwrap_or(vectors));
            encoder.encode(model, vector, &of(towards.unwrap_or(&none)), &mut codes);
            model.decode(&codes, &mut back);
            let errors: [f32; DIMS] = std::array::from_fn(|dim| vector[dim] - back[dim]);
            let along: f32 = errors.iter().zip(direction).map(|(e, x)| e * x).sum();
            all += errors.iter().map(|e| e * e).sum::<f32>();
            along_all += along * along / direction.iter().map(|x| x * x).sum::<f32>();
        }
        let count = (vectors.len() / DIMS) as f32;
        (all / count, along_all / count)
    }

    #[test]
    fn less_is_left_out_than_by_words_of_one_part() {
        let mut random = Random::new(21);
        let (sample, others) = (vectors(&mut random, 2000), vectors(&mut random, 300));
        let overlapping = model(&sample, 2);
        let plain = ProductModel::train(*overlapping.shape(), &sample, 1, 2).unwrap();
        let [with, without] = [&overlapping, &plain].map(|model| left_out(model, &others, None).0);
        assert!(with < 0.9 * without, "{with} after {without}");
        let towards = vectors(&mut random, 300);
        let [with, without] = [&overlapping, &plain].map(|model| {
            let (all, along) = left_out(model, &others, Some(&towards));
            all + ANISOTROPY * along
        });
        assert!(with < 0.92 * without, "anisotropic: {with} after {without}");
    }

    #[test]
    fn distances_are_products_with_what_codes_stand_for() {
        let mut random = Random::new(22);
        let sample = vectors(&mut random, 500);
        let model = model(&sample, 1);
        let (mut tables, mut encoder) = (ProductTables::default(), AnisotropicEncoder::new(&model));
        let (mut codes, mut back) = ([0; PARTS], [0.0; DIMS]);
        for vector in sample.chunks_exact(DIMS).take(50) {
            let query = vectors(&mut random, 1);
            tables.enter(&model, TableKind::Product, &query);
            encoder.encode(&model, vector, vector, &mut codes);
            model.decode(&codes, &mut back);
            let want = -query.iter().zip(&back).map(|(q, x)| q * x).sum::<f32>();
            let distance = tables.distance_of_code(&codes);
            assert!((distance - want).abs() < 1e-4, "{distance}, {want}");
            let rounded = tables.distance_rounded(&codes);
            assert!(
                (rounded - want).abs() <= tables.rounding_max() + 1e-4,
                "{rounded}, {want}"
            );
        }
    }

    #[test]
    fn a_model_depends_on_no_thread_and_is_read_back() {
        let sample = vectors(&mut Random::new(23), 400);
        let model = model(&sample, 1);
        assert_eq!(model, self::model(&sample, 3));
        let bytes = model.to_bytes();
        assert_eq!(bytes.len(), ProductModel::bytes_for(model.shape())[1]);
        assert_eq!(ProductModel::from_bytes(&bytes).unwrap(), model);
        // Another version, and other words than there are.
        for (at, value) in [(0, 2u8), (12, 0), (12, 2)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert!(ProductModel::from_bytes(&other).is_err(), "{value} at byte {at}");
        }
        assert!(ProductModel::from_bytes(&bytes[..bytes.len() - 4]).is_err());
    }
}
