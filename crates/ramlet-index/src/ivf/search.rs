//! Searching: rank the clusters, read the nearest in a few large batches, score their rows exactly.
//!
//! With codes in RAM the nearest are not read but their codes are compared: see `codes`.

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::calibrate::{Calibration, DEPTHS, Rule};
use super::cells;
use super::centroids::Centroids;
use super::codes::{Codes, CodesInRam};
use super::compact::CompactRows;
use super::meta::Meta;
use super::misses;
use super::products::Products;
use super::way::Way;
use crate::error::{IndexError, Result};
use crate::flat::{check_stride, stream};
use crate::pinned::PinnedRows;
use crate::positions::read_listed;
use crate::quant::{Epsilon, Rotation};
use crate::report::IndexReport;
use crate::rows_file::RowsFile;
use crate::scan::{IndexScratch, Lists, RowNumber, Search, SearchStats, trailing_number};
use crate::vector_index::{EFFORT_DEFAULT, MeasuredAgain, MemoryUse, VectorIndex, Want};
use crate::{Allowed, CodeKind, CodesWanted, Element, Metric, Query, TopK};

/// An inverted file: vectors lie in clusters, and a search visits those whose centroids are nearest to the query.
///
/// RAM: `dims + 12` bytes per cluster, no byte per vector but those of [`CodesInRam`]. A search of `p` of `K` clusters
/// compares `K` centroids, reads about `p / K` of the file in batches as large as the scratch's buffer, and scores what
/// it read exactly; with codes in RAM it scans those instead, and reads the few rows of which they can't tell whether
/// they are among the nearest. How many clusters reach the recall target was measured at build on held-out rows.
///
/// Sivic and Zisserman, "Video Google" (2003); Jégou, Douze, Schmid, "Product Quantization for Nearest Neighbor
/// Search" (2011), section IV.
#[derive(Debug)]
pub struct Ivf {
    pub(super) rows: RowsFile,
    pub(super) positions: RowsFile,
    pub(super) meta: Meta,
    /// Of centroids and codes; none under Manhattan.
    pub(super) rotation: Option<Rotation>,
    pub(super) codes: Option<Codes>,
    pub(super) products: Option<Products>,
    pub(super) compact: Option<CompactRows>,
    /// Whether searches go by the border where they can: see `gap`.
    pub(super) by_border: [bool; DEPTHS.len()],
    pub(super) recall: f32,
}

/// See [`Effort::bounds`].
const BOUND_MORE: f32 = 0.5;

/// The clusters visited hold at least so many times the rows that are wanted.
const ROOM: f64 = 2.0;

/// Shares of the neighbours not found: what codes lose of them isn't lost by clusters that aren't visited.
/// (At 1M x 100 a cluster more and a smaller deviation less then cost about the same.)
#[derive(Clone, Copy, Debug)]
struct Losses {
    /// Those that signs or products may lose, and finer codes.
    coarse: f32,
    fine: f32,
    /// What codes really lose of that.
    real: f32,
}

impl Losses {
    /// What codes lose of the neighbours that may be lost.
    fn by_codes(&self) -> f32 {
        self.real * (self.coarse + self.fine)
    }
}

/// Deviations were measured against the exact key of the last row wanted, while a search has only a bound above it to
/// drop rows by: of what signs may lose, 0.28 to 0.36 was lost (1M x 100).
const BY_SIGNS: Losses = Losses {
    coarse: 0.35,
    fine: 1.0,
    real: 0.09,
};

/// With estimates so blurred that many rows are read, a read less is worth more than a cluster less: at 1M x 100, 3 bits and
/// effort 64 shares of .5 and 1.2 find .895 with 24,500 codes and 9.1 reads, .35 and 1.6 find .892 with 31,200 and 7.7, .25 and
/// 2.0 find .887 with 38,100 and 6.5. The disk does 64,000 reads a second, two cores scan 20,000 more codes in the time of one.
const BY_FEW_BITS: Losses = Losses {
    coarse: 0.35,
    fine: 1.6,
    real: 0.3333,
};

