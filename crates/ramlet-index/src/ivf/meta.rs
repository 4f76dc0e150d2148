//! The part of the index that is held in RAM: centroids, where clusters start, and what was measured.
//!
//! Body of an envelope of kind `Centroids`, little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | format version u32 |
//! | 4..8 | dims u32 |
//! | 8..10 | metric u8, element u8 |
//! | 10..12 | 0 |
//! | 12..16 | clusters u32, at least 1 |
//! | 16..20 | rows u32: positions in the file of rows |
//! | 20..24 | segment rows u32: entries in the file of positions |
//! | 24..28 | calibration points u32 |
//! | 28 | bits of a code per dimension u8: 4 or 8, or 0 if there is no file of codes |
//! | 29 | version of the codes u8, 0 if there are none |
//! | 30..32 | 0 |
//! | then | per calibration point: probes u32, recall@10 f32, recall@100 f32; probes ascending |
//! | then | starts u32 * (clusters + 1): cluster `i` has the positions `starts[i]..starts[i + 1]` |
//! | then | centroids f32 * dims * clusters |

use std::ops::Range;

use ramlet_memory::AnonBuf;

use super::calibrate::{Calibration, CalibrationPoint};
use super::centroids::Centroids;
use crate::error::{IndexError, Result};
use crate::{CodeBits, Element, Metric};

/// Version of the layout; a reader refuses others.
const VERSION: u32 = 1;
/// Version of the codes: of their rows' layout, and of the rotation.
const CODES_VERSION: u8 = 1;
const HEADER_BYTES: usize = 32;
const POINT_BYTES: usize = 12;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) metric: Metric,
    pub(crate) element: Element,
    pub(crate) dims: usize,
    pub(crate) clusters: usize,
    pub(crate) rows: u32,
    pub(crate) segment_rows: u32,
    /// Whether there is a file of codes beside the rows.
    pub(crate) codes: Option<CodeBits>,
}

/// Bytes of the body: what an index of this shape holds in RAM.
pub(crate) fn body_bytes(clusters: usize, dims: usize, calibration_points: usize) -> usize {
    HEADER_BYTES + calibration_points * POINT_BYTES + (clusters + 1) * 4 + clusters * dims * 4
}

/// `starts` has one more entry than there are centroids.
pub(crate) fn encode(
    shape: Shape,
    calibration: &Calibration,
    starts: &[u32],
    centroids: &Centroids,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(body_bytes(shape.clusters, shape.dims, calibration.points.len()));
    let put = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    put(&mut out, VERSION);
    put(&mut out, shape.dims as u32);
    out.extend_from_slice(&[metric_code(shape.metric), element_code(shape.element), 0, 0]);
    put(&mut out, shape.clusters as u32);
    put(&mut out, shape.rows);
    put(&mut out, shape.segment_rows);
    put(&mut out, calibration.points.len() as u32);
    let codes = shape
        .codes
        .map_or([0; 4], |bits| [bits.count(), CODES_VERSION, 0, 0]);
    out.extend_from_slice(&codes);
    for point in &calibration.points {
        put(&mut out, point.probes);
        put(&mut out, point.recall_10.to_bits());
        put(&mut out, point.recall_100.to_bits());
    }
    starts.iter().for_each(|start| put(&mut out, *start));
    for i in 0..centroids.count() {
        out.extend(centroids.row(i).flat_map(f32::to_le_bytes));
    }
    out
}

/// A body that was read and checked; views into it.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) shape: Shape,
    pub(crate) calibration: Calibration,
    body: AnonBuf,
    /// Where the body lies in the buffer.
    starts: Range<usize>,
    centroids: Range<usize>,
}

impl Meta {
    /// Takes a buffer whose bytes `body` are what `encode` wrote.
    pub(crate) fn parse(buffer: AnonBuf, body: Range<usize>) -> Result<Meta> {
        let bytes = buffer
            .get(body.clone())
            .ok_or_else(|| broken("the body lies outside the buffer"))?;
        let header = bytes
            .get(..HEADER_BYTES)
            .ok_or_else(|| broken("the header is cut off"))?;
        let word = |at: usize| u32_at(header, at);
        if word(0) != VERSION {
            return Err(broken(format!(
                "version {}, this program reads {VERSION}",
                word(0)
            )));
        }
        let shape = Shape {
            metric: metric_of(header[8])?,
            element: element_of(header[9])?,
            dims: word(4) as usize,
            clusters: word(12) as usize,
            rows: word(16),
            segment_rows: word(20),
            codes: codes_of([header[28], header[29]])?,
        };
        let points = word(24) as usize;
        // In 128 bits nothing overflows.
        let wanted = HEADER_BYTES as u128
            + points as u128 * POINT_BYTES as u128
            + (shape.clusters as u128 + 1) * 4
            + shape.clusters as u128 * shape.dims as u128 * 4;
        if wanted != bytes.len() as u128 || shape.clusters == 0 || shape.dims == 0 {
            return Err(broken(format!(
                "{shape:?} with {points} calibration points in {} bytes",
                bytes.len()
            )));
        }
        let starts = HEADER_BYTES + points * POINT_BYTES;
        let centroids = starts + (shape.clusters + 1) * 4;
        let calibration = parse_calibration(&bytes[HEADER_BYTES..starts])?;
        check_starts(&bytes[starts..centroids], shape.rows)?;
        let shift = |range: Range<usize>| body.start + range.start..body.start + range.end;
        let (starts, centroids) = (shift(starts..centroids), shift(centroids..bytes.len()));
        Ok(Meta {
            shape,
            calibration,
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

    pub(crate) fn centroids(&self) -> &[u8] {
        &self.body[self.centroids.clone()]
    }

    pub(crate) fn centroids_mut(&mut self) -> &mut [u8] {
        &mut self.body[self.centroids.clone()]
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.body.capacity() as u64
    }
}

fn parse_calibration(bytes: &[u8]) -> Result<Calibration> {
    let points: Vec<CalibrationPoint> = bytes
        .chunks_exact(POINT_BYTES)
        .map(|point| CalibrationPoint {
            probes: u32_at(point, 0),
            recall_10: f32::from_bits(u32_at(point, 4)),
            recall_100: f32::from_bits(u32_at(point, 8)),
        })
        .collect();
    let is_share = |recall: f32| (0.0..=1.0).contains(&recall);
    let ascending = points.windows(2).all(|pair| pair[0].probes < pair[1].probes);
    if !ascending
        || !points
            .iter()
            .all(|point| is_share(point.recall_10) && is_share(point.recall_100))
    {
        return Err(broken(format!("calibration {points:?}")));
    }
    Ok(Calibration { points })
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

fn codes_of([bits, version]: [u8; 2]) -> Result<Option<CodeBits>> {
    match (CodeBits::from_count(bits), version) {
        (None, 0) if bits == 0 => Ok(None),
        (Some(bits), CODES_VERSION) => Ok(Some(bits)),
        _ => Err(broken(format!("unknown codes of {bits} bits, version {version}"))),
    }
}

fn broken(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!("centroids: {}", detail.into()))
}
