//! Values to filter by: some have nothing to do with the vectors, some go with them.

use std::fs;
use std::io::{Error, Result};

use ramlet_kernels::kernels;

use crate::random::mix;
use crate::set::Set;
use crate::{K, Nearest, Random};

/// Values of `rank`: a filter `rank < n` admits `n / RANKS` of all rows.
pub const RANKS: u16 = 10_000;
/// Rows whose neighbourhoods are the values of `near`.
const PIVOTS: usize = 1_000;

/// How a filter chooses its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// By a value that has nothing to do with the vectors.
    Random,
    /// The neighbourhoods nearest to the query: what is searched for all lies together.
    Near,
    /// The neighbourhoods farthest from the query: where the query lies, nothing matches.
    Far,
}

impl Selection {
    pub const ALL: [Selection; 3] = [Selection::Random, Selection::Near, Selection::Far];

    pub fn name(self) -> &'static str {
        match self {
            Selection::Random => "random",
            Selection::Near => "near",
            Selection::Far => "far",
        }
    }

    pub fn by_name(name: &str) -> Option<Selection> {
        Selection::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// A filter for each query, at one selectivity.
#[derive(Debug, Clone)]
pub struct FilterCase {
    pub selection: Selection,
    /// Share of rows asked for.
    pub share: f64,
    /// `rank` below this (`Random`).
    pub rank_below: u16,
    /// Values of `near`, by query (`Near`, `Far`).
    pub groups: Vec<Vec<u16>>,
}

/// Two values for each row: `rank`, drawn evenly from `0..RANKS`, and `near`, which of 1,000 rows drawn at random is nearest. 4 bytes a row.
#[derive(Debug)]
pub struct Filters {
    pub near: Vec<u16>,
    /// Pivots, encoded as the set is.
    pivots: Vec<f32>,
    sizes: Vec<u64>,
    dims: usize,
}

/// The value of `rank` of a row.
pub fn rank(row: u64) -> u16 {
    (mix(row ^ 0x7261_6e6b) % u64::from(RANKS)) as u16
}

impl Filters {
    /// From `PREFIX.near.u16`, or made (1,000 comparisons a row) and kept there.
    pub fn of(set: &Set, threads: usize) -> Result<Filters> {
        let pivots = pivots(set)?;
        let path = set.path("near.u16");
        let near: Vec<u16> = match fs::read(&path) {
            Ok(bytes) if bytes.len() as u64 == set.info.rows * 2 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| u16::from_le_bytes(*b))
                .collect(),
            _ => {
                let near = nearest_pivots(set, &pivots, threads)?;
                let bytes: Vec<u8> = near.iter().flat_map(|value| value.to_le_bytes()).collect();
                fs::write(&path, bytes)?;
                near
            }
        };
        let mut sizes = vec![0; PIVOTS];
        near.iter().for_each(|&group| sizes[usize::from(group)] += 1);
        Ok(Filters {
            near,
            pivots,
            sizes,
            dims: set.info.dims,
        })
    }

    /// A filter for each of these queries (values as in the files).
    pub fn case(&self, selection: Selection, share: f64, queries: &[Vec<f32>]) -> FilterCase {
        let groups = match selection {
            Selection::Random => Vec::new(),
            _ => queries
                .iter()
                .map(|query| self.groups(selection, share, query))
                .collect(),
        };
        FilterCase {
            selection,
            share,
            rank_below: (share * f64::from(RANKS)).round().max(1.0) as u16,
            groups,
        }
    }

    /// Neighbourhoods in their order from the query, until they hold the share of all rows that is asked for.
    fn groups(&self, selection: Selection, share: f64, query: &[f32]) -> Vec<u16> {
        let mut order: Vec<(f32, u16)> = self
            .pivots
            .chunks_exact(self.dims)
            .zip(0..)
            .map(|(pivot, number)| (kernels().l2sq_f32(query, pivot), number))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        if selection == Selection::Far {
            order.reverse();
        }
        let wanted = (share * self.near.len() as f64) as u64;
        let (mut chosen, mut rows) = (Vec::new(), 0);
        for (_, number) in order {
            if rows >= wanted.max(1) {
                break;
            }
            rows += self.sizes[usize::from(number)];
            chosen.push(number);
        }
        chosen
    }

    /// Whether a row matches the filter of a query.
    pub fn admits(&self, case: &FilterCase, query: usize, row: u32) -> bool {
        match case.selection {
            Selection::Random => rank(u64::from(row)) < case.rank_below,
            _ => case.groups[query].contains(&self.near[row as usize]),
        }
    }

    /// Share of rows that match, mean over the queries.
    pub fn share_of(&self, case: &FilterCase) -> f64 {
        let rows = self.near.len() as f64;
        match case.selection {
            Selection::Random => {
                let matching = (0..self.near.len() as u64).filter(|&row| rank(row) < case.rank_below);
                matching.count() as f64 / rows
            }
            _ => {
                let of_query =
                    |groups: &Vec<u16>| groups.iter().map(|&g| self.sizes[usize::from(g)]).sum::<u64>();
                case.groups.iter().map(of_query).sum::<u64>() as f64 / rows / case.groups.len().max(1) as f64
            }
        }
    }

    /// The exact nearest among the rows that match, by query.
    pub fn truth(
        &self,
        set: &Set,
        case: &FilterCase,
        queries: &[u8],
        threads: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let info = &set.info;
        let mut nearest = Nearest::new(info.metric, info.element, info.dims, queries, K);
        set.for_each_chunk(0, info.rows, &mut |first, rows| {
            nearest.offer_if(first as u32, rows, threads, &|query, row| {
                self.admits(case, query, row)
            });
            Ok(())
        })?;
        let lists = nearest.sorted();
        Ok(lists
            .iter()
            .map(|list| list.iter().map(|found| found.1).collect())
            .collect())
    }
}

/// Rows of the set, drawn at random: the same every time.
fn pivots(set: &Set) -> Result<Vec<f32>> {
    let file = set.base()?;
    let mut random = Random::new(0x6e65_6172, 0);
    let (mut row, mut out) = (vec![0; set.row_bytes()], Vec::new());
    for _ in 0..PIVOTS {
        let at = random.below(set.info.rows) * row.len() as u64;
        file.read_at(&mut row, at).map_err(Error::other)?;
        out.extend(set.info.element.floats(&row));
    }
    Ok(out)
}

fn nearest_pivots(set: &Set, pivots: &[f32], threads: usize) -> Result<Vec<u16>> {
    let (dims, bytes) = (set.info.dims, set.row_bytes());
    let pivot_bytes: Vec<u8> = pivots.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut near = vec![0u16; set.info.rows as usize];
    set.for_each_chunk(0, set.info.rows, &mut |first, rows| {
        let count = rows.len() / bytes;
        let out = &mut near[first as usize..][..count];
        let share = count.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (out, rows) in out.chunks_mut(share).zip(rows.chunks(share * bytes)) {
                let pivot_bytes = &pivot_bytes;
                scope.spawn(move || {
                    let mut keys = vec![0.0; PIVOTS];
                    for (out, row) in out.iter_mut().zip(rows.chunks_exact(bytes)) {
                        let row = set.info.element.floats(row);
                        let measure = ramlet_kernels::Measure::L2sq;
                        kernels().f32_rows(measure, &row, pivot_bytes, dims * 4, &mut keys);
                        let best = (0..PIVOTS).min_by(|&a, &b| keys[a].total_cmp(&keys[b]));
                        *out = best.unwrap_or(0) as u16;
                    }
                });
            }
        });
        Ok(())
    })?;
    Ok(near)
}
