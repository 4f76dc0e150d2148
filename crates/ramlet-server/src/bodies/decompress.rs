//! Compressed bodies: decoded step by step within their reserved memory.

use std::io::Read;

use axum::http::{HeaderMap, StatusCode, header};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ramlet_memory::Consumer;

use super::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// How a body was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Gzip,
    Deflate,
}

impl Encoding {
    /// What the head says; `None`: as it is. 415 for encodings that aren't known.
    pub fn of(headers: &HeaderMap) -> ApiResult<Option<Encoding>> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else {
            return Ok(None);
        };
        let is = |name: &str| {
            value
                .as_bytes()
                .trim_ascii()
                .eq_ignore_ascii_case(name.as_bytes())
        };
        match () {
            () if is("identity") => Ok(None),
            () if is("gzip") || is("x-gzip") => Ok(Some(Encoding::Gzip)),
            () if is("deflate") => Ok(Some(Encoding::Deflate)),
            () => Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Encoding of a request body may be gzip or deflate; others are not supported",
            )),
        }
    }
}

/// What the decoder itself holds: a window of 32 KiB, tables and a buffer.
const DECODER_BYTES: u64 = 96 << 10;

/// Decodes `packed`. A body that grows beyond what the route takes or the budget has is given up there: 413 or 429.
pub fn decode(
    packed: &[u8],
    encoding: Encoding,
    rule: BodyRule,
    held: &mut GrowingReservation,
    from: &Consumer,
) -> ApiResult<Vec<u8>> {
    match encoding {
        Encoding::Gzip => read(MultiGzDecoder::new(packed), packed.len(), rule, held, from),
        Encoding::Deflate => read(ZlibDecoder::new(packed), packed.len(), rule, held, from),
    }
}

/// Bytes to hold before the first step of decoding so many: they can be waited for while nothing is decoded yet.
pub fn first_bytes(packed: usize, rule: BodyRule) -> u64 {
    held_bytes(limits::BODY_STEP_BYTES as usize + packed, 0, rule)
}

fn held_bytes(buffers: usize, decoded: usize, rule: BodyRule) -> u64 {
    (buffers as u64 + DECODER_BYTES).max(rule.before(decoded as u64))
}

fn read(
    mut decoder: impl Read,
    packed: usize,
    rule: BodyRule,
    held: &mut GrowingReservation,
    from: &Consumer,
) -> ApiResult<Vec<u8>> {
    let step = limits::BODY_STEP_BYTES as usize;
    let mut out: Vec<u8> = Vec::new();
    loop {
        let len = out.len();
        if out.capacity() < len + step {
            let room = (len + step).max(len + len / 2);
            // Old and new copy exist together for a moment.
            let bytes = held_bytes(room + out.capacity() + packed, len, rule);
            held.at_least(bytes, from)?;
            out.reserve_exact(room - len);
        }
        out.resize(len + step, 0);
        let n = decoder.read(&mut out[len..]).map_err(|e| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("the compressed body can't be decoded: {e}"),
            )
        })?;
        out.truncate(len + n);
        rule.check(out.len() as u64)?;
        if n == 0 {
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use ramlet_memory::Ledger;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(packed: &[u8], encoding: Encoding, budget: u64) -> Result<Vec<u8>, u16> {
        let ledger = Ledger::new(budget);
        let mut held = GrowingReservation::default();
        decode(
            packed,
            encoding,
            BodyRule::QUERY,
            &mut held,
            &ledger.consumer("requests", budget),
        )
        .map_err(|e| e.status.as_u16())
    }

    #[test]
    fn bodies_are_decoded_within_their_bounds() {
        let text: Vec<u8> = (0..300_000u32).flat_map(|i| i.to_string().into_bytes()).collect();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        let (gz, zlib) = (gzip(&text), zlib.finish().unwrap());
        let enough = 64 << 20;
        assert_eq!(decoded(&gz, Encoding::Gzip, enough), Ok(text.clone()));
        assert_eq!(decoded(&zlib, Encoding::Deflate, enough), Ok(text));
        assert_eq!(
            decoded(&gz[..gz.len() / 2], Encoding::Gzip, enough),
            Err(400),
            "cut off"
        );
        assert_eq!(decoded(b"not packed", Encoding::Gzip, enough), Err(400));
        assert_eq!(
            decoded(&gz, Encoding::Gzip, 1 << 20),
            Err(413),
            "more than the budget ever has"
        );
        let bomb = gzip(&vec![b' '; 9 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(
            decoded(&bomb, Encoding::Gzip, enough),
            Err(413),
            "more than the route takes"
        );
    }

    #[test]
    fn encodings_are_known_or_refused() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_ENCODING, value.parse().unwrap());
            Encoding::of(&headers).map_err(|e| e.status.as_u16())
        };
        assert_eq!(of("identity"), Ok(None));
        assert_eq!(of("GZIP"), Ok(Some(Encoding::Gzip)));
        assert_eq!(of("deflate"), Ok(Some(Encoding::Deflate)));
        assert_eq!(of("br"), Err(415));
        assert_eq!(of("gzip, gzip"), Err(415));
        assert_eq!(Encoding::of(&HeaderMap::new()).map_err(|_| ()), Ok(None));
    }
}
