//! Searching product codes in RAM, where there is no room for others: scan the nearest clusters' codes, then read the
//! likeliest rows until no further one can enter the result.
//!
//! These codes say nothing of a row but where it may lie: its number, which filters need, stands on disk with it. So every
//! row of the result is read, and some more.

use std::ops::Range;

use ramlet_memory::AnonBuf;

use super::meta::Shape;
use super::search::{Effort, Ivf, sort_more};
use crate::error::{IndexError, Result};
use crate::pinned::{PinnedRows, PinnedView};
use crate::quant::GROUP;
use crate::quant::product::{ProductKey, ProductModel, ProductTables};
use crate::scan::{Lists, Search};
use crate::vector_index::Want;
use crate::{CodeKind, Metric, TopK};

/// Groups scanned between two looks at how many candidates there are.
const GROUPS: u32 = 64;

/// Candidates kept until they must be read: at least so many, and so many times the rows that are wanted.
const CANDIDATES_MIN: usize = 1024;
const CANDIDATES_PER_WANTED: usize = 4;
/// But, unless more rows are wanted, at most so many (768 KiB).
const CANDIDATES_MAX: usize = 1 << 16;

/// Rows read at once after the first, smaller batch has shown how near the nearest are.
const BATCH: usize = 32;

/// Product codes, and how to read them.
#[derive(Debug)]
pub(super) struct Products {
    pub(super) groups: PinnedRows,
    model: ProductModel,
}

/// One thread's memory for searching product codes.
#[derive(Debug, Default)]
pub(crate) struct ProductLists {
    pub(super) tables: ProductTables,
    /// The query as tables are made for it.
    compared: Vec<f32>,
    sums: Vec<u32>,
    /// Keys, by how much they may be off, and positions.
    candidates: Vec<(f32, f32, u32)>,
    /// The smallest of their greatest possible keys.
    uppers: TopK,
    room: usize,
    /// Whether rows may be dropped on account of others.
    narrows: bool,
}

/// What of a key is the same for all rows of a cluster.
#[derive(Clone, Copy)]
pub(super) struct Cluster {
    pub(super) base: f32,
    pub(super) epsilon: f32,
}

