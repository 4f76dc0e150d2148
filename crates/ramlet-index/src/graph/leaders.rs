//! Cluster leaders, and the leaders near each row.

use ramlet_kernels::kernels;

use super::interleaved::{Interleaved, Near, QUERIES};

/// Rounds of k-means on the sample. Leaders taken as they come find nearly as much (.82 of the true 100 nearest for
/// .83), but in larger clusters.
const ROUNDS: usize = 3;

/// Records of points.
pub(super) struct Leaders {
    records: Vec<u8>,
    interleaved: Interleaved,
    stride: usize,
}

impl Leaders {
    /// `count` leaders for rows like those of a sample.
    pub(super) fn train(sample: &[u8], stride: usize, count: usize, threads: usize) -> Leaders {
        let rows = sample.len() / stride;
        let count = count.clamp(1, rows.max(1));
        let mut leaders = Leaders {
            records: Vec::with_capacity(count * stride),
            interleaved: Interleaved::default(),
            stride,
        };
        for i in 0..count.min(rows) {
            let row = i * rows / count;
            leaders
                .records
                .extend_from_slice(&sample[row * stride..][..stride]);
        }
        leaders.interleaved.fill(&leaders.records, stride);
        // With few rows each the mean of them tells nothing.
        if rows < 4 * count {
            return leaders;
        }
        let mut nearest = Vec::new();
        for _ in 0..ROUNDS {
            leaders.nearest(sample, 1, threads, &mut nearest);
            leaders.move_to_means(sample, &nearest);
            leaders.interleaved.fill(&leaders.records, stride);
        }
        leaders
    }

    pub(super) fn count(&self) -> usize {
        self.records.len() / self.stride
    }

    /// The `each` nearest leaders of every record, in no order; fewer if there aren't as many.
    pub(super) fn nearest(&self, records: &[u8], each: usize, threads: usize, out: &mut Vec<u32>) {
        let (stride, each) = (self.stride, each.min(self.count()));
        let rows = records.len() / stride;
        out.clear();
        out.resize(rows * each, 0);
        let share = rows.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let parts = records.chunks(share * stride).zip(out.chunks_mut(share * each));
            for (records, out) in parts {
                scope.spawn(move || {
                    let mut near: [Near; QUERIES] = Default::default();
                    let fours = records.chunks(QUERIES * stride);
                    for (records, out) in fours.zip(out.chunks_mut(QUERIES * each)) {
                        let near = &mut near[..out.len() / each];
                        for (near, record) in near.iter_mut().zip(records.chunks_exact(stride)) {
                            near.met.clear();
                            near.compared.prepare(record);
                        }
                        self.interleaved.nearer(kernels(), near, |_, met, one, limit| {
                            let at = met.partition_point(|known| known.0 <= one.0);
                            met.insert(at, one);
                            met.truncate(each);
                            *limit = met.get(each - 1).map_or(u32::MAX, |last| last.0);
                        });
                        for (out, near) in out.chunks_exact_mut(each).zip(&*near) {
                            for (out, (_, leader)) in out.iter_mut().zip(&near.met) {
                                *out = *leader;
                            }
                        }
                    }
                });
            }
        });
    }

    fn move_to_means(&mut self, sample: &[u8], nearest: &[u32]) {
        let code = self.stride - 4;
        let mut sums = vec![0u32; self.count() * code];
        let mut counts = vec![0u32; self.count()];
        for (record, leader) in sample.chunks_exact(self.stride).zip(nearest) {
            let leader = *leader as usize;
            counts[leader] += 1;
            let sums = &mut sums[leader * code..][..code];
            sums.iter_mut()
                .zip(record)
                .for_each(|(sum, byte)| *sum += u32::from(*byte));
        }
        let leaders = self.records.chunks_exact_mut(self.stride);
        for ((leader, sums), count) in leaders.zip(sums.chunks_exact(code)).zip(&counts) {
            if *count == 0 {
                continue;
            }
            let mut squares = 0u32;
            for (byte, sum) in leader.iter_mut().zip(sums) {
                *byte = ((sum + count / 2) / count) as u8;
                squares += (i32::from(*byte) - 128).pow(2) as u32;
            }
            leader[code..].copy_from_slice(&squares.to_le_bytes());
        }
    }
}
