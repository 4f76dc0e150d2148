//! Finds the rows of a bitmap, and visits clusters for them only.

use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::codes::{MissingGroup, Views};
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::probe_codes::{GROUPS, MISSING_MOST};
use super::products::{Cluster, ProductLists, Products};
use super::row_bitmap::{RowBitmap, each_lane};
use crate::error::Result;
use crate::quant::GROUP;
use crate::rows::cached_rows::CachedView;
use crate::rows::positions::{find_positions, position_of};
use crate::rows::reading::{LISTED_ROWS, read_positions};
use crate::rows::scan::Search;
use crate::vector_index::IndexSearchParams;

/// Rows for each block of positions from which on all blocks are read in sequence.
const ROWS_PER_BLOCK_STREAMED: u64 = 2;
/// ... whatever blocks they are in: to look where so many are takes longer than it would save.
const ROWS_PER_BLOCK_ANYWHERE: u64 = 64;
/// Rows that a bitmap tells at once, which is faster than one by one.
const ROWS_AT_ONCE: usize = 256;

/// Whether all blocks of some rows each are better read in sequence than those that have rows of the bitmap: rows that came
/// together, as those of a user or of a day, are in few.
fn is_in_most_blocks(only: &RoaringBitmap, blocks: u32, per_block: u32) -> bool {
    let count = u64::from(blocks);
    let is_needed = |block: &u32| {
        let start = block * per_block;
        let mut here = only.range(start..start.saturating_add(per_block));
        here.next().is_some()
    };
    only.len() >= ROWS_PER_BLOCK_STREAMED * count
        && (only.len() >= ROWS_PER_BLOCK_ANYWHERE * count
            || (0..blocks).filter(is_needed).count() as u64 >= count.div_ceil(2))
}

/// Positions of rows that are read at once.
const READ_AT_ONCE: usize = 256;

impl Ivf {
    /// Compares the rows of the bitmap, each by its position.
    pub(super) fn listed(
        &self,
        search: &mut Search<'_, '_>,
        only: &RoaringBitmap,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Lists {
            reads,
            positions,
            rows,
            ..
        } = lists;
        let mut listed = only.range(..self.meta.shape.segment_rows);
        let count = self.meta.shape.rows;
        loop {
            rows.clear();
            rows.extend(listed.by_ref().take(LISTED_ROWS));
            if rows.is_empty() {
                return Ok(());
            }
            find_positions(&self.positions, count, rows, positions, reads, buf, search.io)?;
            search.scan_positions(&self.rows, positions, reads, buf)?;
        }
    }

    /// Finds the positions of the bitmap's rows, but for deleted ones.
    pub(super) fn pick(
        &self,
        search: &mut Search<'_, '_>,
        only: &RoaringBitmap,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let rows = self.meta.shape.rows;
        lists.row_bitmap.clear(rows);
        search.stats.listed += only.len();
        let deleted = search.allowed.deleted;
        let is_live = |row: &u32| !deleted.is_some_and(|deleted| deleted.contains(*row));
        let row_bitmap = &mut lists.row_bitmap;
        let mut pick = |row: u32, bytes: &[u8]| -> Result<()> {
            if let Some(position) = position_of(row, bytes, rows)? {
                row_bitmap.set(position);
            }
            Ok(())
        };
        let (file, segment_rows) = (&self.positions, self.meta.shape.segment_rows);
        let per_block = file.rows_per_block();
        let blocks = segment_rows.div_ceil(per_block);
        if is_in_most_blocks(only, blocks, per_block) {
            let stride = file.stride();
            let at_once = file.blocks_in(buf)?;
            for first in (0..blocks).step_by(at_once as usize) {
                let count = at_once.min(blocks - first);
                let bytes = file.read_run(search.io, first, count, buf)?;
                for (block, start) in bytes
                    .chunks_exact(file.block_bytes())
                    .zip((first * per_block..).step_by(per_block as usize))
                {
                    let here = start..start.saturating_add(per_block).min(segment_rows);
                    let (mut rows, mut some) = (only.range(here), [0; ROWS_AT_ONCE]);
                    loop {
                        let some = rows.next_many(&mut some);
                        if some.is_empty() {
                            break;
                        }
                        for row in some.iter().filter(|row| is_live(row)) {
                            let at = (row - start) as usize * stride;
                            pick(*row, &block[at..at + stride])?;
                        }
                    }
                }
            }
            return Ok(());
        }
        let mut listed = only.range(..segment_rows).filter(is_live);
        let Lists { rows, reads, .. } = lists;
        loop {
            rows.clear();
            rows.extend(listed.by_ref().take(LISTED_ROWS));
            if rows.is_empty() {
                return Ok(());
            }
            read_positions(file, rows, reads, buf, search.io, &mut pick)?;
        }
    }