/// So many times the share that may be lost finer codes that aren't blurred at all lose more of it. A read takes a core as long as 2,000
/// codes; where much may be lost, what it finds is found by a hundred codes more, where little may be it takes thousands. 1M x 100 inside
/// 135 MB, two cores: effort 64 with a share of 1 finds .9062 of easy queries with .49 reads at 28,900 a second, with 2 .9031 with .07 at
/// 34,100; of hard ones with 128 .9553 at 9,000 and .953 at 8,900.
const SHARP_MORE: f64 = 13.0;
const FINE_MOST: f32 = 2.0;

/// Deviation of a last estimate, with the residual and what it is compared with taken as 1, from which on rows are read by
/// the dozen: 3 bits at 100 dimensions have .020, 6 bits .003.
const BLURRED: f64 = 0.012;

/// A row read costs as much as the codes of twenty clusters (1M x 100: 16 us of a disk that does 64,000 reads a second), and
/// the last neighbours that products lose would cost the most: so nearly all of what may be lost is lost there. (46 digits,
/// effort 64: shares of .25 and 1.05 find .908 with 37.1 reads, .12 and 1.25 find .907 with 34.7, .08 and 1.4 find .905 with 33.1
/// and half as many codes again.)
///
/// All rows of a block that is read are compared, which finds some of what products lose, but how many depends on what lies together: shares of
/// 1.7 and .53 reckoned with it, and few points in codes of a 64th found .884 of a target of .95.
const BY_PRODUCTS: Losses = Losses {
    coarse: 1.27,
    fine: 0.0,
    real: 0.7087,
};

/// Where compact rows are read a page has nearly four times as many rows, so that products really lose less: 1M x 100, 48 digits, effort 128 found .971
/// (hard) and .979 (easy) of a target of .95 with the shares above.
const BY_PRODUCTS_AND_COMPACT: Losses = Losses {
    coarse: 1.5,
    fine: 0.0,
    real: 0.5333,
};

/// Product codes with rows' numbers, 3 to 4 bits a dimension; their deviations were measured of one row against the border as it really is.
/// A read less is worth more than a cluster less, though codes of 47 bytes cost more than signs: 1M x 100, 88 digits, shares of .8 and .9
/// find .9035 with 20,000 codes and 8.25 reads, .5 and 1.5 find .9056 with 26,700 and 6.5, .5 and 2.0 .9018 with 29,700 and 5.8.
const BY_NUMBERED: Losses = Losses {
    coarse: 0.0,
    fine: 1.5,
    real: 0.3333,
};

/// How hard a search tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Clusters visited at least.
    pub probes: u32,
    pub epsilon: Epsilon,
    /// Share of the 10 nearest that should be found, by what was measured at build; of what is told, nothing is known.
    pub recall_expected: f32,
}

impl Effort {
    /// Deviations by which rows are ruled out. With finer codes that is while the border isn't known yet: two rows, this
    /// one and the last of the nearest so far, may each be off by half of what one row is allowed, and a bit more, since
    /// the border moves outwards as rows are read.
    pub(super) fn bounds(&self) -> Epsilon {
        Epsilon {
            fine: self.epsilon.fine / 2.0 + BOUND_MORE,
            ..self.epsilon
        }
    }
}

