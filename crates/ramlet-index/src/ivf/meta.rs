//! The resident part of the index: centroids, cluster offsets, and the calibration.
//!
//! Body of an envelope of kind `Centroids`, little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | format version u32 = 1 or 2: of this layout, of the codes' rows, and of the rotation. 2: centroids have four bits a dimension |
//! | 4..8 | dims u32 |
//! | 8..10 | metric u8, element u8 |
//! | 10..12 | zero |
//! | 12..16 | clusters u32, at least 1 |
//! | 16..20 | rows u32: positions in the file of rows |
//! | 20..24 | segment rows u32: entries in the file of positions |
//! | 24..28 | calibration points u32 |
//! | 28..32 | unit of the codes' factors f32 |
//! | 32..52 | files of codes, 5 times: kind u16 (0 none, 1 one bit, 2 extended, 3 product, 4 residual, 5 product with row ids), what it is of u16 (extended, residual: bits, product: sub-quantizers) |
//! | 52..56 | distance of near clusters, in units of the query, beyond which a query is out of distribution f32 |
//! | 56..60 | clusters of a super-centroid u32 = 16; 0 if there are no super-centroids |
//! | then | per calibration point: probes u32, super-centroids u32 whose clusters are ranked (2^32 - 1: all clusters are), and by either rule (by probe threshold, by k-th distance) probe threshold f32, recall@10 f32, recall@100 f32; probes and super-centroids ascending |
//! | then | per file of codes: deviations f32 * 8 of the ten nearest, f32 * 8 of the nearest alone, see `misses`
//! | then | starts u32 * (clusters + 1): cluster `i` has the positions `starts[i]..starts[i + 1]` |
//! | then | mean of the centroids, rotated: f32 * dims |
//! | then | per centroid: step f32, squared length and handicap f32 |
//! | then | centroids, each u8 * dims, in version 2 u8 * dims / 2 rounded up, see `Ranked` |
//! | then | the same of the super-centroids, if there are such: of each step f32, what ranking takes for its squared length f32; then their values |
//! | then | the model of product codes, if there are such |

use std::ops::Range;

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_kernels::{CodeWidth, Kernels, MAX_U8_DIMS};
use ramlet_memory::AnonBuf;

use super::ranked::{HEAD_BYTES, Ranked, width_of};
use super::super_centroids;
use crate::error::{IndexError, Result};
use crate::quant::product::{ProductModel, ProductShape};
use crate::search::calibration::{
    Calibration, CalibrationPoint, Deviations, DeviationsByDepth, LOSSES, MISS_DEPTHS, Reached, Rule, steps,
};
use crate::{CodeKind, Element, Metric};

/// Versions of the layout, of the codes' rows and of the rotation; a reader refuses others.
fn version(width: CodeWidth) -> u32 {
    match width {
        CodeWidth::Eight => 1,
        CodeWidth::Four => 2,
    }
}

const HEADER_BYTES: usize = 60;
/// Files of codes at most.
pub(crate) const CODES_MAX: usize = 5;
const POINT_BYTES: usize = 32;
/// Of one depth.
const DEVIATIONS_BYTES: usize = LOSSES.len() * 4;

/// Whether the header has room for these files of codes, and those beside which others are of use are among them.
pub(crate) fn fits(kinds: &[CodeKind]) -> bool {
    let is_residual = |kind: &CodeKind| matches!(kind, CodeKind::Residual { .. });
    let before = kinds.split(is_residual).next().unwrap_or(&[]);
    let has_extended = before
        .iter()
        .any(|kind| matches!(kind, CodeKind::Extended { .. }));
    let has_residual = kinds.iter().any(is_residual);
    // The rest is coded after what it is the rest of.
    kinds.len() <= CODES_MAX
        && (!has_residual
            || has_extended && longest(before.iter().copied()) == longest(kinds.iter().copied()))
}

