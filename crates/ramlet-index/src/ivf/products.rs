//! Searches by product codes in RAM: scans the nearest clusters' codes, then reads the likeliest rows until none can enter the result.
//!
//! Plain ones say nothing of a row but where it may lie: its number, which filters need, stands on disk with it. So every
//! row of the result is read, and some more. Those with numbers (`row_ids` of [`CodeKind::Product`]) are candidates as the codes of
//! signs are: what is surely among the nearest needs no read.
//!
//! Codes that have no room in RAM, or were taken back, are read: a page or two a cluster, of all those visited at once, where
//! its rows would be a dozen.

use std::ops::Range;

use super::candidates::{self, Candidates, Known};
use super::meta::Shape;
use super::product_query::ProductQuery;
use super::sq8_rows;
use crate::error::{IndexError, Result};
use crate::quant::product::ProductModel;
use crate::quant::{GROUP, RowIdsLayout, lanes};
use crate::rows::cached_rows::{CachedRows, CachedView};
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::Search;
use crate::{CodeKind, TopK};

/// Groups scanned between two looks at how many candidates there are.
pub(super) const GROUPS: u32 = 64;

/// Deviations at least by which rows may be off that others are dropped for, before anything was read.
const DROPPED_BY: f32 = 2.5;

/// Product codes, and how to read them.
#[derive(Debug)]
pub(super) struct Products {
    pub(super) groups: CachedRows,
    /// Where those that aren't in memory are read.
    pub(super) file: Option<RowsFile>,
    pub(super) model: ProductModel,
    pub(super) kind: CodeKind,
    /// Where rows' numbers stand, if they do.
    pub(super) numbers: Option<RowIdsLayout>,
}

/// One thread's memory for searching product codes.
#[derive(Debug, Default)]
pub(crate) struct ProductLists {
    pub(super) query: ProductQuery,
    pub(super) sums: Vec<u32>,
    pub(super) candidates: Vec<Candidate>,
    /// The smallest of their greatest possible distances.
    pub(super) uppers: TopK,
    pub(super) room: usize,
    /// Whether rows may be dropped on account of others.
    pub(super) narrows: bool,
    /// Clusters whose codes are to be read.
    pub(super) missing: Vec<u32>,
    pub(super) groups: Vec<u32>,
    pub(super) bound: Bound,
    /// Blocks of rows that were read, ascending: all of their rows were compared.
    pub(super) blocks: Vec<u32>,
    /// Whether they are.
    pub(super) whole_blocks: bool,
    /// Rows of which the numbers are known, by their codes or by SQ8 rows: all that may be among the nearest.
    pub(super) known: Candidates,
    /// Of codes with row ids; `known` then takes the place of `candidates` and `uppers`.
    pub(super) numbers: Option<RowIdsLayout>,
    /// Whether candidates are looked at in SQ8 rows.
    pub(super) has_sq8: bool,
    /// Deviations from the k-th distance within which a row is read.
    pub(super) reach: f32,
}

/// A row that may be among the nearest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) distance: f32,
    /// By how much its distance may be off.
    pub(super) error: f32,
    pub(super) position: u32,
}

/// What of a distance is the same for all rows of a cluster.
#[derive(Clone, Copy)]
pub(super) struct Cluster {
    pub(super) base: f32,
    pub(super) epsilon: f32,
}

/// The last limit, and the sum up to which rows lie within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) limit: f32,
    pub(super) most: i32,
}

impl Default for Bound {
    fn default() -> Bound {
        Bound {
            limit: f32::NAN,
            most: 0,
        }
    }
}

impl Products {
    pub(super) fn new(
        shape: &Shape,
        model: Option<&ProductModel>,
        groups: CachedRows,
        file: Option<RowsFile>,
    ) -> Result<Products> {
        let kind = shape
            .codes
            .into_iter()
            .flatten()
            .find(|kind| kind.subquantizers().is_some());
        let wanted = kind.map(|kind| {
            (
                kind.row_bytes(shape.dims, shape.segment_rows),
                kind.file_rows(shape.rows),
            )
        });
        let suits = |rows: u32, stride: usize| Some((stride, rows)) == wanted;
        let file_suits = file.as_ref().is_none_or(|file| suits(file.rows(), file.stride()));
        match (model, kind) {
            (Some(model), Some(kind)) if suits(groups.rows(), groups.stride()) && file_suits => {
                Ok(Products {
                    groups,
                    file,
                    model: model.clone(),
                    kind,
                    numbers: match kind {
                        CodeKind::Product { m, row_ids: true } => {
                            Some(RowIdsLayout::new(m, shape.segment_rows))
                        }
                        _ => None,
                    },
                })
            }
            _ => Err(IndexError::Mismatch(format!(
                "{shape:?} with {} groups of product codes of {} bytes",
                groups.rows(),
                groups.stride()
            ))),
        }
    }

