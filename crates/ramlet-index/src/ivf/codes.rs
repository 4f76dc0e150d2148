//! Searching codes in RAM: scan the signs of the nearest clusters' rows, look at the finer codes of those that may be
//! near, and read the few of which these can't tell whether they are among the nearest.
//!
//! The finer codes lie anywhere in memory: those of one cluster are fetched while the next one is scanned.

use std::ops::Range;

use ramlet_kernels::Kernels;
use ramlet_memory::AnonBuf;

use super::candidates::{Candidate, Candidates};
use super::meta::Meta;
use super::ranked::RankQuery;
use super::search::{Effort, Ivf};
use crate::CodeKind;
use crate::error::{IndexError, Result};
use crate::pinned::{PinnedRows, PinnedView};
use crate::quant::{CodeQuery, CodeSpace, Entered, FineLayout, GROUP, GroupLayout, Sieved};
use crate::rows_file::RowsFile;
use crate::scan::{Lists, Search};
use crate::vector_index::Want;

/// Groups scanned between two looks at how many candidates there are.
const GROUPS: u32 = 64;

/// Groups that are fetched before they are scanned. Clusters lie anywhere in memory and are short: the processor's own
/// guesses don't reach from one to the next.
const AHEAD: usize = 10;

/// Clusters whose places are fetched before those of their groups are needed.
const PLACES_AHEAD: usize = 3;

/// So many of the nearest clusters are visited by distance, which soon tells how near the nearest rows are; further ones
/// in the order of memory.
const BY_DISTANCE: usize = 40;

/// Fine codes compared by one call of the kernels.
const AT_ONCE: usize = 8;

/// Codes in RAM, each with what it is.
#[derive(Debug, Default)]
pub struct CodesInRam {
    pub coarse: Option<(CodeKind, PinnedRows)>,
    /// Where product codes stand: those that are not in memory are read there, a page or two a cluster; without it, the
    /// cluster's rows.
    pub coarse_file: Option<RowsFile>,
    /// Of use beside `coarse` only.
    pub fine: Option<(CodeKind, PinnedRows)>,
}

/// Codes, and how to read them.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) groups: PinnedRows,
    layout: GroupLayout,
    pub(super) fine: Option<(FineLayout, PinnedRows)>,
    space: CodeSpace,
}

/// One thread's memory for searching codes.
#[derive(Debug, Default)]
pub(crate) struct CodeLists {
    pub(super) query: CodeQuery,
    pub(super) ranking: RankQuery,
    /// The query as two clusters' rows are compared with it: the one being scanned and the one before.
    entered: [Entered; 2],
    /// Rows found by the last scan, and which of `entered` they belong to.
    pending: Vec<Survivor>,
    pending_of: usize,
    scanned: Vec<Survivor>,
    sieved: Sieved,
    candidates: Candidates,
}

/// A row that the signs don't rule out.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    position: u32,
    number: u32,
    /// What the scan summed up.
    sum: u32,
    add: f32,
    key: f32,
    lower: f32,
}

/// What one search reads codes through.
struct Views<'c> {
    codes: &'c Codes,
    kernels: &'static Kernels,
    groups: PinnedView,
    fine: Option<(FineLayout, PinnedView)>,
}

impl Codes {
    /// `None` if there are none to be searched.
    pub(super) fn new(shape: &super::meta::Shape, codes: CodesInRam) -> Result<Option<Codes>> {
        let check = |kind: CodeKind, rows: &PinnedRows| {
            let (stride, count) = (
                kind.row_bytes(shape.dims, shape.segment_rows),
                kind.file_rows(shape.rows),
            );
            if shape.codes.contains(&Some(kind)) && (rows.stride(), rows.rows()) == (stride, count) {
                return Ok(());
            }
            let (rows, stride) = (rows.rows(), rows.stride());
            Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows of {kind:?} of {stride} bytes"
            )))
        };
        for (kind, rows) in codes.coarse.iter().chain(&codes.fine) {
            check(*kind, rows)?;
        }
        let fine = match codes.fine {
            Some((CodeKind::Fine { bits }, rows)) => Some((FineLayout::new(shape.dims, bits), rows)),
            Some((kind, _)) => return Err(IndexError::Mismatch(format!("{kind:?} as fine codes"))),
            None => None,
        };
        let groups = match codes.coarse {
            Some((CodeKind::Coarse, rows)) => rows,
            // See `products`.
            Some((CodeKind::Product { .. }, _)) => return Ok(None),
            Some((kind, _)) => return Err(IndexError::Mismatch(format!("{kind:?} as coarse codes"))),
            None => return Ok(None),
        };
        Ok(Some(Codes {
            groups,
            layout: GroupLayout::new(shape.dims, shape.segment_rows),
            fine,
            space: CodeSpace {
                metric: shape.metric,
                unit: shape.unit,
            },
        }))
    }

    pub(super) fn fine_kind(&self) -> Option<CodeKind> {
        let fine = self.fine.as_ref();
        fine.map(|(layout, _)| CodeKind::Fine { bits: layout.bits })
    }

    fn views(&self, kernels: &'static Kernels) -> Views<'_> {
        Views {
            codes: self,
            kernels,
            groups: self.groups.view(),
            fine: self.fine.as_ref().map(|(layout, rows)| (*layout, rows.view())),
        }
    }
}

