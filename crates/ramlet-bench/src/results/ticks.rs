//! Which values an axis names: four to ten round ones, however long or short it is.

use super::table::figure;

/// Fewer say too little of where a point lies.
const FEW: usize = 4;
const MANY: usize = 10;
/// Of each power of ten, the sparsest first.
const OF_A_DECADE: [&[f64]; 4] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
];

/// Round values from `low` to `high`, which differ; above zero if the axis is logarithmic.
pub fn ticks(low: f64, high: f64, log: bool) -> Vec<f64> {
    if !log {
        return linear(low, high);
    }
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |parts: &[f64]| -> Vec<f64> {
        let all = decades
            .clone()
            .flat_map(|n| parts.iter().map(move |part| part * 10f64.powi(n)));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let enough = OF_A_DECADE.into_iter().map(of).find(|found| found.len() >= FEW);
    let found = enough.unwrap_or_else(|| linear(low, high));
    let every = found.len().div_ceil(MANY);
    found.into_iter().step_by(every).collect()
}

fn linear(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / MANY as f64;
    let decade = 10f64.powi(raw.log10().floor() as i32);
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|part| part * decade);
    let step = steps.into_iter().find(|step| *step >= raw).unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// As short as it can be: `4`, not `4.00`; but 0.975, not 0.98, where the next one is 0.95.
pub fn label(value: f64) -> String {
    let text = match value.abs() {
        v if (0.001..10.0).contains(&v) => format!("{value:.4}"),
        _ => figure(value),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_a_few_round_values() {
        let check = |low, high, log, expected: &[f64]| {
            let found = ticks(low, high, log);
            let same = found.len() == expected.len()
                && found
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
            assert!(same, "{low} to {high}: {found:?}");
        };
        check(0.0, 8.4, false, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        check(
            0.9,
            1.0,
            false,
            &[0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0],
        );
        check(3.4, 9.2, true, &[4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        check(0.3, 6_000.0, true, &[1.0, 10.0, 100.0, 1_000.0]);
        check(42.0, 1_700.0, true, &[50.0, 100.0, 200.0, 500.0, 1_000.0]);
        check(30.0, 150.0, true, &[30.0, 50.0, 70.0, 100.0, 150.0]);
        for exponent in -3..6 {
            for factor in [1.01, 1.3, 2.0, 7.0, 60.0, 1e3, 1e9] {
                let low = 1.7 * 10f64.powi(exponent);
                for log in [true, false] {
                    let count = ticks(low, low * factor, log).len();
                    assert!((3..=11).contains(&count), "{low} x {factor}, {log}: {count}");
                }
            }
        }
    }

    #[test]
    fn labels_are_short() {
        let labels = [4.0, 0.95, 0.975, 1.5, 20.0, 1_000.0, 0.0, 0.005].map(label);
        assert_eq!(labels, ["4", "0.95", "0.975", "1.5", "20", "1,000", "0", "0.005"]);
    }
}