/// The longest extended codes among these, which the rest is of.
pub(crate) fn longest(kinds: impl Iterator<Item = CodeKind>) -> Option<u8> {
    let bits = kinds.filter_map(|kind| match kind {
        CodeKind::Extended { bits } => Some(bits),
        _ => None,
    });
    bits.max()
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) dims: usize,
    pub(crate) clusters: usize,
    pub(crate) rows: u32,
    pub(crate) segment_rows: u32,
    /// Files of codes beside the rows.
    pub(crate) codes: [Option<CodeKind>; CODES_MAX],
    /// About the length of a row less its centroid: what the codes' factors are stored in.
    pub(crate) unit: f32,
    /// Bits of a centroid's values.
    pub(crate) width: CodeWidth,
}

/// Bytes of a centroid, with where its cluster starts.
pub fn centroid_bytes(metric: Metric, dims: usize) -> u64 {
    (size_of::<u32>() + HEAD_BYTES + width_of(metric, dims).code_bytes(dims)) as u64
}

/// Bytes that an index of so many clusters holds in RAM beside rows and codes, at most: the body as above, and the model of product codes.
pub fn resident_bytes(clusters: u64, (metric, dims): (Metric, usize), codes: &[CodeKind]) -> u64 {
    let clusters = usize::try_from(clusters).unwrap_or(usize::MAX);
    let subquantizers = codes.iter().find_map(|kind| kind.subquantizers());
    let model = subquantizers.map_or(0, |subquantizers| {
        let [plain, overlapping] = ProductModel::bytes_for(&scanned(dims, subquantizers));
        if metric == Metric::Euclid {
            plain
        } else {
            overlapping
        }
    });
    (body_bytes(clusters, (metric, dims), steps(clusters).count()) + model) as u64
}

/// Bytes of the body.
fn body_bytes(clusters: usize, (metric, dims): (Metric, usize), calibration_points: usize) -> usize {
    HEADER_BYTES
        + CODES_MAX * MISS_DEPTHS.len() * DEVIATIONS_BYTES
        + calibration_points * POINT_BYTES
        + size_of::<u32>()
        + dims * size_of::<f32>()
        + clusters * centroid_bytes(metric, dims) as usize
        + super_centroids::bytes(clusters, metric, dims)
}

/// The file. `starts` has one more entry than there are centroids.
pub(crate) fn encode(
    shape: Shape,
    calibration: &Calibration,
    starts: &[u32],
    centroids: &Ranked<'_>,
    model: Option<&ProductModel>,
) -> Vec<u8> {
    let of = (shape.metric, shape.dims);
    let books = model.map(ProductModel::to_bytes).unwrap_or_default();
    let mut out = envelope::begin(body_bytes(shape.clusters, of, calibration.points.len()) + books.len());
    let put = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    put(&mut out, version(shape.width));
    put(&mut out, shape.dims as u32);
    out.extend_from_slice(&[metric_code(shape.metric), element_code(shape.element), 0, 0]);
    put(&mut out, shape.clusters as u32);
    put(&mut out, shape.rows);
    put(&mut out, shape.segment_rows);
    put(&mut out, calibration.points.len() as u32);
    put(&mut out, shape.unit.to_bits());
    shape
        .codes
        .iter()
        .flat_map(|kind| codes_words(*kind))
        .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    put(&mut out, calibration.far.to_bits());
    let has_super_centroids = !centroids.super_centroid_heads.is_empty();
    put(
        &mut out,
        if has_super_centroids {
            super_centroids::RUN as u32
        } else {
            0
        },
    );
    for point in &calibration.points {
        put(&mut out, point.probes);
        put(&mut out, point.super_centroids);
        for reached in [&point.by_threshold, &point.by_kth_distance] {
            put(&mut out, reached.threshold.to_bits());
            put(&mut out, reached.recall_10.to_bits());
            put(&mut out, reached.recall_100.to_bits());
        }
    }
    let codes = shape.codes.iter().flatten().count();
    for deviations in calibration
        .deviations
        .iter()
        .chain(std::iter::repeat(&DeviationsByDepth::default()))
        .take(codes)
    {
        deviations
            .as_flattened()
            .iter()
            .for_each(|deviation| put(&mut out, deviation.to_bits()));
    }
    starts.iter().for_each(|start| put(&mut out, *start));
    let of_clusters = [centroids.mean, centroids.heads, centroids.levels];
    let of_super_centroids = [centroids.super_centroid_heads, centroids.super_centroid_levels];
    of_clusters
        .iter()
        .chain(&of_super_centroids)
        .for_each(|part| out.extend_from_slice(part));
    out.extend(books);
    envelope::seal(EnvelopeKind::Centroids, out)
}

