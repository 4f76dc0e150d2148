//! All pairs within a cluster: each row's nearest, pruned of those behind nearer ones, and the reverse edges.

use std::sync::Mutex;

use ramlet_kernels::kernels;

use super::compared::Compared;
use super::interleaved::{Interleaved, Near, QUERIES};
use super::links::NONE;
use super::prune::{Pruning, half, reach};
use crate::error::Result;

/// Candidates of a record; a row may have several records.
pub(super) const CANDIDATES: usize = 16;

/// A record of candidates: the row's node, and a number of candidates, then [`NONE`].
pub(super) const EMITTED_BYTES: usize = 4 + CANDIDATES * CANDIDATE_BYTES;

/// A candidate: its node, and its distance from the row, of which the lowest two bits are its [`Rank`].
const CANDIDATE_BYTES: usize = 8;

/// Edges of a row that others hear of.
const CHOSEN_MAX: usize = 24;

/// Edges back to a row that are looked at.
const BACK_MAX: usize = 48;

/// Candidates at the very same distance, which are equal rows then: one of them covers the others, and lists full of them lead nowhere else.
const EQUALS_MAX: usize = 4;

/// Rows of a batch, whose lists a thread holds at once.
const AT_ONCE: usize = 8 * QUERIES;

/// Is told a row's node, and a record. In any order.
pub(super) type Emit<'t> = dyn FnMut(u32, &[u8]) -> Result<()> + Send + 't;

/// How much a candidate is worth. What a row chose comes first; of what others chose it for, and lies behind nothing that
/// it chose itself, a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Chosen = 0,
    Back = 1,
    Behind = 2,
}

/// A candidate for a row's neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) rank: Rank,
    pub(super) distance: u32,
    pub(super) node: u32,
}

impl Candidate {
    /// The candidates of a record.
    pub(super) fn read(emitted: &[u8]) -> impl Iterator<Item = Candidate> {
        let list = emitted[4..].as_chunks::<CANDIDATE_BYTES>().0;
        list.iter().map_while(|bytes| {
            let [a, b, c, d, e, f, g, h] = *bytes;
            let (node, word) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            let rank = match word & 3 {
                0 => Rank::Chosen,
                1 => Rank::Back,
                _ => Rank::Behind,
            };
            (node != NONE).then_some(Candidate {
                rank,
                distance: word & !3,
                node,
            })
        })
    }

    fn write(&self, out: &mut [u8]) {
        let word = self.distance & !3 | self.rank as u32;
        out[..4].copy_from_slice(&self.node.to_le_bytes());
        out[4..].copy_from_slice(&word.to_le_bytes());
    }
}

/// How rows of a cluster are compared with each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    /// Bytes of a row's record.
    pub(super) stride: usize,
    /// Nearest rows that are looked at.
    pub(super) nearest: usize,
    /// Records of a row's own candidates.
    pub(super) emitted: usize,
    pub(super) threads: usize,
}

/// A cluster at work: 8-bit vectors in two forms, and the edges.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<u32>,
    pub(super) records: Vec<u8>,
    /// The record of rows that are no neighbours of others, and others none of theirs: under cosine those of zeros, which lie as near to
    /// every row as the sphere's centre does and are like none. Or empty.
    pub(super) hollow_record: Vec<u8>,
    /// Whether rows are such; or empty.
    hollow: Vec<bool>,
    interleaved: Interleaved,
    /// By row: its edges as places in the cluster, at most [`CHOSEN_MAX`], then [`NONE`].
    chosen: Vec<u32>,
    /// Where each row's edges back begin, and they.
    starts: Vec<u32>,
    back: Vec<u32>,
}

/// One thread's memory.
#[derive(Default)]
struct Worker {
    near: [Near; QUERIES],
    pruning: Pruning,
    compared: Compared,
    records: Vec<u8>,
    interleaved: Interleaved,
    own: Vec<u32>,
    between: Vec<u32>,
    reach: Vec<f32>,
    behind: Vec<bool>,
    emitted: Vec<u8>,
}

impl Pairs {
    /// Bytes of memory for each row of a cluster.
    pub(super) fn row_bytes(&self) -> usize {
        3 * self.stride + 16 + 8 * CHOSEN_MAX
    }

