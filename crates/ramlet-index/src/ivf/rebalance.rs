//! Large clusters get another centroid, small ones lose theirs.

use super::kmeans::{Level, Round};
use super::points::split;
use super::tree::Tree;

/// A cluster of so many times the mean is split; each further centroid takes so many times more. Below twice the mean,
/// because clusters of all rows scatter around those of the sample.
const LARGE: f32 = 1.8;

/// While there are fewer clusters than wanted, smaller ones are split too.
const LARGE_OF_FEW: f32 = 1.5;

/// A cluster below this share of the mean may give up its centroid.
const SMALL: f32 = 0.4;

/// The tree with about `wanted` leaves: those that had most points in the round share them with new ones, those that
/// had fewest are gone.
pub(super) fn rebalance(tree: &Tree, round: &Round, wanted: usize) -> Tree {
    let counts = &round.counts;
    let points: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let mean = points as f32 / wanted as f32;
    let mut small: Vec<u32> = (0..counts.len() as u32)
        .filter(|i| (counts[*i as usize] as f32) < mean * SMALL)
        .collect();
    small.sort_unstable_by_key(|i| (counts[*i as usize], *i));
    let missing = wanted.saturating_sub(counts.len());
    let large = if missing > 0 { LARGE_OF_FEW } else { LARGE };
    let mut splits = splits(round, mean * large);
    let spare = counts.len().saturating_sub(wanted);
    splits.truncate(missing + small.len());
    // One goes for each that comes, beyond what was missing; and those that are too many.
    small.truncate((splits.len() + spare).saturating_sub(missing));
    small.sort_unstable();
    splits.sort_unstable_by_key(|(cluster, _)| *cluster);
    build(tree, &splits, &small)
}

/// Clusters to split with the point that becomes the new centroid, the largest first.
fn splits(round: &Round, large: f32) -> Vec<(u32, &[u8])> {
    let mut taken = vec![0u32; round.counts.len()];
    let mut splits: Vec<(u32, &[u8])> = Vec::new();
    for (cluster, point) in &round.crossings {
        let i = *cluster as usize;
        if round.counts[i] as f32 >= large * (taken[i] + 1) as f32 {
            taken[i] += 1;
            splits.push((*cluster, point));
        }
    }
    splits.sort_by_key(|(cluster, _)| std::cmp::Reverse(round.counts[*cluster as usize]));
    splits
}

/// How far from the old centroid the two new ones lie, as a share of the way to the point: so near that each keeps half
/// of the points. (The point itself would get none: in many dimensions it is far from all others.)
const APART: f32 = 0.1;

fn build(tree: &Tree, mut splits: &[(u32, &[u8])], mut small: &[u32]) -> Tree {
    let origin = tree.centroids().origin();
    let mut leaves = Level::with_capacity(origin, tree.leaves.count() + splits.len() - small.len());
    let mut starts = vec![0];
    let (mut centre, mut moved) = (Vec::new(), Vec::new());
    for super_centroid in 0..tree.starts.len() - 1 {
        for leaf in tree.leaves_of(super_centroid) {
            if small.first() == Some(&(leaf as u32)) {
                small = &small[1..];
                continue;
            }
            let own = splits
                .iter()
                .take_while(|(cluster, _)| *cluster == leaf as u32)
                .count();
            let (points, rest) = splits.split_at(own);
            splits = rest;
            if own != 1 {
                leaves.push_of(&tree.leaves, leaf);
            }
            tree.centroids().decode_relative(leaf, &mut centre);
            for (_, point) in points {
                let (codes, scale) = split(point);
                let signs: &[f32] = if own == 1 { &[APART, -APART] } else { &[APART] };
                for sign in signs {
                    moved.clear();
                    let values = centre.iter().zip(codes);
                    moved.extend(values.map(|(c, code)| c + sign * (scale * (f32::from(*code) - 128.0) - c)));
                    leaves.push_relative(&moved, tree.leaves.prices[leaf]);
                }
            }
        }
        starts.push(leaves.count() as u32);
    }
    Tree {
        super_centroids: tree.super_centroids.clone(),
        starts,
        leaves,
    }
}
