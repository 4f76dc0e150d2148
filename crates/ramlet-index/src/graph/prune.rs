//! Vectors of 8 bits for building, and choosing neighbours among candidates.

use ramlet_kernels::{CodeWidth, Kernels, kernels};

use super::code::Frame;
use crate::Metric;

/// A candidate is left out if one already chosen is nearer to it than the node is, by this factor (of squared
/// distances). Above 1, some longer edges stay, which make walks short. "DiskANN", section 2.3. (1.1 is as good, 1.0 and
/// 1.4 need a twentieth more reads.)
const ALPHA: f32 = 1.2;

/// Deviations of a rotated value that 127 stands for; what lies beyond is clipped.
const RANGE: f32 = 4.0;

/// Dimensions that one more coordinate is spread over at most, so that it isn't clipped.
const EXTRA_MAX: usize = 16;

/// How rows become 8-bit vectors whose distances decide about edges.
///
/// Under dot product a coordinate is added that makes all vectors equally long: then the nearest of a query by
/// distance are those with the largest products. Bachrach et al. (2014).
#[derive(Clone, Debug)]
pub(super) struct Bytes8 {
    dims: usize,
    /// Dimensions of the added coordinate.
    extra: usize,
    longest: f32,
    per_unit: f32,
    unit: f32,
}

impl Bytes8 {
    pub(super) fn new(frame: &Frame, longest: f32) -> Bytes8 {
        let dims = frame.dims();
        let per_unit = 127.0 / RANGE * (dims as f32).sqrt();
        let half = longest / frame.unit / 2.0 * per_unit / 127.0;
        let extra = match frame.metric {
            Metric::Dot => (half * half).ceil().clamp(1.0, EXTRA_MAX as f32) as usize,
            Metric::Cosine | Metric::Euclid | Metric::Manhattan => 0,
        };
        Bytes8 {
            dims,
            extra,
            longest,
            per_unit,
            unit: frame.unit,
        }
    }

    fn code_bytes(&self) -> usize {
        self.dims + self.extra
    }

    /// Bytes of a record: the values + 128, and the sum of their squares u32.
    pub(super) fn stride(&self) -> usize {
        self.code_bytes() + 4
    }

    /// Appends the record of a vector, given rotated and in units as codes are.
    pub(super) fn encode(&self, rotated: &[f32], squares: f32, out: &mut Vec<u8>) {
        let start = out.len();
        let round = |value: f32| (value * self.per_unit).round().clamp(-127.0, 127.0) as i32;
        out.extend(rotated.iter().map(|value| (round(*value) + 128) as u8));
        if self.extra > 0 {
            let rest = (self.longest * self.longest - squares).max(0.0).sqrt();
            let each = (rest - self.longest / 2.0) / self.unit / (self.extra as f32).sqrt();
            out.extend(std::iter::repeat_n((round(each) + 128) as u8, self.extra));
        }
        let squares: u32 = out[start..]
            .iter()
            .map(|byte| (i32::from(*byte) - 128).pow(2) as u32)
            .sum();
        out.extend_from_slice(&squares.to_le_bytes());
    }
}

/// One thread's 8-bit vector that others are compared with.
#[derive(Debug, Default)]
pub(super) struct Compared {
    query: Vec<i8>,
    /// 128 times the sum of its values, twice; and the sum of their squares.
    offset: i64,
    squares: i64,
}

/// Vectors compared by one call of the kernels.
const AT_ONCE: usize = 64;

impl Compared {
    /// Takes a record.
    pub(super) fn prepare(&mut self, record: &[u8]) {
        let code = &record[..record.len() - 4];
        self.query.clear();
        self.query.extend(code.iter().map(|byte| (byte ^ 0x80) as i8));
        let sum: i64 = self.query.iter().map(|value| i64::from(*value)).sum();
        self.offset = 256 * sum;
        self.squares = i64::from(squares(record));
    }

    /// Calls `each` with the squared distance of every record, in order.
    #[inline]
    pub(super) fn distances(
        &self,
        table: &Kernels,
        records: &[u8],
        stride: usize,
        mut each: impl FnMut(usize, u32),
    ) {
        let mut products = [0i32; AT_ONCE];
        for (chunk, first) in records.chunks(AT_ONCE * stride).zip((0..).step_by(AT_ONCE)) {
            let products = &mut products[..chunk.len() / stride];
            table.dot_codes(CodeWidth::Eight, &self.query, chunk, stride, products);
            for (i, (record, product)) in chunk.chunks_exact(stride).zip(&*products).enumerate() {
                let distance =
                    self.squares + i64::from(squares(record)) + self.offset - 2 * i64::from(*product);
                each(first + i, distance as u32);
            }
        }
    }
}

#[inline]
fn squares(record: &[u8]) -> u32 {
    record.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// One thread's memory for [`Pruning::choose`].
#[derive(Default)]
pub(super) struct Pruning {
    pub(super) compared: Compared,
    /// Distance from the node, and a number of the caller's; ascending.
    pub(super) candidates: Vec<(u32, u32)>,
    /// Their records, in the same order.
    pub(super) records: Vec<u8>,
    dropped: Vec<bool>,
    /// Places of candidates: those chosen, in order, then those dropped, the nearest first.
    pub(super) order: Vec<u32>,
}

impl Pruning {
    /// Orders the candidates; how many of them were chosen, at most `most`.
    pub(super) fn choose(&mut self, stride: usize, most: usize) -> usize {
        let table = kernels();
        let Pruning {
            compared,
            candidates,
            records,
            dropped,
            order,
        } = self;
        dropped.clear();
        dropped.resize(candidates.len(), false);
        order.clear();
        for i in 0..candidates.len() {
            if order.len() == most {
                break;
            }
            if dropped[i] {
                continue;
            }
            order.push(i as u32);
            compared.prepare(&records[i * stride..][..stride]);
            let rest = i + 1;
            compared.distances(table, &records[rest * stride..], stride, |j, between| {
                let own = candidates[rest + j].0;
                if ALPHA * between as f32 <= own as f32 {
                    dropped[rest + j] = true;
                }
            });
        }
        let chosen = order.len();
        // What is behind the last one chosen was never dropped if there was room for no more.
        let last = order.last().map_or(0, |last| last + 1);
        let others = |i: &u32| *i >= last || dropped[*i as usize];
        order.extend((0..candidates.len() as u32).filter(others));
        chosen
    }
}
