//! Cheapest chains of digits.

use ramlet_kernels::{Kernels, TRELLIS_STATES, TrellisCosts};

use crate::random::Random;

fn cost(own: &[TrellisCosts], pairs: &[[TrellisCosts; TRELLIS_STATES]], digits: &[u8]) -> f32 {
    let mut before = 0;
    let each = own.iter().zip(pairs).zip(digits).map(|((own, pairs), digit)| {
        let digit = usize::from(*digit);
        let cost = own[digit] + pairs[before][digit];
        before = digit;
        cost
    });
    each.sum()
}

#[test]
fn no_chain_is_cheaper_in_any_table() {
    let mut random = Random::new(72);
    for count in 1..=3 {
        let mut costs = || -> TrellisCosts { std::array::from_fn(|_| random.float()) };
        let own: Vec<TrellisCosts> = (0..count).map(|_| costs()).collect();
        let pairs: Vec<[TrellisCosts; TRELLIS_STATES]> =
            (0..count).map(|_| std::array::from_fn(|_| costs())).collect();
        let chains = (0..1u32 << (4 * count)).map(|chain| {
            let digits: Vec<u8> = (0..count)
                .map(|place| (chain >> (4 * place) & 15) as u8)
                .collect();
            cost(&own, &pairs, &digits)
        });
        let least = chains.fold(f32::INFINITY, f32::min);
        for table in Kernels::all_available() {
            let (mut before, mut digits) = (vec![[7; TRELLIS_STATES]; count], vec![0; count]);
            let told = table.cheapest_chain(&own, &pairs, &mut before, &mut digits);
            let found = cost(&own, &pairs, &digits);
            assert!(
                (found - least).abs() < 1e-5 && (told - least).abs() < 1e-5,
                "{table:?}: {found}, {least}"
            );
        }
    }
}

#[test]
fn all_tables_find_the_same_chain() {
    let mut random = Random::new(73);
    for count in [0, 1, 2, 50, 300] {
        // Whole numbers, so that chains are often equal.
        let mut costs = || -> TrellisCosts { std::array::from_fn(|_| (random.next() % 4) as f32) };
        let own: Vec<TrellisCosts> = (0..count).map(|_| costs()).collect();
        let pairs: Vec<[TrellisCosts; TRELLIS_STATES]> =
            (0..count).map(|_| std::array::from_fn(|_| costs())).collect();
        let of = |table: &Kernels| {
            let (mut before, mut digits) = (vec![[0; TRELLIS_STATES]; count], vec![0; count]);
            let told = table.cheapest_chain(&own, &pairs, &mut before, &mut digits);
            (told.to_bits(), digits)
        };
        let want = of(Kernels::scalar());
        for table in Kernels::all_available() {
            assert_eq!(of(table), want, "{table:?}, {count}");
        }
    }
}