    /// Visits clusters in this order, for the rows that the bitmap names.
    pub(super) fn visit_bitmap(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        clusters: &[u64],
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let row_bitmap = std::mem::take(&mut lists.row_bitmap);
        let mut done = Ok(());
        for cluster in clusters {
            done =
                self.visit_codes_row_bitmap(views, search, want, (*cluster as u32, &row_bitmap), lists, buf);
            if done.is_err() {
                break;
            }
        }
        lists.row_bitmap = row_bitmap;
        done
    }

    fn visit_codes_row_bitmap(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (cluster, row_bitmap): (u32, &RowBitmap),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut groups = row_bitmap.groups(self.meta.positions(cluster)).peekable();
        if groups.peek().is_none() {
            return Ok(());
        }
        let mut of = self.enter_codes(views, cluster, &mut lists.codes);
        while groups.peek().is_some() {
            if lists.codes.missing.len() + GROUPS as usize > MISSING_MOST {
                self.visit_missing_codes(views, search, want, lists, buf)?;
                of = self.enter_codes(views, cluster, &mut lists.codes);
            }
            lists.positions.clear();
            for (group, lanes) in groups.by_ref().take(GROUPS as usize) {
                if views.scan_lanes(search, lists, (group, lanes), of) {
                    continue;
                }
                // A group is a page, as a row is or more: of a single row the group wouldn't tell enough.
                if views.codes.file.is_some() && lanes.count_ones() > 1 {
                    lists.codes.missing.push(MissingGroup {
                        group,
                        cluster,
                        lanes,
                    });
                } else {
                    each_lane(group, lanes, |position| lists.positions.push(position));
                }
            }
            let Lists { positions, reads, .. } = &mut *lists;
            search.scan_positions(&self.rows, positions, reads, buf)?;
            views.evaluate(search, &mut lists.codes);
            let codes = &mut lists.codes;
            std::mem::swap(&mut codes.pending, &mut codes.scanned);
            codes.pending_of = of;
            if codes.candidates.is_full(search.top) {
                self.make_room(views, search, want, lists, buf)?;
            }
        }
        Ok(())
    }

    /// Scans the product codes of a cluster's rows that the bitmap names; what this takes is made ready before the first.
    pub(super) fn visit_products_bitmap(
        &self,
        (products, view): (&Products, &CachedView),
        search: &mut Search<'_, '_>,
        (want, oversampled): (&IndexSearchParams, usize),
        of: (u32, f32),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let row_bitmap = std::mem::take(&mut lists.row_bitmap);
        let mut groups = row_bitmap.groups(self.meta.positions(of.0)).peekable();
        let mut entered = None;
        let mut done = Ok(());
        while done.is_ok() && groups.peek().is_some() {
            let cluster = *entered.get_or_insert_with(|| self.enter_products(products, search, of, lists));
            lists.positions.clear();
            for (group, lanes) in groups.by_ref().take(GROUPS as usize) {
                let of = (&mut lists.products, cluster);
                if !products.scan_lanes(view, search, of, (group, lanes)) {
                    each_lane(group, lanes, |position| lists.positions.push(position));
                }
            }
            done = search.scan_positions(&self.rows, &lists.positions, &mut lists.reads, buf);
            if done.is_ok() && lists.products.is_full(search.top) {
                done = self.read_products(search, want, oversampled, lists, buf);
            }
        }
        drop(groups);
        lists.row_bitmap = row_bitmap;
        done
    }

