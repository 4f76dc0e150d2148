use ramlet_kernels::Kernels;

use crate::random::Random;

fn check_fast_scan_sums(lut: &[u8], groups: &[u8], stride: usize, count: usize) {
    let columns = lut.len() / 16;
    let code = |group: usize, column: usize, v: usize| {
        let byte = groups[group * stride + column * 16 + v % 16];
        usize::from(if v < 16 { byte & 15 } else { byte >> 4 })
    };
    let expected: Vec<u32> = (0..count * 32)
        .map(|i| {
            let entries = (0..columns).map(|c| lut[c * 16 + code(i / 32, c, i % 32)]);
            entries.map(u32::from).sum()
        })
        .collect();
    for table in Kernels::all_available() {
        let mut out = vec![u32::MAX; count * 32];
        table.fast_scan_sums(lut, groups, stride, columns, &mut out);
        assert_eq!(out, expected, "{table:?} {columns} columns, {stride} apart");
        // One after another, what is ahead in more steps than there are, or fewer.
        for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (now, later) = groups[group * stride..].split_at(lut.len());
            out.fill(u32::MAX);
            table.fast_scan_sums_of_group(lut, now, [later, &later[..later.len() / 5]][group % 2], out);
        }
        assert_eq!(out, expected, "{table:?} {columns} columns, one by one");
    }
}

#[test]
fn groups_are_summed_exactly() {
    let mut random = Random::new(21);
    for columns in (0..80).chain([192, 255, 256, 257, 300, 513]) {
        let lut: Vec<u8> = (0..columns * 16).map(|_| random.byte()).collect();
        for (count, gap) in [(0usize, 3), (1, 0), (2, 224), (3, 1), (5, 37)] {
            let stride = columns * 16 + gap;
            // The last group ends with its codes: nothing may be read behind them.
            let len = (count * stride).saturating_sub(gap);
            let groups: Vec<u8> = (0..len).map(|_| random.byte()).collect();
            check_fast_scan_sums(&lut, &groups, stride, count);
        }
    }
}

#[test]
fn sums_do_not_overflow() {
    let mut random = Random::new(22);
    for columns in [256, 257, 258, 1024, 16_384] {
        let groups: Vec<u8> = (0..columns * 16).map(|_| random.byte()).collect();
        check_fast_scan_sums(&vec![255; columns * 16], &groups, columns * 16, 1);
        // Only vectors with one code get something: neighbours don't disturb each other.
        let lut: Vec<u8> = (0..columns * 16)
            .map(|i| if i % 16 == 9 { 255 } else { 0 })
            .collect();
        let groups: Vec<u8> = (0..columns * 16)
            .map(|i| if i % 2 == 0 { 0x99 } else { 0x19 })
            .collect();
        check_fast_scan_sums(&lut, &groups, columns * 16, 1);
    }
}

fn check_planes(query: &[i8], dims: usize, planes: u32, rows: &[&[u8]]) {
    let plane_bytes = dims.div_ceil(8);
    let expected: Vec<i64> = rows
        .iter()
        .map(|row| {
            let bit = |p: usize, i: usize| i64::from(row[p * plane_bytes + i / 8] >> (i % 8) & 1);
            let code = |i| (0..planes as usize).fold(0, |code, p| code * 2 + bit(p, i));
            (0..dims).map(|i| i64::from(query[i]) * code(i)).sum()
        })
        .collect();
    for table in Kernels::all_available() {
        let mut out = vec![-1; rows.len()];
        table.planes_dot_many(query, dims, planes, rows, &mut out);
        let got: Vec<i64> = out.into_iter().map(i64::from).collect();
        assert_eq!(got, expected, "{table:?} {dims} dimensions, {planes} planes");
        for (row, want) in rows.iter().zip(&expected) {
            let got = table.planes_dot(query, dims, planes, row);
            assert_eq!(
                i64::from(got),
                *want,
                "{table:?} {dims} dimensions, {planes} planes"
            );
        }
    }
}

fn padded(dims: usize, mut entry: impl FnMut() -> i8) -> Vec<i8> {
    let mut query: Vec<i8> = (0..dims).map(|_| entry()).collect();
    query.resize(dims.next_multiple_of(64), 0);
    query
}

#[test]
fn planes_are_multiplied_exactly() {
    let mut random = Random::new(23);
    for dims in (0..300).chain([384, 768, 1536]) {
        let query = padded(dims, || random.byte() as i8);
        for planes in 1..=7 {
            // Each row in an allocation of its own, of which it is all.
            let rows: Vec<Vec<u8>> = (0..dims % 7)
                .map(|_| {
                    (0..planes as usize * dims.div_ceil(8))
                        .map(|_| random.byte())
                        .collect()
                })
                .collect();
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            check_planes(&query, dims, planes, &rows);
        }
    }
}

#[test]
fn planes_do_not_overflow() {
    for query in [i8::MIN, i8::MAX] {
        for dims in [100usize, 65_535, 65_536] {
            let row = vec![0xff; 7 * dims.div_ceil(8)];
            check_planes(&padded(dims, || query), dims, 7, &[&row]);
        }
    }
}

#[test]
fn anything_may_be_fetched_ahead() {
    let bytes = [1u8; 300];
    for len in [0, 1, 64, 65, 300] {
        Kernels::prefetch(&bytes[..len]);
    }
}

#[test]
#[should_panic(expected = "do not lie in")]
fn groups_must_lie_in_the_bytes() {
    Kernels::scalar().fast_scan_sums(&[1; 32], &[0; 79], 48, 2, &mut [0; 64]);
}

#[test]
#[should_panic(expected = "has 26 bytes")]
fn rows_must_have_their_planes() {
    Kernels::scalar().planes_dot(&[0; 128], 104, 2, &[0; 25]);
}
