//! Reading the rows of a query and scoring them, by each way.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ramlet_io::system::{Usage, Whose};
use ramlet_io::{Access, BatchRead, BatchReader, PAGE, ReadFile, ring_reader};
use ramlet_kernels::{Measure, kernels};
use ramlet_memory::AnonBuf;

use super::options::Way;
use super::rows::{Rows, Seen};
use super::slowed::Slowed;

/// Reads in flight of one query, at most: more wait until these are done.
pub(crate) const DEPTH: usize = 256;

/// What the threads of a cell share.
pub(crate) struct Source<'a> {
    pub rows: &'a Rows,
    pub file: Arc<dyn ReadFile>,
    pub seen: Seen,
    pub slowed: Option<Slowed>,
}

/// How one thread reads and scores.
pub(crate) trait Fetch {
    /// Appends the score of each row; returns how many reads went to the disk.
    fn score(&mut self, query: &[f32], rows: &[u64], scores: &mut Vec<f32>) -> Result<u64, String>;
}

/// How a way opens the file.
pub(crate) fn access(way: Way) -> Access {
    match way {
        Way::Mmap => Access::Mapped,
        Way::MmapAhead => Access::MappedReadAhead,
        Way::Pread | Way::Uring => Access::Buffered,
        Way::UringDirect => Access::Direct,
    }
}

/// For the calling thread.
pub(crate) fn fetch<'a>(
    way: Way,
    source: &'a Source<'a>,
    rows_a_query: usize,
) -> Result<Box<dyn Fetch + 'a>, String> {
    Ok(match way {
        Way::Mmap | Way::MmapAhead => Box::new(Mapped { source }),
        Way::Pread => Box::new(Single {
            source,
            buf: vec![0; source.rows.row_bytes()],
        }),
        Way::Uring | Way::UringDirect => Box::new(Ring {
            source,
            reader: ring_reader(DEPTH.min(rows_a_query)).map_err(|e| e.to_string())?,
            buf: AnonBuf::new(rows_a_query * source.rows.pages_max() * PAGE),
            cached: way == Way::Uring,
        }),
    })
}

/// Whether a way works here: reads one row.
pub(crate) fn probe(way: Way, rows: &Rows) -> Result<(), String> {
    let (file, _) = rows.open_cold(access(way))?;
    let source = Source {
        rows,
        file,
        seen: Seen::new(rows.bytes()),
        slowed: None,
    };
    let query = vec![0.0; rows.row_bytes() / 4];
    fetch(way, &source, 1)?
        .score(&query, &[0], &mut Vec::new())
        .map(drop)
}

/// Scores what the mapping shows; a page that isn't there is read by the fault, one after another.
struct Mapped<'a> {
    source: &'a Source<'a>,
}

impl Fetch for Mapped<'_> {
    fn score(&mut self, query: &[f32], rows: &[u64], scores: &mut Vec<f32>) -> Result<u64, String> {
        let bytes = self.source.file.as_bytes().ok_or("the file isn't mapped")?;
        let before = Usage::of(Whose::Thread);
        let mut known = before;
        for &row in rows {
            let place = self.source.rows.place(row);
            let row = &bytes[place.start as usize..place.end as usize];
            let asked = self.source.slowed.as_ref().map(Slowed::now);
            scores.push(kernels().f32_row(Measure::Dot, query, row));
            if let (Some(slowed), Some(asked)) = (&self.source.slowed, asked) {
                let now = Usage::of(Whose::Thread);
                wait_for_faults(slowed, asked, &known, &now);
                known = now;
            }
        }
        Ok(Usage::of(Whose::Thread).faults_major - before.faults_major)
    }
}

/// Waits for the faults between two usages: each was a read of its own, begun when the one before was done. A turn is taken only when it
/// has come: one taken ahead would keep the reads of other threads waiting.
fn wait_for_faults(slowed: &Slowed, asked: Duration, before: &Usage, after: &Usage) -> Duration {
    let faults = after.faults_major - before.faults_major;
    let bytes = (after.read_bytes - before.read_bytes) / faults.max(1);
    (0..faults).fold(asked, |asked, _| {
        let done = slowed.begin(asked, bytes);
        slowed.wait(done);
        done
    })
}

/// One pread a row.
struct Single<'a> {
    source: &'a Source<'a>,
    buf: Vec<u8>,
}

