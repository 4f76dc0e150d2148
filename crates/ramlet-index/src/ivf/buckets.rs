//! Which clusters share a bucket, and the order within one.
//!
//! A record is the cluster (u32), the row's bytes, the row's number (u32).

/// Bytes of a record beside the row.
pub(super) const RECORD_HEADER: usize = 8;

/// Clusters in buckets of consecutive ones, none larger than the room for sorting, except a single large cluster.
#[derive(Debug)]
pub(super) struct Plan {
    bucket_of: Vec<u32>,
    /// Bytes and clusters of each bucket.
    sizes: Vec<(usize, usize)>,
}

impl Plan {
    pub(super) fn new(counts: &[u32], record_bytes: usize, room: usize) -> Plan {
        // Sorting takes 8 bytes a record.
        let bytes_of = |count: u32| count as usize * (record_bytes + 8);
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

    pub(super) fn is_one_cluster(&self, bucket: usize) -> bool {
        self.sizes[bucket].1 == 1
    }

    /// Upper bound of the bucket's bytes.
    pub(super) fn bytes(&self, bucket: usize) -> usize {
        self.sizes[bucket].0
    }
}

/// The records' order: by cluster, then as they came.
pub(super) fn sort_by_cluster(records: &[u8], record_bytes: usize) -> impl Iterator<Item = u32> {
    let cluster = |record: &[u8]| record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mut order: Vec<(u32, u32)> = records.chunks_exact(record_bytes).map(cluster).zip(0..).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, record)| record)
}
