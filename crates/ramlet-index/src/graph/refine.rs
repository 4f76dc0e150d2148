//! Choosing neighbours again, among the neighbours of a node's neighbours.
//!
//! The first candidates are those of the clusters around a row, a smaller and smaller part of its true neighbours the
//! more rows there are. Neighbours of neighbours have most of the others. Dong et al., "NN-Descent" (2011).
//!
//! Nodes are worked on in runs, as many as let all lists and records that a run needs be held at once; they are read once a
//! run, in the order of the file.

use std::ops::Range;

use ramlet_kernels::{Kernels, kernels};

use super::links::{NONE, some};
use super::prune::{Compared, Pruning};
use super::subset::Subset;
use super::temporary::Stored;
use crate::error::Result;

/// Nodes of a run at least, and at most.
const RUN_MIN: usize = 8;
const RUN_MAX: usize = 1 << 14;

/// Records copied together to be compared.
const AT_ONCE: usize = 64;

/// Chooses again.
pub(super) struct Refine {
    pub(super) rows: u32,
    /// Bytes of a record.
    pub(super) stride: usize,
    /// Words of a list.
    pub(super) degree: usize,
    /// Nearest rows among which neighbours are chosen.
    pub(super) candidates: usize,
    /// Neighbours that stay whatever there is, the first of a list.
    pub(super) kept: usize,
    /// Edges chosen among them at most.
    pub(super) chosen: usize,
    /// Edges in all, with the nearest others.
    pub(super) filled: usize,
    pub(super) threads: usize,
    /// For what a run holds: half for lists, half for records.
    pub(super) run_bytes: usize,
}

/// Nodes worked on together, and all they need.
struct Run {
    nodes: Range<u32>,
    /// Their lists.
    own: Vec<u32>,
    /// Nodes whose lists are here, and the lists, as places of `held`; padded with [`NONE`].
    listed: Subset,
    lists: Vec<u32>,
    /// Nodes whose records are here.
    held: Subset,
    records: Vec<u8>,
}

/// One thread's memory.
#[derive(Default)]
struct Worker {
    compared: Compared,
    pruning: Pruning,
    /// By place: the last node that met it.
    met: Vec<u32>,
    places: Vec<u32>,
    gathered: Vec<u8>,
    /// Distances and places of the nearest so far.
    nearest: Vec<(u32, u32)>,
    /// Places of the neighbours that stay.
    kept: Vec<u32>,
}

impl Refine {
    /// From lists of links: shows `1 + filled` words for each node, as of the first choice: how many were chosen; they,
    /// and then the nearest others.
    pub(super) fn link(
        &self,
        lists: &Stored<'_>,
        points: &Stored<'_>,
        out: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut run = Run {
            nodes: 0..0,
            own: Vec::new(),
            listed: Subset::new(self.rows),
            lists: Vec::new(),
            held: Subset::new(self.rows),
            records: Vec::new(),
        };
        let (mut count, mut links) = (RUN_MIN, Vec::new());
        while run.nodes.end < self.rows {
            let first = run.nodes.end;
            run.nodes = first..first.saturating_add(count as u32).min(self.rows);
            let full = self.load(&mut run, lists, points)?;
            links.clear();
            links.resize(run.nodes.len() * (1 + self.filled), NONE);
            self.choose(&run, self.stride, &mut links);
            links.chunks_exact(1 + self.filled).try_for_each(&mut *out)?;
            // To fill three quarters next time: neighbouring runs are alike, but not quite.
            count = ((count as f32 * 0.75 / full) as usize).clamp(RUN_MIN, RUN_MAX);
        }
        Ok(())
    }

    /// Fills a run, or as much of it as has room; how full it got. Neighbours always have room, and theirs as long as
    /// there is some.
    fn load(&self, run: &mut Run, lists: &Stored<'_>, points: &Stored<'_>) -> Result<f32> {
        let least = RUN_MIN * (1 + self.degree);
        let lists_max = (self.run_bytes / 2 / ((1 + self.degree) * 4)).max(least);
        let each = self.stride + 4 + 4 * self.threads.max(1);
        let held_max = (self.run_bytes / 2 / each).max(2 * least);
        let list_bytes = self.degree * 4;
        let (mut read, mut bytes) = (Vec::new(), vec![0; run.nodes.len() * list_bytes]);
        lists.read(&mut bytes, u64::from(run.nodes.start) * list_bytes as u64)?;
        words(&bytes, &mut run.own);
        run.listed.clear();
        run.held.clear();
        for (own, node) in run.own.chunks_exact(self.degree).zip(run.nodes.clone()) {
            let most = run.listed.len().max(run.held.len() / 2) + self.degree;
            if node >= run.nodes.start + RUN_MIN as u32 && most > lists_max.min(held_max / 2) {
                run.nodes.end = node;
                break;
            }
            run.held.insert(node);
            some(own).iter().for_each(|id| {
                run.listed.insert(*id);
                run.held.insert(*id);
            });
        }
        run.own.truncate(run.nodes.len() * self.degree);
        run.listed.seal();
        bytes.clear();
        lists.gather(run.listed.nodes(), list_bytes, &mut read, &mut bytes)?;
        words(&bytes, &mut run.lists);
        for id in run.lists.iter().filter(|id| **id != NONE) {
            if run.held.len() == held_max {
                break;
            }
            run.held.insert(*id);
        }
        run.held.seal();
        run.records.clear();
        points.gather(run.held.nodes(), self.stride, &mut read, &mut run.records)?;
        for id in run.lists.iter_mut().chain(&mut run.own) {
            *id = run.held.place(*id).map_or(NONE, |place| place as u32);
        }
        let share = |len: usize, max: usize| len as f32 / max as f32;
        Ok(share(run.listed.len(), lists_max).max(share(run.held.len(), held_max)))
    }

