//! Each row's candidates: out of clusters that overlap, several times anew, put together by an external sort.

use ramlet_io::{IoContext, Storage};
use ramlet_memory::AnonBuf;

use super::braided::Braided;
use super::leaders::Leaders;
use super::links::NONE;
use super::pairs::{CANDIDATE_BYTES, Candidate, Pairs};
use super::spread::Sorter;
use super::temporary::{Appender, Stored};
use crate::error::Result;
use crate::ivf::Random;

/// Times that the rows are divided anew, and clusters that each row is in, each time.
const TIMES: usize = 6;
const EACH: usize = 2;

/// Rows of a cluster, about, where there is room for so many.
const ROWS_USUAL: usize = 2000;

/// Rows that are compared with each other, whatever the scratch.
const LEAST: usize = 64;

/// Candidates that each cluster tells of a row.
const TOLD: usize = 32;

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
    /// Neighbours of a node.
    pub(super) degree: usize,
    /// Nearest rows of a cluster that are looked at.
    pub(super) nearest: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) scratch_bytes: usize,
    pub(super) spill: &'s dyn Storage,
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

fn knob(name: &str, otherwise: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(otherwise)
}

impl<'s> Candidates<'_, 's> {
    /// A file of `degree` words for each node: its neighbours in the order of their choice, then [`NONE`].
    pub(super) fn link(&self, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Stored<'s>> {
        let together = Pairs {
            stride: self.stride,
            nearest: (2 * self.degree).max(self.nearest),
            told: self.degree,
            threads: self.threads,
        };
        let buffer = (self.scratch_bytes / 32).clamp(4096, 1 << 20);
        let mut out = Appender::create(self.spill, "tmp-graph-links", buffer)?;
        match self.rows as usize <= self.rows_max(&together) {
            true => self.all_together(&together, &mut out)?,
            false => self.divided(&mut out, io, buf)?,
        }
        out.finish()
    }

    /// Rows that are compared with each other at most.
    fn rows_max(&self, pairs: &Pairs) -> usize {
        let row_bytes = 4 + 2 * self.stride + pairs.told_bytes();
        (self.scratch_bytes / 3 / row_bytes).max(LEAST)
    }

    fn all_together(&self, pairs: &Pairs, out: &mut Appender<'_>) -> Result<()> {
        let nodes: Vec<u32> = (0..self.rows).collect();
        let mut records = vec![0; nodes.len() * self.stride];
        self.points.read(&mut records, 0)?;
        let (mut braided, mut lists) = (Braided::default(), Vec::new());
        pairs.compare(&nodes, &records, &mut braided, &mut lists);
        let lists: Vec<&[u8]> = lists.chunks_exact(pairs.told_bytes()).collect();
        let mut links = vec![NONE; nodes.len() * self.degree];
        self.choose(0, &lists, &mut links);
        out.push_words(&links)
    }

    fn divided(&self, out: &mut Appender<'_>, io: &mut IoContext, buf: &mut AnonBuf) -> Result<()> {
        let pairs = Pairs {
            stride: self.stride,
            nearest: knob("G_NEAR", self.nearest),
            told: knob("G_TOLD", TOLD),
            threads: self.threads,
        };
        let division = self.divide(&pairs);
        let (told_bytes, window) = (pairs.told_bytes(), division.window);
        let mut told = Sorter::create(
            self.spill,
            ["tmp-graph-told", "tmp-graph-told-2"],
            self.rows.div_ceil(window) as usize,
            told_bytes,
            self.scratch_bytes / 5,
        )?;
        let mut random = Random::new(self.seed);
        for _ in 0..division.times {
            self.divide_once(&division, &pairs, &mut random, &mut told, io, buf)?;
        }
        let mut links = Vec::new();
        let part_of = |record: &[u8]| (word(record) / window) as usize;
        told.for_each(io, buf, &part_of, &mut |part, bytes| {
            let first = part as u32 * window;
            let nodes = first..first.saturating_add(window).min(self.rows);
            let mut lists: Vec<&[u8]> = bytes.chunks_exact(told_bytes).collect();
            lists.sort_unstable_by_key(|list| word(list));
            links.clear();
            links.resize(nodes.len() * self.degree, NONE);
            self.choose(first, &lists, &mut links);
            out.push_words(&links)
        })
    }

    fn divide(&self, pairs: &Pairs) -> Division {
        let rows_max = self.rows_max(pairs);
        let (times, each) = (knob("G_TIMES", TIMES), knob("G_EACH", EACH));
        let usual = knob("G_LEAF", ROWS_USUAL).min(rows_max / 2).max(1);
        let most = (self.scratch_bytes / 8 / self.stride).max(each);
        let told = times * each * pairs.told_bytes();
        Division {
            times,
            each,
            clusters: (each * self.rows as usize / usual).clamp(each, most),
            rows_max,
            window: (self.scratch_bytes / 4 / told).clamp(8, 1 << 16) as u32,
        }
    }

    /// Divides the rows into clusters, and tells of each row its nearest ones there.
    fn divide_once(
        &self,
        division: &Division,
        pairs: &Pairs,
        random: &mut Random,
        told: &mut Sorter<'_>,
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
        let (mut nodes, mut lists, mut braided) = (Vec::new(), Vec::new(), Braided::default());
        let leader_of = |member: &[u8]| word(member) as usize;
        clusters.for_each(io, buf, &leader_of, &mut |_, bytes| {
            nodes.clear();
            for at in (0..bytes.len()).step_by(MEMBER_HEAD + stride) {
                let to = nodes.len() * stride;
                nodes.push(word(&bytes[at + 4..]));
                bytes.copy_within(at + MEMBER_HEAD..at + MEMBER_HEAD + stride, to);
            }
            bytes.truncate(nodes.len() * stride);
            let cuts = nodes.len().div_ceil(division.rows_max).max(1);
            let size = nodes.len().div_ceil(cuts).max(1);
            for (nodes, records) in nodes.chunks(size).zip(bytes.chunks(size * stride)) {
                pairs.compare(nodes, records, &mut braided, &mut lists);
                for (node, list) in nodes.iter().zip(lists.chunks_exact(pairs.told_bytes())) {
                    told.push((node / division.window) as usize, list)?;
                }
            }
            Ok(())
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
        let nodes = links.len() / self.degree;
        let share = nodes.div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (part, links) in links.chunks_mut(share * self.degree).enumerate() {
                scope.spawn(move || {
                    let mut candidates: Vec<Candidate> = Vec::new();
                    let start = first + (part * share) as u32;
                    for (node, links) in (start..).zip(links.chunks_exact_mut(self.degree)) {
                        let from = lists.partition_point(|list| word(list) < node);
                        let end = lists.partition_point(|list| word(list) <= node);
                        candidates.clear();
                        for list in &lists[from..end] {
                            let told = list[4..].as_chunks::<CANDIDATE_BYTES>().0;
                            candidates.extend(told.iter().map_while(Candidate::read));
                        }
                        choose_one(&mut candidates, links);
                    }
                });
            }
        });
    }
}

/// The nearest that lie behind no other, then the nearest others.
fn choose_one(candidates: &mut Vec<Candidate>, links: &mut [u32]) {
    // One that lies behind another in any of its clusters does so.
    candidates.sort_unstable_by_key(|one| (one.node, !one.behind));
    candidates.dedup_by_key(|one| one.node);
    candidates.sort_unstable();
    for (link, one) in links.iter_mut().zip(&*candidates) {
        *link = one.node;
    }
}