    pub(super) fn kind(&self) -> CodeKind {
        self.kind
    }

    /// Bytes of a group's codes, which come first.
    pub(super) fn scanned_bytes(&self) -> usize {
        self.model.shape().parts * GROUP / 2
    }

    /// Scans the codes at the `wanted` positions, all in the groups from `first` on that `bytes` holds.
    pub(super) fn scan(
        &self,
        bytes: &[u8],
        first: u32,
        wanted: &Range<u32>,
        search: &mut Search<'_, '_>,
        lists: &mut ProductLists,
        (cluster, ahead): (Cluster, &mut Ahead<'_>),
    ) {
        search.stats.codes_scored += u64::from(wanted.end - wanted.start);
        let stride = self.groups.stride();
        let mut sums = std::mem::take(&mut lists.sums);
        sums.resize(bytes.len() / stride * GROUP, 0);
        let (kernels, table) = (search.query.kernels(), lists.query.tables.rounded());
        for (group, sums) in bytes.chunks_exact(stride).zip(sums.as_chunks_mut::<GROUP>().0) {
            kernels.fast_scan_sums_of_group(table, group, ahead.next(), sums);
        }
        let starts = (first * GROUP as u32..).step_by(GROUP);
        let groups = bytes.chunks_exact(stride);
        for ((sums, start), group) in sums.as_chunks::<GROUP>().0.iter().zip(starts).zip(groups) {
            let most = lists.most(search, cluster);
            // Nearly all groups end here. (Sums are far below 2^31: signed numbers are compared quicker.)
            let least = sums.iter().fold(i32::MAX, |least, sum| least.min(*sum as i32));
            if least > most {
                continue;
            }
            let mut mask = 0u32;
            for (lane, sum) in sums.iter().enumerate() {
                mask |= u32::from(*sum as i32 <= most) << lane;
            }
            mask &= lanes(start, wanted);
            while mask != 0 {
                let lane = mask.trailing_zeros();
                mask &= mask - 1;
                lists.push(search, cluster, sums[lane as usize], (start + lane, group));
            }
        }
        sums.clear();
        lists.sums = sums;
    }
}

/// Groups of the next cluster, fetched one for each that is scanned: clusters lie anywhere in memory, and the processor sees only later
/// that one is read through.
pub(super) struct Ahead<'v> {
    pub(super) view: &'v CachedView,
    pub(super) groups: Range<u32>,
    /// Bytes of a group that are scanned: of few rows the numbers behind them are looked at.
    pub(super) scanned: usize,
}

impl<'v> Ahead<'v> {
    pub(super) fn next(&mut self) -> &'v [u8] {
        let group = self.groups.next().and_then(|group| self.view.row(group));
        group.map_or(&[], |group| &group[..self.scanned])
    }
}