impl Products {
    pub(super) fn new(
        shape: &Shape,
        model: Option<&ProductModel>,
        m: u16,
        groups: PinnedRows,
    ) -> Result<Products> {
        let kind = CodeKind::Product { m };
        let wanted = (
            kind.row_bytes(shape.dims, shape.segment_rows),
            kind.file_rows(shape.rows),
        );
        match model {
            Some(model)
                if shape.codes.contains(&Some(kind)) && (groups.stride(), groups.rows()) == wanted =>
            {
                Ok(Products {
                    groups,
                    model: model.clone(),
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
        CodeKind::Product {
            m: self.model.shape().parts as u16,
        }
    }

    /// Scans the codes at consecutive positions, `GROUPS` groups at most; false if they are not in memory.
    fn scan(
        &self,
        view: &PinnedView,
        search: &mut Search<'_, '_>,
        lists: &mut ProductLists,
        cluster: Cluster,
        wanted: &Range<u32>,
    ) -> bool {
        let group = GROUP as u32;
        let (first, end) = (wanted.start / group, wanted.end.div_ceil(group));
        let Some(bytes) = view.run(first, end - first) else {
            return false;
        };
        search.stats.codes_scored += u64::from(wanted.end - wanted.start);
        let stride = self.groups.stride();
        lists.sums.resize((end - first) as usize * GROUP, 0);
        let kernels = search.query.kernels();
        kernels.fastscan(
            lists.tables.rounded(),
            bytes,
            stride,
            stride / 16,
            &mut lists.sums,
        );
        let mut sums = std::mem::take(&mut lists.sums);
        for (sums, start) in sums
            .as_chunks::<GROUP>()
            .0
            .iter()
            .zip((first * group..).step_by(GROUP))
        {
            let most = lists.most(search, cluster);
            let mut mask = 0u32;
            for (lane, sum) in sums.iter().enumerate() {
                mask |= u32::from(*sum <= most) << lane;
            }
            mask &= super::codes::lanes(start, wanted);
            while mask != 0 {
                let lane = mask.trailing_zeros();
                mask &= mask - 1;
                lists.push(search, cluster, sums[lane as usize], start + lane);
            }
        }
        sums.clear();
        lists.sums = sums;
        true
    }
}

impl ProductLists {
    /// Whether candidates must be read before there may be more.
    pub(super) fn is_full(&self) -> bool {
        self.candidates.len() >= self.room
    }

    /// Keys above this needn't be known.
    fn limit(&self, search: &Search<'_, '_>) -> f32 {
        let limit = search.top.threshold();
        let limit = if self.narrows {
            self.uppers.threshold().min(limit)
        } else {
            limit
        };
        limit.max(search.reach.limit())
    }

    /// Sums above this lie beyond the limit.
    pub(super) fn most(&self, search: &Search<'_, '_>, cluster: Cluster) -> u32 {
        let limit = self.limit(search);
        let (low, step) = self.tables.affine();
        let deviation = self.tables.deviation(limit - cluster.base);
        let most = (limit + cluster.epsilon * deviation - cluster.base - low) / step;
        // Of what isn't a number, everything passes.
        if most.is_finite() {
            most.max(-1.0) as i64 as u32
        } else {
            u32::MAX
        }
    }

    pub(super) fn push(&mut self, search: &Search<'_, '_>, cluster: Cluster, sum: u32, position: u32) {
        let key = self.tables.key_of_sum(sum);
        let error = cluster.epsilon * self.tables.deviation(key);
        let key = key + cluster.base;
        let (key, error) = match key.is_finite() && error.is_finite() {
            true => (key, error),
            // A sum that overflowed says nothing about the row.
            false => (f32::MAX, f32::INFINITY),
        };
        if key - error > self.limit(search) {
            return;
        }
        self.candidates.push((key, error, position));
        self.uppers.push(key + error, position);
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
        self.rank(search.query, lists);
        let (view, wanted) = (products.groups.view(), search.top.k());
        let over = f64::from(want.codes.oversampling.unwrap_or(1.0)).max(1.0);
        let pool = ((wanted as f64 * over).ceil() as usize)
            .min(self.meta.shape.rows as usize)
            .max(wanted);
        // Without a number there is no telling whether a row is allowed: then none is dropped on another's account.
        let allowed = &search.allowed;
        let all_allowed = allowed.only.is_none() && allowed.deleted.is_none();
        let narrows = allowed.filter.is_none() && (all_allowed || picked);
        let per_scan = GROUPS as usize * GROUP;
        let of = &mut lists.products;
        of.sums.reserve(per_scan);
        of.candidates.clear();
        of.uppers.clear(if narrows { pool } else { 0 });
        of.narrows = narrows;
        of.room = pool
            .saturating_mul(CANDIDATES_PER_WANTED)
            .clamp(CANDIDATES_MIN, CANDIDATES_MAX)
            .max(pool);
        of.candidates.reserve_exact(of.room + per_scan);
        let (mut visited, mut entered) = (0, false);
        while let Some(more) = self.more(search, want, visited, search.top.len()) {
            let more = self.bring_next(search, want, visited, more, lists);
            let sorted = sort_more(&mut lists.clusters, visited, more);
            for place in visited..sorted {
                let cluster = lists.clusters[place] as u32;
                if picked {
                    let (of, how) = ((cluster, effort.epsilon.coarse), (want, pool));
                    let codes = (products, &view);
                    self.visit_products_picked(codes, search, how, of, lists, &mut entered, buf)?;
                    continue;
                }
                let of = self.enter_products(products, search.query.metric(), cluster, lists, &mut entered);
                let of = Cluster {
                    base: of,
                    epsilon: effort.epsilon.coarse,
                };
                let mut rest = self.meta.positions(cluster);
                while !rest.is_empty() {
                    let end = (rest.start / GROUP as u32 + GROUPS)
                        .saturating_mul(GROUP as u32)
                        .min(rest.end);
                    if !products.scan(&view, search, &mut lists.products, of, &(rest.start..end)) {
                        search.scan_run(&self.rows, rest.start..end, buf)?;
                    }
                    rest.start = end;
                    if lists.products.is_full() {
                        self.read_products(search, want, pool, lists, buf)?;
                    }
                }
            }
            visited = sorted;
            search.stats.probes = visited as u64;
            self.read_products(search, want, pool, lists, buf)?;
        }
        Ok(())
    }

    /// Makes the tables ready for a cluster; what its keys have in common.
    pub(super) fn enter_products(
        &self,
        products: &Products,
        metric: Metric,
        cluster: u32,
        lists: &mut Lists,
        entered: &mut bool,
    ) -> f32 {
        let Lists {
            codes, products: of, ..
        } = lists;
        let (query, centroids) = (codes.query.rotated(), self.meta.centroids());
        let (step, digits) = centroids.parts(cluster);
        let values = digits.iter().map(|digit| step * (f32::from(*digit) - 128.0));
        if metric == Metric::Euclid {
            of.compared.clear();
            of.compared.extend(query.iter().zip(values).map(|(q, c)| q - c));
            of.tables
                .enter(&products.model, ProductKey::Distance, &of.compared);
            return 0.0;
        }
        if !*entered {
            *entered = true;
            of.compared.clear();
            of.compared.extend_from_slice(query);
            if metric == Metric::Cosine {
                centroids.uncentre(&mut of.compared);
            }
            of.tables
                .enter(&products.model, ProductKey::Product, &of.compared);
        }
        centroids.product_with_mean(&of.compared)
            - of.compared.iter().zip(values).map(|(q, c)| q * c).sum::<f32>()
    }

    /// Reads the candidates, the likeliest first, until the next one can't enter the result; then there are none.
    pub(super) fn read_products(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        pool: usize,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Lists {
            reads,
            positions,
            products,
            ..
        } = lists;
        let batch_most = BATCH.max(pool);
        reads.clear();
        reads.reserve(batch_most);
        positions.clear();
        positions.reserve(batch_most);
        products
            .candidates
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let (mut at, mut batch) = (0, pool);
        while at < products.candidates.len() {
            let limit = products.limit(search);
            let next = products.candidates[at..].iter();
            positions.clear();
            let mut seen = 0;
            for (key, error, position) in next {
                seen += 1;
                if key - error <= limit || at + seen <= pool {
                    positions.push(*position);
                    if positions.len() == batch {
                        break;
                    }
                }
            }
            (at, batch) = (at + seen, BATCH);
            if positions.is_empty() {
                break;
            }
            search.stats.rows_read += positions.len() as u64;
            positions.sort_unstable();
            search.scan_positions(&self.rows, positions, reads, buf)?;
            if want.codes.rescore == Some(false) && search.top.len() >= search.top.k() {
                break;
            }
        }
        products.candidates.clear();
        Ok(())
    }
}
