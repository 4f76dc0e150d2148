//! Answers packed by gzip for clients that take it, where that is worth its CPU.

use std::io::{self, Write};
use std::time::Instant;

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ramlet_memory::Consumer;

use crate::admission::Held;
use crate::grpc::{self, FRAME_HEAD};
use crate::limits;
use crate::out::with_held;
use crate::pool::spawn_blocking;

/// What the encoder itself holds: window, hash chains, tables and a buffer.
const ENCODER_BYTES: u64 = 384 << 10;
/// What packed bytes can be longer than plain ones, heads and checksum included: blocks that don't shrink are stored.
const LONGER_BYTES: usize = 1 << 10;

/// Whether `Accept-Encoding` takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| {
            let mut parts = one.split(';').map(str::trim);
            let name = parts.next().unwrap_or("");
            let known = name.eq_ignore_ascii_case("gzip") || name == "*";
            known && !parts.any(is_never)
        })
}

/// `q=0`: anything but this.
fn is_never(parameter: &str) -> bool {
    parameter
        .strip_prefix("q=")
        .and_then(|q| q.parse::<f32>().ok())
        .is_some_and(|q| q == 0.0)
}

/// A gzip stream that is made in portions.
pub struct Packer(Option<Box<Packing>>);

struct Packing {
    encoder: GzEncoder<Vec<u8>>,
    from: Consumer,
    _held: Held,
}

impl Packer {
    /// `None` while there is no memory for it: then answers go out as they are.
    pub fn new(from: &Consumer) -> Option<Packer> {
        Some(Packer(Some(Box::new(Packing::new(from)?))))
    }

    /// What goes out for `plain`, with the `last` of which the stream ends. An error ends the answer: half of it can't go
    /// out in another form.
    pub async fn portion(&mut self, plain: Bytes, last: bool) -> io::Result<Bytes> {
        let deadline = Instant::now() + limits::READ_TIMEOUT;
        loop {
            let lost = || io::Error::other("an answer was packed in vain");
            let (mut inside, plain) = (self.0.take().ok_or_else(lost)?, plain.clone());
            let packed = spawn_blocking(move || (inside.pack(&plain, last), inside)).await;
            let (packed, inside) = packed.map_err(io::Error::other)?;
            self.0 = Some(inside);
            match packed {
                Some((bytes, held)) => return Ok(with_held(bytes, held)),
                None if Instant::now() < deadline => tokio::time::sleep(limits::STREAM_PAUSE).await,
                None => return Err(io::Error::other("no memory to pack an answer")),
            }
        }
    }
}

impl Packing {
    fn new(from: &Consumer) -> Option<Packing> {
        let mut held = Held::default();
        held.at_least(ENCODER_BYTES, from).ok()?;
        Some(Packing {
            encoder: GzEncoder::new(Vec::new(), Compression::fast()),
            from: from.clone(),
            _held: held,
        })
    }

    /// What goes out for `plain`, with the `last` of which the stream ends, and the bytes held for it. `None` while there
    /// is no memory for it.
    fn pack(&mut self, plain: &[u8], last: bool) -> Option<(Vec<u8>, Held)> {
        self.pack_behind(0, plain, last)
    }

    /// The same behind `head` free bytes.
    fn pack_behind(&mut self, head: usize, plain: &[u8], last: bool) -> Option<(Vec<u8>, Held)> {
        let mut held = Held::default();
        let most = head + plain.len() + plain.len() / 16 + LONGER_BYTES;
        held.at_least(most as u64, &self.from).ok()?;
        let out = self.encoder.get_mut();
        *out = Vec::with_capacity(most);
        out.resize(head, 0);
        // Writing into a Vec can't fail.
        self.encoder.write_all(plain).ok()?;
        if last {
            self.encoder.try_finish().ok()?;
        }
        Some((std::mem::take(self.encoder.get_mut()), held))
    }
}

/// A whole answer, packed. `None`: it is short, or there is no memory for it now.
pub async fn whole(plain: Bytes, from: &Consumer) -> Option<Bytes> {
    if plain.len() < limits::PACK_BYTES_MIN {
        return None;
    }
    let mut packer = Packing::new(from)?;
    let packed = spawn_blocking(move || packer.pack(&plain, true));
    let (bytes, held) = packed.await.ok()??;
    Some(with_held(bytes, held))
}

/// The same for a message in its frame of gRPC.
pub async fn framed(frame: Bytes, from: &Consumer) -> Option<Bytes> {
    if frame.len() < limits::PACK_BYTES_MIN {
        return None;
    }
    let mut packer = Packing::new(from)?;
    let packed = spawn_blocking(move || packer.pack_behind(FRAME_HEAD, &frame[FRAME_HEAD..], true));
    let (mut bytes, held) = packed.await.ok()??;
    grpc::close_frame(&mut bytes, true).ok()?;
    Some(with_held(bytes, held))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::http::HeaderValue;
    use flate2::read::GzDecoder;
    use ramlet_memory::Ledger;

    use super::*;

    #[test]
    fn only_who_takes_gzip_gets_it() {
        let takes = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        for yes in ["gzip", "deflate, GZIP", "br;q=1.0, gzip;q=0.8", "*"] {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "br, gzip; q=0.0", "xgzip"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn portions_make_one_stream_within_what_is_held() {
        let ledger = Ledger::new(4 << 20);
        let responses = ledger.consumer("responses", u64::MAX);
        let mut packer = Packing::new(&responses).unwrap();
        let mut state = 1u32;
        let noise: Vec<u8> = (0..300_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let text = b"{\"id\":1,\"score\":0.5}".repeat(5000);
        let mut packed = Vec::new();
        for (part, last) in [(&noise[..], false), (&text[..], false), (&b""[..], true)] {
            packed.extend_from_slice(&packer.pack(part, last).unwrap().0);
        }
        let mut plain = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
        assert!(plain == [noise, text].concat());
        drop(packer);
        assert!(responses.reserve(4 << 20).is_ok(), "all given back");
    }

    #[test]
    fn without_memory_nothing_is_packed() {
        let ledger = Ledger::new(ENCODER_BYTES + 10);
        let responses = ledger.consumer("responses", u64::MAX);
        let mut packer = Packing::new(&responses).unwrap();
        assert!(packer.pack(&[b' '; 100_000], true).is_none());
        assert!(
            Packing::new(&responses).is_none(),
            "the first one's bytes are taken"
        );
    }
}
