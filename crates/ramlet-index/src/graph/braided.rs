//! Records side by side, for comparing many of them with one: no sum crosses lanes then, and what is too far is dropped
//! sixteen at a time.

use ramlet_kernels::{BRAID, BRAID_QUAD, BraidBall, Kernels, braid_bytes};

use super::prune::{Compared, squares};

/// Records compared by one call of the kernels: braids that are in flight at once, several times.
const AT_ONCE: usize = 12 * BRAID;

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

/// 8-bit vectors, braided, and the sums of their squares.
#[derive(Debug, Default)]
pub(super) struct Braided {
    codes: Vec<u8>,
    /// Of whole braids; those beyond the last record are never asked for.
    squares: Vec<u32>,
    count: usize,
    /// Bytes of a braid.
    bytes: usize,
}

impl Braided {
    /// Replaces all by these records.
    pub(super) fn fill(&mut self, records: &[u8], stride: usize) {
        let dims = stride - 4;
        self.bytes = braid_bytes(dims);
        self.count = records.len() / stride;
        self.codes.clear();
        self.codes.resize(self.count.div_ceil(BRAID) * self.bytes, 0);
        self.squares.clear();
        self.squares.extend(records.chunks_exact(stride).map(squares));
        self.squares.resize(self.count.next_multiple_of(BRAID), 0);
        let braids = self.codes.chunks_exact_mut(self.bytes);
        for (records, braid) in records.chunks(stride * BRAID).zip(braids) {
            for (lane, record) in records.chunks_exact(stride).enumerate() {
                let (quads, rest) = record[..dims].as_chunks::<BRAID_QUAD>();
                let lanes = &mut braid.as_chunks_mut::<BRAID_QUAD>().0[lane..];
                for (digits, to) in quads.iter().zip(lanes.iter_mut().step_by(BRAID)) {
                    *to = *digits;
                }
                if let Some(to) = lanes.get_mut(quads.len() * BRAID) {
                    to[..rest.len()].copy_from_slice(rest);
                }
            }
        }
    }

    /// Replaces `out` by the squared distances of all records from the braid of record `first` on; the first of them.
    pub(super) fn distances(
        &self,
        table: &Kernels,
        compared: &Compared,
        first: usize,
        out: &mut Vec<u32>,
    ) -> usize {
        out.clear();
        let braid = first / BRAID;
        let mut products = [0i32; AT_ONCE];
        let Some(codes) = self.codes.get(braid * self.bytes..) else {
            return braid * BRAID;
        };
        let at_once = codes.chunks(AT_ONCE / BRAID * self.bytes);
        for (codes, squares) in at_once.zip(self.squares[braid * BRAID..].chunks(AT_ONCE)) {
            let products = &mut products[..squares.len()];
            table.dot_braided(compared.quads(), codes, products);
            let pairs = products.iter().zip(squares);
            out.extend(pairs.map(|(product, squares)| compared.distance(*product, *squares)));
        }
        braid * BRAID
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
        let mut near = [0u16; QUERIES * AT_ONCE / BRAID];
        let mut limits = [u32::MAX; QUERIES];
        let at_once = self.codes.chunks(AT_ONCE / BRAID * self.bytes);
        let firsts = (0..).step_by(AT_ONCE);
        for ((codes, squares), first) in at_once.zip(self.squares.chunks(AT_ONCE)).zip(firsts) {
            let mut balls = [BraidBall::default(); QUERIES];
            for (ball, (row, limit)) in balls.iter_mut().zip(rows.iter().zip(limits)) {
                *ball = row.compared.ball(limit);
            }
            let distances = &mut distances[..rows.len() * squares.len()];
            let near = &mut near[..distances.len() / BRAID];
            table.closer_braided(&balls[..rows.len()], codes, squares, distances, near);
            let of_rows = distances.chunks(squares.len());
            let of_rows = of_rows.zip(near.chunks(squares.len() / BRAID)).enumerate();
            for (number, (distances, near)) in of_rows {
                let braids = distances.as_chunks::<BRAID>().0.iter().zip(near);
                for ((distances, near), first) in braids.zip((first..).step_by(BRAID)) {
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
