//! Sizes as people write them: `135MB` (10^6), `128MiB` (2^20), `1.5GB`, `64000000`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes given on the command line or in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A smaller number without a unit is asked about: nobody counts so few bytes.
const BARE_BYTES_MIN: u64 = 1_000_000;

/// Suffixes in lower case, without the optional `b` of the decimal ones.
const UNITS: [(&str, u64); 12] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("b", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|&(suffix, unit)| Some((lower.strip_suffix(suffix)?.trim_end(), unit)))
            .unwrap_or((&lower, 1));
        let bytes = scaled(number, unit)
            .ok_or_else(|| format!("'{text}' is not a size; write it like 135MB, 128MiB or 1.5GB"))?;
        if number.len() == lower.len() && (1..BARE_BYTES_MIN).contains(&bytes) {
            return Err(format!("{number} alone is {number} bytes: is {number}MB meant?"));
        }
        Ok(ByteSize(bytes))
    }
}

/// `number x unit` in whole bytes, exact for decimals too (no floating point): `1.5` x 10^9.
pub(crate) fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let mut bytes = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    if !fraction.is_empty() {
        let tenths = fraction.parse::<u128>().ok()? * u128::from(unit);
        bytes += tenths / 10u128.pow(fraction.len() as u32);
    }
    u64::try_from(bytes).ok()
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..=9_999 => write!(f, "{} B", self.0),
            10_000..=9_999_999 => write!(f, "{:.0} kB", bytes / 1e3),
            10_000_000..=9_999_999_999 => write!(f, "{:.0} MB", bytes / 1e6),
            _ => write!(f, "{:.1} GB", bytes / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(text.parse::<ByteSize>().ok(), expected.map(ByteSize), "{text}");
    }

    #[test]
    fn sizes_people_write() {
        check("135MB", Some(135_000_000));
        check("135mb", Some(135_000_000));
        check("135 MB", Some(135_000_000));
        check("135M", Some(135_000_000));
        check("128MiB", Some(128 << 20));
        check("1.5GB", Some(1_500_000_000));
        check("0.5GiB", Some(1 << 29));
        check("64000000", Some(64_000_000));
        check("12b", Some(12));
        check("2TB", Some(2_000_000_000_000));
    }

    #[test]
    fn sizes_that_are_none() {
        for text in ["", "MB", "-1MB", "1e6", "1.2.3MB", "12 apples", ".5GB", "0x10"] {
            check(text, None);
        }
        check("0", Some(0));
        check("135B", Some(135));
        for text in ["1", "135", "999999", " 135 "] {
            let why = text.parse::<ByteSize>().unwrap_err();
            assert!(why.contains(&format!("is {}MB meant?", text.trim())), "{why}");
        }
        check("99999999999999999999", None);
        check("99999999TB", None);
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(ByteSize(135_000_000).to_string(), "135 MB");
        assert_eq!(ByteSize(512).to_string(), "512 B");
        assert_eq!(ByteSize(24_800_000_000).to_string(), "24.8 GB");
    }
}
