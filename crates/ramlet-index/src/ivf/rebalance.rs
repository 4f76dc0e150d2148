//! Rebalances clusters: large ones get another centroid, small ones lose theirs.

use super::kmeans::Round;
use super::points;
use super::tree::Tree;

/// A cluster of so many times the mean is split; each further centroid takes so many times more. Below twice the mean,
/// because clusters of all rows scatter around those of the sample.
const LARGE: f32 = 1.8;

/// While there are fewer clusters than wanted, smaller ones are split too.
const LARGE_OF_FEW: f32 = 1.5;

/// A cluster below this share of the mean may give up its centroid.
const SMALL: f32 = 0.4;

/// Gives a tree about `wanted` leaves: those that had most points in the round share them with new ones, those that
/// had fewest are gone. In its place, since there is no room for another.
pub(super) fn rebalance(tree: &mut Tree, round: &Round, wanted: usize) {
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
    let mut small = small.into_iter().peekable();
    let mut splits = splits.into_iter().peekable();
    let mut large = Vec::new();
    tree.keep(|leaf, place| {
        let is_kept = small.next_if_eq(&(leaf as u32)).is_none();
        let own = std::iter::from_fn(|| splits.next_if(|(cluster, _)| *cluster == leaf as u32));
        let own: Vec<&[u8]> = own.map(|(_, point)| point).collect();
        if is_kept && !own.is_empty() {
            large.push((place, own));
        }
        is_kept
    });
    split(tree, large);
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

/// Leaves get others beside them, one for each of their points. From the last on, so that each moves to where none is any more.
fn split(tree: &mut Tree, mut large: Vec<(usize, Vec<&[u8]>)>) {
    let before = tree.leaves.count();
    let mut end = before + large.iter().map(|(_, points)| points.len()).sum::<usize>();
    tree.leaves.resize(end);
    for start in tree.starts.iter_mut() {
        let own = large.iter().take_while(|(leaf, _)| *leaf < *start as usize);
        *start += own.map(|(_, points)| points.len() as u32).sum::<u32>();
    }
    let (mut centre, mut moved) = (Vec::new(), Vec::new());
    for leaf in (0..before).rev() {
        let Some((_, points)) = large.pop_if(|(large, _)| *large == leaf) else {
            end -= 1;
            tree.leaves.move_to(leaf, end);
            continue;
        };
        end -= points.len() + 1;
        let price = tree.leaves.prices[leaf];
        tree.leaves.centroids.decode_relative(leaf, &mut centre);
        // One that is split once moves away as far as the other.
        let signs: &[f32] = match points.len() {
            1 => &[APART, -APART],
            _ => {
                tree.leaves.move_to(leaf, end);
                &[APART]
            }
        };
        let first = end + 2 - signs.len();
        let pairs = points
            .iter()
            .flat_map(|point| signs.iter().map(move |sign| (point, sign)));
        for ((point, sign), place) in pairs.zip(first..) {
            let (codes, scale) = points::split(point);
            moved.clear();
            let values = centre.iter().zip(codes);
            moved.extend(values.map(|(c, code)| c + sign * (scale * (f32::from(*code) - 128.0) - c)));
            tree.leaves.set_relative(place, &moved, price);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kmeans::Level;
    use super::*;
    use crate::build::random::Random;

    const DIMS: usize = 6;

    fn vector(random: &mut Random) -> Vec<f32> {
        (0..DIMS).map(|_| random.below(2001) as f32 - 1000.0).collect()
    }

    /// What is told of each leaf.
    fn told(level: &Level) -> Vec<(Vec<u8>, f32, f32, f32)> {
        let one = |i| {
            let codes = level.centroids.row_i8(i).collect();
            (codes, level.centroids.scale(i), level.prices[i], level.base[i])
        };
        (0..level.count()).map(one).collect()
    }

    /// The same as where the leaves that are kept and the new ones are pushed one after another.
    #[test]
    fn leaves_go_and_come_in_their_place() {
        let mut random = Random::new(4);
        let origin = [0.0; DIMS];
        for _ in 0..50 {
            let mut leaves = Level::with_capacity(&origin, 0);
            let mut starts = vec![0u32];
            for _ in 0..1 + random.below(4) {
                for _ in 0..random.below(20) {
                    leaves.push_relative(&vector(&mut random), random.below(9) as f32);
                }
                starts.push(leaves.count() as u32);
            }
            let mut bytes = Vec::new();
            (0..3).for_each(|_| points::append_point(&vector(&mut random), &mut bytes));
            let stride = bytes.len() / 3;
            let kinds: Vec<u64> = (0..leaves.count()).map(|_| random.below(6)).collect();
            let mut tree = Tree {
                super_centroids: Level::default(),
                starts: starts.clone(),
                leaves: leaves.clone(),
            };
            // One in six goes, one in six is split in two, one in six gets three beside it.
            let mut large = Vec::new();
            tree.keep(|leaf, place| {
                let beside = [0, 1, 3].get(kinds[leaf] as usize).copied().unwrap_or(0);
                let points: Vec<&[u8]> = bytes.chunks_exact(stride).take(beside).collect();
                if !points.is_empty() {
                    large.push((place, points));
                }
                kinds[leaf] > 0
            });
            split(&mut tree, large);
            let (mut wanted, mut ends) = (Level::with_capacity(&origin, 0), vec![0u32]);
            let mut centre = Vec::new();
            for pair in starts.windows(2) {
                let own = pair[0] as usize..pair[1] as usize;
                for (leaf, kind) in own.clone().zip(&kinds[own]) {
                    leaves.centroids.decode_relative(leaf, &mut centre);
                    if *kind > 1 {
                        wanted.push_of(&leaves, leaf);
                    }
                    let beside: &[(usize, f32)] = match kind {
                        1 => &[(0, APART), (0, -APART)],
                        2 => &[(0, APART), (1, APART), (2, APART)],
                        _ => &[],
                    };
                    for (point, sign) in beside {
                        let (codes, scale) = points::split(&bytes[point * stride..][..stride]);
                        let point = codes.iter().map(|code| scale * (f32::from(*code) - 128.0));
                        let moved = centre.iter().zip(point).map(|(c, p)| c + sign * (p - c));
                        wanted.push_relative(&moved.collect::<Vec<f32>>(), leaves.prices[leaf]);
                    }
                }
                ends.push(wanted.count() as u32);
            }
            assert_eq!(told(&tree.leaves), told(&wanted));
            assert_eq!(tree.starts, ends);
        }
    }
}
