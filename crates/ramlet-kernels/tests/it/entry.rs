use ramlet_kernels::Kernels;

use crate::random::Random;

fn float(random: &mut Random) -> f32 {
    f32::from(random.byte()) / 100.0 - 1.28
}

#[test]
fn differences_are_rounded_and_tabulated() {
    let mut random = Random::new(32);
    for len in (1..70).chain([100, 128, 771]) {
        let query: Vec<f32> = (0..len).map(|_| float(&mut random)).collect();
        let levels: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        let mut first = None;
        for table in Kernels::all_available() {
            let mut out = vec![0.0; len];
            let extent = table.difference(&query, 0.01, &levels, &mut out);
            for ((out, query), level) in out.iter().zip(&query).zip(&levels) {
                assert!(
                    (out - (query - 0.01 * (f32::from(*level) - 128.0))).abs() < 1e-5,
                    "{table:?}"
                );
            }
            let largest = out.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            let column = out
                .chunks(4)
                .map(|four| four.iter().map(|value| value.abs()).sum());
            let column: f32 = column.fold(0.0, f32::max);
            let squares: f32 = out.iter().map(|value| value * value).sum();
            assert!((extent.largest - largest).abs() < 1e-5, "{table:?} {len}");
            assert!((extent.column - column).abs() < 1e-4, "{table:?} {len}");
            assert!(
                (extent.squares - squares).abs() < 1e-5 * len as f32,
                "{table:?} {len}"
            );

            let per_unit = 250.0 / column.max(largest * 2.0);
            let values = first.get_or_insert(out);
            let mut rounded = vec![0i8; len];
            let (total, size) = table.round(values, per_unit, &mut rounded);
            for (rounded, value) in rounded.iter().zip(&*values) {
                assert_eq!(
                    f32::from(*rounded),
                    (value * per_unit).round_ties_even(),
                    "{table:?} {len}"
                );
            }
            assert_eq!(total, rounded.iter().map(|z| i32::from(*z)).sum::<i32>());
            assert_eq!(size, rounded.iter().map(|z| i32::from(*z).abs()).sum::<i32>());

            rounded.resize(len.next_multiple_of(4), 0);
            let mut entries = vec![7; rounded.len() * 4];
            table.tabulate(&rounded, &mut entries);
            for (entry, i) in entries.iter().zip(0..) {
                let (column, level) = (&rounded[i / 16 * 4..][..4], i % 16);
                let sum = |level: usize| -> i32 {
                    let set = column.iter().enumerate().filter(|(j, _)| level >> j & 1 == 1);
                    set.map(|(_, z)| i32::from(*z)).sum()
                };
                let least = (0..16).map(sum).min().expect("sixteen");
                assert_eq!(i32::from(*entry), sum(level) - least, "{table:?} {len}");
            }
        }
    }
}
