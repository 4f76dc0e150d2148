//! The limits of a route's body, and the bytes that it and its parsed form take.

use axum::http::StatusCode;
use memchr::{memchr, memchr2};
use ramlet_memory::{size, size_up};

use crate::error::{ApiError, ApiResult};
use crate::limits;

/// What the bodies of a route may be, and what they become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRule {
    /// Largest body, bytes.
    pub cap: u64,
    /// Bytes reserved per byte of body before it is read: the body and what usually comes of it.
    pub factor: u64,
    /// Bytes that the parsed form can have for an element of a list or map...
    pub per_element: u64,
    /// ... for an element that is a number with a point, and so no id...
    pub per_float: u64,
    /// ... and for a list or map itself.
    pub per_open: u64,
}

impl BodyRule {
    /// Nothing is read.
    pub const NONE: BodyRule = BodyRule {
        cap: 0,
        factor: 0,
        per_element: 0,
        per_float: 0,
        per_open: 0,
    };
    /// Points with vectors: a number is at least two bytes of text and four of f32, in a Vec grown by doubling.
    pub const VECTORS: BodyRule = BodyRule {
        cap: limits::VECTOR_BODY_BYTES,
        factor: 2,
        per_element: 8,
        per_float: 8,
        per_open: 192,
    };
    /// Ids, filters and queries: an id is two bytes of text and 32 parsed, in a list that doubles, and again in a filter
    /// made ready; so is a string in `any`, with its bytes. An empty query of a batch is 500 bytes, twice.
    pub const QUERY: BodyRule = BodyRule {
        cap: limits::QUERY_BODY_BYTES,
        factor: 2,
        per_element: 112,
        per_float: 8,
        per_open: 384,
    };
    /// Settings: a JSON tree.
    pub const CONFIG: BodyRule = BodyRule {
        cap: limits::CONFIG_BODY_BYTES,
        factor: 100,
        per_element: 0,
        per_float: 0,
        per_open: 0,
    };

    /// The same for bodies of at most `most` bytes.
    pub fn within(self, most: u64) -> BodyRule {
        BodyRule {
            cap: self.cap.min(most),
            ..self
        }
    }

    /// Refuses a body of `len` bytes that is too large: 413.
    pub fn check(&self, len: u64) -> ApiResult<()> {
        if len <= self.cap {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the body of {} is larger than the {} that this route takes. Waiting doesn't help: send it in smaller batches (at least {} of like \
                 size)",
                size_up(len),
                size(self.cap),
                len.div_ceil(self.cap.max(1))
            ),
        ))
    }

    /// Bytes to hold before a body of `len` bytes is read.
    pub fn before(&self, len: u64) -> u64 {
        len.saturating_mul(self.factor)
    }

    /// Bytes that the body and its parsed form can take: no element of JSON comes without a comma or a bracket, so that
    /// counting them bounds what a hostile body can become before a parser sees it.
    pub fn after(&self, body: &[u8]) -> u64 {
        let len = body.len() as u64;
        let marks = if self.per_element == self.per_float {
            Marks::anywhere(body)
        } else {
            Marks::of_json(body)
        };
        let others = marks.commas.saturating_sub(marks.points);
        let parsed = others * self.per_element + marks.points * self.per_float + marks.opens * self.per_open;
        self.before(len).max(len + parsed)
    }
}

/// Counts of the bytes that separate elements.
#[derive(Debug, Default, PartialEq)]
struct Marks {
    commas: u64,
    /// Decimal points.
    points: u64,
    opens: u64,
}

/// So many bytes are counted in bytes, which processors do by the dozen.
const AT_ONCE: usize = u8::MAX as usize;

impl Marks {
    /// All of them, those inside strings too, but for points: never too few.
    fn anywhere(body: &[u8]) -> Marks {
        Marks {
            points: 0,
            ..Marks::of_bytes(body)
        }
    }

