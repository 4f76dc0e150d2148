//! Trains the codebooks: k-means for each part, and the residual error.

use super::nearest_word::nearest;
use super::{ProductModel, ProductShape, Spread, WORDS, overlapping};
use crate::build::random::Random;
use crate::quant::product::{AnisotropicEncoder, ProductTables, TableKind};

/// Rounds of Lloyd's algorithm: a fixed number, so that the time of a build can be told beforehand. Eight more lower
/// the error by less than half a percent.
const ROUNDS: usize = 12;
/// Vectors that are kept out of training to measure with, at least and at most.
const HELD_OUT: std::ops::RangeInclusive<usize> = 64..=2048;
/// Vectors that each of them is compared with.
const PAIRS: usize = 4;

pub(super) fn train(
    shape: ProductShape,
    sample: &[f32],
    (seed, overlaps): (u64, bool),
    threads: usize,
) -> ProductModel {
    let count = sample.len() / shape.dims;
    let held_out = (count / 8).min(*HELD_OUT.end());
    // Too few to spare any: then those that were trained with have to do.
    let (trained, measured) = if held_out < *HELD_OUT.start() {
        (count, 0)
    } else {
        (count - held_out, count - held_out)
    };
    let mut model = ProductModel {
        shape,
        edges: shape.edges(),
        books: Vec::with_capacity(shape.dims * WORDS),
        overlap: Vec::new(),
        squares: Vec::with_capacity(shape.parts * WORDS),
        errors: vec![0.0; shape.parts],
        spread: Spread {
            error: 0.0,
            error_variance: 0.0,
            distance_factor: 1.0,
            product_factor: 1.0,
        },
    };
    for book in books(&shape, &sample[..trained * shape.dims], seed, threads) {
        model.books.extend(book);
    }
    if overlaps {
        overlapping::train(&mut model, &sample[..trained * shape.dims], seed, threads);
    }
    for part in 0..shape.parts {
        let book = model.book(part).chunks_exact(WORDS);
        let squares = book.fold(vec![0.0f32; WORDS], |mut squares, column| {
            squares
                .iter_mut()
                .zip(column)
                .for_each(|(square, value)| *square += value * value);
            squares
        });
        model.squares.extend(squares);
    }
    measure(&mut model, &sample[measured * shape.dims..count * shape.dims]);
    make_finite(&mut model);
    model
}

/// Books of huge numbers have squares that are none: the greatest is written in their place, and what is reckoned with it isn't believed.
fn make_finite(model: &mut ProductModel) {
    let spread = &mut model.spread;
    let alone = [&mut spread.error, &mut spread.error_variance];
    let lists = [
        &mut model.books,
        &mut model.overlap,
        &mut model.squares,
        &mut model.errors,
    ];
    let values = lists.into_iter().flatten().chain(alone);
    values.filter(|value| !value.is_finite()).for_each(|value| {
        let is_known = !value.is_nan();
        *value = if is_known { f32::MAX.copysign(*value) } else { 0.0 };
    });
}

/// The books of all parts, in order.
fn books(shape: &ProductShape, sample: &[f32], seed: u64, threads: usize) -> Vec<Vec<f32>> {
    let mut books = vec![Vec::new(); shape.parts];
    let per_thread = shape.parts.div_ceil(threads);
    std::thread::scope(|scope| {
        for (thread, books) in books.chunks_mut(per_thread).enumerate() {
            scope.spawn(move || {
                let mut values = Vec::new();
                for (i, book) in books.iter_mut().enumerate() {
                    let part = thread * per_thread + i;
                    let dims = shape.part(part);
                    values.clear();
                    let vectors = sample.chunks_exact(shape.dims);
                    vectors.for_each(|vector| values.extend_from_slice(&vector[dims.clone()]));
                    let seed = seed.wrapping_add(part as u64);
                    *book = kmeans(&values, dims.len(), seed);
                }
            });
        }
    });
    books
}

