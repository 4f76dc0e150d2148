//! Ids of segments that go from node to node: no two nodes give one twice.
//!
//! An id has 48 bits, which checksums of blocks cover. The highest one is set here, and in no id that a directory counts by itself. The other 47 are a
//! counter of all collections, which begins anywhere at each start. Where two starts meet all the same, files of one id differ, and whoever is offered
//! them builds for itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SHARED: u64 = 1 << 47;

/// Gives ids to nodes over a shared log, and to directories that were one's.
pub struct SegmentIds {
    next: AtomicU64,
    is_shared: AtomicBool,
}

impl SegmentIds {
    /// `seed`: another one at each start.
    pub fn new(seed: u64) -> SegmentIds {
        let mut z = seed ^ 0x5345_474D_454E_5453;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        SegmentIds {
            next: AtomicU64::new(z ^ (z >> 31)),
            is_shared: AtomicBool::new(false),
        }
    }

    /// From now on segments go from node to node.
    pub fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    /// The next id in a directory that would count on with `counted`.
    pub fn next(&self, counted: u64) -> u64 {
        // Jobs may run before the log is there. What would follow another node's id would be its next one.
        match counted < SHARED && !self.is_shared.load(Ordering::Acquire) {
            true => counted,
            false => SHARED | (self.next.fetch_add(1, Ordering::Relaxed) % SHARED),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_id_comes_twice() {
        let mut all = BTreeSet::new();
        for seed in [0, 1, 2, u64::MAX, 0x0123_4567_89ab_cdef] {
            let ids = SegmentIds::new(seed);
            assert_eq!(ids.next(7), 7);
            // Another node's, before this one has a log.
            assert!(ids.next(SHARED + 7) != SHARED + 7);
            ids.share();
            for counted in 0..3_000 {
                let id = ids.next(counted);
                assert!(all.insert(id), "{id}");
                assert_eq!(id >> 47, 1);
            }
        }
    }
}