    fn choose(&self, run: &Run, stride: usize, links: &mut [u32]) {
        let share = run.nodes.len().div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let width = 1 + self.filled;
            let parts = links.chunks_mut(share * width);
            for (links, first) in parts.zip((0..).step_by(share)) {
                scope.spawn(move || {
                    let mut worker = Worker::default();
                    worker.met.resize(run.held.len(), NONE);
                    for (links, i) in links.chunks_exact_mut(width).zip(first..) {
                        worker.find(run, i, self, stride);
                        worker.choose(run, stride, self.chosen, links);
                    }
                });
            }
        });
    }
}

impl Worker {
    /// Finds the nearest of all that are one or two edges from the run's node `i`.
    fn find(&mut self, run: &Run, i: usize, refine: &Refine, stride: usize) {
        let (degree, wanted) = (refine.degree, refine.candidates);
        self.kept.clear();
        self.nearest.clear();
        let record = |place: u32| &run.records[place as usize * stride..][..stride];
        let Some(own) = run.held.place(run.nodes.start + i as u32) else {
            return;
        };
        self.met[own] = i as u32;
        self.places.clear();
        for place in &run.own[i * degree..][..degree] {
            self.meet(i, *place);
        }
        let kept = self.places.len().min(refine.kept);
        self.kept.extend_from_slice(&self.places[..kept]);
        for near in 0..self.places.len() {
            let Some(list) = run.listed.place(run.held.node(self.places[near] as usize)) else {
                continue;
            };
            for place in &run.lists[list * degree..][..degree] {
                self.meet(i, *place);
            }
        }
        self.compared.prepare(record(own as u32));
        let mut limit = u32::MAX;
        let mut chunks = self.places[kept..].chunks(AT_ONCE).peekable();
        while let Some(places) = chunks.next() {
            // They lie anywhere: copying them was two fifths of all work, most of it waiting for memory.
            for place in chunks.peek().copied().unwrap_or_default() {
                Kernels::prefetch(record(*place));
            }
            self.gathered.clear();
            places
                .iter()
                .for_each(|place| self.gathered.extend_from_slice(record(*place)));
            let nearest = &mut self.nearest;
            self.compared
                .distances(kernels(), &self.gathered, stride, |j, distance| {
                    if distance < limit {
                        nearest.push((distance, places[j]));
                        if nearest.len() == 2 * wanted {
                            nearest.select_nth_unstable(wanted - 1);
                            nearest.truncate(wanted);
                            limit = nearest[wanted - 1].0;
                        }
                    }
                });
        }
        self.nearest.sort_unstable();
        self.nearest.truncate(wanted);
    }

    #[inline]
    fn meet(&mut self, i: usize, place: u32) {
        if place != NONE && self.met[place as usize] != i as u32 {
            self.met[place as usize] = i as u32;
            self.places.push(place);
        }
    }

    fn choose(&mut self, run: &Run, stride: usize, most: usize, links: &mut [u32]) {
        let pruning = &mut self.pruning;
        pruning.records.clear();
        for (_, place) in &self.nearest {
            pruning
                .records
                .extend_from_slice(&run.records[*place as usize * stride..][..stride]);
        }
        pruning.candidates.clone_from(&self.nearest);
        let kept = || self.kept.iter();
        pruning.leave_out(
            stride,
            kept().map(|place| &run.records[*place as usize * stride..][..stride]),
        );
        let chosen = pruning.choose(stride, most - self.kept.len().min(most));
        links[0] = (self.kept.len() + chosen) as u32;
        let places = kept().copied().chain(pruning.ordered());
        for (link, place) in links[1..].iter_mut().zip(places) {
            *link = run.held.node(place as usize);
        }
    }
}

