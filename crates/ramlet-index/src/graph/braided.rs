//! Records side by side, for comparing many of them with one: no sum crosses lanes then, and what is too far is dropped
//! sixteen at a time.

use ramlet_kernels::{BRAID, BRAID_QUAD, Kernels, braid_bytes};

use super::prune::{Compared, squares};

/// Records compared by one call of the kernels: braids that are in flight at once, several times.
const AT_ONCE: usize = 12 * BRAID;

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

    /// Calls `each` with place and squared distance of every record that is nearer than the limit, in order; it returns
    /// the limit from then on.
    #[inline]
    pub(super) fn nearer(
        &self,
        table: &Kernels,
        compared: &Compared,
        mut limit: u32,
        mut each: impl FnMut(usize, u32) -> u32,
    ) {
        let mut products = [0i32; AT_ONCE];
        let at_once = self.codes.chunks(AT_ONCE / BRAID * self.bytes);
        let firsts = (0..).step_by(AT_ONCE);
        for ((codes, squares), first) in at_once.zip(self.squares.chunks(AT_ONCE)).zip(firsts) {
            let products = &mut products[..squares.len()];
            table.dot_braided(compared.quads(), codes, products);
            let braids = products.as_chunks::<BRAID>().0.iter();
            let braids = braids.zip(squares.as_chunks::<BRAID>().0);
            for ((products, squares), first) in braids.zip((first..).step_by(BRAID)) {
                let mut distances = [0u32; BRAID];
                let mut any = 0;
                for ((distance, product), squares) in distances.iter_mut().zip(products).zip(squares) {
                    *distance = compared.distance(*product, *squares);
                    any |= u32::from(*distance < limit);
                }
                if any == 0 {
                    continue;
                }
                for (i, distance) in distances.iter().enumerate() {
                    if *distance < limit && first + i < self.count {
                        limit = each(first + i, *distance);
                    }
                }
            }
        }
    }
}