impl Fetch for Single<'_> {
    fn score(&mut self, query: &[f32], rows: &[u64], scores: &mut Vec<f32>) -> Result<u64, String> {
        let mut reads = 0;
        for &row in rows {
            let place = self.source.rows.place(row);
            let from_disk = self.source.seen.note(place.clone());
            let slowed = self.source.slowed.as_ref().filter(|_| from_disk);
            let bytes = pages_of(&place).1;
            let done = slowed.map(|slowed| slowed.begin(slowed.now(), bytes));
            self.source
                .file
                .read_at(&mut self.buf, place.start)
                .map_err(|e| e.to_string())?;
            if let (Some(slowed), Some(done)) = (slowed, done) {
                slowed.wait(done);
            }
            reads += u64::from(from_disk);
            scores.push(kernels().f32_row(Measure::Dot, query, &self.buf));
        }
        Ok(reads)
    }
}

/// All rows of a query in one batch of whole pages.
struct Ring<'a> {
    source: &'a Source<'a>,
    reader: Box<dyn BatchReader>,
    buf: AnonBuf,
    /// Through the page cache.
    cached: bool,
}

impl Fetch for Ring<'_> {
    fn score(&mut self, query: &[f32], rows: &[u64], scores: &mut Vec<f32>) -> Result<u64, String> {
        rows.chunks(DEPTH).try_fold(0, |reads, wave| {
            let done = self.read(wave)?;
            let room = self.source.rows.pages_max() * PAGE;
            for (&row, pages) in wave.iter().zip(self.buf.chunks_exact(room)) {
                let place = self.source.rows.place(row);
                let from = (place.start % PAGE as u64) as usize;
                let row = &pages[from..from + self.source.rows.row_bytes()];
                scores.push(kernels().f32_row(Measure::Dot, query, row));
            }
            Ok(reads + done)
        })
    }
}

impl Ring<'_> {
    /// The pages of each row, each at the start of its own part of the buffer.
    fn read(&mut self, rows: &[u64]) -> Result<u64, String> {
        let Source {
            file, seen, slowed, ..
        } = self.source;
        let room = self.source.rows.pages_max() * PAGE;
        let (mut reads, mut done) = (0, None);
        let mut batch: Vec<BatchRead<'_>> = Vec::with_capacity(rows.len());
        for (&row, out) in rows.iter().zip(self.buf.chunks_exact_mut(room)) {
            let place = self.source.rows.place(row);
            let (offset, bytes) = pages_of(&place);
            if !self.cached || seen.note(place.clone()) {
                reads += 1;
                done = done.max(slowed.as_ref().map(|slowed| slowed.begin(slowed.now(), bytes)));
            }
            batch.push(BatchRead {
                file: file.as_ref(),
                offset,
                out: &mut out[..bytes as usize],
            });
        }
        self.reader.read_batch(&mut batch).map_err(|e| e.to_string())?;
        if let (Some(slowed), Some(done)) = (slowed, done) {
            slowed.wait(done);
        }
        Ok(reads)
    }
}

/// Offset and length of the whole pages around some bytes.
fn pages_of(place: &Range<u64>) -> (u64, u64) {
    let page = PAGE as u64;
    let start = place.start / page * page;
    (start, place.end.next_multiple_of(page) - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages() {
        assert_eq!(pages_of(&(0..3_072)), (0, 4_096));
        assert_eq!(pages_of(&(3_072..6_144)), (0, 8_192));
        assert_eq!(pages_of(&(9_216..12_288)), (8_192, 4_096));
    }

    #[test]
    fn faults_wait_one_after_another() {
        let slowed = Slowed::new(Duration::from_micros(200), 1_000_000, u64::MAX);
        let after = |faults_major| Usage {
            faults_major,
            read_bytes: faults_major * 4_096,
            ..Usage::default()
        };
        let asked = slowed.now();
        let waited = |faults: u64| wait_for_faults(&slowed, asked, &after(5), &after(5 + faults)) - asked;
        assert_eq!(waited(0), Duration::ZERO);
        assert!(waited(3) >= Duration::from_micros(600));
        // None of them took a turn that hasn't come.
        let now = slowed.now();
        assert!(slowed.begin(now, 0) <= now + Duration::from_micros(201));
    }
}
