//! Sorts more keys than fit in the job's memory: sorted runs on disk, then one merge.

use std::sync::Arc;

use ramlet_format::block;
use ramlet_format::sorted::SortedWriter;
use ramlet_io::{BlockFile, IoContext, PAGE, Storage};

use super::names::SCRATCH_PREFIX;
use super::streams::{KEYS_BYTES, KeyStream, Lane, merge};
use crate::error::{Error, Result};
use crate::limits::SORT_RUNS_MAX;

/// What takes keys.
pub type EachKey<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Bytes of a run that are written at once.
const WRITE_BYTES: usize = 8 * PAGE;

/// Takes keys in any order, gives them back ascending and without duplicates.
/// RAM: `bytes` while collecting, taken at the first key; while merging [`KEYS_BYTES`] a run, of as many runs as fit `merge_bytes`.
pub struct Sorter {
    storage: Arc<dyn Storage>,
    /// Distinguishes the scratch files of sorters that live at once.
    tag: String,
    bytes: usize,
    merge_bytes: usize,
    keys: Vec<u8>,
    ends: Vec<u32>,
    runs: Vec<(String, u64)>,
    next_run: u32,
}

impl Sorter {
    pub fn new(storage: Arc<dyn Storage>, tag: String, bytes: usize, merge_bytes: usize) -> Sorter {
        Sorter {
            storage,
            tag,
            bytes,
            merge_bytes,
            keys: Vec::new(),
            ends: Vec::new(),
            runs: Vec::new(),
            next_run: 0,
        }
    }

    pub fn push(&mut self, key: &[u8]) -> Result<()> {
        // Two thirds for the keys, the rest for their ends and, while sorting, their order. Taken at once: lists that
        // double hold three times their bytes for a moment.
        let (keys, ends) = (self.bytes / 3 * 2, (self.bytes / 24).max(1));
        if self.keys.capacity() == 0 {
            self.keys.reserve_exact(keys);
            self.ends.reserve_exact(ends);
        }
        if !self.ends.is_empty() && (self.keys.len() + key.len() > keys || self.ends.len() == ends) {
            self.spill()?;
        }
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len() as u32);
        Ok(())
    }

    /// Takes keys that come ascending, as many as there are: they go to disk at once.
    pub fn push_sorted(&mut self, keys: &mut dyn FnMut(&mut EachKey<'_>) -> Result<()>) -> Result<()> {
        let mut run = RunWriter::create(self)?;
        keys(&mut |key| run.push(key))?;
        let run = run.finish()?;
        self.runs.push(run);
        Ok(())
    }

    /// Whether something came and lies on disk.
    pub fn has_runs(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Gives every key once, ascending.
    pub fn finish(mut self, io: &mut IoContext, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.runs.is_empty() {
            return self.in_order(each);
        }
        if !self.ends.is_empty() {
            self.spill()?;
        }
        (self.keys, self.ends) = (Vec::new(), Vec::new());
        while self.runs.len() > self.runs_at_once() {
            self.merge_runs(io)?;
        }
        let runs = std::mem::take(&mut self.runs);
        self.merge(&runs, io, each)?;
        self.remove(&runs)
    }

    fn runs_at_once(&self) -> usize {
        (self.merge_bytes / KEYS_BYTES).clamp(4, SORT_RUNS_MAX)
    }

    fn in_order(&mut self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let key = |i: u32| {
            let start = if i == 0 { 0 } else { self.ends[i as usize - 1] };
            &self.keys[start as usize..self.ends[i as usize] as usize]
        };
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        order.sort_unstable_by_key(|&i| key(i));
        order.dedup_by_key(|i| key(*i));
        for i in order {
            each(key(i))?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let mut run = RunWriter::create(self)?;
        self.in_order(&mut |key| run.push(key))?;
        let run = run.finish()?;
        self.runs.push(run);
        self.keys.clear();
        self.ends.clear();
        Ok(())
    }

    fn merge_runs(&mut self, io: &mut IoContext) -> Result<()> {
        let runs: Vec<_> = self.runs.drain(..self.runs_at_once()).collect();
        let mut merged = RunWriter::create(self)?;
        self.merge(&runs, io, &mut |key| merged.push(key))?;
        self.runs.push(merged.finish()?);
        self.remove(&runs)
    }

    fn remove(&self, runs: &[(String, u64)]) -> Result<()> {
        runs.iter()
            .try_for_each(|(name, _)| Ok(self.storage.remove(name)?))
    }

    fn merge(
        &self,
        runs: &[(String, u64)],
        io: &mut IoContext,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut lanes = Vec::with_capacity(runs.len());
        for (name, pages) in runs {
            let file = BlockFile::new(self.storage.open(name)?, 0, block::verify, None);
            lanes.push(Lane::new(KeyStream::new(file, *pages), None));
        }
        merge(&mut lanes, io, each)
    }
}

/// A run is the data blocks of a sorted table; its pages are counted in memory, so it needs no footer of its own.
struct RunWriter {
    file: Box<dyn ramlet_io::WriteFile>,
    name: String,
    writer: SortedWriter,
    out: Vec<u8>,
}

impl RunWriter {
    fn create(sorter: &mut Sorter) -> Result<RunWriter> {
        let name = format!("{SCRATCH_PREFIX}{}-{}", sorter.tag, sorter.next_run);
        sorter.next_run += 1;
        let file = sorter.storage.create(&name)?;
        Ok(RunWriter {
            file,
            name,
            writer: SortedWriter::without_fences(0),
            out: Vec::new(),
        })
    }

    fn push(&mut self, key: &[u8]) -> Result<()> {
        self.writer
            .push(key, &mut self.out)
            .map_err(|e| Error::corrupt(e.to_string()))?;
        if self.out.len() >= WRITE_BYTES {
            self.file.append(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(String, u64)> {
        let meta = self.writer.finish(&mut self.out);
        self.file.append(&self.out)?;
        // Scratch: it need not survive a crash.
        self.file.flush()?;
        Ok((self.name, meta.blocks))
    }
}