/// Has groups fetched in the order in which they will be scanned.
struct Ahead<'a> {
    meta: &'a Meta,
    /// Those not yet fetched, in the order of the visit.
    clusters: &'a [u64],
    /// What is left of the cluster before them.
    groups: Range<u32>,
}

impl<'a> Ahead<'a> {
    fn new(meta: &'a Meta, clusters: &'a [u64], views: &Views<'_>) -> Ahead<'a> {
        let near = clusters.iter().take(PLACES_AHEAD);
        near.for_each(|cluster| meta.fetch(*cluster as u32));
        let mut ahead = Ahead {
            meta,
            clusters,
            groups: 0..0,
        };
        (0..AHEAD).for_each(|_| ahead.fetch(views));
        ahead
    }

    /// One group more.
    #[inline]
    fn fetch(&mut self, views: &Views<'_>) {
        while self.groups.is_empty() {
            let Some((cluster, further)) = self.clusters.split_first() else {
                return;
            };
            if let Some(cluster) = self.clusters.get(PLACES_AHEAD) {
                self.meta.fetch(*cluster as u32);
            }
            self.clusters = further;
            self.groups = groups(&self.meta.positions(*cluster as u32));
        }
        if let Some(group) = views.groups.run(self.groups.start, 1) {
            Kernels::prefetch(group);
        }
        self.groups.start += 1;
    }
}

/// The groups that have these positions.
#[inline]
fn groups(positions: &Range<u32>) -> Range<u32> {
    if positions.is_empty() {
        return 0..0;
    }
    positions.start / GROUP as u32..positions.end.div_ceil(GROUP as u32)
}

impl Views<'_> {
    /// Scans the codes at consecutive positions, `GROUPS` groups at most; false if they are not in memory.
    fn scan(
        &self,
        search: &mut Search<'_, '_>,
        lists: &mut CodeLists,
        wanted: &Range<u32>,
        of: usize,
        ahead: &mut Ahead<'_>,
    ) -> bool {
        let group = GROUP as u32;
        let Range { start: first, end } = groups(wanted);
        let Some(bytes) = self.groups.run(first, end - first) else {
            (first..end).for_each(|_| ahead.fetch(self));
            return false;
        };
        let CodeLists {
            entered,
            scanned,
            sieved,
            candidates,
            ..
        } = lists;
        let (layout, entered) = (&self.codes.layout, &entered[of]);
        let stride = layout.row_bytes();
        let mut sums = [0; GROUP];
        search.stats.codes_scored += u64::from(wanted.end - wanted.start);
        let limit = candidates.limit(search.top).max(search.reach.limit());
        let groups = bytes.chunks_exact(stride);
        for (bytes, start) in groups.zip((first * group..).step_by(GROUP)) {
            ahead.fetch(self);
            self.kernels
                .fastscan(entered.table(), bytes, stride, layout.columns, &mut sums);
            let mask = entered.sieve(self.kernels, &sums, layout.factors(bytes), limit, sieved);
            let mut mask = mask & lanes(start, wanted);
            while mask != 0 {
                let lane = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let (position, number) = (start + lane as u32, layout.number(bytes, lane));
                // Deleted rows are few; they are dropped later.
                if search.allowed.only.is_some_and(|only| !only.contains(number)) {
                    continue;
                }
                if let Some(row) = self.fine.as_ref().and_then(|(_, rows)| rows.row(position)) {
                    Kernels::prefetch(row);
                }
                scanned.push(Survivor {
                    position,
                    number,
                    sum: sums[lane],
                    add: sieved.adds[lane],
                    key: sieved.keys[lane],
                    lower: sieved.lowers[lane],
                });
            }
        }
        true
    }

