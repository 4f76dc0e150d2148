//! Cheapest chains of codes.

use ramlet_kernels::{Kernels, OwnCosts, TRELLIS_STATES, TrellisCosts};

use crate::random::Random;

fn cost(own: &[TrellisCosts], pairs: &[[TrellisCosts; TRELLIS_STATES]], codes: &[u8]) -> f32 {
    let mut before = 0;
    let each = own.iter().zip(pairs).zip(codes).map(|((own, pairs), code)| {
        let code = usize::from(*code);
        let cost = own[code] + pairs[before][code];
        before = code;
        cost
    });
    each.sum()
}

fn alone(own: &[TrellisCosts]) -> OwnCosts<'_> {
    OwnCosts {
        first: own,
        second: None,
    }
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
            let codes: Vec<u8> = (0..count)
                .map(|place| (chain >> (4 * place) & 15) as u8)
                .collect();
            cost(&own, &pairs, &codes)
        });
        let least = chains.fold(f32::INFINITY, f32::min);
        for table in Kernels::all_available() {
            let (mut before, mut codes) = (vec![[7; TRELLIS_STATES]; count], vec![0; count]);
            let told = table.cheapest_chain(&alone(&own), &pairs, &mut before, &mut codes);
            let found = cost(&own, &pairs, &codes);
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
        let second: Vec<TrellisCosts> = (0..count).map(|_| costs()).collect();
        let sum = |(a, b): (&TrellisCosts, &TrellisCosts)| std::array::from_fn(|i| a[i] + 0.5 * b[i]);
        let sums: Vec<TrellisCosts> = own.iter().zip(&second).map(sum).collect();
        let of = |table: &Kernels| {
            let (mut before, mut codes) = (vec![[0; TRELLIS_STATES]; count], vec![0; count]);
            let told = table.cheapest_chain(&alone(&own), &pairs, &mut before, &mut codes);
            let second = OwnCosts {
                first: &own,
                second: Some((0.5, &second)),
            };
            let (mut summed, mut plain) = (codes.clone(), codes.clone());
            let both = table.cheapest_chain(&second, &pairs, &mut before, &mut summed);
            let sums = table.cheapest_chain(&alone(&sums), &pairs, &mut before, &mut plain);
            assert_eq!(
                (both, &summed),
                (sums, &plain),
                "{table:?}, {count}: costs of two parts"
            );
            (told.to_bits(), codes, both.to_bits(), summed)
        };
        let want = of(Kernels::scalar());
        for table in Kernels::all_available() {
            assert_eq!(of(table), want, "{table:?}, {count}");
        }
    }
}

#[test]
fn entries_are_products_with_the_words_of_both_parts() {
    let mut random = Random::new(74);
    for edges in [vec![0, 3], vec![0, 2, 4, 7], vec![0, 1, 2, 3, 3, 9]] {
        let (codes, dims) = (edges.len() - 1, edges[edges.len() - 1]);
        let values: Vec<f32> = (0..dims).map(|_| random.float()).collect();
        let mut words = || -> Vec<TrellisCosts> {
            (0..dims)
                .map(|_| std::array::from_fn(|_| random.float()))
                .collect()
        };
        let (own, reach) = (words(), words());
        let of = |table: &Kernels| {
            let mut out = vec![[9.0; TRELLIS_STATES]; codes];
            table.chain_entries(&values, &edges, [&own, &reach], -2.0, &mut out);
            out
        };
        let got = of(Kernels::scalar());
        for (code, entries) in got.iter().enumerate() {
            for (word, entry) in entries.iter().enumerate() {
                let sum = |from: usize, to: usize, words: &[TrellisCosts]| -> f32 {
                    (from..to).map(|dim| values[dim] * words[dim][word]).sum()
                };
                let next = edges
                    .get(code + 2)
                    .map_or(0.0, |end| sum(edges[code + 1], *end, &reach));
                let want = -2.0 * (sum(edges[code], edges[code + 1], &own) + next);
                assert!(
                    (entry - want).abs() < 1e-5,
                    "code {code}, word {word}: {entry}, {want}"
                );
            }
        }
        for table in Kernels::all_available() {
            assert_eq!(of(table), got, "{table:?}");
        }
    }
}
