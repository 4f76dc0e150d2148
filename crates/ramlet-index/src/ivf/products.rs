//! Searching product codes in RAM, where there is no room for others: scan the nearest clusters' codes, then read the
//! likeliest rows until no further one can enter the result.
//!
//! Plain ones say nothing of a row but where it may lie: its number, which filters need, stands on disk with it. So every
//! row of the result is read, and some more. Those with numbers ([`CodeKind::Numbered`]) are candidates as the codes of
//! signs are: what is surely among the nearest needs no read.
//!
//! Codes that have no room in RAM, or were taken back, are read: a page or two a cluster, of all those visited at once, where
//! its rows would be a dozen.

use std::ops::Range;

use ramlet_kernels::Kernels;
use ramlet_memory::AnonBuf;

use super::candidates::{self, Candidates, Known};
use super::codes::put_in_order;
use super::compact;
use super::held::Held;
use super::meta::Shape;
use super::product_query::ProductQuery;
use super::search::{Effort, Ivf, sort_more};
use crate::error::{IndexError, Result};
use crate::pinned::{PinnedRows, PinnedView};
use crate::quant::product::ProductModel;
use crate::quant::{CodeSpace, GROUP, NumberedLayout};
use crate::rows_file::RowsFile;
use crate::scan::{Lists, Search};
use crate::vector_index::Want;
use crate::{CodeKind, TopK};

/// Groups scanned between two looks at how many candidates there are.
const GROUPS: u32 = 64;

/// Candidates kept until they must be read: at least so many, and so many times the rows that are wanted.
const CANDIDATES_MIN: usize = 1024;
const CANDIDATES_PER_WANTED: usize = 4;
/// But, unless more rows are wanted, at most so many (768 KiB).
const CANDIDATES_MAX: usize = 1 << 16;

/// Rows read at once after the first batch, of as many rows as are wanted, has shown how near the nearest are.
const BATCH: usize = 24;

/// Clusters whose codes are read between two looks at how many candidates there are.
const CLUSTERS: usize = 64;

/// Deviations at least by which rows may be off that others are dropped for, before anything was read.
const DROPPED_BY: f32 = 2.5;

/// Product codes, and how to read them.
#[derive(Debug)]
pub(super) struct Products {
    pub(super) groups: PinnedRows,
    /// Where those that aren't in memory are read.
    file: Option<RowsFile>,
    model: ProductModel,
    kind: CodeKind,
    /// Where rows' numbers stand, if they do.
    pub(super) numbers: Option<NumberedLayout>,
}

/// One thread's memory for searching product codes.
#[derive(Debug, Default)]
pub(crate) struct ProductLists {
    pub(super) query: ProductQuery,
    sums: Vec<u32>,
    candidates: Vec<Candidate>,
    /// The smallest of their greatest possible keys.
    uppers: TopK,
    room: usize,
    /// Whether rows may be dropped on account of others.
    narrows: bool,
    /// Clusters whose codes are to be read.
    missing: Vec<u32>,
    groups: Vec<u32>,
    bound: Bound,
    /// Blocks of rows that were read, ascending: all of their rows were compared.
    pub(super) blocks: Vec<u32>,
    /// Whether they are.
    pub(super) whole_blocks: bool,
    /// Rows of which the numbers are known, by their codes or by compact rows: all that may be among the nearest.
    pub(super) known: Candidates,
    /// Of codes with numbers; `known` then takes the place of `candidates` and `uppers`.
    numbers: Option<NumberedLayout>,
    /// Whether candidates are looked at in compact rows.
    has_compact: bool,
    /// Deviations from the border within which a row is read.
    reach: f32,
}

/// A row that may be among the nearest.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    key: f32,
    /// By how much its key may be off.
    error: f32,
    position: u32,
}

/// What of a key is the same for all rows of a cluster.
#[derive(Clone, Copy)]
pub(super) struct Cluster {
    pub(super) base: f32,
    pub(super) epsilon: f32,
}