/// A body that was read and checked; views into it.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) shape: Shape,
    pub(crate) calibration: Calibration,
    /// Of product codes.
    pub(crate) model: Option<ProductModel>,
    body: AnonBuf,
    /// Where the body lies in the buffer.
    starts: Range<usize>,
    centroids: Range<usize>,
}

impl Meta {
    /// Takes a buffer whose bytes `body` are the body of what `encode` wrote.
    pub(crate) fn parse(buffer: AnonBuf, body: Range<usize>) -> Result<Meta> {
        let bytes = buffer
            .get(body.clone())
            .ok_or_else(|| broken("the body lies outside the buffer"))?;
        let header = bytes
            .get(..HEADER_BYTES)
            .ok_or_else(|| broken("the header is cut off"))?;
        let word = |at: usize| u32_at(header, at);
        let widths = [CodeWidth::Eight, CodeWidth::Four];
        let width = widths.into_iter().find(|width| version(*width) == word(0));
        let width =
            width.ok_or_else(|| broken(format!("version {}, this program reads 1 and 2", word(0))))?;
        let (far, run) = (f32::from_bits(word(52)), word(56));
        let shape = Shape {
            metric: metric_of(header[8])?,
            element: element_of(header[9])?,
            dims: word(4) as usize,
            clusters: word(12) as usize,
            rows: word(16),
            segment_rows: word(20),
            unit: f32::from_bits(word(28)),
            codes: codes_of(&header[32..52])?,
            width,
        };
        let points = word(24) as usize;
        let super_centroids = match run {
            0 => 0,
            run if run as usize == super_centroids::RUN => shape.clusters.div_ceil(super_centroids::RUN),
            run => return Err(broken(format!("super-centroids of {run} clusters"))),
        };
        let codes = shape.codes.iter().flatten().count();
        // In 128 bits nothing overflows.
        let without_model = HEADER_BYTES as u128
            + points as u128 * POINT_BYTES as u128
            + (codes * MISS_DEPTHS.len() * DEVIATIONS_BYTES) as u128
            + (shape.clusters as u128 + 1) * 4
            + shape.dims as u128 * 4
            + (shape.clusters as u128 + super_centroids as u128)
                * (shape.width.code_bytes(shape.dims) + HEAD_BYTES) as u128;
        // Words of product codes may overlap or not.
        let models = model_shape(&shape).map_or([0; 2], |shape| ProductModel::bytes_for(&shape));
        let fits = |model: &usize| without_model + *model as u128 == bytes.len() as u128;
        let model_bytes = models.into_iter().find(fits);
        if model_bytes.is_none()
            || shape.clusters == 0
            || !(1..=MAX_U8_DIMS).contains(&shape.dims)
            || !shape.unit.is_normal()
            || !far.is_finite()
        {
            return Err(broken(format!(
                "{shape:?} with {points} calibration points in {} bytes",
                bytes.len()
            )));
        }
        let deviations = HEADER_BYTES + points * POINT_BYTES;
        let starts = deviations + codes * MISS_DEPTHS.len() * DEVIATIONS_BYTES;
        let centroids = starts + (shape.clusters + 1) * 4;
        let (points, losses) = (&bytes[HEADER_BYTES..deviations], &bytes[deviations..starts]);
        let calibration = parse_calibration(points, losses, far)?;
        check_starts(&bytes[starts..centroids], shape.rows)?;
        let centroids_end = bytes.len() - model_bytes.unwrap_or(0);
        let model = match model_shape(&shape) {
            Some(wanted) => {
                let model = ProductModel::from_bytes(&bytes[centroids_end..])?;
                if *model.shape() != wanted {
                    return Err(broken(format!(
                        "{:?} of product codes, {wanted:?} wanted",
                        model.shape()
                    )));
                }
                Some(model)
            }
            None => None,
        };
        let shift = |range: Range<usize>| body.start + range.start..body.start + range.end;
        let (starts, centroids) = (shift(starts..centroids), shift(centroids..centroids_end));
        Ok(Meta {
            shape,
            calibration,
            model,
            body: buffer,
            starts,
            centroids,
        })
    }