    /// Reads a cluster's rows that the bitmap names, where there are no codes: many clusters' at once.
    pub(super) fn visit_rows_bitmap(
        &self,
        search: &mut Search<'_, '_>,
        clusters: &[u64],
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let RowBitmap { words, mut reading } = std::mem::take(&mut lists.row_bitmap);
        let row_bitmap = RowBitmap {
            words,
            reading: Vec::new(),
        };
        let mut done = Ok(());
        for (at, cluster) in clusters.iter().enumerate() {
            for (group, lanes) in row_bitmap.groups(self.meta.positions(*cluster as u32)) {
                each_lane(group, lanes, |position| reading.push(position));
            }
            let is_last = at + 1 == clusters.len();
            if done.is_ok() && (is_last || reading.len() >= READ_AT_ONCE) {
                reading.sort_unstable();
                done = search.scan_positions(&self.rows, &reading, &mut lists.reads, buf);
                reading.clear();
            }
        }
        lists.row_bitmap = RowBitmap {
            reading,
            ..row_bitmap
        };
        done
    }
}

impl Views<'_> {
    /// Scans the codes of lanes of a group; false if they are not in memory.
    fn scan_lanes(
        &self,
        search: &mut Search<'_, '_>,
        lists: &mut Lists,
        (group, lanes): (u32, u32),
        of: usize,
    ) -> bool {
        let Some(bytes) = self.groups.run(group, 1) else {
            return false;
        };
        let codes = &mut lists.codes;
        let limit = codes.candidates.limit(search.top).max(search.rounds.limit());
        search.stats.codes_scored += u64::from(lanes.count_ones());
        let groups = (bytes, self.codes.layout.row_bytes());
        codes.entered[of].fast_scan(self.kernels, groups, limit, &[], &mut codes.fast_scanned);
        for kept in codes
            .fast_scanned
            .iter()
            .filter(|kept| lanes >> kept.place & 1 == 1)
        {
            let position = group * GROUP as u32 + kept.place;
            codes.scanned.push(self.survivor(&kept, position));
        }
        true
    }
}

impl Products {
    /// Scans the codes of lanes of a group; false if they are not in memory.
    fn scan_lanes(
        &self,
        view: &CachedView,
        search: &mut Search<'_, '_>,
        (of, cluster): (&mut ProductLists, Cluster),
        (group, mut lanes): (u32, u32),
    ) -> bool {
        let Some(bytes) = view.run(group, 1) else {
            return false;
        };
        search.stats.codes_scored += u64::from(lanes.count_ones());
        let (stride, kernels) = (self.groups.stride(), search.query.kernels());
        let mut sums = [0; GROUP];
        let table = of.query.tables.rounded();
        kernels.fast_scan_sums(table, bytes, stride, table.len() / 16, &mut sums);
        let most = of.most(search, cluster);
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            if sums[lane as usize] as i32 <= most {
                let position = group * GROUP as u32 + lane;
                of.push(search, cluster, sums[lane as usize], (position, bytes));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_a_row_bitmap_position_are_passed_over() {
        let mut row_bitmap = RowBitmap::default();
        row_bitmap.clear(1_000);
        [3, 40, 41, 95, 96, 999]
            .iter()
            .for_each(|position| row_bitmap.set(*position));
        let of = |range| -> Vec<(u32, u32)> { row_bitmap.groups(range).collect() };
        assert_eq!(
            of(0..1_000),
            [(0, 1 << 3), (1, 3 << 8), (2, 1 << 31), (3, 1), (31, 1 << 7)]
        );
        assert_eq!(of(41..96), [(1, 1 << 9), (2, 1 << 31)]);
        assert_eq!(of(42..95), []);
        assert_eq!(of(5..5), []);
        let mut positions = Vec::new();
        each_lane(1, 3 << 8, |position| positions.push(position));
        assert_eq!(positions, [40, 41]);
        assert_eq!(RowBitmap::bytes_for(1_000), 128);
    }
}
