//! Vectors in a few bits a dimension.

use ramlet_kernels::Kernels;

use crate::random::Random;

const LENGTHS: [usize; 12] = [1, 2, 7, 8, 9, 16, 31, 64, 100, 128, 333, 768];

fn vector(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.float()).collect()
}

/// Vectors of all lengths, and odd ones.
fn vectors(seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    let mut vectors = vec![
        Vec::new(),
        vec![0.0; 20],
        vec![-0.0; 9],
        vec![1e-42; 12],
        vec![f32::MAX; 12],
        vec![1.0; 40],
        vec![f32::NAN; 10],
        vec![1.0, f32::NAN, -2.0, f32::INFINITY, 0.5],
    ];
    for len in LENGTHS {
        (0..40).for_each(|_| vectors.push(vector(&mut random, len)));
        // Whole numbers, so that levels lie on borders.
        vectors.push((0..len).map(|_| (random.next() % 9) as f32 - 4.0).collect());
    }
    vectors
}

#[test]
fn bytes_are_near_and_the_same_in_all_tables() {
    for vector in vectors(91) {
        let of = |table: &Kernels| {
            let mut codes = vec![9; vector.len()];
            let scale = table.to_bytes(&vector, &mut codes);
            (scale, codes)
        };
        let (scale, codes) = of(Kernels::scalar());
        let largest = vector.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        if largest < 1e30 && vector.iter().all(|value| value.is_finite()) {
            for (value, code) in vector.iter().zip(&codes) {
                let off = (value - scale * (f32::from(*code) - 128.0)).abs();
                assert!(
                    off <= largest * (0.501 / 127.0) + 1e-32,
                    "{value}, {code} of {scale}"
                );
            }
        }
        for table in Kernels::all_available() {
            let (own_scale, own) = of(table);
            assert_eq!(
                (own_scale.to_bits(), own),
                (scale.to_bits(), codes.clone()),
                "{table:?}"
            );
        }
    }
}

/// As simply as it can be said: the cosine that levels of all steps tried reach, before and after each moved once.
fn plain_levels(r: &[f32], planes: u32) -> Option<(f64, f64)> {
    let most = f64::from((1u32 << planes) - 1);
    let largest = r
        .iter()
        .fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
    let cosine = |u: &[f64]| {
        let along: f64 = u.iter().zip(r).map(|(u, value)| u * f64::from(value.abs())).sum();
        along / u.iter().map(|u| u * u).sum::<f64>().sqrt()
    };
    let of = |share: f64| -> Vec<f64> {
        let step = largest / (most + 1.0) * share;
        let level = |value: &f32| {
            (f64::from(value.abs()) / step - 0.5)
                .round_ties_even()
                .clamp(0.0, most)
                + 0.5
        };
        r.iter().map(level).collect()
    };
    (largest > 1e-20).then(|| {
        // The two largest steps are always tried.
        let first = cosine(&of(1.0)).max(cosine(&of(0.96)));
        (
            first,
            r.iter()
                .map(|value| f64::from(*value).powi(2))
                .sum::<f64>()
                .sqrt(),
        )
    })
}

#[test]
fn levels_point_where_the_vector_does() {
    for r in vectors(92)
        .iter()
        .filter(|r| r.iter().all(|value| value.abs() < 1e30))
    {
        for planes in [0, 1, 3, 5, 7] {
            let (mut levels, mut values) = (vec![9; r.len()], vec![0.0; r.len()]);
            let along = Kernels::scalar().levels(r, planes, &mut levels);
            Kernels::scalar().grid_values(r, &levels, planes, &mut values);
            let Some((least, length)) = plain_levels(r, planes) else {
                continue;
            };
            let product: f64 = r
                .iter()
                .zip(&values)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum();
            let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
            assert!(
                (product - along).abs() <= 1e-4 * product.abs(),
                "{product}, {along}"
            );
            let cosine = product / squares.sqrt();
            assert!(
                cosine >= least * (1.0 - 1e-5) && cosine <= length * (1.0 + 1e-5),
                "{cosine}: {least}..{length}"
            );
        }
    }
}

/// One level after the other, as it is defined.
fn moved_one_by_one(r: &[f32], levels: &mut [u8], most: u8) -> u32 {
    let number = |level: u8| f64::from(level) + 0.5;
    let mut along: f64 = levels
        .iter()
        .zip(r)
        .map(|(level, value)| number(*level) * f64::from(value.abs()))
        .sum();
    let mut squares: f64 = levels.iter().map(|level| number(*level).powi(2)).sum();
    let mut moves = 0;
    for (level, value) in levels.iter_mut().zip(r) {
        for next in [level.wrapping_add(1), level.wrapping_sub(1)] {
            let step = number(next) - number(*level);
            let (far, value) = (step.abs() > 1.0 || next > most, f64::from(value.abs()));
            let (next_along, next_squares) = (
                along + step * value,
                squares - number(*level).powi(2) + number(next).powi(2),
            );
            // Beyond what rounding makes of it.
            if !far && next_along / next_squares.sqrt() > along / squares.sqrt() * (1.0 + 1e-5) {
                (along, squares, *level) = (next_along, next_squares, next);
                moves += 1;
                break;
            }
        }
    }
    moves
}

