//! Compression of single records by a symbol table (FSST), which is trained on some of them.
//!
//! FSST (Boncz, Neumann, Leis: *FSST: Fast Random Access String Compression*, PVLDB 13, 2020): a byte stands for up to eight. Texts take about half,
//! and each record can be read without the others.

use std::mem::MaybeUninit;

use fsst::Compressor;
use ramlet_memory::Reservation;

use super::RecordCache;

/// A table of symbols for the records of one file.
pub struct Symbols {
    table: Compressor,
    _held: Reservation,
}

/// Room for a record that is coded: an escape before each byte.
pub type CodedBuf = [MaybeUninit<u8>; 2 * RecordCache::RECORD_BYTES_MAX];
pub const CODED_BUF: CodedBuf = [MaybeUninit::uninit(); 2 * RecordCache::RECORD_BYTES_MAX];

/// Below so many bytes a table says little of other records.
const SAMPLE_BYTES_MIN: usize = 16 << 10;

impl Symbols {
    /// Memory that a table takes: codes of all pairs of bytes, and a hash table of longer symbols.
    pub const BYTES: u64 = 168 << 10;

    /// Memory that learning takes for some milliseconds: 2 MiB of counts of pairs of 512 symbols, a table, and a heap of candidates. (Of texts 1.7 MB in all.)
    pub const LEARNING_BYTES: u64 = 5 << 19;

    /// Learns from some records, in memory of [`Symbols::LEARNING_BYTES`], of which it keeps its own; `None` where records become hardly shorter.
    pub fn learn(sample: &[&[u8]], mut held: Reservation) -> Option<Symbols> {
        let bytes: usize = sample.iter().map(|record| record.len()).sum();
        if bytes < SAMPLE_BYTES_MIN {
            return None;
        }
        let table = Compressor::train(&sample.to_vec());
        held.shrink_to(Symbols::BYTES);
        let symbols = Symbols { table, _held: held };
        let short = sample
            .iter()
            .filter(|record| record.len() <= RecordCache::RECORD_BYTES_MAX);
        let mut buf = CODED_BUF;
        let coded = short
            .clone()
            .map(|record| symbols.encode(record, &mut buf).len().min(record.len()));
        let coded: usize = coded.sum();
        let plain: usize = short.map(|record| record.len()).sum();
        (coded < plain / 4 * 3).then_some(symbols)
    }

    /// A record of at most [`RecordCache::RECORD_BYTES_MAX`].
    pub fn encode<'a>(&self, record: &[u8], buf: &'a mut CodedBuf) -> &'a [u8] {
        assert!(2 * record.len() <= buf.len());
        // SAFETY: each byte becomes two at most, and the buffer has as many.
        let len = unsafe { self.table.compress_into(record, buf) };
        // SAFETY: so many bytes were written.
        unsafe { std::slice::from_raw_parts(buf[..len].as_ptr().cast(), len) }
    }

    /// The record to the start of `out`, which has room for it; its length.
    pub fn decode(&self, coded: &[u8], out: &mut [u8]) -> usize {
        // SAFETY: only initialised bytes are written to it.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) };
        self.table.decompressor().decompress_into(coded, out)
    }
}
