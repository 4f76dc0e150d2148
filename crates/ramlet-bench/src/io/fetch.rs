//! Reading the rows of a query and scoring them, by each way.

use std::sync::Arc;

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
        let faults = || Usage::of(Whose::Thread).faults_major;
        let before = faults();
        let mut waited = before;
        for &row in rows {
            let place = self.source.rows.place(row);
            let row = &bytes[place.start as usize..place.end as usize];
            scores.push(kernels().f32_row(Measure::Dot, query, row));
            if let Some(slowed) = &self.source.slowed {
                // Each fault was a read of its own, begun when the one before was done.
                let now = faults();
                (waited..now).for_each(|_| slowed.wait(slowed.begin()));
                waited = now;
            }
        }
        Ok(faults() - before)
    }
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
            let done = slowed.map(Slowed::begin);
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
            if !self.cached || seen.note(place.clone()) {
                reads += 1;
                done = done.max(slowed.as_ref().map(Slowed::begin));
            }
            let first = place.start / PAGE as u64;
            let pages = (place.end.div_ceil(PAGE as u64) - first) as usize;
            batch.push(BatchRead {
                file: file.as_ref(),
                offset: first * PAGE as u64,
                out: &mut out[..pages * PAGE],
            });
        }
        self.reader.read_batch(&mut batch).map_err(|e| e.to_string())?;
        if let (Some(slowed), Some(done)) = (slowed, done) {
            slowed.wait(done);
        }
        Ok(reads)
    }
}
