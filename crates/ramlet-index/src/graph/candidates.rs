//! Each row's candidates from overlapping clusters, in several repetitions, joined by an external sort.

use ramlet_io::{IoContext, Storage};
use ramlet_memory::AnonBuf;

use super::leaders::Leaders;
use super::links::NONE;
use super::pairs::{CANDIDATES, Candidate, Cluster, EMITTED_BYTES, Pairs, Rank};
use super::spread::Sorter;
use super::stored::{Appender, Stored};
use crate::build::progress::{Phase, Progress};
use crate::build::random::Random;
use crate::error::Result;

/// Times that the rows are divided anew, and clusters that each row is in, each time.
const TIMES: usize = 6;
const EACH: usize = 2;

/// Rows of a cluster, about, where there is room for so many.
const ROWS_USUAL: usize = 2000;

/// Rows that are compared with each other, whatever the scratch.
const LEAST: usize = 64;

/// Records of candidates that each cluster tells of a row.
const EMITTED: usize = 2;

/// One in so many neighbours is an edge back, as long as there are any.
const BACK_ONE_IN: usize = 4;

/// Rows looked at for each leader.
const SAMPLED: usize = 12;

/// What stands before a record in a cluster's part: the leader, and the node.
const MEMBER_HEAD: usize = 8;

/// Finds candidates and chooses neighbours among them.
pub(super) struct Candidates<'a, 's> {
    /// The rows' records, one a node.
    pub(super) points: &'a Stored<'a>,
    pub(super) rows: u32,
    pub(super) stride: usize,
    /// See [`Cluster::hollow_record`].
    pub(super) hollow_record: Vec<u8>,
    /// Neighbours of a node.
    pub(super) degree: usize,
    /// Nearest rows of a cluster that are looked at.
    pub(super) nearest: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) scratch_bytes: usize,
    pub(super) spill: &'s dyn Storage,
    pub(super) progress: Progress<'a>,
}

/// How the rows are divided.
struct Division {
    /// Times that they are divided anew.
    times: usize,
    /// Clusters that each row is in, of each time.
    each: usize,
    clusters: usize,
    /// Rows of a cluster that are compared with each other; a larger one is cut.
    rows_max: usize,
    /// Nodes whose candidates are put together at once.
    window: u32,
}

