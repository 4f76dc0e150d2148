//! Counts as people write them: `1000000`, `1_000_000`, `10k`, `1M`, `1.5M`, `2B`.

use std::ops::RangeInclusive;

use crate::size::scaled;

/// Suffixes in lower case.
const UNITS: [(char, u64); 4] = [
    ('k', 1_000),
    ('m', 1_000_000),
    ('g', 1_000_000_000),
    ('b', 1_000_000_000),
];

/// A number of things, given on the command line. A fraction must come out whole.
pub fn count(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find(|(suffix, _)| lower.ends_with(*suffix));
    let (number, unit) = match unit {
        Some((suffix, unit)) => (lower.trim_end_matches(*suffix).trim_end(), *unit),
        None => (lower.as_str(), 1),
    };
    let digits = number.replace('_', "");
    // No finer than the unit: the count comes out whole.
    let places = unit.ilog10() as usize;
    let fraction = digits.split_once('.').map(|(_, fraction)| fraction.len());
    let value = scaled(&digits, unit).filter(|_| fraction.is_none_or(|len| (1..=places).contains(&len)));
    value.ok_or_else(|| "it takes a whole number, like 1000000, 1_000_000, 10k or 1M".to_string())
}

/// As [`count`], within a range.
pub fn count_within(range: RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    match count(text)? {
        value if range.contains(&value) => Ok(value),
        value => Err(format!(
            "{value} is not from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_people_write() {
        for (text, expected) in [
            ("0", 0),
            ("1000", 1_000),
            ("1_000_000", 1_000_000),
            ("10k", 10_000),
            ("10K", 10_000),
            ("1M", 1_000_000),
            ("1.5m", 1_500_000),
            ("0.25k", 250),
            ("2B", 2_000_000_000),
            ("1G", 1_000_000_000),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1.5",
            "1.0005k",
            "1e6",
            "1MB",
            "kk",
            "1.",
            "99999999999B",
            "½",
        ] {
            assert!(count(text).is_err(), "{text}");
        }
        assert_eq!(count_within(1..=1_000, "1k"), Ok(1_000));
        assert!(count_within(1..=1_000, "2k").is_err());
    }
}