    /// Tells of each row of the cluster what could be its neighbours: the row's node, and a record.
    pub(super) fn compare(&self, cluster: &mut Cluster, emit: &mut Emit<'_>) -> Result<()> {
        cluster.interleaved.fill(&cluster.records, self.stride);
        cluster.find_hollow(self.stride);
        let mut chosen = std::mem::take(&mut cluster.chosen);
        chosen.clear();
        chosen.resize(cluster.nodes.len() * CHOSEN_MAX, NONE);
        let emit = Mutex::new(emit);
        let firsts = || (0..).step_by(AT_ONCE);
        let batches = firsts().zip(chosen.chunks_mut(AT_ONCE * CHOSEN_MAX));
        self.share(batches, |worker, (first, chosen)| {
            let rows = chosen.chunks_mut(QUERIES * CHOSEN_MAX);
            let rows = rows.zip((first..).step_by(QUERIES));
            let bytes = QUERIES * self.emitted * EMITTED_BYTES;
            worker.emit(rows, bytes, &emit, |worker, (chosen, first), emitted| {
                worker.nearest(self, cluster, first, chosen, emitted)
            })
        })?;
        cluster.chosen = chosen;
        cluster.turn();
        let cluster = &*cluster;
        let rows = cluster.nodes.len();
        let batches = firsts().take_while(|first| *first < rows);
        self.share(batches, |worker, first| {
            let rows = first..rows.min(first + AT_ONCE);
            worker.emit(rows, EMITTED_BYTES, &emit, |worker, row, emitted| {
                worker.back(self, cluster, row, emitted)
            })
        })
    }

    /// Each thread takes the next batch when it is done with one: those of equal rows take unequal time.
    fn share<B>(
        &self,
        batches: impl Iterator<Item = B> + Send,
        each: impl Fn(&mut Worker, B) -> Result<()> + Sync,
    ) -> Result<()> {
        let batches = Mutex::new(batches);
        let next = || batches.lock().expect("never poisoned").next();
        let run = || {
            let mut worker = Worker::default();
            while let Some(batch) = next() {
                each(&mut worker, batch)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(run)).collect();
            let own = run();
            let others = others.into_iter().map(|other| other.join().expect("no panic"));
            others.fold(own, Result::and)
        })
    }
}

/// Sorts what was met by a row; of equals those are kept that follow the row, or the first after the last: so each is met by some.
fn keep_few_equals(met: &mut Vec<(u32, u32)>, row: u32) {
    met.sort_unstable();
    let (mut kept, mut from) = (0, 0);
    while from < met.len() {
        let distance = met[from].0;
        let count = met[from..].iter().take_while(|one| one.0 == distance).count();
        let equals = &mut met[from..from + count];
        if count > EQUALS_MAX {
            let next = equals.partition_point(|one| one.1 < row);
            equals.rotate_left(next % count);
        }
        let few = count.min(EQUALS_MAX);
        met.copy_within(from..from + few, kept);
        (kept, from) = (kept + few, from + count);
    }
    met.truncate(kept);
}

/// Tells records that aren't empty.
fn emit_all(emitted: &[u8], emit: &mut Emit<'_>) -> Result<()> {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk()
            .map_or(NONE, |bytes| u32::from_le_bytes(*bytes))
    };
    emitted
        .chunks_exact(EMITTED_BYTES)
        .filter(|record| word(&record[4..]) != NONE)
        .try_for_each(|record| emit(word(record), record))
}

