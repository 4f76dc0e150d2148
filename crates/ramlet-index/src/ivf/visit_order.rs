//! The order in which clusters are visited.

/// So many of the nearest clusters are visited by distance, which soon tells how near the nearest rows are; further ones
/// in the order of memory.
const BY_DISTANCE: usize = 40;

/// Puts clusters in the order in which to visit them, after so many others.
pub(super) fn put_in_order(clusters: &mut [u64], visited: usize) {
    let near = BY_DISTANCE.saturating_sub(visited).min(clusters.len());
    if near > 0 && near < clusters.len() {
        clusters.select_nth_unstable(near);
    }
    let (near, far) = clusters.split_at_mut(near);
    near.sort_unstable();
    far.sort_unstable_by_key(|cluster| *cluster as u32);
}

/// Sorts at least `more` further clusters behind the first `sorted`; how many are sorted now.
pub(super) fn sort_more(clusters: &mut [u64], sorted: usize, more: usize) -> usize {
    let rest = &mut clusters[sorted..];
    let more = more.min(rest.len());
    if more < rest.len() {
        rest.select_nth_unstable(more);
    }
    rest[..more].sort_unstable();
    sorted + more
}
