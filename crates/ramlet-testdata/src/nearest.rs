//! The exact neighbours of many queries, by comparing everything.

use ramlet_kernels::{Measure, kernels};

use crate::{Element, Metric};

/// Rows compared at once: with the query they stay in the second-level cache up to about 1,000 dimensions.
const BLOCK: usize = 256;

/// The `k` nearest rows of each query among those offered so far. Smaller keys are nearer; of equal ones the smaller row number.
///
/// Holds 12 bytes a neighbour. Offering a row costs one comparison a query.
#[derive(Debug)]
pub struct Nearest {
    metric: Metric,
    element: Element,
    dims: usize,
    k: usize,
    lists: Vec<List>,
}

#[derive(Debug)]
struct List {
    query: Vec<f32>,
    bytes: Vec<u8>,
    /// Sorted once `k` are held, and from then on.
    best: Vec<(f32, u32)>,
}

impl Nearest {
    /// `queries`: encoded rows, one after another.
    pub fn new(metric: Metric, element: Element, dims: usize, queries: &[u8], k: usize) -> Nearest {
        let lists = queries
            .chunks_exact(dims * element.bytes())
            .map(|row| List {
                query: element.floats(row),
                bytes: row.to_vec(),
                best: Vec::with_capacity(k + 1),
            })
            .collect();
        Nearest {
            metric,
            element,
            dims,
            k,
            lists,
        }
    }

    /// Compares encoded rows, numbered from `first`, with all queries; `admits(query, row)` says which pairs count. On so many threads.
    pub fn offer_if(
        &mut self,
        first: u32,
        rows: &[u8],
        threads: usize,
        admits: &(dyn Fn(usize, u32) -> bool + Sync),
    ) {
        let share = self.lists.len().div_ceil(threads.max(1)).max(1);
        let (metric, element, dims, k) = (self.metric, self.element, self.dims, self.k);
        std::thread::scope(|scope| {
            for (part, lists) in self.lists.chunks_mut(share).enumerate() {
                scope.spawn(move || {
                    let stride = dims * element.bytes();
                    for (block, rows) in rows.chunks(BLOCK * stride).enumerate() {
                        let first = first + (block * BLOCK) as u32;
                        for (at, list) in lists.iter_mut().enumerate() {
                            let query = part * share + at;
                            list.offer(metric, element, first, rows, k, &|row| admits(query, row));
                        }
                    }
                });
            }
        });
    }

    /// [`Nearest::offer_if`], all pairs.
    pub fn offer(&mut self, first: u32, rows: &[u8], threads: usize) {
        self.offer_if(first, rows, threads, &|_, _| true);
    }

    /// (key, row) of each query, nearest first; fewer than `k` if fewer were offered.
    pub fn sorted(&mut self) -> Vec<&[(f32, u32)]> {
        self.lists
            .iter_mut()
            .map(|list| {
                list.best.sort_by(order);
                &list.best[..]
            })
            .collect()
    }
}

fn order(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl List {
    fn offer(
        &mut self,
        metric: Metric,
        element: Element,
        first: u32,
        rows: &[u8],
        k: usize,
        admits: &dyn Fn(u32) -> bool,
    ) {
        let stride = self.query.len() * element.bytes();
        let count = rows.len() / stride;
        let mut keys = [0.0f32; BLOCK];
        let keys = &mut keys[..count];
        match element {
            Element::F32 => kernels().f32_rows(metric.measure(), &self.query, rows, stride, keys),
            Element::U8 => {
                for (key, row) in keys.iter_mut().zip(rows.chunks_exact(stride)) {
                    *key = kernels().u8_row(metric.measure(), &self.bytes, row) as f32;
                }
            }
        }
        let sign = if metric == Metric::Cosine { -1.0 } else { 1.0 };
        for (row, key) in (first..).zip(keys.iter().map(|key| key * sign)) {
            let enters = self.best.len() < k || order(&(key, row), &self.best[k - 1]).is_lt();
            if enters && admits(row) {
                self.push((key, row), k);
            }
        }
    }

    fn push(&mut self, found: (f32, u32), k: usize) {
        if self.best.len() < k {
            self.best.push(found);
            if self.best.len() == k {
                self.best.sort_by(order);
            }
            return;
        }
        let at = self.best.partition_point(|kept| order(kept, &found).is_lt());
        self.best.pop();
        self.best.insert(at, found);
    }
}

impl Metric {
    /// What the kernels sum. Rows of cosine sets have unit length.
    fn measure(self) -> Measure {
        match self {
            Metric::Cosine => Measure::Dot,
            Metric::Euclid => Measure::L2sq,
        }
    }
}
