//! All pairs within a cluster: each row's nearest there, which of them lie behind nearer ones, and the edges back.

use ramlet_kernels::kernels;

use super::braided::Braided;
use super::links::NONE;
use super::prune::{Compared, Pruning, half, reach};

/// Candidates of a record; a row may have several records.
pub(super) const CANDIDATES: usize = 16;

/// A record of candidates: the row's node, and a number of candidates, then [`NONE`].
pub(super) const TOLD_BYTES: usize = 4 + CANDIDATES * CANDIDATE_BYTES;

/// A candidate: its node, and its distance from the row, of which the lowest two bits are its [`Rank`].
const CANDIDATE_BYTES: usize = 8;

/// Edges of a row that others hear of.
const CHOSEN_MAX: usize = 24;

/// Edges back to a row that are looked at.
const BACK_MAX: usize = 48;

/// Rows whose lists are held at once.
const BATCH: usize = 256;

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
    pub(super) fn read(told: &[u8]) -> impl Iterator<Item = Candidate> {
        let list = told[4..].as_chunks::<CANDIDATE_BYTES>().0;
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
    pub(super) told: usize,
    pub(super) threads: usize,
}

/// A cluster at work: 8-bit vectors in two forms, and the edges.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<u32>,
    pub(super) records: Vec<u8>,
    braided: Braided,
    /// By row: its edges as places in the cluster, at most [`CHOSEN_MAX`], then [`NONE`].
    chosen: Vec<u32>,
    /// Where each row's edges back begin, and they.
    starts: Vec<u32>,
    back: Vec<u32>,
    told: Vec<u8>,
}

/// One thread's memory.
#[derive(Default)]
struct Worker {
    pruning: Pruning,
    compared: Compared,
    records: Vec<u8>,
    braided: Braided,
    own: Vec<u32>,
    between: Vec<u32>,
    reach: Vec<f32>,
    behind: Vec<bool>,
}

impl Pairs {
    /// Bytes of memory for each row of a cluster.
    pub(super) fn row_bytes(&self) -> usize {
        3 * self.stride + 16 + 8 * CHOSEN_MAX
    }

    /// Tells of each row of the cluster what could be its neighbours: the row's node, and a record.
    pub(super) fn compare(
        &self,
        cluster: &mut Cluster,
        tell: &mut dyn FnMut(u32, &[u8]) -> crate::error::Result<()>,
    ) -> crate::error::Result<()> {
        cluster.braided.fill(&cluster.records, self.stride);
        let mut chosen = std::mem::take(&mut cluster.chosen);
        chosen.clear();
        chosen.resize(cluster.nodes.len() * CHOSEN_MAX, NONE);
        let mut told = std::mem::take(&mut cluster.told);
        for (batch, chosen) in chosen.chunks_mut(BATCH * CHOSEN_MAX).enumerate() {
            let rows = chosen.len() / CHOSEN_MAX;
            told.clear();
            told.resize(rows * self.told * TOLD_BYTES, 0xff);
            let share = rows.div_ceil(self.threads.max(1)).max(1);
            let cluster = &*cluster;
            std::thread::scope(|scope| {
                let parts = told.chunks_mut(share * self.told * TOLD_BYTES);
                for ((told, chosen), part) in parts.zip(chosen.chunks_mut(share * CHOSEN_MAX)).zip(0..) {
                    scope.spawn(move || {
                        let mut worker = Worker::default();
                        let first = batch * BATCH + part * share;
                        let rows = told.chunks_exact_mut(self.told * TOLD_BYTES);
                        for ((told, chosen), row) in
                            rows.zip(chosen.chunks_exact_mut(CHOSEN_MAX)).zip(first..)
                        {
                            worker.nearest(self, cluster, row, chosen, told);
                        }
                    });
                }
            });
            tell_all(&told, tell)?;
        }
        cluster.chosen = chosen;
        cluster.turn();
        for first in (0..cluster.nodes.len()).step_by(BATCH) {
            let rows = BATCH.min(cluster.nodes.len() - first);
            told.clear();
            told.resize(rows * TOLD_BYTES, 0xff);
            let share = rows.div_ceil(self.threads.max(1)).max(1);
            let cluster = &*cluster;
            std::thread::scope(|scope| {
                for (told, part) in told.chunks_mut(share * TOLD_BYTES).zip(0..) {
                    scope.spawn(move || {
                        let mut worker = Worker::default();
                        let rows = told.chunks_exact_mut(TOLD_BYTES);
                        for (told, row) in rows.zip(first + part * share..) {
                            worker.back(self, cluster, row, told);
                        }
                    });
                }
            });
            tell_all(&told, tell)?;
        }
        cluster.told = told;
        Ok(())
    }
}