    /// Looks at the finer codes of the rows that the last scan found.
    fn evaluate(&self, search: &mut Search<'_, '_>, lists: &mut CodeLists) {
        let CodeLists {
            entered,
            pending,
            pending_of,
            candidates,
            ..
        } = lists;
        search.stats.survivors += pending.len() as u64;
        let entered = &entered[*pending_of];
        let mut rest = &pending[..];
        while !rest.is_empty() {
            let mut rows: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
            let mut survivors = [rest[0]; AT_ONCE];
            let mut count = 0;
            let limit = candidates.limit(search.top).max(search.reach.limit());
            let mut seen = 0;
            for survivor in rest {
                seen += 1;
                if survivor.lower > limit {
                    continue;
                }
                match self
                    .fine
                    .as_ref()
                    .and_then(|(_, rows)| rows.row(survivor.position))
                {
                    None => offer(
                        search,
                        candidates,
                        survivor,
                        survivor.key,
                        survivor.key - survivor.lower,
                    ),
                    Some(row) => {
                        (rows[count], survivors[count]) = (row, *survivor);
                        count += 1;
                        if count == AT_ONCE {
                            break;
                        }
                    }
                }
            }
            rest = &rest[seen..];
            if let Some((layout, _)) = &self.fine {
                self.refine(search, candidates, entered, layout, &rows[..count], &survivors);
            }
        }
        pending.clear();
    }

    fn refine(
        &self,
        search: &mut Search<'_, '_>,
        candidates: &mut Candidates,
        entered: &Entered,
        layout: &FineLayout,
        rows: &[&[u8]],
        survivors: &[Survivor],
    ) {
        let mut planes: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
        let mut products = [0; AT_ONCE];
        let (planes, products) = (&mut planes[..rows.len()], &mut products[..rows.len()]);
        for (planes, row) in planes.iter_mut().zip(rows) {
            *planes = &row[..layout.code_bytes()];
        }
        let count = layout.planes() as u32;
        self.kernels
            .planes_dot_many(entered.rounded(), layout.dims, count, planes, products);
        search.stats.fine_scored += rows.len() as u64;
        for ((row, survivor), product) in rows.iter().zip(survivors).zip(&*products) {
            let (key, error) = entered.fine(layout, survivor.sum, survivor.add, row, *product);
            offer(search, candidates, survivor, key, error);
        }
    }
}

/// Keeps a row whose key is known so far, if it may still be among the nearest.
#[inline]
fn offer(
    search: &mut Search<'_, '_>,
    candidates: &mut Candidates,
    survivor: &Survivor,
    key: f32,
    error: f32,
) {
    let (lower, limit) = (key - error, candidates.limit(search.top));
    if lower > limit.max(search.reach.limit()) || !search.allowed.admits_by_bitmaps(survivor.number) {
        return;
    }
    search.reach.met(key, survivor.number);
    if lower > limit {
        return;
    }
    candidates.push(Candidate {
        key,
        error,
        position: survivor.position,
        number: survivor.number,
    });
}

/// Bits of the lanes of a group, which begins at position `start`, that are wanted.
#[inline]
pub(super) fn lanes(start: u32, wanted: &Range<u32>) -> u32 {
    let from = wanted.start.saturating_sub(start);
    let to = (wanted.end - start).min(GROUP as u32);
    let below = |lane: u32| (1u64 << lane) - 1;
    (below(to) & !below(from)) as u32
}

/// Puts `more` further clusters behind the first `visited`, in the order in which to visit them; how many there are then.
fn choose_more(clusters: &mut [u64], visited: usize, more: usize) -> usize {
    let rest = &mut clusters[visited..];
    let more = more.min(rest.len());
    if more < rest.len() {
        rest.select_nth_unstable(more);
    }
    let chosen = &mut rest[..more];
    let near = BY_DISTANCE.saturating_sub(visited).min(more);
    if near > 0 && near < more {
        chosen.select_nth_unstable(near);
    }
    let (near, far) = chosen.split_at_mut(near);
    near.sort_unstable();
    far.sort_unstable_by_key(|cluster| *cluster as u32);
    visited + more
}

