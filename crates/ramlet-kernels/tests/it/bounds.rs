use ramlet_kernels::{Bounded, Bounds, FACTOR_BYTES, GROUP, Kernels};

use crate::random::Random;

/// Equal bits, or neither is a number.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn check(bounds: &Bounds, sums: &[u32; GROUP], factors: &[u8; FACTOR_BYTES], limit: f32) {
    let mut want = Bounded::default();
    let mask = Kernels::scalar().bound(bounds, sums, factors, limit, &mut want);
    for v in 0..GROUP {
        assert_eq!(mask >> v & 1 == 0, want.lowers[v] > limit, "{bounds:?} {v}");
    }
    for table in Kernels::all_available() {
        let mut out = Bounded::default();
        assert_eq!(
            table.bound(bounds, sums, factors, limit, &mut out),
            mask,
            "{table:?} {bounds:?}"
        );
        for v in 0..GROUP {
            let equal = same(out.keys[v], want.keys[v])
                && same(out.lowers[v], want.lowers[v])
                && same(out.adds[v], want.adds[v]);
            assert!(equal, "{table:?} {bounds:?} {v}");
        }
    }
}

fn terms(random: &mut Random) -> Bounds {
    let mut float = || random.float() * 10.0;
    Bounds {
        base: float(),
        add: float(),
        along: float(),
        offset: float() * 100.0,
        error: float(),
        rounding: float(),
    }
}

#[test]
fn bounds_are_what_the_formula_says() {
    let mut random = Random::new(31);
    for _ in 0..200 {
        let bounds = terms(&mut random);
        let sums: [u32; GROUP] = std::array::from_fn(|_| random.next() as u32 % 5000);
        let values: Vec<f32> = (0..2 * GROUP).map(|_| random.float().abs() + 0.1).collect();
        let mut halves = [0; 2 * GROUP];
        Kernels::scalar().f32_to_f16(&values, &mut halves);
        let mut factors = [0; FACTOR_BYTES];
        for (bytes, half) in factors.chunks_mut(2).zip(halves) {
            bytes.copy_from_slice(&half.to_le_bytes());
        }
        check(&bounds, &sums, &factors, random.float() * 1000.0);
        let mut out = Bounded::default();
        Kernels::scalar().bound(&bounds, &sums, &factors, 0.0, &mut out);
        let mut wide = [0.0; 2 * GROUP];
        Kernels::scalar().f16_to_f32(&halves, &mut wide);
        for v in 0..GROUP {
            let [base, add, along, offset, error, rounding] = [
                bounds.base,
                bounds.add,
                bounds.along,
                bounds.offset,
                bounds.error,
                bounds.rounding,
            ]
            .map(f64::from);
            let (a, f, sum) = (f64::from(wide[v]), f64::from(wide[GROUP + v]), f64::from(sums[v]));
            let key = base + add * a - along * f * (2.0 * sum - offset);
            let lower = key - error * (f * f - a).max(0.0).sqrt() - rounding;
            let slack = 1e-6 * (base.abs() + (along * f).abs() * (2.0 * sum + offset.abs()) + 100.0);
            assert!((f64::from(out.keys[v]) - key).abs() <= slack, "{bounds:?} {v}");
            assert!(
                (f64::from(out.lowers[v]) - lower).abs() <= 2.0 * slack + 1e-2,
                "{bounds:?} {v}"
            );
        }
    }
}

#[test]
fn bounds_of_anything_are_alike() {
    let mut random = Random::new(32);
    for round in 0..500 {
        let sums: [u32; GROUP] = std::array::from_fn(|_| random.next() as u32 >> 1);
        let factors: [u8; FACTOR_BYTES] = std::array::from_fn(|_| random.byte());
        let mut bounds = terms(&mut random);
        match round % 4 {
            0 => bounds.base = f32::INFINITY,
            1 => bounds.error = f32::NAN,
            _ => {}
        }
        for limit in [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            check(&bounds, &sums, &factors, limit);
        }
    }
}
