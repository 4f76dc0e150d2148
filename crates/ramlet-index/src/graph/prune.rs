//! 8-bit vectors for the build, and pruning of candidates to neighbours.

use ramlet_kernels::kernels;

use super::code::Frame;
use super::compared::Compared;
use super::interleaved::Interleaved;
use crate::Metric;

/// A candidate is left out if one already chosen is nearer to it than the node is, by this factor (of squared
/// distances). Above 1, some longer edges stay, which make beam searches short. "DiskANN", section 2.3. (1.1 is as good, 1.0 and
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

/// One thread's memory for [`Pruning::choose`].
#[derive(Default)]
pub(super) struct Pruning {
    pub(super) compared: Compared,
    /// Distance from the node, and a number of the caller's; ascending.
    pub(super) candidates: Vec<(u32, u32)>,
    /// Their records, in the same order.
    pub(super) records: Vec<u8>,
    interleaved: Interleaved,
    between: Vec<u32>,
    /// By candidate: the distance from another up to which it lies behind that.
    reach: Vec<f32>,
    dropped: Vec<u32>,
    /// Places of candidates: those chosen, in order, then those dropped, the nearest first.
    pub(super) order: Vec<u32>,
}

/// Half of a distance, which any processor can convert.
#[inline]
pub(super) fn half(distance: u32) -> f32 {
    (distance >> 1) as i32 as f32
}

/// Up to which distance (halved) from another a candidate at distance `own` lies behind that.
#[inline]
pub(super) fn reach(own: u32) -> f32 {
    half(own) / ALPHA
}

impl Pruning {
    /// Orders the candidates; how many of them were chosen, at most `most`.
    pub(super) fn choose(&mut self, stride: usize, most: usize) -> usize {
        let table = kernels();
        let Pruning {
            compared,
            candidates,
            records,
            interleaved,
            between,
            reach,
            dropped,
            order,
        } = self;
        interleaved.fill(records, stride);
        reach.clear();
        reach.extend(candidates.iter().map(|(distance, _)| self::reach(*distance)));
        dropped.clear();
        dropped.resize(candidates.len(), 0);
        order.clear();
        for i in 0..candidates.len() {
            if order.len() == most {
                break;
            }
            if dropped[i] > 0 {
                continue;
            }
            order.push(i as u32);
            compared.prepare(&records[i * stride..][..stride]);
            let start = interleaved.distances(table, compared, i + 1, between);
            let rest = dropped[i + 1..].iter_mut().zip(&reach[i + 1..]);
            for ((dropped, reach), between) in rest.zip(&between[i + 1 - start..]) {
                *dropped |= u32::from(half(*between) <= *reach);
            }
        }
        let chosen = order.len();
        // What is behind the last one chosen was never dropped if there was room for no more.
        let last = order.last().map_or(0, |last| last + 1);
        let others = |i: &u32| *i >= last || dropped[*i as usize] > 0;
        order.extend((0..candidates.len() as u32).filter(others));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::random::Random;

    fn records(metric: Metric, dims: usize, vectors: &[Vec<f32>]) -> (usize, Vec<u8>) {
        let frame = Frame::new(metric, vec![0.0; dims], (dims as f32).sqrt());
        let longest = vectors.iter().map(|v| super::super::code::dot(v, v).sqrt());
        let bytes8 = Bytes8::new(&frame, longest.fold(0.0, f32::max));
        let (mut out, mut rotated, mut mixing) = (Vec::new(), Vec::new(), Vec::new());
        for vector in vectors {
            frame.rotate(vector, &mut rotated, &mut mixing);
            bytes8.encode(&rotated, super::super::code::dot(vector, vector), &mut out);
        }
        (bytes8.stride(), out)
    }

    fn every(compared: &Compared, records: &[u8], stride: usize, mut each: impl FnMut(usize, u32)) {
        let (mut interleaved, mut out) = (Interleaved::default(), Vec::new());
        interleaved.fill(records, stride);
        assert_eq!(interleaved.distances(kernels(), compared, 0, &mut out), 0);
        let count = records.len() / stride;
        out[..count]
            .iter()
            .enumerate()
            .for_each(|(i, distance)| each(i, *distance));
    }

    fn vectors(dims: usize, count: usize) -> Vec<Vec<f32>> {
        let mut random = Random::new(1);
        let mut value = || (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87;
        (0..count).map(|_| (0..dims).map(|_| value()).collect()).collect()
    }

    #[test]
    fn distances_are_those_of_the_vectors() {
        for dims in [3, 24, 100, 301] {
            let vectors = vectors(dims, 130);
            let (stride, records) = records(Metric::Euclid, dims, &vectors);
            let mut compared = Compared::default();
            compared.prepare(&records[..stride]);
            let unit = (RANGE / 127.0).powi(2);
            let mut seen = 0;
            every(&compared, &records, stride, |i, distance| {
                let pairs = vectors[0].iter().zip(&vectors[i]);
                let exact: f32 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
                let off = (distance as f32 * unit - exact).abs();
                assert!(off < 0.06 * exact + 0.05, "{dims}, {i}: {distance} for {exact}");
                seen += 1;
            });
            assert_eq!(seen, 130);
        }
    }

    #[test]
    fn the_added_coordinate_orders_by_product() {
        let dims = 32;
        let mut vectors = vectors(dims, 200);
        for (i, vector) in vectors.iter_mut().enumerate() {
            vector
                .iter_mut()
                .for_each(|value| *value *= 0.5 + (i % 7) as f32 * 0.1);
        }
        // From the longest, whose own coordinate is 0, distances fall as products grow.
        let length = |v: &Vec<f32>| super::super::code::dot(v, v);
        let longest = vectors
            .iter()
            .position(|v| vectors.iter().all(|w| length(w) <= length(v)))
            .unwrap_or(0);
        let (stride, records) = records(Metric::Dot, dims, &vectors);
        let mut compared = Compared::default();
        compared.prepare(&records[longest * stride..][..stride]);
        let mut order = Vec::new();
        every(&compared, &records, stride, |i, distance| {
            order.push((distance, i))
        });
        order.sort_unstable();
        let products: Vec<f32> = order
            .iter()
            .map(|(_, i)| super::super::code::dot(&vectors[longest], &vectors[*i]))
            .collect();
        let falls = products.windows(2).filter(|pair| pair[0] > pair[1] - 0.5).count();
        assert!(falls > 190, "{falls} of 199");
    }

    #[test]
    fn pruning_keeps_the_nearest_and_drops_what_lies_behind() {
        // On a line: 1, 2, 3 to one side, -4 to the other.
        let vectors: Vec<Vec<f32>> = [0.0, 0.5, 1.0, 1.5, -2.0].iter().map(|x| vec![*x, 0.0]).collect();
        let (stride, records) = records(Metric::Euclid, 2, &vectors);
        let mut pruning = Pruning::default();
        pruning.compared.prepare(&records[..stride]);
        let Pruning {
            compared, candidates, ..
        } = &mut pruning;
        every(compared, &records[stride..], stride, |i, distance| {
            candidates.push((distance, i as u32));
        });
        pruning.records.extend_from_slice(&records[stride..]);
        assert_eq!(pruning.choose(stride, 8), 2);
        assert_eq!(pruning.order, [0, 3, 1, 2]);
        // With room for one, the others follow in order of distance.
        assert_eq!(pruning.choose(stride, 1), 1);
        assert_eq!(pruning.order, [0, 1, 2, 3]);
    }
}