/// The last limit, and the sum up to which rows lie within it.
#[derive(Clone, Copy, Debug)]
struct Bound {
    limit: f32,
    most: i32,
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
        groups: PinnedRows,
        file: Option<RowsFile>,
    ) -> Result<Products> {
        let kind = shape
            .codes
            .into_iter()
            .flatten()
            .find(|kind| kind.digits().is_some());
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
                        CodeKind::Numbered { m } => Some(NumberedLayout::new(m, shape.segment_rows)),
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

    /// Bytes of a group's digits, which come first.
    fn scanned_bytes(&self) -> usize {
        self.model.shape().parts * GROUP / 2
    }

    /// Scans the codes at the `wanted` positions, all in the groups from `first` on that `bytes` holds.
    fn scan(
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
            kernels.fastscan_group(table, group, ahead.next(), sums);
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
            mask &= super::codes::lanes(start, wanted);
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
struct Ahead<'v> {
    view: &'v PinnedView,
    groups: Range<u32>,
    /// Bytes of a group that are scanned: of few rows the numbers behind them are looked at.
    scanned: usize,
}

impl<'v> Ahead<'v> {
    fn next(&mut self) -> &'v [u8] {
        let group = self.groups.next().and_then(|group| self.view.row(group));
        group.map_or(&[], |group| &group[..self.scanned])
    }
}

/// The groups that hold these positions.
fn groups(positions: &Range<u32>) -> Range<u32> {
    let group = GROUP as u32;
    positions.start / group..positions.end.div_ceil(group)
}

