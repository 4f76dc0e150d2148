use ramlet_kernels::{BRAID, Kernels, braid_bytes};

use crate::random::Random;

fn check(query: &[i8], braids: &[u8], count: usize) {
    let expected: Vec<i64> = (0..count)
        .map(|code| {
            let braid = &braids[code / BRAID * braid_bytes(query.len())..];
            let digit = |i: usize| i64::from(braid[i / 4 * 64 + code % BRAID * 4 + i % 4]);
            query
                .iter()
                .enumerate()
                .map(|(i, q)| digit(i) * i64::from(*q))
                .sum()
        })
        .collect();
    for table in Kernels::all_available() {
        let mut out = vec![-1; count];
        table.dot_braided(query, braids, &mut out);
        let got: Vec<i64> = out.into_iter().map(i64::from).collect();
        assert_eq!(got, expected, "{table:?}, {} dimensions", query.len());
    }
}

#[test]
fn braided_codes_are_multiplied_exactly() {
    let mut random = Random::new(21);
    for columns in (0..40).chain([96, 192]) {
        let query: Vec<i8> = (0..columns * 4)
            .map(|_| (random.next() >> 56) as u8 as i8)
            .collect();
        for braids in [0, 1, 5, 6, 7, 13] {
            let len = braids * braid_bytes(query.len());
            let bytes: Vec<u8> = (0..len).map(|_| (random.next() >> 56) as u8).collect();
            check(&query, &bytes, braids * BRAID);
        }
    }
}

#[test]
fn braided_codes_do_not_overflow() {
    for query in [i8::MIN, i8::MAX] {
        check(&[query; 65_536], &vec![255; braid_bytes(65_536)], BRAID);
    }
}
