//! The k nearest rows so far.

use std::cmp::Ordering;

/// One row that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Smaller is nearer; [`crate::Metric::score`] makes it the API's score.
    pub distance: f32,
    /// What [`TopK::begin_segment`] said when the row was pushed.
    pub segment: u32,
    pub row: u32,
}

impl Hit {
    /// Nearest first; of equal distances, the lower segment, then the lower row.
    fn order(&self, other: &Hit) -> Ordering {
        let place = |hit: &Hit| (hit.segment, hit.row);
        self.distance
            .total_cmp(&other.distance)
            .then_with(|| place(self).cmp(&place(other)))
    }
}

/// The `k` nearest rows of all that were pushed, over any number of segments.
///
/// What it holds doesn't depend on the order of pushes: ties go to the lower segment, then the lower row.
/// Holds [`TopK::bytes_for`] bytes; allocates in [`TopK::clear`] only, and there only when `k` grows.
#[derive(Debug, Default)]
pub struct TopK {
    k: usize,
    segment: u32,
    /// A max-heap by [`Hit::order`] (the farthest on top), or ascending when `sorted`.
    hits: Vec<Hit>,
    sorted: bool,
}

impl TopK {
    pub fn new(k: usize) -> TopK {
        let mut top = TopK::default();
        top.clear(k);
        top
    }

    /// Bytes that a collector of `k` holds.
    pub const fn bytes_for(k: usize) -> usize {
        k * size_of::<Hit>()
    }

    /// Forgets everything, and keeps the `k` nearest from now on.
    pub fn clear(&mut self, k: usize) {
        self.hits.clear();
        self.hits.reserve_exact(k);
        (self.k, self.segment, self.sorted) = (k, 0, false);
    }

    /// Rows pushed from now on belong to this segment.
    pub fn begin_segment(&mut self, segment: u32) {
        self.segment = segment;
    }

    /// Whether a row of the present segment is kept.
    pub(crate) fn holds(&self, row: u32) -> bool {
        let here = |hit: &Hit| (hit.segment, hit.row) == (self.segment, row);
        self.hits.iter().any(here)
    }

    pub fn k(&self) -> usize {
        self.k
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.hits.iter().map(|hit| hit.row)
    }

    /// Puts what was found into other segments.
    pub(crate) fn move_rows(&mut self, segment_of: impl Fn(u32) -> u32) {
        self.hits
            .iter_mut()
            .for_each(|hit| hit.segment = segment_of(hit.row));
        // Of equal distances the segment decides the order, in which nothing is any more.
        self.hits.sort_unstable_by(Hit::order);
        self.sorted = true;
    }

    pub fn len(&self) -> usize {
        self.hits.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }

    /// A distance above this can't enter. (At it, a row may: the tie is decided by its place.)
    #[inline]
    pub fn threshold(&self) -> f32 {
        if self.hits.len() < self.k {
            return f32::INFINITY;
        }
        let farthest = if self.sorted {
            self.hits.last()
        } else {
            self.hits.first()
        };
        farthest.map_or(f32::NEG_INFINITY, |hit| hit.distance)
    }

    /// Whether [`TopK::push`] would keep this row.
    #[inline]
    pub fn would_enter(&self, distance: f32, row: u32) -> bool {
        if self.hits.len() < self.k {
            return true;
        }
        let farthest = if self.sorted {
            self.hits.last()
        } else {
            self.hits.first()
        };
        farthest.is_some_and(|farthest| self.hit(distance, row).order(farthest).is_lt())
    }

    /// Keeps the row if it is among the `k` nearest so far; says whether it is.
    pub fn push(&mut self, distance: f32, row: u32) -> bool {
        if !self.would_enter(distance, row) {
            return false;
        }
        if self.sorted {
            self.hits.reverse(); // descending is a heap
            self.sorted = false;
        }
        let hit = self.hit(distance, row);
        if self.hits.len() < self.k {
            self.hits.push(hit);
            self.rise(self.hits.len() - 1);
        } else {
            self.hits[0] = hit;
            self.sink(0);
        }
        true
    }

    /// What was kept, nearest first. Pushing may go on.
    pub fn sorted(&mut self) -> &[Hit] {
        if !self.sorted {
            self.hits.sort_unstable_by(Hit::order);
            self.sorted = true;
        }
        &self.hits
    }

    /// A distance that is not a number (an overflow) is the farthest of all.
    fn hit(&self, distance: f32, row: u32) -> Hit {
        let distance = if distance.is_nan() {
            f32::INFINITY
        } else {
            distance
        };
        Hit {
            distance,
            segment: self.segment,
            row,
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.hits[at].order(&self.hits[parent]).is_le() {
                return;
            }
            self.hits.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.hits.len());
            let Some(child) = children.max_by(|a, b| self.hits[*a].order(&self.hits[*b])) else {
                return;
            };
            if self.hits[child].order(&self.hits[at]).is_le() {
                return;
            }
            self.hits.swap(at, child);
            at = child;
        }
    }
}