/// The means of [`WORDS`] clusters of points that have `width` values each; by dimension, then word.
fn kmeans(points: &[f32], width: usize, seed: u64) -> Vec<f32> {
    let count = points.len() / width;
    let mut random = Random::new(seed);
    let mut book = vec![0.0; width * WORDS];
    for word in 0..WORDS {
        let point = &points[random.below(count as u64) as usize * width..][..width];
        set(&mut book, word, point.iter().copied());
    }
    let (mut sums, mut counts) = (vec![0.0f64; width * WORDS], [0u32; WORDS]);
    let mut farthest = Vec::new();
    for _ in 0..ROUNDS {
        sums.fill(0.0);
        counts.fill(0);
        farthest.clear();
        for (i, point) in points.chunks_exact(width).enumerate() {
            let (word, distance) = nearest(&book, point);
            counts[usize::from(word)] += 1;
            let sums = &mut sums[usize::from(word) * width..][..width];
            sums.iter_mut()
                .zip(point)
                .for_each(|(sum, value)| *sum += f64::from(*value));
            keep_farthest(&mut farthest, distance, i);
        }
        for (word, count) in counts.iter().enumerate() {
            if *count > 0 {
                let sums = &sums[word * width..][..width];
                set(
                    &mut book,
                    word,
                    sums.iter().map(|sum| (sum / f64::from(*count)) as f32),
                );
            } else if let Some((_, point)) = farthest.pop() {
                // A word that stands for nothing moves to a point that is badly served.
                set(&mut book, word, points[point * width..][..width].iter().copied());
            }
        }
    }
    book
}

/// Keeps the few points that are farthest from their words, the farthest last.
fn keep_farthest(farthest: &mut Vec<(f32, usize)>, distance: f32, point: usize) {
    const KEPT: usize = 16;
    if farthest.len() == KEPT && farthest[0].0 >= distance {
        return;
    }
    let at = farthest.partition_point(|(other, _)| *other < distance);
    farthest.insert(at, (distance, point));
    if farthest.len() > KEPT {
        farthest.remove(0);
    }
}

fn set(book: &mut [f32], word: usize, values: impl Iterator<Item = f32>) {
    for (column, value) in book.chunks_exact_mut(WORDS).zip(values) {
        column[word] = value;
    }
}

/// What vectors leave over, and by how much estimates with them miss.
fn measure(model: &mut ProductModel, vectors: &[f32]) {
    let shape = model.shape;
    let count = vectors.len() / shape.dims;
    let (mut code, mut word) = (vec![0; shape.parts], vec![0.0; shape.dims]);
    let (mut by_part, mut sum, mut squares) = (vec![0.0f64; shape.parts], 0.0, 0.0);
    let mut codes = Vec::with_capacity(count * shape.parts);
    let (mut encoder, none) = (AnisotropicEncoder::new(model), vec![0.0; shape.dims]);
    for vector in vectors.chunks_exact(shape.dims) {
        encoder.encode(model, vector, &none, &mut code);
        model.decode(&code, &mut word);
        codes.extend_from_slice(&code);
        let mut error = 0.0;
        for (part, total) in by_part.iter_mut().enumerate() {
            let dims = shape.part(part);
            let pairs = vector[dims.clone()].iter().zip(&word[dims]);
            let part_error: f64 = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum();
            *total += part_error;
            error += part_error;
        }
        sum += error;
        squares += error * error;
    }
    let of = count as f64;
    for (part, (error, total)) in model.errors.iter_mut().zip(&by_part).enumerate() {
        *error = (total / of / shape.part(part).len() as f64) as f32;
    }
    model.spread.error = (sum / of) as f32;
    model.spread.error_variance = (squares / of - (sum / of).powi(2)).max(0.0) as f32;
    let distance = match model.overlaps() {
        true => 1.0,
        false => factor(model, TableKind::Distance, vectors, &codes),
    };
    let product = factor(model, TableKind::Product, vectors, &codes);
    (model.spread.distance_factor, model.spread.product_factor) = (distance, product);
}

/// Root of the mean square of what estimates miss by, in units of their deviation; 1 where nothing is missed.
fn factor(model: &ProductModel, kind: TableKind, vectors: &[f32], codes: &[u8]) -> f32 {
    let shape = model.shape;
    let vector = |i: usize| &vectors[i * shape.dims..][..shape.dims];
    let count = vectors.len() / shape.dims;
    let mut tables = ProductTables::default();
    let (mut sum, mut pairs) = (0.0f64, 0u32);
    for i in 0..count {
        tables.enter(model, kind, vector(i));
        for other in (1..=PAIRS)
            .map(|step| (i + step) % count)
            .filter(|other| *other != i)
        {
            let distance = tables.distance_of_code(&codes[other * shape.parts..][..shape.parts]);
            let missed = f64::from(distance) - kind.exact(vector(i), vector(other));
            let deviation = f64::from(tables.deviation(distance));
            if deviation > 0.0 {
                sum += (missed / deviation).powi(2);
                pairs += 1;
            }
        }
    }
    let factor = (sum / f64::from(pairs)).sqrt() as f32;
    if factor.is_finite() && factor > 0.0 {
        factor
    } else {
        1.0
    }
}
