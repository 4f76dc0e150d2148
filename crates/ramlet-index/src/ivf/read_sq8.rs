//! Reading SQ8 rows.

use std::ops::Range;

use ramlet_memory::AnonBuf;

use super::candidates::{Candidate, Candidates};
use super::codes::Codes;
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::products::Products;
use super::resident::ResidentDistances;
use super::sq8_rows::Sq8Rows;
use crate::error::Result;
use crate::quant::{CodeSpace, Sq8Row};
use crate::rows::scan::Search;
use crate::vector_index::IndexSearchParams;

/// Deviations that a distance is off by at most, all but certainly.
const ERROR: f32 = 3.0;

/// Deviations from the k-th distance within which a row is read as it is.
const REACH: f32 = 1.0;

impl Candidate {
    /// Of a SQ8 row.
    pub(super) fn sq8((distance, deviation): (f32, f32), position: u32, number: u32) -> Candidate {
        Candidate {
            distance,
            error: ERROR * deviation,
            deviation,
            reach: REACH * deviation,
            position,
            number,
            is_sq8: true,
        }
    }
}

fn offer(
    search: &mut Search<'_, '_>,
    to: &mut Candidates,
    (position, row): (u32, Sq8Row<'_>),
    (distance, deviation): (f32, f32),
) {
    let distance = search.query.metric().possible(distance);
    let error = ERROR * deviation;
    let limit = to.limit(search.top);
    if distance - error > limit.max(search.rounds.limit()) {
        return;
    }
    if !search.allowed.admits_by_bitmaps(row.number) {
        search.rounds.refused(distance, row.number);
        return;
    }
    search.rounds.met(distance, row.number);
    if distance - error > limit {
        return;
    }
    to.push(Candidate::sq8((distance, deviation), position, row.number));
}

impl Ivf {
    /// Where rows that these codes leave to be rescored are rescored before they are read; where rows are in memory they needn't be.
    pub(super) fn sq8_beside(&self, products: &Products) -> Option<&Sq8Rows> {
        let sq8 = self.sq8.as_ref();
        sq8.filter(|_| products.numbers.is_none() && self.rows.resident() == 0)
    }

    /// The same beside signs: where scores by codes would be far off. Extended codes leave one or two rows to be rescored.
    pub(super) fn sq8_beside_signs(&self) -> Option<&Sq8Rows> {
        let are_rough = self.codes.as_ref().is_some_and(Codes::are_rough);
        let sq8 = self.sq8.as_ref();
        sq8.filter(|_| are_rough && self.rows.resident() == 0)
    }

    /// Compares the SQ8 rows at `lists.positions`, ascending, and all others in the same blocks if that is wanted.
    pub(super) fn read_sq8(
        &self,
        sq8: &Sq8Rows,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let positions = std::mem::take(&mut lists.positions);
        let mut rest = &positions[..];
        while !rest.is_empty() {
            let per_block = sq8.file.rows_per_block();
            let most = sq8.blocks_at_once();
            let now = &rest[..blocks_of(rest, per_block, most)];
            rest = &rest[now.len()..];
            self.read_some_sq8(sq8, search, now, lists, buf)?;
            if lists.products.known.is_full(search.top) {
                self.narrow_known(search, want, lists, buf)?;
            }
        }
        lists.positions = positions;
        Ok(())
    }

    /// Reads rows as they lie, but for those of blocks whose SQ8 rows were compared: these are candidates if they are anything.
    pub(super) fn scan_others(
        &self,
        sq8: Option<&Sq8Rows>,
        search: &mut Search<'_, '_>,
        wanted: Range<u32>,
        lists: &Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let compared = &lists.products.blocks[..];
        let (per_block, mut compared) = match sq8 {
            Some(sq8) => (sq8.file.rows_per_block(), compared),
            None => (1, &compared[..0]),
        };
        compared = &compared[compared.partition_point(|block| *block < wanted.start / per_block)..];
        let mut at = wanted.start;
        for block in compared
            .iter()
            .take_while(|block| **block * per_block < wanted.end)
        {
            let first = block * per_block;
            if at < first {
                search.scan_run(&self.rows, at..first, buf)?;
            }
            at = at.max(first + per_block);
        }
        if at < wanted.end {
            search.scan_run(&self.rows, at..wanted.end, buf)?;
        }
        Ok(())
    }

    fn read_some_sq8(
        &self,
        sq8: &Sq8Rows,
        search: &mut Search<'_, '_>,
        mut positions: &[u32],
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Lists {
            reads,
            codes,
            products,
            ..
        } = lists;
        let (file, stride) = (&sq8.file, sq8.file.stride());
        let space = CodeSpace {
            metric: self.meta.shape.metric,
            unit: self.meta.shape.unit,
        };
        let (query, kernels) = (&codes.query, search.query.kernels());
        let mut resident =
            ResidentDistances::new(None, &self.meta, space, query, kernels, &mut codes.resident);
        let known = &mut products.known;
        let mut compare = |search: &mut Search<'_, '_>, rows: &[u8], first: u32| {
            search.stats.rows_scored += (rows.len() / stride) as u64;
            resident.sq8_distances(sq8, rows, first, |position, row, distance, deviation| {
                offer(search, known, (position, row), (distance, deviation));
            });
        };
        while !positions.is_empty() {
            let (now, later, bytes) = search.read_some(file, positions, reads, buf)?;
            if products.whole_blocks {
                for ((page, _), block) in reads.iter().zip(bytes.chunks_exact(file.block_bytes())) {
                    let number = file.block_of_page(*page);
                    let first = number * file.rows_per_block();
                    let count = file.rows_per_block().min(file.rows() - first) as usize;
                    compare(search, &block[..count * stride], first);
                    products.blocks.push(number);
                }
            } else {
                for (position, row) in file.rows_in_reads(now, reads, bytes) {
                    compare(search, row, position);
                }
            }
            positions = later;
        }
        Ok(())
    }
}

/// How many of the first positions lie in so many blocks.
fn blocks_of(positions: &[u32], per_block: u32, blocks: usize) -> usize {
    let (mut seen, mut last) = (0, None);
    for (i, position) in positions.iter().enumerate() {
        let block = position / per_block;
        if last != Some(block) {
            if seen == blocks {
                return i;
            }
            (seen, last) = (seen + 1, Some(block));
        }
    }
    positions.len()
}