    /// The positions of a cluster.
    pub(crate) fn positions(&self, cluster: u32) -> Range<u32> {
        let starts = &self.body[self.starts.clone()];
        u32_at(starts, cluster as usize * 4)..u32_at(starts, cluster as usize * 4 + 4)
    }

    /// The cluster that has a position.
    pub(crate) fn cluster_of(&self, position: u32) -> u32 {
        let starts = self.body[self.starts.clone()].as_chunks::<4>().0;
        let begun = starts.partition_point(|start| u32::from_le_bytes(*start) <= position);
        (begun as u32).clamp(1, self.shape.clusters as u32) - 1
    }

    pub(crate) fn centroids(&self) -> Ranked<'_> {
        let Shape {
            dims,
            clusters,
            width,
            ..
        } = self.shape;
        let code_bytes = width.code_bytes(dims);
        let bytes = &self.body[self.centroids.clone()];
        let (mean, bytes) = bytes.split_at(dims * 4);
        let (heads, bytes) = bytes.split_at(clusters * HEAD_BYTES);
        let (levels, of_super_centroids) = bytes.split_at(clusters * code_bytes);
        let super_centroids = of_super_centroids.len() / (HEAD_BYTES + code_bytes);
        let (super_centroid_heads, super_centroid_levels) =
            of_super_centroids.split_at(super_centroids * HEAD_BYTES);
        Ranked {
            dims,
            width,
            mean,
            heads,
            levels,
            super_centroid_heads,
            super_centroid_levels,
        }
    }

    /// Has what is known of a cluster fetched into the processor's cache.
    pub(crate) fn fetch(&self, cluster: u32) {
        let cluster = cluster as usize;
        let starts = &self.body[self.starts.clone()];
        Kernels::prefetch(&starts[cluster * 4..][..8]);
        let ranked = self.centroids();
        let bytes = ranked.code_bytes();
        let Ranked { heads, levels, .. } = ranked;
        Kernels::prefetch(&heads[cluster * HEAD_BYTES..][..HEAD_BYTES]);
        Kernels::prefetch(&levels[cluster * bytes..][..bytes]);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.body.capacity() as u64
    }
}

/// What the model of product codes is of.
fn model_shape(shape: &Shape) -> Option<ProductShape> {
    let levels = shape.codes.iter().flatten().find_map(|kind| kind.subquantizers());
    Some(scanned(shape.dims, levels?))
}

/// Product codes of so many levels.
fn scanned(dims: usize, levels: u16) -> ProductShape {
    ProductShape {
        dims,
        parts: levels.into(),
    }
}

