use ramlet_kernels::{INTERLEAVED_CODES, Kernels, interleaved_bytes};

use crate::random::Random;

fn check(query: &[i8], interleaved_blocks: &[u8], count: usize) {
    let expected: Vec<i64> = (0..count)
        .map(|code| {
            let interleaved_block =
                &interleaved_blocks[code / INTERLEAVED_CODES * interleaved_bytes(query.len())..];
            let level =
                |i: usize| i64::from(interleaved_block[i / 4 * 64 + code % INTERLEAVED_CODES * 4 + i % 4]);
            query
                .iter()
                .enumerate()
                .map(|(i, q)| level(i) * i64::from(*q))
                .sum()
        })
        .collect();
    for table in Kernels::all_available() {
        let mut out = vec![-1; count];
        table.dot_interleaved(query, interleaved_blocks, &mut out);
        let got: Vec<i64> = out.into_iter().map(i64::from).collect();
        assert_eq!(got, expected, "{table:?}, {} dimensions", query.len());
    }
}

#[test]
fn interleaved_codes_are_multiplied_exactly() {
    let mut random = Random::new(21);
    for columns in (0..40).chain([96, 192]) {
        let query: Vec<i8> = (0..columns * 4)
            .map(|_| (random.next() >> 56) as u8 as i8)
            .collect();
        for interleaved_blocks in [0, 1, 5, 6, 7, 13] {
            let len = interleaved_blocks * interleaved_bytes(query.len());
            let bytes: Vec<u8> = (0..len).map(|_| (random.next() >> 56) as u8).collect();
            check(&query, &bytes, interleaved_blocks * INTERLEAVED_CODES);
        }
    }
}

#[test]
fn interleaved_codes_do_not_overflow() {
    for query in [i8::MIN, i8::MAX] {
        check(
            &[query; 65_536],
            &vec![255; interleaved_bytes(65_536)],
            INTERLEAVED_CODES,
        );
    }
}