impl Ivf {
    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted, or a filter may admit nearer
    /// ones.
    pub(super) fn probe_codes(
        &self,
        codes: &Codes,
        search: &mut Search<'_, '_>,
        want: &Want,
        effort: &Effort,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank(search.query, lists);
        let views = codes.views(search.query.kernels());
        let wanted = search.top.k();
        let over = f64::from(want.codes.oversampling.unwrap_or(1.0)).max(1.0);
        let pool = ((wanted as f64 * over).ceil() as usize)
            .min(self.meta.shape.rows as usize)
            .max(wanted);
        let per_scan = GROUPS as usize * GROUP;
        let code_lists = &mut lists.codes;
        code_lists.scanned.clear();
        code_lists.pending.clear();
        code_lists.scanned.reserve(per_scan);
        code_lists.pending.reserve(per_scan);
        let filtered = search.allowed.filter.is_some();
        code_lists.candidates.start(pool, filtered, per_scan);
        let mut visited = 0;
        loop {
            let found = search.top.len() + lists.codes.candidates.found();
            let Some(more) = self.more(search, want, visited, found) else {
                break;
            };
            if let Some(only) = self.better_listed(search, want, visited + more) {
                search.again = true;
                return self.listed(search, only, lists, buf);
            }
            let sorted = choose_more(&mut lists.clusters, visited, more);
            let clusters = std::mem::take(&mut lists.clusters);
            let done = self.visit_all(
                &views,
                search,
                (want, effort),
                &clusters[visited..sorted],
                lists,
                buf,
            );
            lists.clusters = clusters;
            done?;
            visited = sorted;
            search.stats.probes = visited as u64;
            views.evaluate(search, &mut lists.codes);
            lists.codes.candidates.ask(search)?;
        }
        let Lists { reads, codes, .. } = lists;
        codes
            .candidates
            .settle(search, &self.rows, &want.codes, reads, buf)
    }

    /// Visits clusters in this order.
    fn visit_all(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        how: (&Want, &Effort),
        clusters: &[u64],
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut ahead = Ahead::new(&self.meta, clusters, views);
        for cluster in clusters {
            self.visit_codes(views, search, how, (*cluster as u32, &mut ahead), lists, buf)?;
        }
        Ok(())
    }

    fn visit_codes(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        (want, effort): (&Want, &Effort),
        (cluster, ahead): (u32, &mut Ahead<'_>),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let mut rest = self.meta.positions(cluster);
        if rest.is_empty() {
            return Ok(());
        }
        // Of the cluster before the last one nothing is pending any more: its place is taken.
        let of = 1 - lists.codes.pending_of;
        let CodeLists { entered, query, .. } = &mut lists.codes;
        let fine = views.fine.as_ref().map(|(layout, _)| layout);
        let centroid = self.meta.centroids().parts(cluster);
        entered[of].enter(
            &views.codes.space,
            query,
            centroid,
            fine,
            &effort.epsilon,
            views.kernels,
        );
        while !rest.is_empty() {
            let end = (rest.start / GROUP as u32 + GROUPS)
                .saturating_mul(GROUP as u32)
                .min(rest.end);
            let now = rest.start..end;
            if !views.scan(search, &mut lists.codes, &now, of, ahead) {
                search.scan_run(&self.rows, now, buf)?;
            }
            views.evaluate(search, &mut lists.codes);
            let codes = &mut lists.codes;
            std::mem::swap(&mut codes.pending, &mut codes.scanned);
            codes.pending_of = of;
            if codes.candidates.is_full(search.top) {
                self.make_room(views, search, want, lists, buf)?;
            }
            rest.start = end;
        }
        Ok(())
    }

    /// Too many rows may be among the nearest: a filter is asked about them, and those in doubt are read.
    fn make_room(
        &self,
        views: &Views<'_>,
        search: &mut Search<'_, '_>,
        want: &Want,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        views.evaluate(search, &mut lists.codes);
        let Lists { reads, codes, .. } = lists;
        codes.candidates.ask(search)?;
        codes
            .candidates
            .narrow(search, &self.rows, &want.codes, reads, buf)
    }
}
