//! Gzip compression of responses for clients that accept it, if it is worth the CPU.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use bytes::{Buf, Bytes};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use ramlet_memory::Consumer;
use tokio::sync::mpsc;

use super::pieces::{Pieces, Sent};
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::threads::pool::spawn_blocking;

/// What the encoder itself holds: window, hash chains, tables and a buffer.
const ENCODER_BYTES: u64 = 336 << 10;
/// Bytes of a packed piece, ...
const PIECE: usize = 32 << 10;
/// ... of which so many are in memory at once: one that is being filled, one ready, and two on their way into the socket.
const PIECES: u64 = 4;
/// Bytes that are packed before other requests have the thread.
const STEP: usize = 256 << 10;
/// What a packed stream begins with (RFC 1952): deflate, no name, no time, of an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

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

/// A gzip stream that is made in small pieces, within the memory that it took when it began: it never waits for more.
pub struct Packer {
    packing: Packing,
    /// The encoder's bytes and those of [`PIECES`] pieces: until the last of them is sent.
    window: Arc<GrowingReservation>,
}

impl Packer {
    /// `None` while it would take more than half of what is there for all streams: then answers go out as they are. A client that reads slowly keeps its
    /// packer for long, and others want to list their points meanwhile.
    pub fn new(from: &Consumer) -> Option<Packer> {
        let bytes = ENCODER_BYTES + PIECES * PIECE as u64;
        if from.available() < bytes + from.cap() / 2 {
            return None;
        }
        let mut held = GrowingReservation::default();
        held.at_least(bytes, from).ok()?;
        Some(Packer {
            packing: Packing::new(),
            window: Arc::new(held),
        })
    }

    /// Packs `plain` on the pool and hands each full piece to `send`, which waits for the client; with the `last` of it the
    /// stream ends. `None`: it has, or the client has gone.
    pub async fn pack(
        mut self,
        plain: Sent,
        last: bool,
        send: &mpsc::Sender<io::Result<Sent>>,
    ) -> Option<Packer> {
        let mut plain = plain.0;
        loop {
            let mut packing = self.packing;
            let packed = spawn_blocking(move || {
                let full = packing.fill(&mut plain, last, STEP);
                (packing, plain, full)
            });
            let full;
            (self.packing, plain, full) = packed.await.ok()?;
            if let Some(bytes) = full {
                let piece = Piece {
                    bytes,
                    _window: self.window.clone(),
                };
                send.send(Ok(Bytes::from_owner(piece).into())).await.ok()?;
            } else if plain.is_empty() && !last {
                return Some(self);
            }
            if self.packing.ended {
                return None;
            }
        }
    }
}

struct Piece {
    bytes: Vec<u8>,
    _window: Arc<GrowingReservation>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A gzip stream under construction.
struct Packing {
    deflate: Compress,
    sum: Crc,
    /// The piece that is being filled; never larger than it began.
    piece: Vec<u8>,
    /// What the stream ends with, as far as it isn't written.
    tail: Option<Vec<u8>>,
    ended: bool,
}

impl Packing {
    fn new() -> Packing {
        let mut piece = Vec::with_capacity(PIECE);
        piece.extend_from_slice(&HEAD);
        Packing {
            deflate: Compress::new(Compression::fast(), false),
            sum: Crc::new(),
            piece,
            tail: None,
            ended: false,
        }
    }

    /// Takes from `plain` until a piece is full, which is returned, or all is taken, or about `most` bytes are. After the `last`
    /// of it the stream's end comes.
    fn fill(&mut self, plain: &mut VecDeque<Bytes>, last: bool, most: usize) -> Option<Vec<u8>> {
        let mut left = most;
        loop {
            if self.piece.len() >= PIECE {
                return Some(std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE)));
            }
            match plain.front_mut() {
                Some(part) if part.is_empty() => {
                    plain.pop_front();
                }
                Some(_) if left == 0 => return None,
                Some(part) => {
                    let now = part.len().min(left);
                    let (taken, _) = self.deflate(&part[..now], FlushCompress::None);
                    part.advance(taken);
                    left -= taken;
                }
                None if !last => return None,
                None if self.finish() => {
                    self.ended = true;
                    return Some(std::mem::take(&mut self.piece));
                }
                None => {}
            }
        }
    }

    /// Into what is free of the piece: how many bytes were taken, and whether the stream has ended.
    fn deflate(&mut self, plain: &[u8], flush: FlushCompress) -> (usize, bool) {
        let before = self.deflate.total_in();
        // Fails only for a state that was misused.
        let status = self.deflate.compress_vec(plain, &mut self.piece, flush);
        let taken = (self.deflate.total_in() - before) as usize;
        self.sum.update(&plain[..taken]);
        (taken, matches!(status, Ok(Status::StreamEnd) | Err(_)))
    }

    /// Writes the end as far as it fits; whether all of it did.
    fn finish(&mut self) -> bool {
        if self.tail.is_none() {
            if !self.deflate(&[], FlushCompress::Finish).1 {
                return false;
            }
            self.tail = Some([self.sum.sum().to_le_bytes(), self.sum.amount().to_le_bytes()].concat());
        }
        let Some(tail) = &mut self.tail else { return false };
        let now = tail.len().min(PIECE.saturating_sub(self.piece.len()));
        self.piece.extend(tail.drain(..now));
        tail.is_empty()
    }
}

