//! Writing a made-up set with its exact truth, in memory that doesn't grow with the rows.

use std::io::{BufWriter, Result, Write};
use std::path::Path;

use ramlet_io::system::NewFile;

use crate::set::{Element, Metric, Set, SetInfo};
use crate::{Clustered, Nearest, Shape};

/// How much of a made-up set is written, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    pub rows: u64,
    /// Rows of the same kind that aren't in the base.
    pub queries: usize,
    pub element: Element,
    pub truth_width: usize,
    /// Threads that make and compare rows; the result doesn't depend on it.
    pub threads: usize,
    /// Also writes `PREFIX.fbin` or `.u8bin`, which has a header, for `ramlet import`.
    pub with_bin: bool,
}

/// Rows made and compared at once.
const CHUNK_ROWS: usize = 8192;

/// Makes the set's files at `prefix`; `progress` hears how many rows are done. They get their names when all are whole, the
/// description last.
///
/// Holds the centres, 8,192 rows (3 MB at 100 dimensions) and the truth. Takes about a second a million rows to make them and ten
/// nanoseconds a row, query and 100 dimensions for the truth.
pub fn write_set(
    prefix: &Path,
    shape: Shape,
    options: WriteOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Set> {
    let made = Clustered::new(shape);
    let (element, dims) = (options.element, shape.dims);
    let metric = match element {
        Element::F32 => Metric::Cosine,
        Element::U8 => Metric::Euclid,
    };
    let mut set = Set::new(
        prefix,
        SetInfo {
            rows: options.rows,
            queries: options.queries,
            dims,
            element,
            metric,
            truth_width: options.truth_width.min(options.rows as usize),
            shape: Some(shape),
            lid_mean: None,
        },
    );
    let queries = encoded_rows(&made, element, options.rows, options.queries, options.threads);
    let mut query_file = NewFile::create(&set.query_path())?;
    query_file.write_all(&queries)?;
    let mut nearest = Nearest::new(metric, element, dims, &queries, set.info.truth_width);
    let mut base = BufWriter::new(NewFile::create(&set.base_path())?);
    let mut bin = match options.with_bin {
        true => Some(bin_file(&set)?),
        false => None,
    };
    let mut at = 0;
    while at < options.rows {
        let count = CHUNK_ROWS.min((options.rows - at) as usize);
        let rows = encoded_rows(&made, element, at, count, options.threads);
        base.write_all(&rows)?;
        if let Some(bin) = &mut bin {
            bin.write_all(&rows)?;
        }
        nearest.offer(at as u32, &rows, options.threads);
        at += count as u64;
        progress(at);
    }
    let truth = nearest.sorted();
    set.info.lid_mean = Some(lid_mean(metric, &truth));
    let mut out = BufWriter::new(NewFile::create(&set.truth_path())?);
    for (_, row) in truth.iter().flat_map(|list| list.iter()) {
        out.write_all(&row.to_le_bytes())?;
    }
    let mut text = serde_json::to_vec_pretty(&set.info)?;
    text.push(b'\n');
    let mut info = NewFile::create(&set.info_path())?;
    info.write_all(&text)?;
    query_file.finish()?;
    for rows in [Some(base), bin, Some(out)].into_iter().flatten() {
        rows.into_inner()?.finish()?;
    }
    info.finish()?;
    Ok(set)
}

fn bin_file(set: &Set) -> Result<BufWriter<NewFile>> {
    let ending = match set.info.element {
        Element::F32 => "fbin",
        Element::U8 => "u8bin",
    };
    let mut file = BufWriter::new(NewFile::create(&set.path(ending))?);
    file.write_all(&(set.info.rows as u32).to_le_bytes())?;
    file.write_all(&(set.info.dims as u32).to_le_bytes())?;
    Ok(file)
}

/// `count` rows from `first` on, one after another.
fn encoded_rows(made: &Clustered, element: Element, first: u64, count: usize, threads: usize) -> Vec<u8> {
    let dims = made.shape().dims;
    let mut out = vec![0; count * dims * element.bytes()];
    let share = count.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        for (part, out) in out.chunks_mut(share * dims * element.bytes()).enumerate() {
            scope.spawn(move || {
                let rows = out.len() / dims / element.bytes();
                let mut values = vec![0.0; rows * dims];
                made.rows(first + (part * share) as u64, &mut values);
                encode(element, dims, &values, out);
            });
        }
    });
    out
}

/// Bytes: a value of a unit vector is about `1 / sqrt(dims)`; four times that is the end of the range.
fn encode(element: Element, dims: usize, values: &[f32], out: &mut [u8]) {
    match element {
        Element::F32 => {
            for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                *out = value.to_le_bytes();
            }
        }
        Element::U8 => {
            let scale = 32.0 * (dims as f32).sqrt();
            for (out, value) in out.iter_mut().zip(values) {
                *out = (128.0 + value * scale).round().clamp(0.0, 255.0) as u8;
            }
        }
    }
}

/// Maximum likelihood estimate of the local intrinsic dimension, mean over the queries.
fn lid_mean(metric: Metric, truth: &[&[(f32, u32)]]) -> f64 {
    let distance = |key: f32| {
        let square = match metric {
            Metric::Cosine => 2.0 + 2.0 * f64::from(key),
            Metric::Euclid => f64::from(key),
        };
        square.max(1e-12).sqrt()
    };
    let of_query = |list: &&[(f32, u32)]| {
        let (last, nearer) = list.split_last()?;
        let logs: f64 = nearer
            .iter()
            .map(|found| (distance(found.0) / distance(last.0)).ln())
            .sum();
        (logs < 0.0).then(|| -(nearer.len() as f64) / logs)
    };
    let figures: Vec<f64> = truth.iter().filter_map(of_query).collect();
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}
