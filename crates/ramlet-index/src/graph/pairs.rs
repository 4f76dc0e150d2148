//! All pairs within a cluster: each row's nearest there, and which of them lie behind nearer ones.

use ramlet_kernels::kernels;

use super::braided::Braided;
use super::links::NONE;
use super::prune::Pruning;

/// Bytes of a candidate in a record: its node, and its distance from the row, of which the lowest bit says that it lies
/// behind a nearer one.
pub(super) const CANDIDATE_BYTES: usize = 8;

/// A candidate for a row's neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) behind: bool,
    pub(super) distance: u32,
    pub(super) node: u32,
}

impl Candidate {
    pub(super) fn read(bytes: &[u8; CANDIDATE_BYTES]) -> Option<Candidate> {
        let [a, b, c, d, e, f, g, h] = *bytes;
        let (node, word) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        (node != NONE).then_some(Candidate {
            node,
            distance: word & !1,
            behind: word & 1 == 1,
        })
    }

    fn write(&self) -> [u8; CANDIDATE_BYTES] {
        let word = self.distance & !1 | u32::from(self.behind);
        let mut out = [0; CANDIDATE_BYTES];
        out[..4].copy_from_slice(&self.node.to_le_bytes());
        out[4..].copy_from_slice(&word.to_le_bytes());
        out
    }
}

/// Compares all rows of a cluster with each other.
pub(super) struct Pairs {
    /// Bytes of a row's record.
    pub(super) stride: usize,
    /// Nearest rows that are looked at.
    pub(super) nearest: usize,
    /// Candidates that are told of each row.
    pub(super) told: usize,
    pub(super) threads: usize,
}

impl Pairs {
    /// Bytes of what is told of a row: its node, and candidates, the first of which don't lie behind others.
    pub(super) fn told_bytes(&self) -> usize {
        4 + self.told * CANDIDATE_BYTES
    }

    /// Writes what is told of each row; `nodes` are the rows' numbers.
    pub(super) fn compare(&self, nodes: &[u32], records: &[u8], braided: &mut Braided, out: &mut Vec<u8>) {
        let told = self.told_bytes();
        out.clear();
        out.resize(nodes.len() * told, 0xff);
        braided.fill(records, self.stride);
        let braided = &*braided;
        let share = nodes.len().div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (part, out) in out.chunks_mut(share * told).enumerate() {
                scope.spawn(move || {
                    let mut pruning = Pruning::default();
                    for (row, out) in (part * share..).zip(out.chunks_exact_mut(told)) {
                        self.one(row, nodes, (records, braided), &mut pruning, out);
                    }
                });
            }
        });
    }

    fn one(
        &self,
        row: usize,
        nodes: &[u32],
        (records, braided): (&[u8], &Braided),
        pruning: &mut Pruning,
        out: &mut [u8],
    ) {
        let (stride, wanted) = (self.stride, self.nearest);
        out[..4].copy_from_slice(&nodes[row].to_le_bytes());
        let Pruning {
            compared, candidates, ..
        } = &mut *pruning;
        compared.prepare(&records[row * stride..][..stride]);
        candidates.clear();
        let mut limit = u32::MAX;
        braided.nearer(kernels(), compared, u32::MAX, |other, distance| {
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
            let record = &records[*other as usize * stride..][..stride];
            pruning.records.extend_from_slice(record);
        }
        let chosen = pruning.choose(stride, self.told);
        let told = out[4..].as_chunks_mut::<CANDIDATE_BYTES>().0;
        for (i, (place, out)) in pruning.order.iter().zip(told).enumerate() {
            let (distance, other) = pruning.candidates[*place as usize];
            let candidate = Candidate {
                behind: i >= chosen,
                distance,
                node: nodes[other as usize],
            };
            *out = candidate.write();
        }
    }
}
