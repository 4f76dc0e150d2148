//! Bytes of an answer, in pieces: none is copied to make room for the next, and each is given back when it is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::limits::RESPONSE_STEP_BYTES;
use crate::request::growing_reservation::GrowingReservation;

/// Bytes of a piece, unless one write needs more in a row.
pub const PIECE: usize = RESPONSE_STEP_BYTES as usize;
/// The first one begins with so many, and grows.
const FIRST: usize = 512;

/// Bytes that are being written.
#[derive(Default)]
pub struct Pieces {
    full: Vec<Vec<u8>>,
    /// Of those that are full.
    full_len: usize,
    full_capacity: usize,
    pub last: Vec<u8>,
}

/// A place to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    full: usize,
    last: usize,
}

/// How room is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// The last piece gets this capacity; old and new exist together for a moment.
    Larger(usize),
    /// Another piece of this capacity.
    Another(usize),
}

impl Growth {
    fn bytes(self) -> usize {
        match self {
            Growth::Larger(capacity) | Growth::Another(capacity) => capacity,
        }
    }
}

impl Pieces {
    pub fn len(&self) -> usize {
        self.full_len + self.last.len()
    }

    pub fn capacity(&self) -> usize {
        self.full_capacity + self.last.capacity()
    }

    /// Bytes that can be written without a further piece.
    pub fn free(&self) -> usize {
        self.last.capacity() - self.last.len()
    }

    /// Makes room for `more` bytes in a row, once `hold` has agreed to the bytes that are allocated.
    pub fn make_room(&mut self, more: usize, hold: impl FnOnce(usize) -> bool) -> bool {
        let growth = self.growth(more);
        if !hold(self.capacity() + growth.bytes()) {
            return false;
        }
        match growth {
            Growth::Larger(capacity) => self.last.reserve_exact(capacity - self.last.len()),
            Growth::Another(capacity) => {
                self.end_piece();
                self.last = Vec::with_capacity(capacity);
            }
        }
        true
    }

    fn growth(&self, more: usize) -> Growth {
        let len = self.last.len() + more;
        if len > PIECE {
            return Growth::Another(more.max(PIECE));
        }
        // By half while it is small.
        let capacity = (len + len / 2).next_power_of_two();
        Growth::Larger(capacity.clamp(FIRST, PIECE))
    }

    fn end_piece(&mut self) {
        let piece = std::mem::take(&mut self.last);
        self.add(piece);
    }

    /// Ends with a piece that is written already.
    pub fn push(&mut self, piece: Vec<u8>) {
        self.end_piece();
        self.add(piece);
    }

    fn add(&mut self, mut piece: Vec<u8>) {
        if piece.is_empty() {
            return;
        }
        // A bound of what is written may be far above it.
        if piece.capacity() - piece.len() > piece.len() / 8 {
            piece.shrink_to_fit();
        }
        self.full_len += piece.len();
        self.full_capacity += piece.capacity();
        self.full.push(piece);
    }

    pub fn mark(&self) -> Mark {
        Mark {
            full: self.full.len(),
            last: self.last.len(),
        }
    }

    /// Forgets what was written since.
    pub fn back_to(&mut self, mark: Mark) {
        while self.full.len() > mark.full
            && let Some(piece) = self.full.pop()
        {
            self.full_len -= piece.len();
            self.full_capacity -= piece.capacity();
            self.last = piece;
        }
        self.last.truncate(mark.last);
    }

    /// What was written first.
    pub fn first_mut(&mut self) -> &mut [u8] {
        self.full.first_mut().unwrap_or(&mut self.last)
    }

    pub fn into_vecs(mut self) -> Vec<Vec<u8>> {
        self.end_piece();
        self.full
    }

    /// All of it, each piece with its part of what is `held`; the rest of that is given back.
    pub fn into_sent(self, mut held: GrowingReservation) -> Sent {
        let with_its_own = |bytes: Vec<u8>| {
            let held = held.split(bytes.capacity() as u64);
            with_held(bytes, held)
        };
        Sent(self.into_vecs().into_iter().map(with_its_own).collect())
    }
}

/// Bytes on their way out, in pieces that give back what is held for them when they are sent.
#[derive(Debug, Default)]
pub struct Sent(pub VecDeque<Bytes>);

impl Sent {
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl From<Bytes> for Sent {
    fn from(bytes: Bytes) -> Sent {
        Sent(VecDeque::from([bytes]))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

/// Bytes on their way out that give back what is held for them when they are sent.
pub fn with_held(bytes: Vec<u8>, held: GrowingReservation) -> Bytes {
    Bytes::from_owner(Piece { bytes, _held: held })
}

struct Piece {
    bytes: Vec<u8>,
    _held: GrowingReservation,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pieces: &mut Pieces, bytes: &[u8]) {
        if pieces.free() < bytes.len() {
            assert!(pieces.make_room(bytes.len(), |_| true));
        }
        pieces.last.extend_from_slice(bytes);
    }

    #[test]
    fn what_was_written_is_there_in_its_order() {
        let mut pieces = Pieces::default();
        let mut all = Vec::new();
        for n in 0..2_000u32 {
            let bytes = vec![n as u8; (n as usize * 37) % 900];
            write(&mut pieces, &bytes);
            all.extend_from_slice(&bytes);
        }
        assert_eq!(pieces.len(), all.len());
        assert!(pieces.capacity() < all.len() + all.len() / 8 + PIECE);
        assert_eq!(pieces.into_vecs().concat(), all);
    }

    #[test]
    fn a_mark_is_gone_back_to_over_pieces() {
        let mut pieces = Pieces::default();
        write(&mut pieces, b"kept");
        let mark = pieces.mark();
        for _ in 0..9 {
            write(&mut pieces, &[1; 30_000]);
        }
        write(&mut pieces, &[1; 3 * PIECE]);
        pieces.back_to(mark);
        assert_eq!((pieces.len(), &pieces.last[..]), (4, &b"kept"[..]));
        write(&mut pieces, b" on");
        assert_eq!(pieces.into_vecs().concat(), b"kept on");
    }

    #[test]
    fn without_agreement_nothing_is_allocated() {
        let mut pieces = Pieces::default();
        write(&mut pieces, &[0; 100]);
        let before = pieces.capacity();
        assert!(!pieces.make_room(PIECE, |_| false));
        assert_eq!(pieces.capacity(), before);
    }
}
