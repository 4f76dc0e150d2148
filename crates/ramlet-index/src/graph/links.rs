//! Neighbour lists in temporary files during a build.

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes before the first [`NONE`].
pub(super) fn some(links: &[u32]) -> &[u32] {
    let count = links.iter().position(|id| *id == NONE).unwrap_or(links.len());
    &links[..count]
}