/// The first word of a record.
fn word(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl<'s> Candidates<'_, 's> {
    /// A file of `degree` words for each node: its neighbours in the order of their choice, then [`NONE`].
    pub(super) fn link(&self, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Stored<'s>> {
        let together = Pairs {
            stride: self.stride,
            nearest: (2 * self.degree).max(self.nearest),
            emitted: self.degree.div_ceil(CANDIDATES),
            threads: self.threads,
        };
        let buffer = (self.scratch_bytes / 32).clamp(4096, 1 << 20);
        let mut out = Appender::create(self.spill, "tmp-graph-links", buffer)?;
        let lists = (together.emitted + 1) * CANDIDATES * size_of::<Candidate>();
        let room = self.scratch_bytes / 2 / (together.row_bytes() + lists);
        match self.rows as usize <= room.max(LEAST) {
            true => self.all_together(&together, &mut out)?,
            false => self.divided(&mut out, io, buf)?,
        }
        out.finish()
    }

    /// Rows that are compared with each other at most.
    fn rows_max(&self, pairs: &Pairs) -> usize {
        (self.scratch_bytes / 2 / pairs.row_bytes()).max(LEAST)
    }

    fn empty_cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.hollow_record.clone_from(&self.hollow_record);
        cluster
    }

    fn all_together(&self, pairs: &Pairs, out: &mut Appender<'_>) -> Result<()> {
        let mut cluster = self.empty_cluster();
        cluster.nodes.extend(0..self.rows);
        cluster.records.resize(self.rows as usize * self.stride, 0);
        self.points.read(&mut cluster.records, 0)?;
        let mut lists: Vec<Vec<Candidate>> = vec![Vec::new(); cluster.nodes.len()];
        pairs.compare(&mut cluster, &mut |node, emitted| {
            lists[node as usize].extend(Candidate::read(emitted));
            Ok(())
        })?;
        let mut links = vec![NONE; self.degree];
        lists.iter_mut().try_for_each(|candidates| {
            links.fill(NONE);
            choose_one(candidates, &mut links);
            out.push_words(&links)
        })
    }

    fn divided(&self, out: &mut Appender<'_>, io: &mut IoContext, buf: &mut AnonBuf) -> Result<()> {
        let pairs = Pairs {
            stride: self.stride,
            nearest: self.nearest,
            emitted: EMITTED,
            threads: self.threads,
        };
        let division = self.divide(&pairs);
        let window = division.window;
        let mut emitted = Sorter::create(
            self.spill,
            ["tmp-graph-emitted", "tmp-graph-emitted-2"],
            self.rows.div_ceil(window) as usize,
            EMITTED_BYTES,
            self.scratch_bytes / 5,
        )?;
        let mut random = Random::new(self.seed);
        let mut compared = 0;
        for _ in 0..division.times {
            self.divide_once(
                (&division, &mut compared),
                &pairs,
                &mut random,
                &mut emitted,
                io,
                buf,
            )?;
        }
        let mut links = Vec::new();
        let part_of = |record: &[u8]| (word(record) / window) as usize;
        emitted.for_each(usize::MAX, io, buf, &part_of, &mut |part, bytes| {
            let first = part as u32 * window;
            let nodes = first..first.saturating_add(window).min(self.rows);
            let mut lists: Vec<&[u8]> = bytes.chunks_exact(EMITTED_BYTES).collect();
            lists.sort_unstable_by_key(|list| word(list));
            links.clear();
            links.resize(nodes.len() * self.degree, NONE);
            self.choose(first, &lists, &mut links);
            let (before, done) = (first.into(), u64::from(first) + nodes.len() as u64);
            self.progress
                .advance(Phase::Choose, before, done, self.rows.into());
            out.push_words(&links)
        })
    }

    fn divide(&self, pairs: &Pairs) -> Division {
        let rows_max = self.rows_max(pairs);
        let (times, each) = (TIMES, EACH);
        let usual = ROWS_USUAL.min(rows_max / 2).max(1);
        let most = (self.scratch_bytes / 8 / self.stride).max(each);
        let emitted = times * each * (pairs.emitted + 1) * EMITTED_BYTES;
        Division {
            times,
            each,
            clusters: (each * self.rows as usize / usual).clamp(each, most),
            rows_max,
            window: (self.scratch_bytes / 4 / emitted).clamp(8, 1 << 16) as u32,
        }
    }

    /// Divides the rows into clusters, and tells of each row its nearest ones there.
    fn divide_once(
        &self,
        (division, compared): (&Division, &mut u64),
        pairs: &Pairs,
        random: &mut Random,
        emitted: &mut Sorter<'_>,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let stride = self.stride;
        let leaders = self.leaders(division.clusters, random)?;
        let mut clusters = Sorter::create(
            self.spill,
            ["tmp-graph-clusters", "tmp-graph-clusters-2"],
            leaders.count(),
            MEMBER_HEAD + stride,
            self.scratch_bytes / 5,
        )?;
        self.assign(&leaders, division.each, &mut clusters)?;
        drop(leaders);
        let mut cluster = self.empty_cluster();
        let leader_of = |member: &[u8]| word(member) as usize;
        clusters.for_each(division.rows_max, io, buf, &leader_of, &mut |_, members| {
            cluster.nodes.clear();
            cluster.records.clear();
            for member in members.chunks_exact(MEMBER_HEAD + stride) {
                cluster.nodes.push(word(&member[4..]));
                cluster.records.extend_from_slice(&member[MEMBER_HEAD..]);
            }
            let before = *compared;
            *compared += cluster.nodes.len() as u64;
            let all = (division.times * division.each) as u64 * u64::from(self.rows);
            self.progress.advance(Phase::Compare, before, *compared, all);
            pairs.compare(&mut cluster, &mut |node, record| {
                emitted.push((node / division.window) as usize, record)
            })
        })
    }

    /// Puts every row into the clusters of the leaders nearest to it.
    fn assign(&self, leaders: &Leaders, each: usize, clusters: &mut Sorter<'_>) -> Result<()> {
        let at_once = (self.scratch_bytes / 16 / self.stride).clamp(64, 1 << 14);
        let (mut records, mut nearest, mut member) = (Vec::new(), Vec::new(), Vec::new());
        for first in (0..self.rows).step_by(at_once) {
            let count = at_once.min((self.rows - first) as usize);
            records.resize(count * self.stride, 0);
            self.points
                .read(&mut records, u64::from(first) * self.stride as u64)?;
            leaders.nearest(&records, each, self.threads, &mut nearest);
            let each = nearest.len() / count;
            let rows = records.chunks_exact(self.stride).zip(nearest.chunks_exact(each));
            for ((record, leaders), node) in rows.zip(first..) {
                for leader in leaders {
                    member.clear();
                    member.extend_from_slice(&leader.to_le_bytes());
                    member.extend_from_slice(&node.to_le_bytes());
                    member.extend_from_slice(record);
                    clusters.push(*leader as usize, &member)?;
                }
            }
        }
        Ok(())
    }

    fn leaders(&self, count: usize, random: &mut Random) -> Result<Leaders> {
        let room = self.scratch_bytes / 4 / self.stride;
        let wanted = (count * SAMPLED).min(room).max(count);
        let mut nodes: Vec<u32> = (0..wanted)
            .map(|_| random.below(self.rows.into()) as u32)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let (mut bytes, mut sample) = (Vec::new(), Vec::new());
        self.points.gather(&nodes, self.stride, &mut bytes, &mut sample)?;
        Ok(Leaders::train(&sample, self.stride, count, self.threads))
    }

    /// Chooses the neighbours of neighbouring nodes, among all that was told of them.
    fn choose(&self, first: u32, lists: &[&[u8]], links: &mut [u32]) {
        let degree = self.degree;
        let nodes = links.len() / degree;
        let share = nodes.div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (part, links) in links.chunks_mut(share * degree).enumerate() {
                scope.spawn(move || {
                    let mut candidates: Vec<Candidate> = Vec::new();
                    let start = first + (part * share) as u32;
                    for (node, links) in (start..).zip(links.chunks_exact_mut(degree)) {
                        let from = lists.partition_point(|list| word(list) < node);
                        let end = lists.partition_point(|list| word(list) <= node);
                        candidates.clear();
                        for list in &lists[from..end] {
                            candidates.extend(Candidate::read(list));
                        }
                        choose_one(&mut candidates, links);
                    }
                });
            }
        });
    }
}

/// The nearest that the row chose, edges back, then the nearest others.
fn choose_one(candidates: &mut Vec<Candidate>, links: &mut [u32]) {
    // One that lies behind another in any of its clusters does so.
    candidates.sort_unstable_by_key(|one| (one.node, one.rank != Rank::Behind, one.rank));
    candidates.dedup_by_key(|one| one.node);
    candidates.sort_unstable();
    let chosen = candidates.partition_point(|one| one.rank == Rank::Chosen);
    let behind = candidates.partition_point(|one| one.rank <= Rank::Back);
    let (own, rest) = candidates.split_at(chosen);
    let (back, rest) = rest.split_at(behind - chosen);
    let (mut own, mut back) = (own.iter(), back.iter());
    // So mixed that a prefix of the list is a sparser graph.
    let mixed = (1..).map_while(|i| match i % BACK_ONE_IN {
        0 => back.next().or_else(|| own.next()),
        _ => own.next().or_else(|| back.next()),
    });
    for (link, one) in links.iter_mut().zip(mixed.chain(rest)) {
        *link = one.node;
    }
}