/// Tells records that aren't empty.
fn tell_all(
    told: &[u8],
    tell: &mut dyn FnMut(u32, &[u8]) -> crate::error::Result<()>,
) -> crate::error::Result<()> {
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk()
            .map_or(NONE, |bytes| u32::from_le_bytes(*bytes))
    };
    told.chunks_exact(TOLD_BYTES)
        .filter(|record| word(&record[4..]) != NONE)
        .try_for_each(|record| tell(word(record), record))
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

    fn record(&self, row: usize, stride: usize) -> &[u8] {
        &self.records[row * stride..][..stride]
    }
}

impl Worker {
    /// Finds a row's nearest, and what of it lies behind others.
    fn nearest(&mut self, pairs: &Pairs, cluster: &Cluster, row: usize, chosen: &mut [u32], told: &mut [u8]) {
        let (stride, wanted, pruning) = (pairs.stride, pairs.nearest, &mut self.pruning);
        let Pruning {
            compared, candidates, ..
        } = &mut *pruning;
        compared.prepare(cluster.record(row, stride));
        candidates.clear();
        let mut limit = u32::MAX;
        cluster
            .braided
            .nearer(kernels(), compared, u32::MAX, |other, distance| {
                if other != row {
                    candidates.push((distance, other as u32));
                    if candidates.len() == 2 * wanted {
                        candidates.select_nth_unstable(wanted - 1);
                        candidates.truncate(wanted);
                        limit = candidates[wanted - 1].0;
                    }
                }
                limit
            });
        candidates.sort_unstable();
        candidates.truncate(wanted);
        pruning.records.clear();
        for (_, other) in &pruning.candidates {
            pruning
                .records
                .extend_from_slice(cluster.record(*other as usize, stride));
        }
        let count = pruning.choose(stride, pairs.told * CANDIDATES);
        for (edge, place) in chosen.iter_mut().zip(&pruning.order[..count]) {
            *edge = pruning.candidates[*place as usize].1;
        }
        let mut order = pruning.order.iter().enumerate();
        for told in told.chunks_exact_mut(TOLD_BYTES) {
            told[..4].copy_from_slice(&cluster.nodes[row].to_le_bytes());
            let slots = told[4..].chunks_exact_mut(CANDIDATE_BYTES);
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
    fn back(&mut self, pairs: &Pairs, cluster: &Cluster, row: usize, told: &mut [u8]) {
        let stride = pairs.stride;
        told[..4].copy_from_slice(&cluster.nodes[row].to_le_bytes());
        let chosen = &cluster.chosen[row * CHOSEN_MAX..][..CHOSEN_MAX];
        let edges = &cluster.back[cluster.starts[row] as usize..cluster.starts[row + 1] as usize];
        let step = edges.len().div_ceil(BACK_MAX).max(1);
        let back = || edges.iter().step_by(step).filter(|from| !chosen.contains(from));
        self.records.clear();
        for from in back() {
            self.records
                .extend_from_slice(cluster.record(*from as usize, stride));
        }
        self.braided.fill(&self.records, stride);
        self.compared.prepare(cluster.record(row, stride));
        self.braided
            .distances(kernels(), &self.compared, 0, &mut self.own);
        let count = self.records.len() / stride;
        self.reach.clear();
        self.reach
            .extend(self.own.iter().map(|distance| reach(*distance)));
        self.behind.clear();
        self.behind.resize(count, false);
        for other in chosen.iter().take_while(|other| **other != NONE) {
            self.compared.prepare(cluster.record(*other as usize, stride));
            self.braided
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
        let slots = told[4..].chunks_exact_mut(CANDIDATE_BYTES);
        slots.zip(&free).for_each(|(out, one)| one.write(out));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ivf::Random;

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

    fn told(cluster: &mut Cluster, threads: usize) -> BTreeMap<u32, Vec<Candidate>> {
        let pairs = Pairs {
            stride: STRIDE,
            nearest: 40,
            told: 2,
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
            let lists = told(&mut cluster, 2);
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
            let again = told(&mut cluster, 1);
            assert!(lists == again, "{rows} rows by one thread");
        }
    }
}