/// Positions in pieces of `GROUPS` groups at most.
pub(super) fn pieces(positions: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let mut rest = positions;
    std::iter::from_fn(move || {
        let end = (rest.start / GROUP as u32 + GROUPS).saturating_mul(GROUP as u32);
        let piece = rest.start..end.min(rest.end);
        rest.start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

impl ProductLists {
    /// For codes that say which rows they are.
    pub(super) fn start_known(
        &mut self,
        numbers: RowIdsLayout,
        oversampled: usize,
        filtered: bool,
        (reach, known): (f32, Known),
    ) {
        let per_scan = GROUPS as usize * GROUP;
        self.query.start();
        self.sums.reserve(per_scan);
        self.missing.clear();
        (self.numbers, self.has_sq8) = (Some(numbers), false);
        self.reach = reach;
        self.known.start(oversampled, filtered, per_scan, known);
    }

    /// Bytes where so many rows are wanted, beyond what [`Candidates::bytes_for`] says and what stays for the next search.
    pub(super) fn bytes_for(oversampled: usize) -> u64 {
        match candidates::room_for(oversampled) {
            candidates::CANDIDATES_MIN => 0,
            room => {
                let of_room = room * (size_of::<Candidate>() + size_of::<u32>());
                let of_reads = oversampled * (size_of::<(u64, u32)>() + size_of::<u32>());
                (of_room + of_reads + TopK::bytes_for(oversampled)) as u64
            }
        }
    }

    /// Gives back what a search for many rows needed.
    pub(super) fn trim(&mut self) {
        self.known.trim();
        if self.room > candidates::CANDIDATES_MIN {
            (self.candidates, self.blocks) = (Vec::new(), Vec::new());
            self.uppers = TopK::default();
            self.room = 0;
        }
    }

    /// For codes that don't. `sq8`: whether a filter must be asked about rows that are looked at in SQ8 rows, and what is known of
    /// rows without reading them.
    pub(super) fn start(
        &mut self,
        oversampled: usize,
        narrows: bool,
        whole_blocks: bool,
        sq8: Option<(bool, Known)>,
    ) {
        let per_scan = GROUPS as usize * GROUP;
        (self.numbers, self.has_sq8) = (None, sq8.is_some());
        if let Some((filtered, known)) = sq8 {
            self.known.start(oversampled, filtered, sq8_rows::ROWS, known);
        }
        self.query.start();
        self.blocks.clear();
        self.whole_blocks = whole_blocks;
        self.sums.reserve(per_scan);
        self.candidates.clear();
        self.uppers.clear(if narrows { oversampled } else { 0 });
        self.narrows = narrows;
        self.room = candidates::room_for(oversampled);
        self.candidates.reserve_exact(self.room + per_scan);
        self.blocks.reserve(self.room);
        self.missing.clear();
    }

    /// Whether candidates must be read before there may be more.
    pub(super) fn is_full(&mut self, top: &TopK) -> bool {
        match self.numbers {
            Some(_) => self.known.is_full(top),
            None => self.candidates.len() >= self.room,
        }
    }

    /// Distances above this needn't be known.
    pub(super) fn limit(&self, search: &Search<'_, '_>) -> f32 {
        if self.numbers.is_some() {
            return self.known.limit(search.top).max(search.rounds.limit());
        }
        let limit = match self.has_sq8 {
            true => self.known.limit(search.top),
            false => search.top.threshold(),
        };
        let limit = if self.narrows {
            self.uppers.threshold().min(limit)
        } else {
            limit
        };
        limit.max(search.rounds.limit())
    }

    /// Sums above this lie beyond the limit.
    pub(super) fn most(&mut self, search: &Search<'_, '_>, cluster: Cluster) -> i32 {
        let limit = self.limit(search);
        if limit == self.bound.limit {
            return self.bound.most;
        }
        let (low, step) = self.query.tables.affine();
        let most = (self.query.tables.most(limit - cluster.base, cluster.epsilon) - low) / step;
        // Of what isn't a number, everything passes.
        let most = match most.is_finite() {
            true => most.max(-1.0).floor() as i32,
            false => i32::MAX,
        };
        self.bound = Bound { limit, most };
        most
    }

    /// `group` is the one that has the position.
    pub(super) fn push(
        &mut self,
        search: &mut Search<'_, '_>,
        cluster: Cluster,
        sum: u32,
        (position, group): (u32, &[u8]),
    ) {
        let distance = self.query.tables.distance_of_sum(sum);
        let deviation = self.query.tables.deviation(distance);
        let distance = search.query.metric().possible(distance + cluster.base);
        let error = cluster.epsilon * deviation;
        let (distance, error) = match distance.is_finite() && error.is_finite() {
            true => (distance, error),
            // A sum that overflowed says nothing about the row.
            false => (f32::MAX, f32::INFINITY),
        };
        if distance - error > self.limit(search) {
            return;
        }
        if let Some(numbers) = self.numbers {
            let number = numbers.number(group, position as usize % GROUP);
            if !search.allowed.admits_by_bitmaps(number) {
                search.rounds.refused(distance, number);
                return;
            }
            search.rounds.met(distance, number);
            if distance - error > self.known.limit(search.top) {
                return;
            }
            self.known.push(candidates::Candidate {
                distance,
                error,
                deviation,
                reach: self.reach * deviation,
                position,
                number,
                is_sq8: false,
            });
            return;
        }
        self.candidates.push(Candidate {
            distance,
            error,
            position,
        });
        if self.narrows {
            self.uppers
                .push(distance + error.max(DROPPED_BY * deviation), position);
        }
    }
}
