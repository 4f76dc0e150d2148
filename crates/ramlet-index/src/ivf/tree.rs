//! Centroids in two levels, so that training and assignment cost about the root of their number.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::centroids::Centroids;
use super::kmeans::kmeans;
use super::sample::Points;

/// Up to this many centroids are one level: comparing with all is cheap.
const ONE_LEVEL_MAX: usize = 256;

/// Share of the cells (one in this many) whose leaves a row is compared with, and the fewest cells.
/// A row may miss its nearest leaf this way; the calibration is measured on the leaves that rows really got.
const CELLS_SHARE: usize = 8;
const CELLS_MIN: usize = 4;

/// `leaves` are the centroids; those of one cell lie together, so that neighbouring numbers lie near each other.
#[derive(Debug)]
pub(crate) struct Tree {
    cells: Centroids,
    /// The leaves of cell `i`: `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    leaves: Centroids,
}

/// One thread's memory for [`Tree::assign`].
#[derive(Debug, Default)]
pub(crate) struct AssignScratch {
    pub(crate) vector: Vec<f32>,
    cells: Vec<(f32, usize)>,
}

impl Tree {
    /// About `k` leaves (at least 1) for `points` (at least 1).
    pub(crate) fn train(points: &Points<'_>, k: usize, threads: usize, seed: u64) -> Tree {
        let mut members: Vec<u32> = (0..points.count() as u32).collect();
        if k <= ONE_LEVEL_MAX {
            let leaves = kmeans(points, &mut members, k, seed);
            return Tree {
                cells: Centroids::default(),
                starts: vec![0, leaves.count()],
                leaves,
            };
        }
        let cells = kmeans(points, &mut members, k.isqrt(), seed);
        let (mut members, ranges) = group_by_cell(points, &cells);
        let leaves_of = |members: usize| ((2 * k * members / points.count()).div_ceil(2)).max(1);
        let cells_leaves = train_cells(points, &mut members, &ranges, leaves_of, threads, seed);
        let mut leaves = Centroids::with_capacity(points.decoder.dims, k);
        let mut starts = vec![0];
        for cell in &cells_leaves {
            leaves.append(cell);
            starts.push(leaves.count());
        }
        Tree {
            cells,
            starts,
            leaves,
        }
    }

    pub(crate) fn leaves(&self) -> &Centroids {
        &self.leaves
    }

    /// The leaf for `scratch.vector`: the nearest among the leaves of the nearest cells.
    pub(crate) fn assign(&self, scratch: &mut AssignScratch) -> u32 {
        let vector = &scratch.vector;
        if self.starts.len() == 2 {
            return self.leaves.nearest(vector, 0..self.leaves.count()).0 as u32;
        }
        let cells = &mut scratch.cells;
        cells.clear();
        self.cells
            .distances(vector, 0..self.cells.count(), |i, distance| {
                cells.push((distance, i))
            });
        let visited = (cells.len() / CELLS_SHARE).max(CELLS_MIN).min(cells.len());
        let order = |a: &(f32, usize), b: &(f32, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if visited < cells.len() {
            cells.select_nth_unstable_by(visited, order);
        }
        let mut best = (0, f32::INFINITY);
        for (_, cell) in &cells[..visited] {
            let (leaf, distance) = self
                .leaves
                .nearest(vector, self.starts[*cell]..self.starts[cell + 1]);
            // Equals: the lower number, whatever the order of the cells.
            if distance < best.1 || (distance == best.1 && leaf < best.0) {
                best = (leaf, distance);
            }
        }
        best.0 as u32
    }
}

/// The points in order of their cell, and where each cell's points lie in it. Every cell has one at least, or an
/// empty range.
fn group_by_cell(points: &Points<'_>, cells: &Centroids) -> (Vec<u32>, Vec<Range<usize>>) {
    let mut vector = Vec::new();
    let mut cell_of = Vec::with_capacity(points.count());
    let mut counts = vec![0usize; cells.count()];
    for point in 0..points.count() as u32 {
        points.decode(point, &mut vector);
        let (cell, _) = cells.nearest(&vector, 0..cells.count());
        cell_of.push(cell as u32);
        counts[cell] += 1;
    }
    let mut end = 0;
    let ranges: Vec<Range<usize>> = counts
        .iter()
        .map(|count| {
            end += count;
            end - count..end
        })
        .collect();
    let mut next: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    let mut members = vec![0u32; points.count()];
    for (point, cell) in cell_of.into_iter().enumerate() {
        members[next[cell as usize]] = point as u32;
        next[cell as usize] += 1;
    }
    (members, ranges)
}

/// Leaves per cell; the threads take one cell after another.
fn train_cells(
    points: &Points<'_>,
    members: &mut [u32],
    ranges: &[Range<usize>],
    leaves_of: impl Fn(usize) -> usize + Sync,
    threads: usize,
    seed: u64,
) -> Vec<Centroids> {
    let mut rest = members;
    let mut jobs = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (cell, others) = rest.split_at_mut(range.len());
        jobs.push(Mutex::new((
            cell,
            Centroids::with_capacity(points.decoder.dims, 0),
        )));
        rest = others;
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut job = job.lock().expect("no thread panics in k-means");
            let (cell, leaves) = &mut *job;
            if !cell.is_empty() {
                // The seed is the cell's own, so that the result doesn't depend on which thread takes it.
                let seed = seed ^ u64::from(cell[0]) << 20;
                *leaves = kmeans(points, cell, leaves_of(cell.len()), seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    jobs.into_iter()
        .map(|job| job.into_inner().expect("no thread panics in k-means").1)
        .collect()
}
