use ramlet_index::{Element, Metric, Query, decode_row, encode_row, validate};

use crate::random::Random;

pub const METRICS: [Metric; 4] = [Metric::Cosine, Metric::Dot, Metric::Euclid, Metric::Manhattan];
pub const ELEMENTS: [Element; 3] = [Element::F32, Element::F16, Element::U8];

/// Vectors that suit the element: bytes want 0..=255.
pub fn vector_for(element: Element, random: &mut Random, dims: usize) -> Vec<f32> {
    let mut vector = random.vector(dims);
    if element == Element::U8 {
        vector
            .iter_mut()
            .for_each(|value| *value = (*value + 1.0) * 140.0 - 10.0);
    }
    vector
}

/// The score by the definition, in f64, of the vectors as they are stored.
pub fn score_by_definition(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let sum = |term: fn(f64, f64) -> f64| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| term(f64::from(*a), f64::from(*b)))
            .sum()
    };
    let dot = || sum(|a, b| a * b);
    let norm = |v: &[f32]| v.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    match metric {
        Metric::Cosine if norm(a) * norm(b) == 0.0 => 0.0,
        Metric::Cosine => dot() / (norm(a) * norm(b)),
        Metric::Dot => dot(),
        Metric::Euclid => sum(|a, b| (a - b).powi(2)).sqrt(),
        Metric::Manhattan => sum(|a, b| (a - b).abs()),
    }
}

fn truncated(element: Element, vector: &[f32]) -> Vec<f32> {
    match element {
        Element::U8 => vector
            .iter()
            .map(|value| value.clamp(0.0, 255.0).trunc())
            .collect(),
        _ => vector.to_vec(),
    }
}

