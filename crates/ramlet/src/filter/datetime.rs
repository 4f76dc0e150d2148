//! Datetimes as payloads and conditions spell them.

use chrono::{DateTime, NaiveDate, SecondsFormat};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Microseconds since 1970 UTC of `2024-02-29`, `2024-02-29T10:30`, `2024-02-29 10:30:00.25+01:00` and the like:
/// a date, then optionally `T` or spaces and a time, then (after seconds only) an offset `Z`, `+hh`, `+hhmm`, `+hh:mm`
/// or ` UTC`. No offset means UTC. Digits below a microsecond are cut. `None` for anything else.
pub fn parse_datetime(text: &str) -> Option<i64> {
    let mut scan = Scan {
        rest: text.trim_start().as_bytes(),
    };
    let year = scan.digits(4, 4)?;
    scan.byte(b'-')?;
    let month = scan.digits(1, 2)?;
    scan.byte(b'-')?;
    let day = scan.digits(1, 2)?;
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok().filter(|y| *y > 0)?, month, day)?;
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    let midnight = days * 86_400 * MICROS_PER_SECOND;
    if scan.rest.is_empty() {
        return Some(midnight);
    }
    if scan.byte(b'T').or_else(|| scan.byte(b't')).is_none() {
        scan.spaces()?;
    }
    let (hour, minute) = (scan.digits(1, 2)?, scan.after_colon()?);
    let (mut second, mut micros, mut offset) = (0, 0, 0);
    if !scan.rest.is_empty() {
        second = scan.after_colon()?;
        micros = scan.fraction()?;
        offset = scan.offset()?;
    }
    if hour > 23 || minute > 59 || second > 59 || !scan.rest.is_empty() {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second) - offset;
    Some(midnight + seconds * MICROS_PER_SECOND + micros)
}

/// RFC 3339 in UTC with microseconds; the number itself where the calendar ends.
pub fn format_datetime(micros: i64) -> String {
    match DateTime::from_timestamp_micros(micros) {
        Some(datetime) => datetime.to_rfc3339_opts(SecondsFormat::AutoSi, true),
        None => micros.to_string(),
    }
}

struct Scan<'a> {
    rest: &'a [u8],
}

impl Scan<'_> {
    fn byte(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn spaces(&mut self) -> Option<()> {
        let trimmed = self.rest.trim_ascii_start();
        let some = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        some.then_some(())
    }

    fn digits(&mut self, min: usize, max: usize) -> Option<u32> {
        let len = self
            .rest
            .iter()
            .take(max)
            .take_while(|b| b.is_ascii_digit())
            .count();
        if len < min {
            return None;
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')))
    }

    fn after_colon(&mut self) -> Option<u32> {
        self.byte(b':')?;
        self.digits(1, 2)
    }

    /// Microseconds of `.digits`, 0 without a point.
    fn fraction(&mut self) -> Option<i64> {
        if self.byte(b'.').is_none() {
            return Some(0);
        }
        let len = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if len == 0 {
            return None;
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(6);
        Some(padded.fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    }

    /// Seconds east of UTC, 0 when nothing is left.
    fn offset(&mut self) -> Option<i64> {
        if self.rest.is_empty() {
            return Some(0);
        }
        let spaced = self.spaces().is_some();
        if spaced && self.rest == b"UTC" || matches!(self.rest, b"Z" | b"z") {
            self.rest = &[];
            return Some(0);
        }
        let sign = match self.rest.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.digits(2, 2)?;
        let colon = self.byte(b':').is_some();
        let minutes = if colon || !self.rest.is_empty() {
            self.digits(2, 2)?
        } else {
            0
        };
        (hours < 24 && minutes < 60).then_some(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
    }
}