fn words(bytes: &[u8], out: &mut Vec<u32>) {
    out.clear();
    out.extend(
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word)),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ramlet_io::RamStorage;

    use super::super::links::FORWARD;
    use super::super::temporary::Appender;
    use super::*;
    use crate::ivf::Random;

    const ROWS: u32 = 700;
    const DEGREE: usize = 6;
    const DIMS: usize = 4;
    const STRIDE: usize = DIMS + 4;

    fn points(random: &mut Random) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..ROWS {
            let codes: Vec<u8> = (0..DIMS).map(|_| random.below(256) as u8).collect();
            let squares: i32 = codes.iter().map(|code| (i32::from(*code) - 128).pow(2)).sum();
            out.extend_from_slice(&codes);
            out.extend_from_slice(&squares.to_le_bytes());
        }
        out
    }

    /// Random lists of different lengths.
    fn lists(random: &mut Random) -> Vec<u32> {
        let mut out = Vec::new();
        for node in 0..ROWS {
            let ids: BTreeSet<u32> = (0..node % 7).map(|_| random.below(ROWS.into()) as u32).collect();
            out.extend(ids.iter().filter(|id| **id != node));
            out.resize((node as usize + 1) * DEGREE, NONE);
        }
        out
    }

    fn refine(points: &[u8], lists: &[u32], threads: usize, run_bytes: usize) -> Vec<u32> {
        refine_keeping(0, points, lists, threads, run_bytes)
    }

    fn refine_keeping(
        kept: usize,
        points: &[u8],
        lists: &[u32],
        threads: usize,
        run_bytes: usize,
    ) -> Vec<u32> {
        let storage = RamStorage::new(None);
        let mut stored = Appender::create(&storage, "points", 4096).expect("a file");
        stored.push(points).expect("room");
        let points = stored.finish().expect("a file");
        let mut stored = Appender::create(&storage, "lists", 4096).expect("a file");
        stored.push_words(lists).expect("room");
        let lists = stored.finish().expect("a file");
        let refine = Refine {
            rows: ROWS,
            stride: STRIDE,
            degree: DEGREE,
            candidates: 8,
            kept,
            chosen: 5 + kept,
            filled: FORWARD,
            threads,
            run_bytes,
        };
        let mut words = Vec::new();
        let mut out = |links: &[u32]| {
            words.extend_from_slice(links);
            Ok(())
        };
        refine.link(&lists, &points, &mut out).expect("links");
        assert_eq!(words.len(), ROWS as usize * (1 + FORWARD));
        words
    }

    #[test]
    fn the_nearest_of_two_edges_are_the_candidates() {
        let mut random = Random::new(3);
        let (points, lists) = (points(&mut random), lists(&mut random));
        let refined = refine(&points, &lists, 1, 1 << 20);
        let list = |node: u32| some(&lists[node as usize * DEGREE..][..DEGREE]);
        let distance = |a: u32, b: u32| {
            let code = |node: u32| points[node as usize * STRIDE..][..DIMS].iter();
            let pairs = code(a).zip(code(b));
            pairs
                .map(|(a, b)| (i32::from(*a) - i32::from(*b)).pow(2))
                .sum::<i32>()
        };
        for (links, node) in refined.chunks_exact(1 + FORWARD).zip(0..) {
            let near: BTreeSet<u32> = list(node).iter().copied().collect();
            let around: BTreeSet<u32> = near.iter().flat_map(|id| list(*id)).copied().collect();
            let mut truth: Vec<u32> = (&near | &around).into_iter().filter(|id| *id != node).collect();
            truth.sort_unstable_by_key(|id| (distance(node, *id), *id));
            truth.truncate(8);
            // The nearest is always chosen, and nothing is lost by the choice.
            assert_eq!(some(&links[1..]).first(), truth.first(), "{node}");
            assert_eq!(
                some(&links[1..]).iter().collect::<BTreeSet<_>>(),
                truth.iter().collect(),
                "{node}"
            );
            assert!(links[0] <= 5 && links[0] as usize <= truth.len());
        }
    }

    #[test]
    fn neighbours_that_stay_come_first_and_others_follow() {
        let mut random = Random::new(5);
        let (points, lists) = (points(&mut random), lists(&mut random));
        let refined = refine_keeping(DEGREE, &points, &lists, 2, 1 << 20);
        for (links, list) in refined.chunks_exact(1 + FORWARD).zip(lists.chunks_exact(DEGREE)) {
            let (own, links) = (some(list), some(&links[1..]));
            assert_eq!(&links[..own.len()], own);
            let others: BTreeSet<u32> = own
                .iter()
                .flat_map(|id| some(&lists[*id as usize * DEGREE..][..DEGREE]))
                .copied()
                .collect();
            assert!(
                links[own.len()..]
                    .iter()
                    .all(|id| others.contains(id) && !own.contains(id))
            );
            assert_eq!(links.iter().collect::<BTreeSet<_>>().len(), links.len());
        }
    }

    #[test]
    fn neither_threads_nor_short_runs_change_it() {
        let mut random = Random::new(4);
        let (points, lists) = (points(&mut random), lists(&mut random));
        let refined = refine(&points, &lists, 1, 1 << 20);
        assert_eq!(refine(&points, &lists, 3, 1 << 20), refined);
        assert_eq!(refine(&points, &lists, 2, 32 << 10), refined);
        // With too little for all neighbours of neighbours every node keeps the nearest of its own.
        for links in refine(&points, &lists, 2, 0)
            .chunks_exact(1 + FORWARD)
            .zip(lists.chunks_exact(DEGREE))
        {
            let (links, list) = links;
            assert!(some(&links[1..]).len() >= some(list).len().min(8), "{links:?}");
        }
    }
}
