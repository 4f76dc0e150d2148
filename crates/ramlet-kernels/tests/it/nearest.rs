//! Several queries against interleaved codes.

use ramlet_kernels::{
    INTERLEAVED_CODES, InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery, Kernels,
    Nearest, interleaved_bytes,
};

use crate::random::Random;

struct Set {
    len: usize,
    levels: Vec<i8>,
    codes: Vec<u8>,
    scales: Vec<f32>,
    bases: Vec<f32>,
}

impl Set {
    /// `whole` numbers only, so that scores are often equal.
    fn new(random: &mut Random, columns: usize, queries: usize, count: usize, whole: bool) -> Set {
        let len = columns * 4;
        let mut number = |most: u64| match whole {
            true => (random.next() >> 32) % 2,
            false => (random.next() >> 32) % most,
        };
        let levels = (0..queries * len).map(|_| number(255) as u8 as i8).collect();
        let bytes = count.div_ceil(INTERLEAVED_CODES) * interleaved_bytes(len);
        let codes = (0..bytes).map(|_| number(255) as u8).collect();
        let mut factors = |share: f32| (0..count).map(|_| number(1000) as f32 * share).collect();
        Set {
            len,
            levels,
            codes,
            scales: factors(if whole { 1.0 } else { 1e-3 }),
            bases: factors(1.0),
        }
    }

    fn queries(&self) -> Vec<InterleavedQuery<'_>> {
        let each = self.levels.chunks_exact(self.len).enumerate();
        let query = |(i, levels)| InterleavedQuery {
            levels,
            per_product: if i % 3 == 0 { -0.5 } else { -2.0 },
            less: i as i32 * 7 - 20,
        };
        each.map(query).collect()
    }

    fn product(&self, levels: &[i8], code: usize) -> i32 {
        let interleaved_block = &self.codes[code / INTERLEAVED_CODES * interleaved_bytes(self.len)..];
        let level =
            |i: usize| i32::from(interleaved_block[i / 4 * 64 + code % INTERLEAVED_CODES * 4 + i % 4]);
        let products = levels.iter().enumerate();
        products.map(|(i, q)| level(i) * i32::from(*q)).sum()
    }

    fn score(&self, query: &InterleavedQuery<'_>, base: f32, code: usize) -> f32 {
        let product = self.product(query.levels, code);
        base + query.per_product * self.scales[code] * (product - query.less) as f32
    }
}

fn check_nearest(set: &Set, range: std::ops::Range<usize>, start: Nearest) {
    let queries = set.queries();
    let of_one = |query: &InterleavedQuery<'_>| {
        range.clone().fold(start, |least, code| {
            let score = set.score(query, set.bases[code], code);
            let code = code as u32;
            if score < least.score {
                Nearest { score, code }
            } else {
                least
            }
        })
    };
    let want: Vec<Nearest> = queries.iter().map(of_one).collect();
    let interleaved_blocks = InterleavedCodes {
        codes: &set.codes,
        scales: &set.scales,
        bases: &set.bases,
    };
    for table in Kernels::all_available() {
        let mut got = vec![start; queries.len()];
        table.nearest_interleaved(&queries, &interleaved_blocks, range.clone(), &mut got);
        assert_eq!(got, want, "{table:?}, {range:?}, {} dimensions", set.len);
    }
}

fn check_within(set: &Set, most: f32) {
    let queries = set.queries();
    let limit = |i| InterleavedLimit { base: i as f32, most };
    let limits: Vec<InterleavedLimit> = (0..queries.len()).map(limit).collect();
    let interleaved_blocks = set.scales.len().div_ceil(INTERLEAVED_CODES);
    let mut want = vec![0u16; queries.len() * interleaved_blocks];
    for (i, query) in queries.iter().enumerate() {
        for code in 0..set.scales.len() {
            let score = set.score(query, limits[i].base, code);
            let near = score.is_nan() || score <= most;
            want[i * interleaved_blocks + code / INTERLEAVED_CODES] |=
                u16::from(near) << (code % INTERLEAVED_CODES);
        }
    }
    for table in Kernels::all_available() {
        let mut got = vec![0xaaaa; want.len()];
        table.within_interleaved(&queries, &limits, &set.codes, &set.scales, &mut got);
        assert_eq!(got, want, "{table:?}, {most}, {} dimensions", set.len);
    }
}

