//! Interleaved records for comparing many with one: no sum crosses lanes, and far records are dropped sixteen at a time.

use ramlet_kernels::{INTERLEAVED_CODES, INTERLEAVED_QUAD, InterleavedBall, Kernels, interleaved_bytes};

use super::compared::{Compared, squares};

/// Records compared by one call of the kernels: interleaved blocks that are in flight at once, several times.
const AT_ONCE: usize = 12 * INTERLEAVED_CODES;

/// Queries that share what is loaded of the records.
pub(super) const QUERIES: usize = 4;

/// A squared distance, and the place of the record that it is to.
pub(super) type Met = (u32, u32);

/// A row that records are compared with, and those that the caller keeps.
#[derive(Debug, Default)]
pub(super) struct Near {
    pub(super) compared: Compared,
    pub(super) met: Vec<Met>,
}

/// 8-bit vectors, interleaved, and the sums of their squares.
#[derive(Debug, Default)]
pub(super) struct Interleaved {
    codes: Vec<u8>,
    /// Of whole interleaved blocks; those beyond the last record are never asked for.
    squares: Vec<u32>,
    count: usize,
    /// Bytes of an interleaved block.
    bytes: usize,
}

impl Interleaved {
    /// Replaces all by these records.
    pub(super) fn fill(&mut self, records: &[u8], stride: usize) {
        let dims = stride - 4;
        self.bytes = interleaved_bytes(dims);
        self.count = records.len() / stride;
        self.codes.clear();
        self.codes
            .resize(self.count.div_ceil(INTERLEAVED_CODES) * self.bytes, 0);
        self.squares.clear();
        self.squares.extend(records.chunks_exact(stride).map(squares));
        self.squares
            .resize(self.count.next_multiple_of(INTERLEAVED_CODES), 0);
        let interleaved_blocks = self.codes.chunks_exact_mut(self.bytes);
        for (records, interleaved_block) in records.chunks(stride * INTERLEAVED_CODES).zip(interleaved_blocks)
        {
            for (lane, record) in records.chunks_exact(stride).enumerate() {
                let (quads, rest) = record[..dims].as_chunks::<INTERLEAVED_QUAD>();
                let lanes = &mut interleaved_block.as_chunks_mut::<INTERLEAVED_QUAD>().0[lane..];
                for (levels, to) in quads.iter().zip(lanes.iter_mut().step_by(INTERLEAVED_CODES)) {
                    *to = *levels;
                }
                if let Some(to) = lanes.get_mut(quads.len() * INTERLEAVED_CODES) {
                    to[..rest.len()].copy_from_slice(rest);
                }
            }
        }
    }

    /// Replaces `out` by the squared distances of all records from the interleaved block of record `first` on; the first of them.
    pub(super) fn distances(
        &self,
        table: &Kernels,
        compared: &Compared,
        first: usize,
        out: &mut Vec<u32>,
    ) -> usize {
        out.clear();
        let interleaved_block = first / INTERLEAVED_CODES;
        let mut products = [0i32; AT_ONCE];
        let Some(codes) = self.codes.get(interleaved_block * self.bytes..) else {
            return interleaved_block * INTERLEAVED_CODES;
        };
        let at_once = codes.chunks(AT_ONCE / INTERLEAVED_CODES * self.bytes);
        for (codes, squares) in
            at_once.zip(self.squares[interleaved_block * INTERLEAVED_CODES..].chunks(AT_ONCE))
        {
            let products = &mut products[..squares.len()];
            table.dot_interleaved(compared.quads(), codes, products);
            let pairs = products.iter().zip(squares);
            out.extend(pairs.map(|(product, squares)| compared.distance(*product, *squares)));
        }
        interleaved_block * INTERLEAVED_CODES
    }

    /// Meets every record that is nearer to one of at most [`QUERIES`] rows than the row's limit, which there is none of before
    /// `each` sets it; those of a row in order. `each` is told the row's number.
    #[inline]
    pub(super) fn nearer(
        &self,
        table: &Kernels,
        rows: &mut [Near],
        mut each: impl FnMut(usize, &mut Vec<Met>, Met, &mut u32),
    ) {
        let mut distances = [0u32; QUERIES * AT_ONCE];
        let mut near = [0u16; QUERIES * AT_ONCE / INTERLEAVED_CODES];
        let mut limits = [u32::MAX; QUERIES];
        let at_once = self.codes.chunks(AT_ONCE / INTERLEAVED_CODES * self.bytes);
        let firsts = (0..).step_by(AT_ONCE);
        for ((codes, squares), first) in at_once.zip(self.squares.chunks(AT_ONCE)).zip(firsts) {
            let mut balls = [InterleavedBall::default(); QUERIES];
            for (ball, (row, limit)) in balls.iter_mut().zip(rows.iter().zip(limits)) {
                *ball = row.compared.ball(limit);
            }
            let distances = &mut distances[..rows.len() * squares.len()];
            let near = &mut near[..distances.len() / INTERLEAVED_CODES];
            table.closer_interleaved(&balls[..rows.len()], codes, squares, distances, near);
            let of_rows = distances.chunks(squares.len());
            let of_rows = of_rows
                .zip(near.chunks(squares.len() / INTERLEAVED_CODES))
                .enumerate();
            for (number, (distances, near)) in of_rows {
                let interleaved_blocks = distances.as_chunks::<INTERLEAVED_CODES>().0.iter().zip(near);
                for ((distances, near), first) in interleaved_blocks.zip((first..).step_by(INTERLEAVED_CODES))
                {
                    let mut near = *near;
                    while near != 0 {
                        let lane = near.trailing_zeros() as usize;
                        near &= near - 1;
                        let (distance, place) = (distances[lane], first + lane);
                        // Bits behind the last record mean nothing, and the limit may have fallen.
                        if distance < limits[number] && place < self.count {
                            let met = (distance, place as u32);
                            each(number, &mut rows[number].met, met, &mut limits[number]);
                        }
                    }
                }
            }
        }
    }
}
