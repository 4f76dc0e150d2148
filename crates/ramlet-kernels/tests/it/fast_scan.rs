//! Fast scanning: by its formula, and alike in all tables.

use ramlet_kernels::{Bounds, FACTOR_BYTES, FAST_SCAN_GROUPS, FastScan, FastScanned, Kept, Kernels};

use crate::random::Random;

/// Equal bits, or neither is a number.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn same_vector(a: &Kept, b: &Kept) -> bool {
    let floats = [(a.add, b.add), (a.distance, b.distance), (a.lower, b.lower)];
    (a.place, a.sum) == (b.place, b.sum) && floats.iter().all(|(a, b)| same(*a, *b))
}

fn fast_scanned(table: &Kernels, fast_scan: &FastScan<'_>, groups: &[u8]) -> Vec<Kept> {
    let mut out = FastScanned::default();
    table.fast_scan(fast_scan, groups, &[groups], &mut out);
    let kept: Vec<Kept> = out.iter().collect();
    assert_eq!((out.len(), out.is_empty()), (kept.len(), kept.is_empty()));
    kept
}

/// What the reference keeps, after comparing all tables with it.
fn check(fast_scan: &FastScan<'_>, groups: &[u8]) -> Vec<Kept> {
    let want = fast_scanned(Kernels::scalar(), fast_scan, groups);
    for table in Kernels::all_available() {
        let got = fast_scanned(table, fast_scan, groups);
        let equal = got.len() == want.len() && got.iter().zip(&want).all(|(a, b)| same_vector(a, b));
        assert!(equal, "{table:?} {fast_scan:?}: {got:?}, not {want:?}");
    }
    want
}

fn terms(random: &mut Random) -> Bounds {
    let mut float = || random.float() * 10.0;
    Bounds {
        base: float(),
        add: float(),
        along: float(),
        offset: float() * 100.0,
        error: float().abs(),
        rounding: float().abs() * 1e-3,
    }
}

/// Groups of codes with factors `0.1..1.1`, and those.
fn groups(random: &mut Random, columns: usize, count: usize, stride: usize) -> (Vec<u8>, Vec<f32>) {
    let (mut bytes, mut factors) = (Vec::new(), Vec::new());
    for group in 0..count {
        bytes.resize(group * stride, 0x5a);
        bytes.extend((0..columns * 16).map(|_| random.byte()));
        let values: Vec<f32> = (0..64).map(|_| random.float().abs() + 0.1).collect();
        let mut halves = [0; 64];
        Kernels::scalar().f32_to_f16(&values, &mut halves);
        let mut wide = [0.0; 64];
        Kernels::scalar().f16_to_f32(&halves, &mut wide);
        factors.extend(wide);
        bytes.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    }
    bytes.resize(count * stride, 0x5a);
    (bytes, factors)
}

#[test]
fn vectors_are_kept_as_the_formula_says() {
    let mut random = Random::new(31);
    let (mut kept, mut dropped) = (0, 0);
    for columns in (0..40).chain([64, 192, 255, 256, 257, 300]) {
        let count = columns % (FAST_SCAN_GROUPS + 1);
        let stride = columns * 16 + FACTOR_BYTES + [0, 96, 13][columns % 3];
        let lut: Vec<u8> = (0..columns * 16).map(|_| random.byte()).collect();
        let (bytes, factors) = groups(&mut random, columns, count, stride);
        let mut sums = vec![0; count * 32];
        Kernels::scalar().fast_scan_sums(&lut, &bytes, stride, columns, &mut sums);
        let mut bounds = terms(&mut random);
        bounds.offset = columns as f32 * 255.0;
        let fast_scan = |limit| FastScan {
            lut: &lut,
            stride,
            bounds,
            limit,
        };
        let all = check(&fast_scan(f32::INFINITY), &bytes);
        assert_eq!(all.len(), count * 32, "nothing is above infinity");
        let [base, add, along, offset, error, rounding] = [
            bounds.base,
            bounds.add,
            bounds.along,
            bounds.offset,
            bounds.error,
            bounds.rounding,
        ]
        .map(f64::from);
        for (i, vector) in all.iter().enumerate() {
            assert_eq!((vector.place as usize, vector.sum), (i, sums[i]));
            let at = i / 32 * 64 + i % 32;
            let (a, f, sum) = (
                f64::from(factors[at]),
                f64::from(factors[at + 32]),
                f64::from(sums[i]),
            );
            let distance = base + add * a - along * f * (2.0 * sum - offset);
            let lower = distance - error * (f * f - a).max(0.0).sqrt() - rounding;
            let slack = 1e-6 * (base.abs() + (along * f).abs() * (2.0 * sum + offset.abs()) + 100.0);
            assert!(same(vector.add, factors[at]));
            assert!(
                (f64::from(vector.distance) - distance).abs() <= slack,
                "{bounds:?} {i}"
            );
            assert!(
                (f64::from(vector.lower) - lower).abs() <= 2.0 * slack + 1e-2,
                "{bounds:?} {i}"
            );
        }
        let mut lowers: Vec<f32> = all.iter().map(|vector| vector.lower).collect();
        lowers.sort_unstable_by(f32::total_cmp);
        for limit in [0, lowers.len() / 50, lowers.len() / 2]
            .map(|at| lowers.get(at))
            .into_iter()
            .flatten()
        {
            let some = check(&fast_scan(*limit), &bytes);
            let slack = limit.abs() * 1e-3;
            let is_kept = |vector: &Kept| some.iter().any(|other| same_vector(vector, other));
            for vector in &all {
                assert!(
                    vector.lower > limit - slack || is_kept(vector),
                    "{vector:?} {limit}"
                );
                assert!(
                    vector.lower < limit + slack || !is_kept(vector),
                    "{vector:?} {limit}"
                );
            }
            (kept, dropped) = (kept + some.len(), dropped + all.len() - some.len());
        }
    }
    assert!(kept > 1000 && dropped > 1000, "{kept} of {}", kept + dropped);
}

#[test]
fn anything_is_fast_scanned_alike() {
    let mut random = Random::new(32);
    for round in 0..500 {
        let columns = round % 11;
        let stride = columns * 16 + FACTOR_BYTES;
        let lut: Vec<u8> = (0..columns * 16).map(|_| random.byte()).collect();
        let bytes: Vec<u8> = (0..2 * stride).map(|_| random.byte()).collect();
        let mut bounds = terms(&mut random);
        match round % 4 {
            0 => bounds.base = f32::INFINITY,
            1 => bounds.error = f32::NAN,
            _ => {}
        }
        for limit in [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let fast_scan = FastScan {
                lut: &lut,
                stride,
                bounds,
                limit,
            };
            check(&fast_scan, &bytes);
        }
    }
}

#[test]
#[should_panic = "groups without factors"]
fn groups_too_short_for_factors_are_refused() {
    let fast_scan = FastScan {
        lut: &[1; 32],
        stride: 100,
        bounds: Bounds::default(),
        limit: 0.0,
    };
    Kernels::scalar().fast_scan(&fast_scan, &[0; 100], &[], &mut FastScanned::default());
}
