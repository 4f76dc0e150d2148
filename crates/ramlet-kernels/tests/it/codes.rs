use ramlet_kernels::{CodeWidth, Kernels};

use crate::random::Random;

const WIDTHS: [CodeWidth; 2] = [CodeWidth::Four, CodeWidth::Eight];

/// Dimension `i` of a code.
fn level(width: CodeWidth, code: &[u8], i: usize) -> i64 {
    i64::from(match width {
        CodeWidth::Four if i < code.len() => code[i] & 15,
        CodeWidth::Four => code[i - code.len()] >> 4,
        CodeWidth::Eight => code[i],
    })
}

fn check(width: CodeWidth, query: &[i8], rows: &[u8], code_bytes: usize, stride: usize, count: usize) {
    let expected: Vec<i64> = (0..count)
        .map(|row| {
            let code = &rows[row * stride..][..code_bytes];
            let levels = (0..query.len()).map(|i| level(width, code, i));
            levels.zip(query).map(|(level, q)| level * i64::from(*q)).sum()
        })
        .collect();
    for table in Kernels::all_available() {
        let mut out = vec![-1; count];
        table.dot_codes(width, query, rows, stride, &mut out);
        let got: Vec<i64> = out.into_iter().map(i64::from).collect();
        assert_eq!(
            got, expected,
            "{table:?} {width:?} {code_bytes} bytes, {stride} apart"
        );
    }
}

#[test]
fn codes_are_multiplied_exactly() {
    let mut random = Random::new(11);
    for width in WIDTHS {
        for code_bytes in (1..140).chain([192, 385, 768]) {
            let query: Vec<i8> = (0..width.query_len(code_bytes))
                .map(|_| (random.next() >> 56) as u8 as i8)
                .collect();
            for (count, gap) in [(0usize, 3), (1, 0), (3, 14), (4, 1), (9, 0)] {
                let stride = code_bytes + gap;
                // The last row ends with its code: nothing may be read behind it.
                let len = (count * stride).saturating_sub(gap);
                let rows: Vec<u8> = (0..len).map(|_| (random.next() >> 56) as u8).collect();
                check(width, &query, &rows, code_bytes, stride, count);
                // Whose products fit fewer bits.
                let narrow: Vec<i8> = query.iter().map(|entry| entry / 2).collect();
                check(width, &narrow, &rows, code_bytes, stride, count);
            }
        }
    }
}

#[test]
fn codes_do_not_overflow() {
    for width in WIDTHS {
        let code_bytes = width.code_bytes(65_536);
        for query in [i8::MIN, -65, -64, 64, 65, i8::MAX] {
            let (query, code) = (vec![query; 65_536], vec![0xff; code_bytes]);
            check(width, &query, &code, code_bytes, code_bytes, 1);
        }
    }
}

#[test]
#[should_panic(expected = "do not lie in")]
fn codes_must_lie_in_the_bytes() {
    Kernels::scalar().dot_codes(CodeWidth::Four, &[1; 8], &[0; 7], 4, &mut [0; 2]);
}
