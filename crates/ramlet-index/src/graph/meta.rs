//! The resident part of a graph: the frame of its codes, the calibration, and the entry points.
//!
//! Body of an envelope of kind `Blob`, little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | format version u32 |
//! | 4..8 | dims u32 |
//! | 8..10 | metric u8, element u8 |
//! | 10..12 | degree u16 |
//! | 12..16 | rows u32: nodes |
//! | 16..20 | segment rows u32: entries in the file of positions |
//! | 20..24 | entry points u32 |
//! | 24..28 | calibration points u32 |
//! | 28..32 | unit f32 |
//! | then | per calibration point: patience u32, recall@10 and @100 f32, reads for 10 and for 100 f32; patience ascending |
//! | then | mean f32 * dims |
//! | then | the entry points' node numbers u32, ascending; their codes; their factors in two lists of f16 |

use std::ops::Range;

use ramlet_format::PAGE;
use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_memory::AnonBuf;

use super::code::{FACTOR_BYTES, Frame, code_bytes};
use super::expected::{GraphCalibration, GraphPoint};
use super::layout::{DEGREE_MAX, NodeLayout};
use crate::error::{IndexError, Result};
use crate::{Element, Metric};

/// Version of the layouts of meta and nodes, and of the codes; a reader refuses others.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const POINT_BYTES: usize = 20;
/// Points that a file has at most, for planning.
const POINTS: usize = 64;

/// One in this many nodes is an entry point, but so many at least, and at most. Where rows lie in tight clusters, few
/// edges lead from one to the next: then a beam search gets no farther than the clusters it begins in.
const ENTRY_SHARE: u32 = 100;
const ENTRIES: std::ops::RangeInclusive<u32> = 256..=1 << 17;

/// Entry points of so many nodes, but for those that must be added to reach all.
pub(super) fn entries_for(rows: u32) -> usize {
    let (least, most) = (*ENTRIES.start(), *ENTRIES.end());
    rows.div_ceil(ENTRY_SHARE).clamp(least, most).min(rows) as usize
}

/// Bytes of the file, about.
pub(super) fn file_bytes(entries: usize, dims: usize) -> usize {
    let body = HEADER_BYTES + POINTS * POINT_BYTES + dims * 4 + entries * entry_bytes(dims);
    (envelope::HEADER_BYTES + body).next_multiple_of(PAGE)
}

fn entry_bytes(dims: usize) -> usize {
    4 + code_bytes(dims) + FACTOR_BYTES
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) metric: Metric,
    pub(super) element: Element,
    pub(super) dims: usize,
    pub(super) degree: usize,
    pub(super) rows: u32,
    pub(super) segment_rows: u32,
}

/// The whole file; `coded` are the entries' codes with their factors.
pub(super) fn encode(
    shape: &Shape,
    frame: &Frame,
    calibration: &GraphCalibration,
    entries: &[u32],
    coded: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    put(&mut out, VERSION);
    put(&mut out, shape.dims as u32);
    out.extend_from_slice(&[metric_code(shape.metric), element_code(shape.element)]);
    out.extend_from_slice(&(shape.degree as u16).to_le_bytes());
    put(&mut out, shape.rows);
    put(&mut out, shape.segment_rows);
    put(&mut out, entries.len() as u32);
    put(&mut out, calibration.points.len() as u32);
    put(&mut out, frame.unit.to_bits());
    for point in &calibration.points {
        put(&mut out, point.patience);
        let floats = point.recall.iter().chain(&point.reads);
        floats.for_each(|value| put(&mut out, value.to_bits()));
    }
    frame.mean.iter().for_each(|value| put(&mut out, value.to_bits()));
    entries.iter().for_each(|entry| put(&mut out, *entry));
    let code = code_bytes(shape.dims);
    for part in [0..code, code..code + 2, code + 2..code + 4] {
        for coded in coded.chunks_exact(code + FACTOR_BYTES) {
            out.extend_from_slice(&coded[part.clone()]);
        }
    }
    envelope::encode(EnvelopeKind::Blob, &out)
}

/// A file that was read and checked; views into it.
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) shape: Shape,
    pub(super) layout: NodeLayout,
    pub(super) frame: Frame,
    pub(super) calibration: GraphCalibration,
    pub(super) entries: usize,
    file: AnonBuf,
    ids: Range<usize>,
}