#[test]
fn no_level_is_left_that_should_move() {
    let mut random = Random::new(93);
    let (mut moves, mut before) = (0, 0);
    for len in LENGTHS {
        for planes in [2, 4] {
            let r = vector(&mut random, len);
            let most = (1u8 << planes) - 1;
            let mut levels = vec![0; len];
            Kernels::scalar().levels(&r, planes, &mut levels);
            // The sizes alone.
            for (level, value) in levels.iter_mut().zip(&r) {
                *level ^= if *value < 0.0 { most } else { 0 };
            }
            moves += moved_one_by_one(&r, &mut levels, most);
            before += len;
        }
    }
    // A later move may make an earlier level wish to move; hardly ever.
    assert!(moves * 50 < before as u32, "{moves} of {before}");
}

#[test]
fn levels_are_the_same_in_all_tables() {
    for r in vectors(94) {
        for planes in 0..=7 {
            let of = |table: &Kernels| {
                let mut levels = vec![9; r.len()];
                let along = table.levels(&r, planes, &mut levels);
                let mut values = vec![0.0; r.len()];
                table.grid_values(&r, &levels, planes, &mut values);
                let values: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
                (along.to_bits(), levels, values)
            };
            let want = of(Kernels::scalar());
            for table in Kernels::all_available() {
                assert_eq!(of(table), want, "{table:?}, {planes} planes of {r:?}");
            }
        }
    }
}

#[test]
fn planes_have_each_levels_bits() {
    let mut random = Random::new(95);
    for len in LENGTHS {
        let levels: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        for planes in [0, 1, 3, 6, 8] {
            let bytes = len.div_ceil(8);
            let mut want = vec![0u8; planes as usize * bytes];
            for (i, level) in levels.iter().enumerate() {
                for plane in 0..planes as usize {
                    want[plane * bytes + i / 8] |= (level >> (planes as usize - 1 - plane) & 1) << (i % 8);
                }
            }
            for table in Kernels::all_available() {
                let mut got = vec![0xff; want.len()];
                table.planes(&levels, planes, &mut got);
                assert_eq!(got, want, "{table:?}, {planes} planes of {len}");
            }
        }
    }
}

#[test]
fn signs_tell_what_is_not_below_zero() {
    for values in vectors(96) {
        let mut want = vec![0u8; values.len().div_ceil(8)];
        for (i, value) in values.iter().enumerate() {
            want[i / 8] |= u8::from(*value >= 0.0) << (i % 8);
        }
        for table in Kernels::all_available() {
            let mut got = vec![0xff; want.len()];
            table.signs(&values, &mut got);
            assert_eq!(got, want, "{table:?}");
        }
    }
}

#[test]
fn bytes_are_added_alike() {
    let mut random = Random::new(98);
    for len in LENGTHS {
        let sums = vector(&mut random, len);
        let codes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        let each = sums.iter().zip(&codes);
        let want: Vec<f32> = each
            .map(|(sum, code)| sum + 0.3 * (f32::from(*code) - 128.0))
            .collect();
        for table in Kernels::all_available() {
            let mut got = sums.clone();
            table.add_bytes(&mut got, &codes, 0.3);
            assert_eq!(got, want, "{table:?}");
        }
    }
}

#[test]
fn sums_in_double_precision_are_the_same_in_all_tables() {
    let mut random = Random::new(97);
    for len in LENGTHS {
        let (a, b) = (vector(&mut random, len), vector(&mut random, len));
        let terms = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (product, scale) = terms.fold((0.0, 0.0), |(sum, scale), term| (sum + term, scale + term.abs()));
        let size: f64 = a.iter().map(|value| f64::from(value.abs())).sum();
        for table in Kernels::all_available() {
            assert!(
                (table.dot_f64(&a, &b) - product).abs() <= scale * 1e-14,
                "{table:?}"
            );
            assert!((table.size_f64(&a) - size).abs() <= size * 1e-14, "{table:?}");
            assert_eq!(
                table.dot_f64(&a, &b).to_bits(),
                Kernels::scalar().dot_f64(&a, &b).to_bits()
            );
            assert_eq!(
                table.size_f64(&a).to_bits(),
                Kernels::scalar().size_f64(&a).to_bits()
            );
        }
    }
}