fn parse_calibration(points: &[u8], deviations: &[u8], far: f32) -> Result<Calibration> {
    let parse = |point: &[u8]| {
        let reached = |at: usize| {
            let float = |at: usize| f32::from_bits(u32_at(point, at));
            Reached {
                threshold: float(at),
                recall_10: float(at + 4),
                recall_100: float(at + 8),
            }
        };
        CalibrationPoint {
            probes: u32_at(point, 0),
            super_centroids: u32_at(point, 4),
            by_threshold: reached(8),
            by_kth_distance: reached(20),
        }
    };
    let points: Vec<CalibrationPoint> = points.chunks_exact(POINT_BYTES).map(parse).collect();
    let ascend = |pair: &[CalibrationPoint]| {
        let by = |rule| pair[0].by(rule).threshold <= pair[1].by(rule).threshold;
        pair[0].probes < pair[1].probes
            && pair[0].super_centroids <= pair[1].super_centroids
            && by(Rule::ProbeThreshold)
            && by(Rule::KthDistance)
    };
    let is_sane = |point: &CalibrationPoint| point.by_threshold.is_sane() && point.by_kth_distance.is_sane();
    if !points.windows(2).all(ascend) || !points.iter().all(is_sane) {
        return Err(broken(format!("calibration {points:?}")));
    }
    let parse =
        |bytes: &[u8]| -> Deviations { std::array::from_fn(|i| f32::from_bits(u32_at(bytes, i * 4))) };
    let deviations: Vec<Deviations> = deviations.chunks_exact(DEVIATIONS_BYTES).map(parse).collect();
    // Descending losses take ascending deviations.
    let is_sane = |one: &Deviations| one.is_sorted() && one[0] >= 0.0 && one[LOSSES.len() - 1].is_finite();
    if !deviations.iter().all(is_sane) {
        return Err(broken(format!("deviations {deviations:?}")));
    }
    let deviations: Vec<DeviationsByDepth> = deviations.as_chunks().0.to_vec();
    Ok(Calibration {
        points,
        deviations,
        far,
        ..Calibration::default()
    })
}

fn check_starts(bytes: &[u8], rows: u32) -> Result<()> {
    let starts = || {
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
    };
    if starts().next() != Some(0) || starts().next_back() != Some(rows) || !starts().is_sorted() {
        return Err(broken(format!("clusters don't cover the {rows} rows in order")));
    }
    Ok(())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn metric_code(metric: Metric) -> u8 {
    match metric {
        Metric::Cosine => 0,
        Metric::Dot => 1,
        Metric::Euclid => 2,
        Metric::Manhattan => 3,
    }
}

fn metric_of(code: u8) -> Result<Metric> {
    let all = [Metric::Cosine, Metric::Dot, Metric::Euclid, Metric::Manhattan];
    all.get(usize::from(code))
        .copied()
        .ok_or_else(|| broken(format!("unknown metric {code}")))
}

fn element_code(element: Element) -> u8 {
    match element {
        Element::F32 => 0,
        Element::F16 => 1,
        Element::U8 => 2,
    }
}

fn element_of(code: u8) -> Result<Element> {
    let all = [Element::F32, Element::F16, Element::U8];
    all.get(usize::from(code))
        .copied()
        .ok_or_else(|| broken(format!("unknown element {code}")))
}

fn codes_words(kind: Option<CodeKind>) -> [u16; 2] {
    match kind {
        // Of SQ8 rows nothing is told here: their file is there or not.
        None | Some(CodeKind::Sq8) => [0; 2],
        Some(CodeKind::OneBit) => [1, 0],
        Some(CodeKind::Extended { bits }) => [2, bits.into()],
        Some(CodeKind::Product { m, row_ids: false }) => [3, m],
        Some(CodeKind::Residual { bits }) => [4, bits.into()],
        Some(CodeKind::Product { m, row_ids: true }) => [5, m],
    }
}

fn codes_of(bytes: &[u8]) -> Result<[Option<CodeKind>; CODES_MAX]> {
    let mut codes = [None; CODES_MAX];
    let words = |bytes: &[u8; 4]| [[bytes[0], bytes[1]], [bytes[2], bytes[3]]].map(u16::from_le_bytes);
    for (code, bytes) in codes.iter_mut().zip(bytes.as_chunks::<4>().0) {
        let [kind, of] = words(bytes);
        let bits = of.min(u8::MAX.into()) as u8;
        let known = match kind {
            0 if of == 0 => continue,
            1 if of == 0 => CodeKind::OneBit,
            2 => CodeKind::Extended { bits },
            3 => CodeKind::Product {
                m: of,
                row_ids: false,
            },
            4 => CodeKind::Residual { bits },
            5 => CodeKind::Product { m: of, row_ids: true },
            _ => return Err(broken(format!("unknown codes {bytes:?}"))),
        };
        if !known.is_valid() {
            return Err(broken(format!("unknown codes {bytes:?}")));
        }
        *code = Some(known);
    }
    Ok(codes)
}

fn broken(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!("centroids: {}", detail.into()))
}