impl Ivf {
    /// `centroids` holds the whole file of centroids, which stays in RAM; its reservation is the index's. `recall`
    /// (0 to 1) is the target that effort 128 aims at, over the 10 nearest. Fails if the parts don't belong together.
    pub fn new(
        rows: RowsFile,
        positions: RowsFile,
        centroids: AnonBuf,
        codes: CodesInRam,
        recall: f32,
    ) -> Result<Ivf> {
        let body = envelope::decode(EnvelopeKind::Centroids, &centroids)?.len();
        let meta = Meta::parse(centroids, envelope::HEADER_BYTES..envelope::HEADER_BYTES + body)?;
        let shape = meta.shape;
        check_stride(&rows, shape.element.row_bytes(shape.dims) + 4)?;
        check_stride(&positions, 4)?;
        if rows.rows() != shape.rows || positions.rows() != shape.segment_rows {
            let (rows, positions) = (rows.rows(), positions.rows());
            return Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows and {positions} positions"
            )));
        }
        let (mut codes, mut products) = (codes, None);
        let compact = codes.compact.take().map(|file| CompactRows::new(&shape, file));
        if let Some((_, rows)) = codes.coarse.take_if(|(kind, _)| kind.digits().is_some()) {
            let file = codes.coarse_file.take();
            products = Some(Products::new(&shape, meta.model.as_ref(), rows, file)?);
        }
        Ok(Ivf {
            rows,
            positions,
            codes: Codes::new(&shape, codes)?,
            products,
            compact: compact.transpose()?,
            rotation: shape.metric.has_codes().then(|| Rotation::new(shape.dims)),
            by_border: meta.calibration.prefers_border(shape.clusters as u32),
            meta,
            recall,
        })
    }

    /// The files of codes that were built beside the rows, whether this opening searches them or not; of compact rows, whether it has them.
    pub fn kinds(&self) -> impl Iterator<Item = CodeKind> {
        let compact = self.compact.as_ref().map(CompactRows::kind);
        self.meta.shape.codes.into_iter().flatten().chain(compact)
    }

    /// The codes that are searched, of which memory may be taken back and restored.
    pub fn coarse(&self) -> Option<&PinnedRows> {
        let products = self.products.as_ref().map(|products| &products.groups);
        self.codes.as_ref().map(|codes| &codes.groups).or(products)
    }

    /// The finer codes that are searched.
    pub fn fine(&self) -> Option<&PinnedRows> {
        let fine = self.codes.as_ref().and_then(|codes| codes.fine.as_ref());
        fine.map(|(_, rows)| rows)
    }

    pub fn metric(&self) -> Metric {
        self.meta.shape.metric
    }

    pub fn element(&self) -> Element {
        self.meta.shape.element
    }

    pub fn dims(&self) -> usize {
        self.meta.shape.dims
    }

    pub fn clusters(&self) -> u32 {
        self.meta.shape.clusters as u32
    }

    /// What was measured at build.
    pub fn calibration(&self) -> &Calibration {
        &self.meta.calibration
    }

    /// What the finer codes leave over, if that is searched.
    pub fn rest(&self) -> Option<&PinnedRows> {
        let rest = self.codes.as_ref().and_then(|codes| codes.rest.as_ref());
        rest.map(|(_, rows)| rows)
    }

    /// How a search for the 10 nearest goes about it, at this recall (the index's target if `None`) and effort.
    pub fn explain(&self, recall: Option<f32>, effort: Option<u32>) -> Effort {
        let want = Want {
            recall,
            effort,
            ..Want::default()
        };
        self.effort(10.0, &want)
    }

    /// How a search for its `wanted` nearest goes about it, without a filter.
    pub fn effort(&self, wanted: f64, want: &Want) -> Effort {
        self.effort_by(wanted, want, self.rule(want, &Allowed::default(), wanted))
    }

    pub(super) fn effort_by(&self, wanted: f64, want: &Want, rule: Rule) -> Effort {
        if let Some(told) = want.told {
            let probes = told.probes.clamp(1, self.clusters());
            return Effort { probes, ..told };
        }
        let recall = want.recall.unwrap_or(self.recall).clamp(0.01, 0.9999);
        let calibration = &self.meta.calibration;
        let recall = 1.0 - (1.0 - recall) / calibration.lost;
        let codes = self.codes.as_ref().filter(|_| !want.codes.ignore);
        let products = self.products.as_ref().filter(|_| !want.codes.ignore);
        let numbered = products.is_some_and(|products| products.numbers.is_some());
        let has_codes = codes.is_some() || products.is_some();
        let losses = |lost: f32| match (products, codes.and_then(Codes::blur)) {
            (Some(_), _) if numbered => BY_NUMBERED,
            (Some(products), _) if self.compact_beside(products).is_some() => BY_PRODUCTS_AND_COMPACT,
            (Some(_), _) => BY_PRODUCTS,
            (None, Some(blur)) if blur > BLURRED => BY_FEW_BITS,
            (None, Some(blur)) => {
                let more = SHARP_MORE * (1.0 - blur / BLURRED) * f64::from(lost);
                let fine = (BY_SIGNS.fine + more as f32).min(FINE_MOST);
                Losses { fine, ..BY_SIGNS }
            }
            (None, None) => BY_SIGNS,
        };
        let by_codes = if has_codes {
            losses(1.0 - recall).by_codes()
        } else {
            0.0
        };
        let aimed = 1.0 - (1.0 - recall) * (1.0 - by_codes);
        let calibrated = calibration.probes(aimed, wanted, self.clusters(), rule);
        // What was measured at 10 and 100 says little about 10,000; but so many rows must be there to be found.
        let clusters_of_wanted = wanted * f64::from(self.clusters()) / f64::from(self.rows().max(1));
        let calibrated = calibrated.max((ROOM * clusters_of_wanted).ceil() as u32);
        let effort = u64::from(want.effort.unwrap_or(EFFORT_DEFAULT));
        let probes = (u64::from(calibrated) * effort).div_ceil(u64::from(EFFORT_DEFAULT));
        let probes = (probes.min(u64::from(self.clusters())) as u32).max(1);
        // Twice the effort is to lose half.
        let lost = (1.0 - recall) * EFFORT_DEFAULT as f32 / effort.max(1) as f32;
        let losses = losses(lost);
        // A row that is wrongly taken for near costs another its place: of what last estimates decide half as many may be lost.
        let last = losses.fine / 2.0;
        let depth = wanted * f64::from(want.share.unwrap_or(1.0));
        let deviation = |kind: Option<CodeKind>, share: f32| {
            let place = kind.and_then(|kind| self.kinds().position(|built| built == kind));
            let deviations = place.and_then(|place| calibration.deviations.get(place));
            deviations.map_or(2.0, |deviations| match kind {
                Some(CodeKind::Product { .. }) => misses::deviation_at_depth(deviations, depth, lost * share),
                // Others lose little of what they may, of the nearest too.
                _ => misses::deviation(&deviations[0], lost * share),
            })
        };
        let coarse = codes.map(|_| CodeKind::Coarse).or(products.map(Products::kind));
        let fine = codes.and_then(Codes::fine_kind);
        let lost_by_codes = if has_codes { losses.by_codes() * lost } else { 0.0 };
        let held_out = calibration.coverage(probes, rule) * (1.0 - lost_by_codes).max(0.0);
        Effort {
            probes,
            epsilon: Epsilon {
                coarse: deviation(coarse, if numbered { last } else { losses.coarse }),
                fine: match fine {
                    // Measured were deviations of two rows, and this is of one.
                    Some(_) => 2.0 * deviation(fine, last),
                    None => deviation(coarse, if numbered { last } else { losses.coarse }),
                },
            },
            recall_expected: (1.0 - (1.0 - held_out) * calibration.lost).max(0.0),
        }
    }

    /// What is wanted, with what isn't said about the scores of hits.
    fn rescored(&self, want: &Want) -> Want {
        let rough =
            self.codes.as_ref().is_some_and(Codes::are_rough) && self.compact_beside_signs().is_none();
        let codes = CodesWanted {
            rescore: want.codes.rescore.or(rough.then_some(true)),
            ..want.codes
        };
        Want { codes, ..*want }
    }

    fn check(&self, query: &Query) -> Result<()> {
        let shape = self.meta.shape;
        if (query.metric(), query.element(), query.dims()) == (shape.metric, shape.element, shape.dims) {
            return Ok(());
        }
        let query = (query.metric(), query.element(), query.dims());
        Err(IndexError::Mismatch(format!(
            "a query of {query:?} over {shape:?}"
        )))
    }

    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted, or a filter may admit nearer
    /// ones.
    fn probe(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        (effort, picked): (&Effort, bool),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank_for(search, want, effort.probes, lists);
        let mut visited = 0;
        while let Some(more) = self.more(search, want, visited, search.top.len()) {
            let more = self.bring_next(search, (want, Rule::Gap), (visited, more), lists);
            let sorted = sort_more(&mut lists.clusters, visited, more);
            if picked {
                let clusters = std::mem::take(&mut lists.clusters);
                let done = self.visit_rows_picked(search, &clusters[visited..sorted], lists, buf);
                lists.clusters = clusters;
                done?;
                visited = sorted;
            }
            while visited < sorted {
                visited += self.visit(search, visited..sorted, lists, buf)?;
            }
            search.stats.probes = visited as u64;
        }
        Ok(())
    }

    /// Every cluster with how far it is, after making the query ready for that.
    pub(super) fn rank(&self, query: &Query, lists: &mut Lists) {
        self.rank_cells(query, cells::ALL, lists);
    }

    /// The clusters of so many of the nearest cells, or all, each with how far it is, after making the query ready for that.
    pub(super) fn rank_cells(&self, query: &Query, count: u32, lists: &mut Lists) {
        let Lists { codes, clusters, .. } = lists;
        let (metric, kernels, centroids) = (query.metric(), query.kernels(), self.meta.centroids());
        let rotation = self.rotation.as_ref();
        codes
            .query
            .prepare(metric, rotation, centroids.mean, query.floats(), kernels);
        let (query, ranking) = (codes.query.rotated(), &mut codes.ranking);
        let count = count.max(1);
        match centroids.has_more_cells_than(count) {
            true => centroids.rank_nearest_cells((metric, count), query, kernels, ranking, clusters),
            false => centroids.rank(metric, query, kernels, ranking, clusters),
        }
    }

    /// Puts the clusters that weren't ranked behind those that were, of which so many were visited.
    pub(super) fn rank_rest(&self, query: &Query, visited: usize, lists: &mut Lists) {
        let Lists {
            codes,
            clusters,
            sample,
            ..
        } = lists;
        if clusters.len() == self.meta.shape.clusters {
            return;
        }
        let (metric, kernels) = (query.metric(), query.kernels());
        let (query, ranking) = (codes.query.rotated(), &mut codes.ranking);
        // In the order of their numbers.
        self.meta
            .centroids()
            .rank(metric, query, kernels, ranking, sample);
        /// Behind all keys.
        const VISITED: u64 = u64::MAX;
        clusters.truncate(visited);
        clusters
            .iter()
            .for_each(|cluster| sample[*cluster as u32 as usize] = VISITED);
        clusters.extend(sample.iter().filter(|cluster| **cluster != VISITED));
    }

    /// Visits as many of the ranked clusters as fit the buffer (one at least), with one batch of reads; how many.
    fn visit(
        &self,
        search: &mut Search<'_, '_>,
        ranked: std::ops::Range<usize>,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<usize> {
        let Lists {
            reads,
            clusters,
            ranges,
            ..
        } = lists;
        let room = self.rows.blocks_in(buf)?;
        let per_block = self.rows.rows_per_block();
        let blocks = |range: &std::ops::Range<u32>| range.start / per_block..range.end.div_ceil(per_block);
        // One block at least for each: how many are visited at once differs from search to search.
        ranges.clear();
        ranges.reserve(room as usize);
        reads.clear();
        reads.reserve(room as usize);
        let (mut taken, mut used) = (0, 0);
        for cluster in &clusters[ranked] {
            let range = self.meta.positions(*cluster as u32);
            let needed = if range.is_empty() {
                0
            } else {
                blocks(&range).len() as u32
            };
            let gathered = needed <= room && !self.rows.is_in_memory();
            if !gathered {
                // Too large for the buffer, or nothing to wait for.
                search.scan_run(&self.rows, range, buf)?;
            } else if used + needed > room {
                break;
            } else if needed > 0 {
                ranges.push(range);
                used += needed;
            }
            taken += 1;
        }
        if ranges.is_empty() {
            return Ok(taken);
        }
        join_neighbours(ranges);
        reads.clear();
        reads.reserve(room as usize);
        for range in &*ranges {
            blocks(range).for_each(|block| self.rows.plan_block(block, reads));
        }
        search.stats.reads += ranges.len() as u64;
        search.stats.pages_read += reads.len() as u64 * u64::from(self.rows.block_pages());
        let mut bytes = self.rows.read_many(search.io, reads, buf)?;
        for range in &*ranges {
            let (now, later) = bytes.split_at(blocks(range).len() * self.rows.block_bytes());
            search.score_blocks(&self.rows, now, range.start / per_block, range.clone())?;
            bytes = later;
        }
        Ok(taken)
    }
}

