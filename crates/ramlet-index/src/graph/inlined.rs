//! Inlines neighbours' codes: joins links and codes in node order, with neither in memory.
//!
//! Links are parted by the windows of nodes they lead to, in the order in which they stand. Window after window its codes
//! are loaded and written down in that order: a run. A node's codes are then taken from the fronts of all runs.

use ramlet_io::{BatchRead, IoContext, PAGE, Storage};
use ramlet_memory::AnonBuf;

use super::links::some;
use super::spread::Spread;
use super::stored::{Appender, Stored};
use crate::error::Result;

/// Windows at most: each is a run, of which some is read at a time.
const WINDOWS_MAX: usize = 192;

/// Nodes whose links are read at once.
const BATCH: u32 = 256;

/// Codes of links.
pub(super) struct Inlined<'a> {
    runs: Stored<'a>,
    /// Where in the file each window's run goes on.
    at: Vec<u64>,
    /// Nodes of a window.
    window: u32,
    code_bytes: usize,
    buf: AnonBuf,
    /// Of the nodes at hand: their codes, one after another.
    codes: Vec<u8>,
    spans: Vec<u64>,
}

/// What is joined.
pub(super) struct Join<'a> {
    pub(super) links: &'a Stored<'a>,
    /// Words of a list.
    pub(super) degree: usize,
    pub(super) codes: &'a Stored<'a>,
    pub(super) code_bytes: usize,
    pub(super) rows: u32,
    pub(super) scratch_bytes: usize,
}

impl Join<'_> {
    pub(super) fn join<'s>(
        &self,
        spill: &'s dyn Storage,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<Inlined<'s>> {
        let fit = (self.scratch_bytes / 3 / self.code_bytes).max(1);
        let window = fit.max((self.rows as usize).div_ceil(WINDOWS_MAX)) as u32;
        let count = self.rows.div_ceil(window) as usize;
        let mut targets = Spread::create(spill, "tmp-graph-targets", count, self.scratch_bytes / 4)?;
        self.for_each_list(&mut |list| {
            list.iter()
                .try_for_each(|id| targets.push((id / window) as usize, &id.to_le_bytes()))
        })?;
        let targets = targets.finish()?;
        let buffer = (self.scratch_bytes / 16).clamp(PAGE, 1 << 20);
        let mut runs = Appender::create(spill, "tmp-graph-runs", buffer)?;
        let (mut at, mut codes) = (Vec::with_capacity(count), Vec::new());
        for part in 0..count {
            at.push(runs.offset());
            let first = part as u32 * window;
            let nodes = window.min(self.rows - first) as usize;
            codes.resize(nodes * self.code_bytes, 0);
            self.codes
                .read(&mut codes, u64::from(first) * self.code_bytes as u64)?;
            targets.stream(part, io, buf, &mut |ids| {
                // Pieces are whole words.
                ids.as_chunks::<4>().0.iter().try_for_each(|id| {
                    let place = (u32::from_le_bytes(*id) - first) as usize;
                    runs.push(&codes[place * self.code_bytes..][..self.code_bytes])
                })
            })?;
        }
        Ok(Inlined {
            runs: runs.finish()?,
            spans: vec![0; at.len()],
            at,
            window,
            code_bytes: self.code_bytes,
            buf: AnonBuf::new(PAGE),
            codes: Vec::new(),
        })
    }

    fn for_each_list(&self, each: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        for first in (0..self.rows).step_by(BATCH as usize) {
            let count = BATCH.min(self.rows - first) as usize;
            let at = u64::from(first) * self.degree as u64;
            self.links
                .read_words(at, count * self.degree, &mut bytes, &mut words)?;
            words
                .chunks_exact(self.degree)
                .try_for_each(|list| each(some(list)))?;
        }
        Ok(())
    }
}

impl Inlined<'_> {
    /// The codes of the next nodes' links, all of them one after another.
    pub(super) fn next(&mut self, links: &[u32], io: &mut IoContext) -> Result<&[u8]> {
        self.spans.fill(0);
        for id in links {
            self.spans[(id / self.window) as usize] += self.code_bytes as u64;
        }
        let page = PAGE as u64;
        let pages = |at: u64, len: u64| match len {
            0 => 0,
            len => ((at + len).div_ceil(page) - at / page) * page,
        };
        let spans = || self.at.iter().zip(&self.spans).map(|(at, len)| (*at, *len));
        let total: u64 = spans().map(|(at, len)| pages(at, len)).sum();
        self.buf.ensure(total as usize)?;
        let mut rest = &mut self.buf[..];
        let (mut reads, mut fronts) = (Vec::new(), Vec::with_capacity(self.at.len()));
        let mut front = 0;
        for (at, len) in spans() {
            let bytes = pages(at, len) as usize;
            let (out, later) = rest.split_at_mut(bytes);
            rest = later;
            fronts.push(front + (at % page) as usize);
            front += bytes;
            if bytes > 0 {
                reads.push(self.runs.part(at / page * page, out));
            }
        }
        io.read_batch(&mut reads)?;
        drop(reads);
        self.codes.clear();
        for id in links {
            let front = &mut fronts[(id / self.window) as usize];
            self.codes
                .extend_from_slice(&self.buf[*front..][..self.code_bytes]);
            *front += self.code_bytes;
        }
        for (at, len) in self.at.iter_mut().zip(&self.spans) {
            *at += len;
        }
        Ok(&self.codes)
    }
}

impl Stored<'_> {
    /// A read of whole pages.
    fn part<'r>(&'r self, offset: u64, out: &'r mut [u8]) -> BatchRead<'r> {
        BatchRead {
            file: self.file(),
            offset,
            out,
        }
    }
}

#[cfg(test)]
mod tests {
    use ramlet_io::RamStorage;

    use super::super::links::NONE;
    use super::*;
    use crate::build::random::Random;

    /// Codes of 5 bytes that say whose they are.
    fn code(node: u32) -> Vec<u8> {
        [&node.to_le_bytes()[..], &[node as u8 ^ 0x5a]].concat()
    }

    #[test]
    fn every_link_gets_its_code() {
        const DEGREE: usize = 9;
        for (rows, scratch_bytes) in [(1, 1000), (700, 300), (5000, 1000), (5000, 1 << 20)] {
            let storage = RamStorage::new(None);
            let mut random = Random::new(11);
            let links: Vec<Vec<u32>> = (0..rows)
                .map(|node| (0..node % 10).map(|_| random.below(rows.into()) as u32).collect())
                .collect();
            let mut stored = Appender::create(&storage, "links", 4096).expect("a file");
            for list in &links {
                let mut words = list.clone();
                words.resize(DEGREE, NONE);
                stored.push_words(&words).expect("room");
            }
            let lists = stored.finish().expect("a file");
            let mut stored = Appender::create(&storage, "codes", 4096).expect("a file");
            (0..rows).for_each(|node| stored.push(&code(node)).expect("room"));
            let codes = stored.finish().expect("a file");
            let join = Join {
                links: &lists,
                degree: DEGREE,
                codes: &codes,
                code_bytes: 5,
                rows,
                scratch_bytes,
            };
            let mut io = IoContext::for_storage(&storage, 8).expect("a reader");
            let mut inlined = join
                .join(&storage, &mut io, &mut AnonBuf::new(PAGE))
                .expect("a join");
            for lists in links.chunks(13) {
                let links = lists.concat();
                let expected: Vec<u8> = links.iter().flat_map(|id| code(*id)).collect();
                assert_eq!(inlined.next(&links, &mut io).expect("codes"), expected);
            }
        }
    }
}
