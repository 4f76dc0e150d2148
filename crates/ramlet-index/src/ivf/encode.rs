//! Writing the file of codes while the rows pass by in their final order.

use super::buckets::RECORD_HEADER;
use super::build::Rows;
use super::centroids::Centroids;
use super::sample::Decoder;
use crate::CodeBits;
use crate::error::{IndexError, Result};
use crate::quant::{EncodeScratch, Encoder};
use crate::scan::trailing_number;

/// Codes rows batch by batch, each batch by all threads.
pub(super) struct CodesWriter<'w> {
    rows: Rows<'w>,
    decoder: Decoder,
    encoder: Encoder,
    centroids: &'w Centroids,
    /// Records of the batch, and then their codes.
    records: Vec<u8>,
    codes: Vec<u8>,
    /// Records of a batch at most.
    batch: usize,
    threads: usize,
}

impl<'w> CodesWriter<'w> {
    /// Holds about `batch_bytes`, or one record.
    pub(super) fn new(
        rows: Rows<'w>,
        decoder: Decoder,
        bits: CodeBits,
        centroids: &'w Centroids,
        batch_bytes: usize,
        threads: usize,
    ) -> CodesWriter<'w> {
        let encoder = Encoder::new(decoder.metric, bits, decoder.dims);
        let one = RECORD_HEADER + decoder.row_bytes() + encoder.layout().row_bytes();
        CodesWriter {
            rows,
            decoder,
            encoder,
            centroids,
            records: Vec::new(),
            codes: Vec::new(),
            batch: (batch_bytes / one).clamp(1, 1 << 14),
            threads: threads.max(1),
        }
    }

    fn record_bytes(&self) -> usize {
        RECORD_HEADER + self.decoder.row_bytes()
    }

    /// Takes the next record: cluster, row, number.
    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        self.records.reserve_exact(if self.records.is_empty() {
            self.batch * record.len()
        } else {
            0
        });
        self.records.extend_from_slice(record);
        if self.records.len() >= self.batch * self.record_bytes() {
            self.write()?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.write()?;
        self.rows.finish()
    }

    fn write(&mut self) -> Result<()> {
        let (record_bytes, row_bytes) = (self.record_bytes(), self.encoder.layout().row_bytes());
        let count = self.records.len() / record_bytes;
        self.codes.clear();
        self.codes.resize(count * row_bytes, 0);
        let share = count.div_ceil(self.threads).max(1);
        let (records, codes) = (&self.records, &mut self.codes);
        let (decoder, encoder, centroids) = (&self.decoder, &self.encoder, self.centroids);
        std::thread::scope(|scope| {
            let shares = records
                .chunks(share * record_bytes)
                .zip(codes.chunks_mut(share * row_bytes));
            let threads: Vec<_> = shares
                .map(|(records, codes)| {
                    scope.spawn(move || {
                        let (mut vector, mut scratch) = (Vec::new(), EncodeScratch::default());
                        let rows = codes.chunks_exact_mut(row_bytes);
                        for (record, out) in records.chunks_exact(record_bytes).zip(rows) {
                            let cluster = record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                            decoder.decode(&record[4..record_bytes - 4], &mut vector);
                            let centroid = centroids.row(cluster as usize);
                            encoder.encode(&vector, centroid, trailing_number(record)?, &mut scratch, out);
                        }
                        Ok::<(), IndexError>(())
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("encoding doesn't panic"))
        })?;
        self.codes
            .chunks_exact(row_bytes)
            .try_for_each(|row| self.rows.push(row))?;
        self.records.clear();
        Ok(())
    }
}
