//! Distributes records to more buckets than there are buffers: first to groups of buckets, then each group by itself.

use std::ops::Range;

use ramlet_io::Storage;

use super::buckets::{Plan, cluster_of};
use super::spill::{BucketWriter, Buckets};
use crate::error::Result;

/// A bucket's buffer where there are too many buckets, as a share of the scratch: pieces that are too small take many reads, and
/// 4 bytes of RAM each.
const PIECE_SHARE: usize = 16;

/// Files of groups within groups. Each holds an eighth of the one before at most, in as many groups as there is room for; three of them
/// do for 4 GB a MB of scratch.
const NAMES: [&str; 8] = [
    "tmp-ivf-buckets",
    "tmp-ivf-buckets-1",
    "tmp-ivf-buckets-2",
    "tmp-ivf-buckets-3",
    "tmp-ivf-buckets-4",
    "tmp-ivf-buckets-5",
    "tmp-ivf-buckets-6",
    "tmp-ivf-buckets-7",
];

/// Where records are split, and with how much memory.
pub(super) struct Splits<'s> {
    pub(super) spill: &'s dyn Storage,
    pub(super) record_bytes: usize,
    pub(super) scratch_bytes: usize,
}

/// A bucket's records in parts.
pub(super) struct Parts<'s> {
    pub(super) records: Buckets<'s>,
    /// Of each part.
    pub(super) counts: Vec<u32>,
}

/// Hears of a bucket by its number; its records are those of a bucket of the file, which has another number there.
type Each<'e> = &'e mut dyn FnMut(usize, (&Buckets<'_>, usize)) -> Result<()>;

impl<'s> Splits<'s> {
    /// Bytes of buffers at a depth. Deeper down the files that are written have their buffers, and the room for sorting is free.
    fn room(&self, depth: usize) -> usize {
        self.scratch_bytes / if depth == 0 { 2 } else { 4 }
    }

    /// How many consecutive buckets share a group, of so many at a depth: one, where each gets a buffer of a record at least.
    pub(super) fn step(&self, buckets: usize, depth: usize) -> usize {
        let room = self.room(depth);
        if buckets <= room / self.record_bytes || depth + 1 == NAMES.len() {
            return 1;
        }
        let piece_bytes = self.record_bytes.max(self.scratch_bytes / PIECE_SHARE);
        buckets.div_ceil((room / piece_bytes).max(2))
    }

    pub(super) fn writer(&self, groups: usize, depth: usize) -> Result<BucketWriter<'s>> {
        let buffer_bytes = self.room(depth) / groups.max(1);
        BucketWriter::create(self.spill, NAMES[depth], groups, buffer_bytes, self.record_bytes)
    }

    /// Calls `each` with every bucket of the plan, in order; `file` has the records in groups.
    pub(super) fn for_each_bucket(&self, file: &Buckets<'_>, plan: &Plan, each: Each<'_>) -> Result<()> {
        self.walk(file, plan, (0..plan.buckets(), 0), each)
    }

    fn walk(
        &self,
        file: &Buckets<'_>,
        plan: &Plan,
        (buckets, depth): (Range<usize>, usize),
        each: Each<'_>,
    ) -> Result<()> {
        let step = self.step(buckets.len(), depth);
        for (group, first) in buckets.clone().step_by(step).enumerate() {
            let own = first..(first + step).min(buckets.end);
            if own.len() == 1 {
                each(first, (file, group))?;
                continue;
            }
            let split = self.split((file, group), plan, &own, depth + 1)?;
            self.walk(&split, plan, (own, depth + 1), each)?;
        }
        Ok(())
    }

    /// A group's records by the smaller groups of its buckets.
    fn split(
        &self,
        (file, group): (&Buckets<'_>, usize),
        plan: &Plan,
        buckets: &Range<usize>,
        depth: usize,
    ) -> Result<Buckets<'s>> {
        let step = self.step(buckets.len(), depth);
        let mut writer = self.writer(buckets.len().div_ceil(step), depth)?;
        file.for_each_piece(group, |piece| {
            piece.chunks_exact(self.record_bytes).try_for_each(|record| {
                writer.push(
                    (plan.bucket_of(cluster_of(record)) - buckets.start) / step,
                    &[record],
                )
            })
        })?;
        writer.finish()
    }

    /// A bucket's records in so many parts, of which `part_of` tells.
    pub(super) fn parts(
        &self,
        (file, bucket): (&Buckets<'_>, usize),
        parts: usize,
        part_of: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<Parts<'s>> {
        let mut counts = vec![0; parts];
        let buffer_bytes = self.scratch_bytes / 8 / parts.max(1);
        let mut writer = BucketWriter::create(
            self.spill,
            "tmp-ivf-parts",
            parts,
            buffer_bytes,
            self.record_bytes,
        )?;
        file.for_each_piece(bucket, |piece| {
            piece.chunks_exact(self.record_bytes).try_for_each(|record| {
                let part = part_of(record);
                counts[part] += 1;
                writer.push(part, &[record])
            })
        })?;
        let records = writer.finish()?;
        Ok(Parts { records, counts })
    }
}
