//! Memory before work: what a request may hold, taken from the ledger before its body is read.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use ramlet_memory::{Consumer, OverBudget, Reservation};
use tokio::time::{Instant, timeout_at};

use crate::decode::{Encoding, decode};
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::pool::spawn_blocking;

/// Bytes held for one request or answer, growing as it does.
#[derive(Default)]
pub struct Held {
    reservation: Option<Reservation>,
}

impl Held {
    pub fn bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    /// Makes sure that at least `bytes` are held.
    pub fn at_least(&mut self, bytes: u64, from: &Consumer) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.bytes());
        if more == 0 {
            return Ok(());
        }
        let grown = match &mut self.reservation {
            Some(reservation) => reservation.grow(more),
            none => from.reserve(more).map(|r| *none = Some(r)),
        };
        // Told as a whole: that is what decides whether waiting would help.
        grown.map_err(|e| OverBudget { asked: bytes, ..e })
    }

    /// Bytes that could be had but are taken are waited for, [`limits::MEMORY_WAIT`] at most; see [`Held::until`].
    pub async fn in_time(bytes: u64, from: &Consumer) -> Result<Held, OverBudget> {
        let mut held = Held::default();
        // Nearly always there is room, and no clock to be read.
        if from.available() >= bytes && held.at_least(bytes, from).is_ok() {
            return Ok(held);
        }
        Held::until(Instant::now() + limits::MEMORY_WAIT, bytes, from).await
    }

    /// The same until `deadline`. Only a new holder waits: what is held already grows at once or not at all
    /// ([`Held::at_least`]), since those who hold much would wait for each other.
    pub async fn until(deadline: Instant, bytes: u64, from: &Consumer) -> Result<Held, OverBudget> {
        let mut held = Held::default();
        let mut pause = *limits::MEMORY_PAUSES.start();
        loop {
            // Looked at first, so that who waits is not counted as refused each time.
            let waits = bytes <= from.cap() && Instant::now() + pause < deadline;
            if !waits || from.available() >= bytes {
                match held.at_least(bytes, from) {
                    // Loans on their way back.
                    Err(_) if waits => {}
                    done => return done.map(|()| held),
                }
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(*limits::MEMORY_PAUSES.end());
        }
    }

    /// Hands over `bytes` of these, or all if there are fewer.
    pub fn split(&mut self, bytes: u64) -> Held {
        let part = |held: &mut Reservation| held.split(bytes.min(held.bytes()));
        Held {
            reservation: self.reservation.as_mut().map(part),
        }
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(held) = &mut self.reservation {
            held.shrink_to(bytes);
        }
    }
}

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

    /// Bytes to hold before a body of `len` bytes is read.
    pub fn before(&self, len: u64) -> u64 {
        len.saturating_mul(self.factor)
    }

    /// Bytes that the body and its parsed form can take: no element of JSON comes without a comma or a bracket, so that
    /// counting them bounds what a hostile body can become before a parser sees it.
    fn after(&self, body: &[u8]) -> u64 {
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

/// A body in memory and the reservation for it and for what is parsed from it.
pub struct Admitted {
    pub body: Bytes,
    pub held: Held,
}

/// Reserves, then reads. 429 when the bytes are taken and don't come free in time, 413 when they could never be had, 408 when the client is
/// slower than [`limits::BODY_RATE_MIN`].
pub async fn read_body(
    headers: &HeaderMap,
    body: &mut Body,
    rule: BodyRule,
    from: &Consumer,
) -> ApiResult<Admitted> {
    if rule.cap == 0 {
        return Ok(Admitted {
            body: Bytes::new(),
            held: Held::default(),
        });
    }
    let encoding = Encoding::of(headers)?;
    let announced = content_length(headers)?;
    let mut held = Held::default();
    if let Some(len) = announced {
        check_cap(len, rule)?;
        held = Held::in_time(rule.before(len), from).await?;
    }
    let mut bytes = collect(body, announced, rule, &mut held, from).await?;
    if let Some(encoding) = encoding {
        let from = from.clone();
        let decoded = spawn_blocking(move || {
            let decoded = decode(&bytes, encoding, rule, &mut held, &from);
            decoded.map(|bytes| (bytes, held))
        });
        (bytes, held) = decoded.await.map_err(ApiError::internal)??;
    }
    held.at_least(rule.after(&bytes), from)?;
    Ok(Admitted {
        body: bytes.into(),
        held,
    })
}

pub fn check_cap(len: u64, rule: BodyRule) -> ApiResult<()> {
    if len <= rule.cap {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "the body of {len} bytes is larger than the {} bytes that this route takes",
            rule.cap
        ),
    ))
}

pub fn content_length(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let Some(value) = headers.get(header::CONTENT_LENGTH) else {
        return Ok(None);
    };
    let parsed = value.to_str().ok().and_then(|v| v.trim().parse::<u64>().ok());
    parsed
        .map(Some)
        .ok_or_else(|| ApiError::new(StatusCode::BAD_REQUEST, "Content-Length is not a number"))
}

async fn collect(
    body: &mut Body,
    announced: Option<u64>,
    rule: BodyRule,
    held: &mut Held,
    from: &Consumer,
) -> ApiResult<Vec<u8>> {
    let start = Instant::now();
    let mut out = Vec::with_capacity(announced.unwrap_or(0) as usize);
    loop {
        let slowest = std::time::Duration::from_secs(out.len() as u64 / limits::BODY_RATE_MIN);
        let deadline = start + limits::BODY_IDLE_TIMEOUT + slowest;
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => {
                return Err(ApiError::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "the body came too slowly",
                ));
            }
            Ok(None) => return Ok(out),
            Ok(Some(Err(e))) => {
                return Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    format!("the body broke off: {e}"),
                ));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(mut data) = frame.into_data() else { continue };
        let len = (out.len() + data.len()) as u64;
        check_cap(len, rule)?;
        if announced.is_none() {
            // Doubling of the Vec included.
            let step = len.next_multiple_of(limits::BODY_STEP_BYTES);
            held.at_least(rule.before(step.saturating_mul(2)), from)?;
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            out.extend_from_slice(chunk);
            let n = chunk.len();
            data.advance(n);
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
