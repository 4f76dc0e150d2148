//! What the body of a route may be, and the bytes that it and its parsed form take.

use axum::http::StatusCode;

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
                "the body of {:.1} MB is larger than the {:.1} MB that this route takes ({len} and {} bytes). Waiting doesn't help: send it in smaller \
                 batches",
                len as f64 / 1e6,
                self.cap as f64 / 1e6,
                self.cap
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

impl Marks {
    /// Commas and brackets, those inside strings too: never too few, and quick over megabytes.
    fn anywhere(body: &[u8]) -> Marks {
        let mut marks = Marks::default();
        for &byte in body {
            marks.commas += u64::from(byte == b',');
            marks.opens += u64::from(byte == b'[' || byte == b'{');
        }
        marks
    }

    /// All of them, outside of strings: a point in a string says nothing about an element.
    fn of_json(body: &[u8]) -> Marks {
        let mut marks = Marks::default();
        let mut bytes = body.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b',' => marks.commas += 1,
                b'.' => marks.points += 1,
                b'[' | b'{' => marks.opens += 1,
                b'"' => skip_string(&mut bytes),
                _ => {}
            }
        }
        marks
    }
}

/// Leaves `bytes` behind the closing quote.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
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