impl Cluster {
    /// Turns the edges round.
    fn turn(&mut self) {
        let rows = self.nodes.len();
        self.starts.clear();
        self.starts.resize(rows + 1, 0);
        for to in self.chosen.iter().filter(|to| **to != NONE) {
            self.starts[*to as usize + 1] += 1;
        }
        for row in 0..rows {
            self.starts[row + 1] += self.starts[row];
        }
        self.back.clear();
        self.back.resize(self.starts[rows] as usize, 0);
        // From the last to the first, each start moves up to the next one's, and all are moved back at the end.
        for (from, edges) in (0..rows as u32).zip(self.chosen.chunks_exact(CHOSEN_MAX)) {
            for to in edges.iter().filter(|to| **to != NONE) {
                let start = &mut self.starts[*to as usize];
                self.back[*start as usize] = from;
                *start += 1;
            }
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    fn find_hollow(&mut self, stride: usize) {
        let is_hollow = |record: &[u8]| record == self.hollow_record;
        let mut hollow = std::mem::take(&mut self.hollow);
        hollow.clear();
        if !self.hollow_record.is_empty() {
            hollow.extend(self.records.chunks_exact(stride).map(is_hollow));
        }
        if !hollow.contains(&true) {
            hollow.clear();
        }
        self.hollow = hollow;
    }

    /// Whether two rows may be neighbours.
    #[inline]
    fn pairs(&self, a: usize, b: usize) -> bool {
        self.hollow.is_empty() || self.hollow[a] == self.hollow[b]
    }

    fn record(&self, row: usize, stride: usize) -> &[u8] {
        &self.records[row * stride..][..stride]
    }
}

impl Worker {
    /// Tells what `find` writes of each row into a space of so many bytes, records that are empty where it writes none.
    fn emit<R>(
        &mut self,
        rows: impl Iterator<Item = R>,
        bytes: usize,
        emit: &Mutex<&mut Emit<'_>>,
        mut find: impl FnMut(&mut Worker, R, &mut [u8]),
    ) -> Result<()> {
        let mut emitted = std::mem::take(&mut self.emitted);
        emitted.clear();
        for row in rows {
            let start = emitted.len();
            emitted.resize(start + bytes, 0xff);
            find(self, row, &mut emitted[start..]);
        }
        let result = emit_all(&emitted, *emit.lock().expect("never poisoned"));
        self.emitted = emitted;
        result
    }

    /// Finds the nearest of some rows that follow one another, and what of it lies behind others.
    fn nearest(
        &mut self,
        pairs: &Pairs,
        cluster: &Cluster,
        first: usize,
        chosen: &mut [u32],
        emitted: &mut [u8],
    ) {
        let (stride, wanted) = (pairs.stride, pairs.nearest);
        let count = chosen.len() / CHOSEN_MAX;
        let near = &mut self.near[..count];
        for (near, row) in near.iter_mut().zip(first..) {
            near.compared.prepare(cluster.record(row, stride));
            near.met.clear();
        }
        cluster
            .interleaved
            .nearer(kernels(), near, |query, met, one, limit| {
                let row = first + query;
                if one.1 as usize != row && cluster.pairs(row, one.1 as usize) {
                    met.push(one);
                    if met.len() == 2 * wanted {
                        met.select_nth_unstable(wanted - 1);
                        met.truncate(wanted);
                        *limit = met[wanted - 1].0;
                        if met.iter().filter(|other| other.0 == *limit).count() > EQUALS_MAX {
                            keep_few_equals(met, row as u32);
                            *limit = u32::MAX;
                        }
                    }
                }
            });
        let out = chosen.chunks_exact_mut(CHOSEN_MAX);
        let out = out.zip(emitted.chunks_exact_mut(pairs.emitted * EMITTED_BYTES));
        for (row, (chosen, emitted)) in (first..).zip(out) {
            std::mem::swap(&mut self.pruning.candidates, &mut self.near[row - first].met);
            self.choose(pairs, cluster, row, chosen, emitted);
        }
    }

    /// Tells of a row whose nearest are the candidates.
    fn choose(
        &mut self,
        pairs: &Pairs,
        cluster: &Cluster,
        row: usize,
        chosen: &mut [u32],
        emitted: &mut [u8],
    ) {
        let (stride, wanted, pruning) = (pairs.stride, pairs.nearest, &mut self.pruning);
        let candidates = &mut pruning.candidates;
        keep_few_equals(candidates, row as u32);
        candidates.truncate(wanted);
        pruning.records.clear();
        for (_, other) in &pruning.candidates {
            pruning
                .records
                .extend_from_slice(cluster.record(*other as usize, stride));
        }
        let count = pruning.choose(stride, pairs.emitted * CANDIDATES);
        for (edge, place) in chosen.iter_mut().zip(&pruning.order[..count]) {
            *edge = pruning.candidates[*place as usize].1;
        }
        let mut order = pruning.order.iter().enumerate();
        for emitted in emitted.chunks_exact_mut(EMITTED_BYTES) {
            emitted[..4].copy_from_slice(&cluster.nodes[row].to_le_bytes());
            let slots = emitted[4..].chunks_exact_mut(CANDIDATE_BYTES);
            for (out, (i, place)) in slots.zip(order.by_ref()) {
                let (distance, other) = pruning.candidates[*place as usize];
                let candidate = Candidate {
                    rank: if i < count { Rank::Chosen } else { Rank::Behind },
                    distance,
                    node: cluster.nodes[other as usize],
                };
                candidate.write(out);
            }
        }
    }

    /// Of the rows that chose this one, the nearest that lie behind none that it chose itself.
    fn back(&mut self, pairs: &Pairs, cluster: &Cluster, row: usize, emitted: &mut [u8]) {
        let stride = pairs.stride;
        emitted[..4].copy_from_slice(&cluster.nodes[row].to_le_bytes());
        let chosen = &cluster.chosen[row * CHOSEN_MAX..][..CHOSEN_MAX];
        let edges = &cluster.back[cluster.starts[row] as usize..cluster.starts[row + 1] as usize];
        let step = edges.len().div_ceil(BACK_MAX).max(1);
        let back = || edges.iter().step_by(step).filter(|from| !chosen.contains(from));
        self.records.clear();
        for from in back() {
            self.records
                .extend_from_slice(cluster.record(*from as usize, stride));
        }
        self.interleaved.fill(&self.records, stride);
        self.compared.prepare(cluster.record(row, stride));
        self.interleaved
            .distances(kernels(), &self.compared, 0, &mut self.own);
        let count = self.records.len() / stride;
        self.reach.clear();
        self.reach
            .extend(self.own.iter().map(|distance| reach(*distance)));
        self.behind.clear();
        self.behind.resize(count, false);
        for other in chosen.iter().take_while(|other| **other != NONE) {
            self.compared.prepare(cluster.record(*other as usize, stride));
            self.interleaved
                .distances(kernels(), &self.compared, 0, &mut self.between);
            let pairs = self.between.iter().zip(&self.reach);
            for (behind, (between, reach)) in self.behind.iter_mut().zip(pairs) {
                *behind |= half(*between) <= *reach;
            }
        }
        let mut free: Vec<Candidate> = back()
            .zip(self.own.iter().zip(&self.behind))
            .filter(|(_, (_, behind))| !**behind)
            .map(|(from, (distance, _))| Candidate {
                rank: Rank::Back,
                distance: *distance,
                node: cluster.nodes[*from as usize],
            })
            .collect();
        free.sort_unstable();
        let slots = emitted[4..].chunks_exact_mut(CANDIDATE_BYTES);
        slots.zip(&free).for_each(|(out, one)| one.write(out));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::build::random::Random;

    const DIMS: usize = 6;
    const STRIDE: usize = DIMS + 4;

    fn cluster(rows: usize) -> Cluster {
        let mut random = Random::new(3);
        let mut cluster = Cluster::default();
        for row in 0..rows as u32 {
            let codes: Vec<u8> = (0..DIMS).map(|_| random.below(256) as u8).collect();
            let squares: i32 = codes.iter().map(|code| (i32::from(*code) - 128).pow(2)).sum();
            cluster.nodes.push(1000 + 3 * row);
            cluster.records.extend_from_slice(&codes);
            cluster.records.extend_from_slice(&squares.to_le_bytes());
        }
        cluster
    }

    fn distance(cluster: &Cluster, a: usize, b: usize) -> u32 {
        let codes = |row| &cluster.record(row, STRIDE)[..DIMS];
        let pairs = codes(a).iter().zip(codes(b));
        pairs.map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
    }

    fn emitted(cluster: &mut Cluster, threads: usize) -> BTreeMap<u32, Vec<Candidate>> {
        let pairs = Pairs {
            stride: STRIDE,
            nearest: 40,
            emitted: 2,
            threads,
        };
        let mut lists: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
        pairs
            .compare(cluster, &mut |node, record| {
                lists.entry(node).or_default().extend(Candidate::read(record));
                Ok(())
            })
            .expect("nothing fails");
        lists
    }

    #[test]
    fn the_nearest_are_told_and_which_lie_behind() {
        for rows in [1, 2, 17, 300, 700] {
            let mut cluster = cluster(rows);
            let lists = emitted(&mut cluster, 2);
            for row in 0..rows {
                let mut order: Vec<(u32, usize)> = (0..rows)
                    .filter(|other| *other != row)
                    .map(|other| (distance(&cluster, row, other), other))
                    .collect();
                order.sort_unstable();
                order.truncate(40);
                // One by one, as the paper has it.
                let mut chosen: Vec<usize> = Vec::new();
                for (own, other) in &order {
                    let behind = |known: &usize| half(distance(&cluster, *known, *other)) <= reach(*own);
                    if !chosen.iter().any(behind) {
                        chosen.push(*other);
                    }
                }
                let empty = Vec::new();
                let list = lists.get(&cluster.nodes[row]).unwrap_or(&empty);
                let of = |rank| -> Vec<u32> {
                    let some = list.iter().filter(|one| one.rank == rank);
                    some.map(|one| one.node).collect()
                };
                let nodes =
                    |rows: &[usize]| -> Vec<u32> { rows.iter().map(|row| cluster.nodes[*row]).collect() };
                assert_eq!(of(Rank::Chosen), nodes(&chosen), "{row} of {rows}");
                let own = list.iter().filter(|one| one.rank != Rank::Back).count();
                assert_eq!(own, order.len().min(2 * CANDIDATES));
                for one in list {
                    let other = ((one.node - 1000) / 3) as usize;
                    assert_eq!(one.distance, distance(&cluster, row, other) & !3);
                    let chose = lists[&one.node]
                        .iter()
                        .any(|back| back.rank == Rank::Chosen && back.node == cluster.nodes[row]);
                    assert!(
                        one.rank != Rank::Back || chose,
                        "an edge back that none leads from"
                    );
                }
            }
            let again = emitted(&mut cluster, 1);
            assert!(lists == again, "{rows} rows by one thread");
        }
    }
}