/// All of an answer but the first `skip` bytes, packed. `None`: it is short, or there is no memory for it now.
pub async fn whole(plain: &Sent, skip: usize, from: &Consumer) -> Option<Sent> {
    if plain.len() < limits::PACK_BYTES_MIN {
        return None;
    }
    let mut held = GrowingReservation::default();
    held.at_least(ENCODER_BYTES + PIECE as u64, from).ok()?;
    let (mut plain, from) = (plain.0.clone(), from.clone());
    let packed = spawn_blocking(move || {
        if let Some(first) = plain.front_mut() {
            first.advance(skip);
        }
        let mut packing = Packing::new();
        let mut packed = Pieces::default();
        while !packing.ended {
            let Some(mut piece) = packing.fill(&mut plain, true, usize::MAX) else {
                continue;
            };
            piece.shrink_to_fit();
            packed.push(piece);
            held.at_least(ENCODER_BYTES + (PIECE + packed.capacity()) as u64, &from)
                .ok()?;
        }
        Some(packed.into_sent(held))
    });
    packed.await.ok()?
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

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(packed)
            .read_to_end(&mut plain)
            .expect("a stream of gzip");
        plain
    }

    /// What hardly shrinks, and what nearly vanishes.
    fn samples() -> [Vec<u8>; 3] {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        [
            (0..300_000).map(|_| noise()).collect(),
            b"{\"id\":1,\"score\":0.5}".repeat(50_000),
            (0..PIECE).map(|_| noise()).collect(),
        ]
    }

    #[test]
    fn pieces_of_any_portions_make_one_stream() {
        let samples = samples();
        for most in [1_000, STEP, usize::MAX] {
            let (mut packing, mut packed) = (Packing::new(), Vec::new());
            for (n, sample) in samples.iter().enumerate() {
                let last = n + 1 == samples.len();
                let mut plain: VecDeque<Bytes> = sample.chunks(70_001).map(Bytes::copy_from_slice).collect();
                while !plain.is_empty() || (last && !packing.ended) {
                    if let Some(piece) = packing.fill(&mut plain, last, most) {
                        assert!(piece.len() == PIECE || packing.ended);
                        assert!(piece.capacity() <= PIECE);
                        packed.extend_from_slice(&piece);
                    }
                }
            }
            assert!(unpacked(&packed) == samples.concat(), "{most} bytes a step");
        }
    }

    #[tokio::test]
    async fn a_stream_takes_its_memory_when_it_begins_and_no_more() {
        let ledger = Ledger::new(8 << 20);
        let responses = ledger.consumer("responses", u64::MAX);
        let mut packer = Packer::new(&responses);
        let begun = responses.used();
        let (send, mut rest) = mpsc::channel(1);
        let reader = tokio::spawn(async move {
            let mut packed = Vec::new();
            while let Some(Ok(Sent(pieces))) = rest.recv().await {
                packed.extend(pieces.iter().flatten());
            }
            packed
        });
        let samples = samples();
        for (n, sample) in samples.iter().enumerate() {
            let plain = Sent::from(Bytes::copy_from_slice(sample));
            packer = packer.expect("under way").pack(plain, n == 2, &send).await;
            assert!(responses.used() <= begun);
        }
        assert!(packer.is_none(), "ended");
        drop(send);
        assert!(unpacked(&reader.await.expect("all of it")) == samples.concat());
        assert_eq!(responses.used(), 0, "all given back");
    }

    #[tokio::test]
    async fn packing_ends_with_its_client() {
        let ledger = Ledger::new(8 << 20);
        let responses = ledger.consumer("responses", u64::MAX);
        let packer = Packer::new(&responses).expect("room");
        let (send, rest) = mpsc::channel(1);
        drop(rest);
        let plain = Sent::from(Bytes::from(samples()[0].clone()));
        assert!(packer.pack(plain, false, &send).await.is_none());
        assert_eq!(responses.used(), 0, "all given back");
    }

    #[tokio::test]
    async fn a_whole_answer_is_packed_but_for_its_head() {
        let ledger = Ledger::new(8 << 20);
        let responses = ledger.consumer("responses", u64::MAX);
        for sample in samples() {
            let framed = [&b"front"[..], &sample].concat();
            let packed = whole(&Sent::from(Bytes::from(framed)), 5, &responses)
                .await
                .expect("room");
            let bytes: Vec<u8> = packed.0.iter().flatten().copied().collect();
            assert!(unpacked(&bytes) == sample);
            assert!(responses.used() < packed.len() as u64 + packed.len() as u64 / 8 + 1024);
        }
        assert_eq!(responses.used(), 0, "all given back");
        let short = Bytes::from_static(&[b' '; 1000]);
        assert!(whole(&short.into(), 0, &responses).await.is_none());
    }

    #[tokio::test]
    async fn without_memory_nothing_is_packed() {
        let ledger = Ledger::new(ENCODER_BYTES + 3 * PIECE as u64);
        let responses = ledger.consumer("responses", u64::MAX);
        assert!(Packer::new(&responses).is_none());
        let noise = Sent::from(Bytes::from(samples()[0].clone()));
        assert!(whole(&noise, 0, &responses).await.is_none());
        assert_eq!(responses.used(), 0, "all given back");
    }
}
