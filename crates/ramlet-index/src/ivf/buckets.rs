//! Which clusters share a bucket, and the order within one.
//!
//! A record is the cluster (u32), the row's bytes, the row's number (u32).

use super::order::{Order, bisect};
use super::points::{Pointer, Points};
use super::spill::Buckets;
use crate::error::Result;

/// Bytes of a record beside the row.
pub(super) const RECORD_HEADER: usize = 8;

/// The cluster of a record.
pub(super) fn cluster_of(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Its row.
pub(super) fn row_of(record: &[u8]) -> &[u8] {
    &record[4..record.len() - 4]
}

/// Clusters in buckets of consecutive ones, none larger than the room for sorting, except a single large cluster.
#[derive(Debug)]
pub(super) struct Plan {
    bucket_of: Vec<u32>,
    /// Bytes and clusters of each bucket.
    sizes: Vec<(usize, usize)>,
}

impl Plan {
    pub(super) fn new(counts: &[u32], record_bytes: usize, room: usize) -> Plan {
        let bytes_of = |count: u32| sorted_bytes(count, record_bytes);
        let mut bucket_of = Vec::with_capacity(counts.len());
        let mut sizes: Vec<(usize, usize)> = Vec::new();
        for count in counts {
            match sizes.last_mut() {
                Some((bytes, clusters)) if *bytes + bytes_of(*count) <= room => {
                    *bytes += bytes_of(*count);
                    *clusters += 1;
                }
                _ => sizes.push((bytes_of(*count), 1)),
            }
            bucket_of.push(sizes.len() as u32 - 1);
        }
        Plan { bucket_of, sizes }
    }

    pub(super) fn buckets(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn bucket_of(&self, cluster: u32) -> usize {
        self.bucket_of[cluster as usize] as usize
    }

    /// Consecutive clusters of a bucket.
    pub(super) fn clusters(&self, bucket: usize) -> usize {
        self.sizes[bucket].1
    }

    /// Upper bound of the bucket's bytes.
    pub(super) fn bytes(&self, bucket: usize) -> usize {
        self.sizes[bucket].0
    }
}

/// What sorting so many records takes: 8 bytes each beside them.
fn sorted_bytes(records: u32, record_bytes: usize) -> usize {
    records as usize * (record_bytes + 8)
}

/// How the records of a bucket are put in order.
pub(super) struct Sorting<'s> {
    pub(super) record_bytes: usize,
    /// Bytes of those that are sorted in memory.
    pub(super) room: usize,
    pub(super) pointer: &'s Pointer,
    /// Rows that are read together.
    pub(super) group: usize,
    pub(super) threads: usize,
}

impl Sorting<'_> {
    pub(super) fn bytes_of(&self, records: u32) -> usize {
        sorted_bytes(records, self.record_bytes)
    }

    /// Calls `each` with a bucket's records in their order. Where they take more than the room they are of one cluster, and come as they lie.
    pub(super) fn for_each_record(
        &self,
        (from, at): (&Buckets<'_>, usize),
        bytes: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if bytes > self.room {
            return from.for_each_piece(at, |piece| {
                piece.chunks_exact(self.record_bytes).try_for_each(&mut *each)
            });
        }
        let mut records = Vec::with_capacity(bytes);
        from.for_each_piece(at, |piece| {
            records.extend_from_slice(piece);
            Ok(())
        })?;
        sort_by_cluster(&records, self)
            .into_iter()
            .try_for_each(|record| each(&records[record as usize * self.record_bytes..][..self.record_bytes]))
    }
}

/// The records' order: by cluster, and in a cluster so that those in one group lie near each other.
fn sort_by_cluster(records: &[u8], sorting: &Sorting<'_>) -> Vec<u32> {
    let &Sorting {
        record_bytes,
        pointer,
        group,
        threads,
        ..
    } = sorting;
    let mut order: Vec<(u32, u32)> = records
        .chunks_exact(record_bytes)
        .map(cluster_of)
        .zip(0..)
        .collect();
    order.sort_unstable();
    let mut sorted: Vec<u32> = order.iter().map(|(_, record)| *record).collect();
    let mut clusters = Vec::new();
    let mut rest = &mut sorted[..];
    for cluster in order.chunk_by(|a, b| a.0 == b.0) {
        let (own, others) = rest.split_at_mut(cluster.len());
        clusters.push(own);
        rest = others;
    }
    drop(order);
    let share = clusters.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        for clusters in clusters.chunks_mut(share) {
            scope.spawn(move || {
                let mut near = Near {
                    pointer,
                    group,
                    vector: Vec::new(),
                    points: Vec::new(),
                };
                for cluster in clusters {
                    let row = |i: u32| row_of(&records[i as usize * record_bytes..][..record_bytes]);
                    near.sort(cluster, row);
                }
            });
        }
    });
    sorted
}

/// Rows of a cluster that are ordered together; the memory of a larger one would be too much.
const TOGETHER: usize = 1024;

/// Puts the rows of a cluster near their neighbours.
struct Near<'p> {
    pointer: &'p Pointer,
    group: usize,
    vector: Vec<f32>,
    points: Vec<u8>,
}

impl Near<'_> {
    fn sort<'r>(&mut self, cluster: &mut [u32], row: impl Fn(u32) -> &'r [u8]) {
        for rows in cluster.chunks_mut(TOGETHER.next_multiple_of(self.group)) {
            self.points.clear();
            for i in &*rows {
                self.pointer.append(row(*i), &mut self.vector, &mut self.points);
            }
            let dims = self.pointer.origin.len();
            let points = Points {
                bytes: &self.points,
                dims,
            };
            let scales: Vec<f32> = points.iter().map(|(_, scale)| scale).collect();
            let order = Order {
                codes: &self.points,
                stride: points.stride(),
                dims,
                scales: &scales,
            };
            let sorted: Vec<u32> = bisect(&order, self.group)
                .into_iter()
                .map(|i| rows[i as usize])
                .collect();
            rows.copy_from_slice(&sorted);
        }
    }
}