/// Positions in pieces of `GROUPS` groups at most.
fn pieces(positions: Range<u32>) -> impl Iterator<Item = Range<u32>> {
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
    fn start_known(
        &mut self,
        numbers: NumberedLayout,
        pool: usize,
        filtered: bool,
        (reach, known): (f32, Known),
    ) {
        let per_scan = GROUPS as usize * GROUP;
        self.query.start();
        self.sums.reserve(per_scan);
        self.missing.clear();
        (self.numbers, self.has_compact) = (Some(numbers), false);
        self.reach = reach;
        self.known.start(pool, filtered, per_scan, known);
    }

    /// For codes that don't. `compact`: whether a filter must be asked about rows that are looked at in compact ones, and what is known of
    /// rows without reading them.
    fn start(&mut self, pool: usize, narrows: bool, whole_blocks: bool, compact: Option<(bool, Known)>) {
        let per_scan = GROUPS as usize * GROUP;
        (self.numbers, self.has_compact) = (None, compact.is_some());
        if let Some((filtered, known)) = compact {
            self.known.start(pool, filtered, compact::ROWS, known);
        }
        self.query.start();
        self.blocks.clear();
        self.whole_blocks = whole_blocks;
        self.sums.reserve(per_scan);
        self.candidates.clear();
        self.uppers.clear(if narrows { pool } else { 0 });
        self.narrows = narrows;
        self.room = pool
            .saturating_mul(CANDIDATES_PER_WANTED)
            .clamp(CANDIDATES_MIN, CANDIDATES_MAX)
            .max(pool);
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

    /// Keys above this needn't be known.
    fn limit(&self, search: &Search<'_, '_>) -> f32 {
        if self.numbers.is_some() {
            return self.known.limit(search.top).max(search.reach.limit());
        }
        let limit = match self.has_compact {
            true => self.known.limit(search.top),
            false => search.top.threshold(),
        };
        let limit = if self.narrows {
            self.uppers.threshold().min(limit)
        } else {
            limit
        };
        limit.max(search.reach.limit())
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
        let key = self.query.tables.key_of_sum(sum);
        let deviation = self.query.tables.deviation(key);
        let key = search.query.metric().possible(key + cluster.base);
        let error = cluster.epsilon * deviation;
        let (key, error) = match key.is_finite() && error.is_finite() {
            true => (key, error),
            // A sum that overflowed says nothing about the row.
            false => (f32::MAX, f32::INFINITY),
        };
        if key - error > self.limit(search) {
            return;
        }
        if let Some(numbers) = self.numbers {
            let number = numbers.number(group, position as usize % GROUP);
            if !search.allowed.admits_by_bitmaps(number) {
                search.reach.refused(key, number);
                return;
            }
            search.reach.met(key, number);
            if key - error > self.known.limit(search.top) {
                return;
            }
            self.known.push(candidates::Candidate {
                key,
                error,
                deviation,
                reach: self.reach * deviation,
                position,
                number,
                is_compact: false,
            });
            return;
        }
        self.candidates.push(Candidate { key, error, position });
        if self.narrows {
            self.uppers
                .push(key + error.max(DROPPED_BY * deviation), position);
        }
    }
}

impl Ivf {
    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted.
    pub(super) fn probe_products(
        &self,
        products: &Products,
        search: &mut Search<'_, '_>,
        want: &Want,
        (effort, picked): (&Effort, bool),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank_for(search, want, effort.probes, lists);
        let (view, wanted) = (products.groups.view(), search.top.k());
        let over = f64::from(want.codes.oversampling.unwrap_or(1.0)).max(1.0);
        let pool = ((wanted as f64 * over).ceil() as usize)
            .min(self.meta.shape.rows as usize)
            .max(wanted);
        // Without a number there is no telling whether a row is allowed: then none is dropped on another's account.
        let allowed = &search.allowed;
        let all_allowed = allowed.only.is_none() && allowed.deleted.is_none();
        let narrows = allowed.filter.is_none() && (all_allowed || picked);
        // What isn't found by codes is read elsewhere, and would be met twice; and what a payload filter is asked about costs a read.
        let whole_blocks = !picked && allowed.filter.is_none() && products.file.is_some();
        let mut epsilon = effort.epsilon.coarse;
        let filtered = allowed.filter.is_some();
        let known = Known {
            held: 0,
            rows: self.rows.held(),
        };
        let compact = self.compact_beside(products);
        let tells = products.numbers.is_some() || compact.is_some();
        match products.numbers {
            Some(numbers) => {
                epsilon = effort.bounds().fine;
                let last = (effort.epsilon.fine, known);
                lists.products.start_known(numbers, pool, filtered, last);
            }
            None => {
                let compact = compact.map(|_| (filtered, known));
                lists.products.start(pool, narrows, whole_blocks, compact);
            }
        }
        let (mut visited, mut begun) = (0, None);
        loop {
            let found = match tells {
                true => search.top.len() + lists.products.known.found(),
                false => search.top.len(),
            };
            let known = (&mut *lists, known_in as fn(&mut Lists) -> &mut Candidates);
            let Some(more) = self.bring_on(search, want, (visited, found), &mut begun, known) else {
                break;
            };
            let sorted = match products.numbers {
                // Few of the first ones' rows are needed to know where the nearest end.
                Some(_) => {
                    put_in_order(&mut lists.clusters[visited..visited + more], visited);
                    visited + more
                }
                None => sort_more(&mut lists.clusters, visited, more),
            };
            for place in visited..sorted {
                let cluster = lists.clusters[place] as u32;
                if picked {
                    let of = (cluster, epsilon);
                    self.visit_products_picked((products, &view), search, (want, pool), of, lists, buf)?;
                    continue;
                }
                let known = &lists.products.known;
                if tells && known.tell_nothing(search.stats.codes_scored, &self.rows) {
                    self.scan_others(compact, search, self.meta.positions(cluster), lists, buf)?;
                    continue;
                }
                let next = lists.clusters[..sorted].get(place + 1);
                let next = next.map_or(0..0, |next| groups(&self.meta.positions(*next as u32)));
                self.visit_products(products, &view, search, (cluster, epsilon), (lists, next));
                if lists.products.is_full(search.top) {
                    self.read_products(search, want, pool, lists, buf)?;
                }
            }
            self.visit_missing(products, search, (want, epsilon, pool), lists, buf)?;
            visited = sorted;
            search.stats.probes = visited as u64;
            if products.numbers.is_none() {
                self.read_products(search, want, pool, lists, buf)?;
            }
            if tells {
                lists.products.known.ask(search)?;
            }
        }
        if tells {
            let (known, mut held, reads) = self.known_of(search.query, lists);
            known.settle(search, &self.rows, &want.codes, &mut held, reads, buf)?;
        }
        Ok(())
    }

    /// Scans a cluster's codes, or remembers that they must be read.
    fn visit_products(
        &self,
        products: &Products,
        view: &PinnedView,
        search: &mut Search<'_, '_>,
        (cluster, epsilon): (u32, f32),
        (lists, next): (&mut Lists, Range<u32>),
    ) {
        let mut ahead = Ahead {
            view,
            groups: next,
            scanned: products.scanned_bytes(),
        };
        let positions = self.meta.positions(cluster);
        let groups_of = groups(&positions);
        if positions.is_empty() {
            return;
        }
        let Some(bytes) = view.run(groups_of.start, groups_of.len() as u32) else {
            lists.products.missing.push(cluster);
            return;
        };
        let entered = self.enter_products(products, search, (cluster, epsilon), lists);
        let stride = products.groups.stride();
        for piece in pieces(positions) {
            let now = groups(&piece);
            let bytes = &bytes[(now.start - groups_of.start) as usize * stride..][..now.len() * stride];
            products.scan(
                bytes,
                now.start,
                &piece,
                search,
                &mut lists.products,
                (entered, &mut ahead),
            );
        }
        while !ahead.groups.is_empty() {
            Kernels::prefetch_far(ahead.next());
        }
    }

    /// Makes the tables ready for a cluster.
    pub(super) fn enter_products(
        &self,
        products: &Products,
        search: &Search<'_, '_>,
        (cluster, epsilon): (u32, f32),
        lists: &mut Lists,
    ) -> Cluster {
        let (query, centroids) = (lists.codes.query.rotated(), self.meta.centroids());
        let (metric, of) = (search.query.metric(), &mut lists.products);
        of.bound = Bound::default();
        let base = of
            .query
            .enter(&products.model, metric, query, &centroids, cluster);
        Cluster { base, epsilon }
    }

    /// Reads the codes of clusters that have none in memory, as many at once as fit the buffer, and scans them; where there is
    /// no file of codes, the rows.
    fn visit_missing(
        &self,
        products: &Products,
        search: &mut Search<'_, '_>,
        (want, epsilon, pool): (&Want, f32, usize),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut missing = std::mem::take(&mut lists.products.missing);
        missing.sort_unstable_by_key(|cluster| self.meta.positions(*cluster).start);
        let mut rest = &missing[..];
        while !rest.is_empty() {
            let now = &rest[..rest.len().min(CLUSTERS)];
            rest = &rest[now.len()..];
            match &products.file {
                Some(file) => self.read_codes(products, file, search, (now, epsilon), lists, buf)?,
                None => now.iter().try_for_each(|cluster| {
                    search.scan_run(&self.rows, self.meta.positions(*cluster), buf)
                })?,
            }
            if lists.products.is_full(search.top) {
                self.read_products(search, want, pool, lists, buf)?;
            }
        }
        missing.clear();
        lists.products.missing = missing;
        Ok(())
    }

    /// Reads and scans the codes of some clusters, which stand in the order of the file.
    fn read_codes(
        &self,
        products: &Products,
        file: &RowsFile,
        search: &mut Search<'_, '_>,
        (clusters, epsilon): (&[u32], f32),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut wanted = std::mem::take(&mut lists.products.groups);
        wanted.clear();
        wanted.extend(
            clusters
                .iter()
                .flat_map(|cluster| groups(&self.meta.positions(*cluster))),
        );
        let mut of_groups = clusters
            .iter()
            .flat_map(|cluster| groups(&self.meta.positions(*cluster)).map(|_| *cluster));
        let (mut rest, mut last) = (&wanted[..], None);
        // What is read lies in the buffer: there is nothing to fetch ahead.
        let view = products.groups.view();
        let mut nothing = Ahead {
            view: &view,
            groups: 0..0,
            scanned: 0,
        };
        while !rest.is_empty() {
            let mut reads = std::mem::take(&mut lists.reads);
            let (now, later, bytes) = search.read_some(file, rest, &mut reads, buf)?;
            for ((group, bytes), cluster) in file.rows_in_reads(now, &reads, bytes).zip(&mut of_groups) {
                let entered = match last {
                    Some((of, entered)) if of == cluster => entered,
                    _ => self.enter_products(products, search, (cluster, epsilon), lists),
                };
                last = Some((cluster, entered));
                let positions = self.meta.positions(cluster);
                let start = group * GROUP as u32;
                let end = start.saturating_add(GROUP as u32).min(positions.end);
                let piece = start.max(positions.start)..end;
                products.scan(
                    bytes,
                    group,
                    &piece,
                    search,
                    &mut lists.products,
                    (entered, &mut nothing),
                );
            }
            lists.reads = reads;
            rest = later;
        }
        lists.products.groups = wanted;
        Ok(())
    }

    /// The candidates with numbers, and what is needed to settle them.
    fn known_of<'l>(
        &'l self,
        query: &crate::Query,
        lists: &'l mut Lists,
    ) -> (&'l mut Candidates, Held<'l>, &'l mut Vec<(u64, u32)>) {
        let Lists {
            reads,
            codes,
            products,
            ..
        } = lists;
        let space = CodeSpace {
            metric: self.meta.shape.metric,
            unit: self.meta.shape.unit,
        };
        let held = Held::new(
            None,
            &self.meta,
            space,
            &codes.query,
            query.kernels(),
            &mut codes.held,
        );
        (&mut products.known, held, reads)
    }

    /// Reads the candidates, the likeliest first, until the next one can't enter the result; then there are none. All rows of a
    /// block that was read are compared.
    pub(super) fn read_products(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        pool: usize,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        if lists.products.numbers.is_some() {
            return self.narrow_known(search, want, lists, buf);
        }
        let most = BATCH.max(pool);
        lists.reads.clear();
        lists.reads.reserve(most);
        lists.positions.clear();
        lists.positions.reserve(most);
        let compact = self.compact.as_ref().filter(|_| lists.products.has_compact);
        let file = compact.map_or(&self.rows, |compact| &compact.file);
        let mut candidates = std::mem::take(&mut lists.products.candidates);
        let mut rest = &mut candidates[..];
        let mut is_pool = true;
        while !rest.is_empty() {
            let (now, later) = nearest(rest, if is_pool { pool } else { BATCH });
            let limit = match compact {
                Some(_) => lists.products.known.limit(search.top),
                None => search.top.threshold(),
            };
            let limit = limit.max(search.reach.limit());
            let Lists {
                reads,
                positions,
                products,
                ..
            } = &mut *lists;
            let (blocks, whole_blocks) = (&mut products.blocks, products.whole_blocks);
            positions.clear();
            // The pool is read whole.
            let likely = now.iter().filter(|row| is_pool || row.key - row.error <= limit);
            let mut any = false;
            for row in likely {
                any = true;
                let was_read = || blocks.binary_search(&file.block_of(row.position)).is_ok();
                if !(whole_blocks && was_read()) {
                    positions.push(row.position);
                }
            }
            (rest, is_pool) = (later, false);
            if !any {
                break;
            }
            search.stats.rows_read += positions.len() as u64;
            positions.sort_unstable();
            match compact {
                Some(compact) => self.read_compact(compact, search, want, lists, buf)?,
                None if whole_blocks => search.scan_blocks_of(file, positions, (reads, blocks), buf)?,
                None => search.scan_positions(file, positions, reads, buf)?,
            }
            lists.products.blocks.sort_unstable();
            let found = match compact {
                Some(_) => search.top.len() + lists.products.known.found(),
                None => search.top.len(),
            };
            if want.codes.rescore == Some(false) && found >= search.top.k() {
                break;
            }
        }
        candidates.clear();
        lists.products.candidates = candidates;
        Ok(())
    }

    /// Asks filters about rows of which the numbers are known, and reads those in doubt, so that there is room for more.
    pub(super) fn narrow_known(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        lists.products.known.ask(search)?;
        let (known, mut held, reads) = self.known_of(search.query, lists);
        known.narrow(search, &self.rows, &want.codes, &mut held, reads, buf)
    }
}

fn known_in(lists: &mut Lists) -> &mut Candidates {
    &mut lists.products.known
}

/// The nearest `count`, in no order, and the others.
fn nearest(candidates: &mut [Candidate], count: usize) -> (&mut [Candidate], &mut [Candidate]) {
    if count < candidates.len() {
        let nearest =
            |a: &Candidate, b: &Candidate| a.key.total_cmp(&b.key).then(a.position.cmp(&b.position));
        candidates.select_nth_unstable_by(count, nearest);
    }
    candidates.split_at_mut(count.min(candidates.len()))
}
