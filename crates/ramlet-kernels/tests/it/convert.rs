use ramlet_kernels::Kernels;

use crate::random::Random;

#[test]
fn every_half_widens_alike_and_exactly() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    for table in Kernels::all_available() {
        let mut wide = vec![0.0f32; halves.len()];
        table.f16_to_f32(&halves, &mut wide);
        for (half, wide) in halves.iter().zip(&wide) {
            let (exponent, fraction) = (half >> 10 & 31, f64::from(half & 1023));
            let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
            match exponent {
                0 => assert_eq!(
                    f64::from(*wide),
                    sign * fraction * 2f64.powi(-24),
                    "{table:?} {half:#x}"
                ),
                31 if fraction == 0.0 => assert_eq!(f64::from(*wide), sign * f64::INFINITY, "{table:?}"),
                31 => assert!(wide.is_nan(), "{table:?} {half:#x}"),
                e => {
                    let value = sign * (1.0 + fraction / 1024.0) * 2f64.powi(i32::from(e) - 15);
                    assert_eq!(f64::from(*wide), value, "{table:?} {half:#x}");
                }
            }
            assert_eq!(wide.is_sign_negative(), sign < 0.0);
        }
        let mut reference = vec![0.0f32; halves.len()];
        Kernels::scalar().f16_to_f32(&halves, &mut reference);
        let equal = wide
            .iter()
            .zip(&reference)
            .all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(equal, "{table:?} differs from the reference");
    }
}

#[test]
fn a_half_survives_the_round_trip() {
    // NaNs come back quiet.
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    for table in Kernels::all_available() {
        let (mut wide, mut back) = (vec![0.0; halves.len()], vec![0; halves.len()]);
        table.f16_to_f32(&halves, &mut wide);
        table.f32_to_f16(&wide, &mut back);
        for (half, back) in halves.iter().zip(&back) {
            let quiet = if half & 0x7fff > 0x7c00 {
                half | 0x200
            } else {
                *half
            };
            assert_eq!(*back, quiet, "{table:?} {half:#x}");
        }
    }
}

#[test]
fn rounding_is_to_nearest_even() {
    // Around each half, each midpoint between two halves, and their float neighbours.
    let halves: Vec<u16> = (0..0x7c00).collect();
    let mut wide = vec![0.0f32; halves.len()];
    Kernels::scalar().f16_to_f32(&halves, &mut wide);
    let (mut inputs, mut wanted) = (Vec::new(), Vec::new());
    for (half, pair) in halves.iter().zip(wide.windows(2)) {
        let middle = (pair[0] + pair[1]) / 2.0;
        let even = if half % 2 == 0 { *half } else { half + 1 };
        let around = [
            (pair[0], *half),
            (middle.next_down(), *half),
            (middle, even),
            (middle.next_up(), half + 1),
        ];
        for (input, want) in around {
            inputs.extend([input, -input]);
            wanted.extend([want, want | 0x8000]);
        }
    }
    inputs.extend([
        65504.0,
        65520.0f32.next_down(),
        65520.0,
        1e30,
        f32::INFINITY,
        f32::MIN_POSITIVE / 8.0,
    ]);
    wanted.extend([0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 0]);
    for table in Kernels::all_available() {
        let mut got = vec![0; inputs.len()];
        table.f32_to_f16(&inputs, &mut got);
        for ((input, got), want) in inputs.iter().zip(&got).zip(&wanted) {
            assert_eq!(got, want, "{table:?} {input:e}");
        }
    }
}

#[test]
fn arbitrary_bits_convert_alike() {
    let mut random = Random::new(4);
    for n in (0..70).chain([5000]) {
        let inputs: Vec<f32> = (0..n)
            .map(|_| f32::from_bits((random.next() >> 32) as u32))
            .collect();
        let mut want = vec![0; n];
        Kernels::scalar().f32_to_f16(&inputs, &mut want);
        for table in Kernels::all_available() {
            let mut got = vec![0xaaaa; n];
            table.f32_to_f16(&inputs, &mut got);
            assert_eq!(got, want, "{table:?} n={n}");
        }
    }
}