impl VectorIndex for Ivf {
    fn search(
        &self,
        query: &Query,
        want: &Want,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()> {
        self.check(query)?;
        let IndexScratch {
            stats,
            buf,
            lists,
            reach,
        } = scratch;
        reach.start(top.k(), allowed, want.told.is_some());
        *stats = SearchStats::default();
        let want = &self.rescored(want);
        let (way, only) = (self.way(want, allowed, top.k()), allowed.only);
        let mut search = Search {
            query,
            allowed,
            io,
            top,
            stats,
            numbers: RowNumber::Trailing,
            reach,
        };
        let (codes, products) = match want.codes.ignore {
            true => (None, None),
            false => (self.codes.as_ref(), self.products.as_ref()),
        };
        if let (Way::Pick(_), Some(only)) = (way, only) {
            self.pick(&mut search, only, lists, buf)?;
        }
        let picked = matches!(way, Way::Pick(_));
        let done = match (way, only) {
            (Way::Listed, Some(only)) => self.listed(&mut search, only, lists, buf),
            (Way::Probe(effort) | Way::Pick(effort), _) => match (codes, products) {
                (Some(codes), _) => self.probe_codes(codes, &mut search, want, (&effort, picked), lists, buf),
                (None, Some(products)) => {
                    self.probe_products(products, &mut search, want, (&effort, picked), lists, buf)
                }
                (None, None) => self.probe(&mut search, want, (&effort, picked), lists, buf),
            },
            (Way::All | Way::Listed, _) => search.scan_run(&self.rows, 0..self.meta.shape.rows, buf),
        };
        lists.picked.trim();
        reach.trim();
        done
    }

    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let segment_rows = self.meta.shape.segment_rows;
        read_listed(
            &self.positions,
            &self.rows,
            segment_rows,
            rows,
            scratch,
            io,
            &mut |row| split(row, each),
        )
    }

    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        stream(&self.rows, &mut scratch.buf, io, &mut |_, row| split(row, each))
    }

    fn rows(&self) -> u32 {
        self.meta.shape.rows
    }

    fn centroids(&self) -> Option<Centroids> {
        Some(Ivf::centroids(self))
    }

    fn measure_again(
        &self,
        queries: &[Vec<f32>],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<Option<MeasuredAgain>> {
        self.measured_for(queries, scratch, io).map(Some)
    }

    fn memory(&self) -> MemoryUse {
        let files = || [self.rows.file(), self.positions.file()].into_iter();
        let centroids = self.meta.memory_bytes();
        let codes = || self.coarse().into_iter().chain(self.fine()).chain(self.rest());
        MemoryUse {
            heap_bytes: centroids,
            pinned_bytes: files().map(|file| file.ram_bytes()).sum::<u64>()
                + codes().map(PinnedRows::bytes).sum::<u64>(),
            disk_bytes: files().map(|file| file.len()).sum::<u64>()
                + self
                    .compact
                    .as_ref()
                    .map_or(0, |compact| compact.file.file().len())
                + codes().map(PinnedRows::bytes_whole).sum::<u64>()
                + centroids,
        }
    }

    fn report(&self) -> IndexReport {
        self.described()
    }

    fn kind(&self) -> &'static str {
        "ivf"
    }
}

/// Hands on a stored row: the vector, and the number behind it.
fn split(row: &[u8], each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
    each(trailing_number(row)?, &row[..row.len().saturating_sub(4)])
}

/// Sorts at least `more` further clusters behind the first `sorted`; how many are sorted now.
pub(super) fn sort_more(clusters: &mut [u64], sorted: usize, more: usize) -> usize {
    let rest = &mut clusters[sorted..];
    let more = more.min(rest.len());
    if more < rest.len() {
        rest.select_nth_unstable(more);
    }
    rest[..more].sort_unstable();
    sorted + more
}

/// Sorts the clusters of one batch by place and joins those that follow each other: fewer, longer reads.
fn join_neighbours(ranges: &mut Vec<std::ops::Range<u32>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let follows = range.end == next.start;
        if follows {
            range.end = next.end;
        }
        follows
    });
}
