use ramlet_kernels::{Kernels, Measure};

use crate::random::Random;

const MEASURES: [Measure; 3] = [Measure::Dot, Measure::L2sq, Measure::L1];

fn lengths() -> impl Iterator<Item = usize> {
    (0..300).chain([784, 1536, 65536])
}

/// Exact value and sum of absolute terms.
fn exact(measure: Measure, a: &[f32], b: &[f32]) -> (f64, f64) {
    let term = |a: f64, b: f64| match measure {
        Measure::Dot => a * b,
        Measure::L2sq => (a - b) * (a - b),
        Measure::L1 => (a - b).abs(),
    };
    let terms = || a.iter().zip(b).map(|(a, b)| term(f64::from(*a), f64::from(*b)));
    (terms().sum(), terms().map(f64::abs).sum())
}

fn assert_close(got: f32, measure: Measure, a: &[f32], b: &[f32], table: &Kernels) {
    let (value, magnitude) = exact(measure, a, b);
    // The crate's stated bound.
    let bound = (a.len() + 8) as f64 * f64::from(f32::EPSILON) * magnitude;
    let error = (f64::from(got) - value).abs();
    assert!(
        error <= bound,
        "{table:?} {measure:?} n={} got {got} want {value}",
        a.len()
    );
}

#[test]
fn float_kernels_lie_within_the_bound() {
    let mut random = Random::new(1);
    for n in lengths() {
        // One element more, to be able to start off any alignment.
        let a: Vec<f32> = (0..n + 1).map(|_| random.float()).collect();
        let b: Vec<f32> = (0..n + 1).map(|_| random.float()).collect();
        let mut half = vec![0; n + 1];
        Kernels::scalar().f32_to_f16(&b, &mut half);
        let mut widened = vec![0.0; n + 1];
        Kernels::scalar().f16_to_f32(&half, &mut widened);
        for table in Kernels::all_available() {
            for (start, (a, b)) in [(&a[1..], &b[..n]), (&a[..n], &b[1..])].into_iter().enumerate() {
                assert_close(table.dot_f32(a, b), Measure::Dot, a, b, table);
                assert_close(table.l2sq_f32(a, b), Measure::L2sq, a, b, table);
                assert_close(table.l1_f32(a, b), Measure::L1, a, b, table);
                let (half, b) = (&half[start..][..n], &widened[start..][..n]);
                assert_close(table.dot_f16(a, half), Measure::Dot, a, b, table);
                assert_close(table.l2sq_f16(a, half), Measure::L2sq, a, b, table);
                assert_close(table.l1_f16(a, half), Measure::L1, a, b, table);
            }
        }
    }
}

#[test]
fn rows_are_bit_equal_to_single_rows() {
    let mut random = Random::new(2);
    for dims in [1, 15, 16, 17, 33, 64, 100, 128, 131] {
        let query: Vec<f32> = (0..dims).map(|_| random.float()).collect();
        for element_bytes in [2, 4] {
            for (count, gap) in [(0usize, 0), (1, 0), (3, 5), (8, 4), (13, 1)] {
                let stride = dims * element_bytes + gap;
                let mut bytes = vec![0xff; (count * stride).saturating_sub(gap)];
                for row in bytes.chunks_mut(stride) {
                    for element in row[..dims * element_bytes].chunks_exact_mut(element_bytes) {
                        // A half around 1; as the upper part of a float, an ordinary number too.
                        let half = 0x3800 | (random.next() >> 53) as u16;
                        element[element_bytes - 2..].copy_from_slice(&half.to_le_bytes());
                    }
                }
                for table in Kernels::all_available() {
                    for measure in MEASURES {
                        let mut out = vec![0.0; count];
                        match element_bytes {
                            2 => table.f16_rows(measure, &query, &bytes, stride, &mut out),
                            _ => table.f32_rows(measure, &query, &bytes, stride, &mut out),
                        }
                        for (i, got) in out.into_iter().enumerate() {
                            let row = &bytes[i * stride..][..dims * element_bytes];
                            let want = match element_bytes {
                                2 => table.f16_row(measure, &query, row),
                                _ => table.f32_row(measure, &query, row),
                            };
                            assert_eq!(
                                got.to_bits(),
                                want.to_bits(),
                                "{table:?} {measure:?} d={dims} row {i}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn integer_kernels_are_exact() {
    let mut random = Random::new(3);
    for n in lengths() {
        let a: Vec<u8> = (0..n + 3).map(|_| random.byte()).collect();
        let b: Vec<u8> = (0..n + 3).map(|_| random.byte()).collect();
        for (a, b) in [(&a[..n], &b[..n]), (&a[1..n + 1], &b[3..n + 3])] {
            check_u8(a, b);
        }
    }
}

#[test]
fn integer_kernels_do_not_overflow() {
    for n in [1, 63, 64, 65, 65535, 65536] {
        let (zeros, full) = (vec![0u8; n], vec![255u8; n]);
        check_u8(&full, &full);
        check_u8(&full, &zeros);
        check_u8(&zeros, &full);
        check_u8(&vec![128u8; n], &full);
    }
    assert_eq!(
        Kernels::scalar().dot_u8(&[255; 65536], &[255; 65536]),
        4_261_478_400
    );
}

fn check_u8(a: &[u8], b: &[u8]) {
    let sum = |term: fn(u64, u64) -> u64| -> u64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| term(u64::from(*a), u64::from(*b)))
            .sum()
    };
    let (dot, l1) = (sum(|a, b| a * b), sum(u64::abs_diff));
    let l2sq = sum(|a, b| a.abs_diff(b).pow(2));
    for table in Kernels::all_available() {
        assert_eq!(u64::from(table.dot_u8(a, b)), dot, "{table:?} dot n={}", a.len());
        assert_eq!(
            u64::from(table.l2sq_u8(a, b)),
            l2sq,
            "{table:?} l2sq n={}",
            a.len()
        );
        assert_eq!(u64::from(table.l1_u8(a, b)), l1, "{table:?} l1 n={}", a.len());
    }
}