const NONE: Nearest = Nearest {
    score: f32::INFINITY,
    code: 7,
};

#[test]
fn the_first_of_the_nearest_is_found() {
    let mut random = Random::new(81);
    for (columns, count) in [(1, 1), (3, 16), (25, 17), (25, 90), (2, 130), (40, 200)] {
        for queries in [0, 1, 3, 4, 5, 9] {
            for whole in [false, true] {
                let set = Set::new(&mut random, columns, queries, count, whole);
                for start in [0, 5, 16, 31] {
                    for end in [start, start + 1, count / 2, count] {
                        if start <= end && end <= count {
                            check_nearest(&set, start..end, NONE);
                            check_nearest(&set, start..end, Nearest { score: 1.0, ..NONE });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_is_never_the_nearest() {
    let mut set = Set::new(&mut Random::new(82), 4, 5, 50, false);
    for (i, base) in set.bases.iter_mut().enumerate() {
        *base = [f32::NAN, f32::INFINITY][i % 2];
    }
    check_nearest(&set, 0..50, NONE);
    set.bases[33] = 1e9;
    check_nearest(&set, 0..50, NONE);
}

#[test]
fn those_within_a_limit_are_told() {
    let mut random = Random::new(83);
    for (columns, count) in [(1, 1), (3, 16), (25, 17), (25, 96), (2, 130)] {
        for queries in [0, 1, 4, 7] {
            for whole in [false, true] {
                let mut set = Set::new(&mut random, columns, queries, count, whole);
                for most in [f32::NEG_INFINITY, -1e4, -1.0, 0.0, 3.0, f32::INFINITY, f32::NAN] {
                    if most.is_nan() {
                        set.scales[count / 2] = f32::NAN;
                        check_within(&set, 0.0);
                    } else {
                        check_within(&set, most);
                    }
                }
            }
        }
    }
}

#[test]
fn squared_distances_and_those_below_a_limit_are_told() {
    let mut random = Random::new(85);
    for (columns, interleaved_blocks) in [(1, 1), (3, 2), (25, 3), (25, 4), (2, 13)] {
        for queries in [0, 1, 3, 4, 7] {
            let set = Set::new(
                &mut random,
                columns,
                queries,
                interleaved_blocks * INTERLEAVED_CODES,
                false,
            );
            let squares: Vec<u32> = set
                .codes
                .iter()
                .take(interleaved_blocks * INTERLEAVED_CODES)
                .map(|_| random.next() as u32)
                .collect();
            let ball = |(i, levels)| InterleavedBall {
                levels,
                offset: random.next() as u32,
                limit: [0, 1 << 30, 1 << 31, 3 << 30, u32::MAX][i % 5],
            };
            let balls: Vec<InterleavedBall<'_>> =
                set.levels.chunks_exact(set.len).enumerate().map(ball).collect();
            let mut want = (Vec::new(), vec![0u16; queries * interleaved_blocks]);
            for (i, query) in balls.iter().enumerate() {
                for (code, own) in squares.iter().enumerate() {
                    let twice = 2 * i64::from(set.product(query.levels, code));
                    let distance = (i64::from(*own) + i64::from(query.offset) - twice) as u32;
                    want.0.push(distance);
                    want.1[i * interleaved_blocks + code / INTERLEAVED_CODES] |=
                        u16::from(distance < query.limit) << (code % INTERLEAVED_CODES);
                }
            }
            for table in Kernels::all_available() {
                let mut got = (
                    vec![7; queries * squares.len()],
                    vec![0xaaaa; queries * interleaved_blocks],
                );
                table.closer_interleaved(&balls, &set.codes, &squares, &mut got.0, &mut got.1);
                assert!(
                    got == want,
                    "{table:?}, {columns} columns, {interleaved_blocks} interleaved_blocks, {queries} queries"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "codes that aren't there")]
fn codes_must_be_there() {
    let mut set = Set::new(&mut Random::new(84), 4, 1, 20, false);
    set.codes.truncate(interleaved_bytes(16));
    let interleaved_blocks = InterleavedCodes {
        codes: &set.codes,
        scales: &set.scales,
        bases: &set.bases,
    };
    Kernels::scalar().nearest_interleaved(&set.queries(), &interleaved_blocks, 0..17, &mut [NONE]);
}
