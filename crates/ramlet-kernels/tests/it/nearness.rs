//! Distances of centroids.

use ramlet_kernels::{Kernels, Nearness, packed, unpacked};

use crate::random::Random;

#[test]
fn keys_are_what_the_formula_says_in_all_tables() {
    let mut random = Random::new(71);
    for count in [0, 1, 7, 16, 33, 96] {
        let terms = Nearness {
            per_length: random.float(),
            per_product: random.float(),
            less: random.next() as i32 % 100_000,
        };
        let products: Vec<i32> = (0..count).map(|_| random.next() as i32 % 1_000_000).collect();
        let parts: Vec<[f32; 2]> = (0..count).map(|_| [random.float(), random.float()]).collect();
        let heads: Vec<[u8; 8]> = parts
            .iter()
            .map(|[step, length]| {
                let bits = u64::from(length.to_bits()) << 32 | u64::from(step.to_bits());
                bits.to_le_bytes()
            })
            .collect();
        let first = 1 << 20;
        let want: Vec<u64> = (first..)
            .zip(products.iter().zip(&parts))
            .map(|(number, (product, [step, length]))| {
                let product = (product - terms.less) as f32;
                packed(
                    terms.per_length * length + terms.per_product * step * product,
                    number,
                )
            })
            .collect();
        for table in Kernels::all_available() {
            let mut out = vec![0; count];
            table.nearness(&terms, &products, &heads, first, &mut out);
            assert_eq!(out, want, "{table:?}, {count}");
        }
    }
}

#[test]
fn places_are_those_of_keys_up_to_the_most() {
    let mut random = Random::new(72);
    for count in (0..40).chain([1_000]) {
        let distances: Vec<u64> = (0..count).map(|_| random.next()).collect();
        let some = distances.get(count / 2).copied().unwrap_or(7);
        for most in [0, some, some.wrapping_sub(1), u64::MAX / 2, u64::MAX] {
            let at_most = |place: &u32| distances[*place as usize] <= most;
            let want: Vec<u32> = (0..count as u32).filter(at_most).collect();
            for table in Kernels::all_available() {
                let mut out = vec![9; 3];
                table.places_at_most(&distances, most, &mut out);
                assert_eq!(out, want, "{table:?}, {count} up to {most}");
            }
        }
    }
}

#[test]
fn packed_keys_are_in_the_order_of_keys_then_numbers() {
    let distances = [f32::MIN, -2.0, -1e-30, 0.0, 1e-30, 1.5, f32::MAX, f32::INFINITY];
    for pair in distances.windows(2) {
        assert!(packed(pair[0], u32::MAX) < packed(pair[1], 0), "{pair:?}");
        assert!(packed(pair[0], 1) < packed(pair[0], 2), "{pair:?}");
    }
}

#[test]
fn what_was_packed_is_unpacked() {
    for distance in [f32::MIN, -2.0, -1e-30, -0.0, 0.0, 1e-30, 1.5, f32::INFINITY] {
        let (again, number) = unpacked(packed(distance, 7));
        assert_eq!((again.to_bits(), number), (distance.to_bits(), 7), "{distance}");
    }
}