#[test]
fn scores_follow_the_definitions() {
    let mut random = Random::new(1);
    for metric in METRICS {
        for element in ELEMENTS {
            for dims in [1, 3, 100, 131] {
                let a = vector_for(element, &mut random, dims);
                let b = vector_for(element, &mut random, dims);
                let mut row = Vec::new();
                encode_row(metric, element, &b, &mut row);
                let query = Query::new(metric, element, &a);
                assert_eq!(row.len(), query.row_bytes());
                let want = score_by_definition(metric, &truncated(element, &a), &truncated(element, &b));
                // Halves keep 11 bits; sums of bytes are exact up to the rounding of the result.
                let tolerance = match element {
                    Element::F16 => 2e-3 * (dims as f64).sqrt(),
                    _ => 1e-5 * want.abs().max(1.0),
                };
                let got = f64::from(query.score_row(&row));
                assert!(
                    (got - want).abs() <= tolerance,
                    "{metric:?} {element:?} d={dims}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn distances_order_like_scores() {
    let mut random = Random::new(2);
    for metric in METRICS {
        for element in ELEMENTS {
            let query = Query::new(metric, element, &vector_for(element, &mut random, 20));
            let (mut rows, mut distances) = (Vec::new(), vec![0.0; 50]);
            for _ in 0..50 {
                encode_row(metric, element, &vector_for(element, &mut random, 20), &mut rows);
            }
            query.distances_of_rows(&rows, query.row_bytes(), &mut distances);
            for (row, distance) in rows.chunks_exact(query.row_bytes()).zip(&distances) {
                assert_eq!(distance.to_bits(), query.distance_of_row(row).to_bits());
                assert_eq!(metric.score(*distance), query.score_row(row));
            }
            distances.sort_by(f32::total_cmp);
            let scores: Vec<f32> = distances.iter().map(|distance| metric.score(*distance)).collect();
            let ordered = |pair: &[f32]| {
                if metric.larger_is_nearer() {
                    pair[0] >= pair[1]
                } else {
                    pair[0] <= pair[1]
                }
            };
            assert!(scores.windows(2).all(ordered), "{metric:?} {element:?}");
        }
    }
}

#[test]
fn zero_vectors_score_zero_under_cosine() {
    for element in ELEMENTS {
        let mut row = Vec::new();
        encode_row(Metric::Cosine, element, &[0.0; 5], &mut row);
        let score = Query::new(Metric::Cosine, element, &[1.0, 2.0, 3.0, 4.0, 5.0]).score_row(&row);
        assert_eq!(score.to_bits(), 0, "{element:?}: +0, not {score}");
        assert_eq!(
            Query::new(Metric::Cosine, element, &[0.0; 5]).score_row(&row),
            0.0
        );
    }
}

#[test]
fn rows_decode_to_what_was_stored() {
    let vector: Vec<f32> = (0..300).map(|i| i as f32 * 1.5 - 20.0).collect();
    for element in ELEMENTS {
        let (mut row, mut back) = (Vec::new(), Vec::new());
        encode_row(Metric::Euclid, element, &vector, &mut row);
        decode_row(element, &row, &mut back);
        let want: Vec<f32> = match element {
            Element::U8 => vector.iter().map(|value| f32::from(*value as u8)).collect(),
            _ => vector.clone(), // halves hold multiples of 1/2 up to 1024 exactly
        };
        assert_eq!(back, want, "{element:?}");
    }
    let (mut row, mut back) = (Vec::new(), Vec::new());
    encode_row(Metric::Cosine, Element::F32, &[3.0, 4.0], &mut row);
    decode_row(Element::F32, &row, &mut back);
    assert_eq!(back, [0.6, 0.8]);
}

#[test]
fn a_query_can_be_prepared_again() {
    let mut query = Query::new(Metric::Cosine, Element::U8, &[255.0; 40]);
    for (metric, element) in [
        (Metric::Dot, Element::F32),
        (Metric::Cosine, Element::U8),
        (Metric::Euclid, Element::F16),
    ] {
        let vector = [1.0, 2.0, 3.0];
        let mut row = Vec::new();
        encode_row(metric, element, &[3.0, 2.0, 1.0], &mut row);
        query.prepare(metric, element, &vector);
        assert_eq!(
            query.score_row(&row),
            Query::new(metric, element, &vector).score_row(&row)
        );
    }
}

#[test]
fn what_is_not_finite_is_named() {
    assert!(validate(&[1.0, -2.0, f32::MAX]).is_ok());
    let error = validate(&[0.0, f32::NAN]).unwrap_err();
    assert_eq!(error.position, 1);
    let error = validate(&[f32::NEG_INFINITY]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "element 0 of the vector is -inf: every element must be finite"
    );
}

/// Max-sim by its definition, over parts as they are stored; distances are squared before they are summed.
fn max_sim(metric: Metric, query: &[Vec<f32>], row: &[Vec<f32>]) -> f64 {
    let best = |q: &Vec<f32>| {
        let scores = row.iter().map(|part| score_by_definition(metric, q, part));
        match metric {
            Metric::Cosine | Metric::Dot => scores.fold(f64::NEG_INFINITY, f64::max),
            Metric::Euclid => scores.map(|s| s * s).fold(f64::INFINITY, f64::min),
            Metric::Manhattan => scores.fold(f64::INFINITY, f64::min),
        }
    };
    let sum: f64 = query.iter().map(best).sum();
    match metric {
        Metric::Euclid => sum.sqrt(),
        _ => sum,
    }
}

#[test]
fn several_parts_are_compared_by_their_best_matches() {
    let mut random = Random::new(5);
    let mut query = Query::new(Metric::Dot, Element::F32, &[0.0]);
    for metric in METRICS {
        for element in ELEMENTS {
            // More parts than one call of the kernels compares.
            for (dims, parts) in [(1, 1), (3, 2), (17, 65), (100, 130)] {
                let mut some = |n: usize| -> Vec<Vec<f32>> {
                    (0..n).map(|_| vector_for(element, &mut random, dims)).collect()
                };
                let (asked, there) = (some(1 + parts / 20), some(parts));
                let mut row = Vec::new();
                there
                    .iter()
                    .for_each(|part| encode_row(metric, element, part, &mut row));
                query.prepare_multi(metric, element, dims, &asked.concat());
                assert_eq!((query.parts(), query.dims()), (asked.len(), dims));
                let stored = |all: &[Vec<f32>]| -> Vec<Vec<f32>> {
                    all.iter().map(|part| truncated(element, part)).collect()
                };
                let want = max_sim(metric, &stored(&asked), &stored(&there));
                let tolerance = match element {
                    Element::F16 => 2e-3 * (dims as f64).sqrt() * asked.len() as f64,
                    _ => 2e-5 * want.abs().max(1.0),
                };
                let got = f64::from(query.score_row(&row));
                assert!(
                    (got - want).abs() <= tolerance,
                    "{metric:?} {element:?} d={dims} parts={parts}: {got} {want}"
                );
            }
        }
    }
    // The same query serves one vector again.
    query.prepare(Metric::Dot, Element::F32, &[1.0, 2.0]);
    assert!(!query.is_multi());
    let mut row = Vec::new();
    encode_row(Metric::Dot, Element::F32, &[3.0, 4.0], &mut row);
    assert_eq!(query.score_row(&row), 11.0);
}