impl Meta {
    /// Takes what `encode` wrote.
    pub(super) fn parse(file: AnonBuf) -> Result<Meta> {
        let body = envelope::decode(EnvelopeKind::Blob, &file)?;
        let header = body
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
            degree: usize::from(u16::from_le_bytes([header[10], header[11]])),
            rows: word(12),
            segment_rows: word(16),
        };
        let (entries, points) = (word(20) as usize, word(24) as usize);
        let unit = f32::from_bits(word(28));
        // In 128 bits nothing overflows.
        let wanted = HEADER_BYTES as u128
            + points as u128 * POINT_BYTES as u128
            + shape.dims as u128 * 4
            + entries as u128 * entry_bytes(shape.dims) as u128;
        let sound = wanted == body.len() as u128
            && shape.dims > 0
            && (1..=DEGREE_MAX).contains(&shape.degree)
            && (entries > 0) == (shape.rows > 0)
            && unit.is_finite()
            && unit > 0.0;
        if !sound {
            return Err(broken(format!(
                "{shape:?} with {entries} entry points, {points} calibration points and unit {unit} in {} bytes",
                body.len()
            )));
        }
        let mean = HEADER_BYTES + points * POINT_BYTES;
        let ids = mean + shape.dims * 4;
        let calibration = parse_calibration(&body[HEADER_BYTES..mean])?;
        let mean: Vec<f32> = body[mean..ids]
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        let layout = NodeLayout::stated(shape.element, shape.dims, shape.rows, shape.degree);
        check_entries(&body[ids..ids + entries * 4], shape.rows)?;
        if mean.iter().any(|value| !value.is_finite()) {
            return Err(broken("the mean is no vector"));
        }
        Ok(Meta {
            frame: Frame::new(shape.metric, mean, unit),
            shape,
            layout,
            calibration,
            entries,
            ids: envelope::HEADER_BYTES + ids..envelope::HEADER_BYTES + ids + entries * 4,
            file,
        })
    }

    /// The node number of entry point `i`.
    pub(super) fn entry(&self, i: usize) -> u32 {
        u32_at(&self.file, self.ids.start + i * 4)
    }

    /// Codes of some entry points, and their factors in two lists.
    pub(super) fn codes(&self, entries: Range<usize>) -> [&[u8]; 3] {
        let code = self.layout.code_bytes;
        let mut start = self.ids.end;
        [code, 2, 2].map(|width| {
            let list = &self.file[start..start + self.entries * width];
            start += list.len();
            &list[entries.start * width..entries.end * width]
        })
    }

    /// Refuses a number that no node has.
    pub(super) fn check_node(&self, id: u32) -> Result<u32> {
        let rows = self.shape.rows;
        if id < rows {
            return Ok(id);
        }
        Err(IndexError::Mismatch(format!(
            "a node has the neighbour {id}, of {rows}"
        )))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.file.capacity() as u64
    }
}

fn parse_calibration(bytes: &[u8]) -> Result<GraphCalibration> {
    let float = |point: &[u8], at: usize| f32::from_bits(u32_at(point, at));
    let points: Vec<GraphPoint> = bytes
        .chunks_exact(POINT_BYTES)
        .map(|point| GraphPoint {
            patience: u32_at(point, 0),
            recall: [float(point, 4), float(point, 8)],
            reads: [float(point, 12), float(point, 16)],
        })
        .collect();
    let is_share = |recall: &f32| (0.0..=1.0).contains(recall);
    let is_count = |reads: &f32| reads.is_finite() && *reads >= 0.0;
    let ascending = points.windows(2).all(|pair| pair[0].patience < pair[1].patience);
    let sound = |point: &GraphPoint| point.recall.iter().all(is_share) && point.reads.iter().all(is_count);
    if !ascending || !points.iter().all(sound) {
        return Err(broken(format!("calibration {points:?}")));
    }
    Ok(GraphCalibration { points })
}

fn check_entries(bytes: &[u8], rows: u32) -> Result<()> {
    let ids = || bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
    if !ids().is_sorted() || ids().next_back().is_some_and(|last| last >= rows) {
        return Err(broken(format!(
            "entry points are not among the {rows} nodes in order"
        )));
    }
    Ok(())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const METRICS: [Metric; 4] = [Metric::Cosine, Metric::Dot, Metric::Euclid, Metric::Manhattan];
const ELEMENTS: [Element; 3] = [Element::F32, Element::F16, Element::U8];

fn metric_code(metric: Metric) -> u8 {
    METRICS.iter().position(|other| *other == metric).unwrap_or(0) as u8
}

fn metric_of(code: u8) -> Result<Metric> {
    let metric = METRICS.get(usize::from(code)).copied();
    metric.ok_or_else(|| broken(format!("unknown metric {code}")))
}

fn element_code(element: Element) -> u8 {
    ELEMENTS.iter().position(|other| *other == element).unwrap_or(0) as u8
}

fn element_of(code: u8) -> Result<Element> {
    let element = ELEMENTS.get(usize::from(code)).copied();
    element.ok_or_else(|| broken(format!("unknown element {code}")))
}

fn broken(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!("graph: {}", detail.into()))
}