    /// All of them, outside of strings: a point in a string says nothing about an element.
    fn of_json(body: &[u8]) -> Marks {
        let (mut marks, mut rest) = (Marks::default(), body);
        while let Some(quote) = memchr(b'"', rest) {
            marks.add(&Marks::of_bytes(&rest[..quote]));
            rest = behind_string(&rest[quote + 1..]);
        }
        marks.add(&Marks::of_bytes(rest));
        marks
    }

    fn of_bytes(bytes: &[u8]) -> Marks {
        let mut marks = Marks::default();
        for some in bytes.chunks(AT_ONCE) {
            let count =
                |is: fn(u8) -> bool| u64::from(some.iter().map(|byte| u8::from(is(*byte))).sum::<u8>());
            marks.commas += count(|byte| byte == b',');
            marks.points += count(|byte| byte == b'.');
            marks.opens += count(|byte| byte == b'[' || byte == b'{');
        }
        marks
    }

    fn add(&mut self, other: &Marks) {
        self.commas += other.commas;
        self.points += other.points;
        self.opens += other.opens;
    }
}

/// What follows a string's closing quote.
fn behind_string(mut string: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', string) {
        let behind = at + if string[at] == b'"' { 1 } else { 2 };
        let rest = string.get(behind..).unwrap_or_default();
        if string[at] == b'"' {
            return rest;
        }
        string = rest;
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_outside_of_strings() {
        let json = br#"{"a.,[": [1.5, 2, "x\"., [\\", 3.0], "b": {}}"#;
        assert_eq!(
            Marks::of_json(json),
            Marks {
                commas: 4,
                points: 2,
                opens: 3
            }
        );
        assert_eq!(
            Marks::anywhere(json),
            Marks {
                commas: 6,
                points: 0,
                opens: 5
            }
        );
        assert_eq!(
            Marks::of_json(br#"["open"#),
            Marks {
                commas: 0,
                points: 0,
                opens: 1
            }
        );
        assert_eq!(
            Marks::of_json(br#"["open\"#),
            Marks {
                commas: 0,
                points: 0,
                opens: 1
            }
        );
    }

    /// One byte after another.
    fn counted(body: &[u8]) -> Marks {
        let (mut marks, mut in_string, mut escaped) = (Marks::default(), false, false);
        for &byte in body {
            if in_string {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                in_string = !ends;
                continue;
            }
            in_string = byte == b'"';
            marks.commas += u64::from(byte == b',');
            marks.points += u64::from(byte == b'.');
            marks.opens += u64::from(byte == b'[' || byte == b'{');
        }
        marks
    }

    #[test]
    fn marks_of_any_bytes_are_those_of_a_byte_by_byte_count() {
        const BYTES: &[u8] = b"\"\\,.[{1";
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..2_000 {
            let (len, dull) = (next() % 900, next() % 8);
            let body: Vec<u8> = (0..len)
                .map(|_| BYTES[2 * usize::from(next() % 8 < dull)..][next() % (BYTES.len() - 2)])
                .collect();
            assert_eq!(
                Marks::of_json(&body),
                counted(&body),
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
        let many = [b','; 1_000];
        assert_eq!(Marks::of_json(&many).commas, 1_000);
    }

    #[test]
    fn a_query_vector_is_cheap_and_a_list_of_ids_is_not() {
        let n = 1000;
        let vector = format!("[{}1.5]", "0.123456,".repeat(n));
        let ids = format!("[{}1]", "1,".repeat(n));
        let dots = format!("[\"{}\",{}1]", ".".repeat(n), "1,".repeat(n));
        let after = |text: &str| BodyRule::QUERY.after(text.as_bytes());
        assert!(after(&vector) <= 2 * vector.len() as u64, "{}", after(&vector));
        assert!(after(&ids) > (n * size_of::<ramlet::PointId>()) as u64);
        assert!(after(&dots) > after(&ids), "points in strings don't hide ids");
    }
}
