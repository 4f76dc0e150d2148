//! Writes the code files while rows arrive in their final order.

use super::buckets::{RECORD_HEADER, cluster_of, row_of};
use super::meta;
use super::misses::{self, HeldOutQueries, Misses, Samples, deviations_by_depth};
use super::ranked::Ranked;
use super::rows_out::RowsOut;
use super::sample::Decoder;
use crate::error::{IndexError, Result};
use crate::quant::product::{AnisotropicEncoder, ProductModel};
use crate::quant::{
    CodeSpace, Encoder, ExtendedLayout, GROUP, GroupLayout, Residual, ResidualLayout, Rotation, RowIdsLayout,
    SignRow, Sq8Layout,
};
use crate::rows::reading::trailing_number;
use crate::search::calibration::DeviationsByDepth;
use crate::{CodeKind, Metric};

/// One file being written.
struct Target<'w> {
    rows: RowsOut<'w>,
    form: Form<'w>,
    /// The group being filled, and rows in it.
    group: Vec<u8>,
    filled: usize,
}

#[derive(Clone, Copy)]
enum Form<'w> {
    Groups(GroupLayout),
    Extended(ExtendedLayout),
    Product(&'w ProductModel),
    ProductWithIds(&'w ProductModel, RowIdsLayout),
    /// Of the longest extended codes, which come before.
    Residual(ResidualLayout),
    Sq8(Sq8Layout),
}

/// What turns records into codes; shared by threads.
struct Coder<'w> {
    decoder: Decoder,
    rotation: &'w Rotation,
    /// Queries by which the codes' errors are measured.
    asked: Option<&'w HeldOutQueries>,
    forms: Vec<Form<'w>>,
    /// The longest extended codes, if there is a file of what they leave over.
    longest: Option<u8>,
}

/// Codes rows batch by batch, each batch by all threads.
pub(super) struct CodesWriter<'w> {
    targets: Vec<Target<'w>>,
    coder: Coder<'w>,
    encoder: Encoder,
    unit: f32,
    /// By how many deviations neighbours of held-out rows were missed, by form.
    samples: Vec<Samples>,
    /// Records of the batch, and then their codes, one after another for each file.
    records: Vec<u8>,
    codes: Vec<u8>,
    /// Records of a batch at most.
    batch: usize,
    threads: usize,
}

/// Squared, so much farther than others are rows that the unit isn't made for; and one in so many rows at most.
const FAR: f64 = 16_384.0;
const FAR_ONE_IN: u64 = 50;

/// A unit for factors, of clusters' sizes and their rows' squared distances in all. It isn't made for a few rows that lie far from all
/// others: in a unit of theirs the factors of all others would be nothing.
pub(super) fn unit_of(counts: &[u32], distances: &[f64]) -> f32 {
    let clusters = counts.iter().zip(distances);
    let mut clusters: Vec<(f64, u32)> = clusters
        .filter(|(count, distance)| **count > 0 && distance.is_finite())
        .map(|(count, distance)| (distance.max(0.0), *count))
        .collect();
    let mean = |distance: f64, count: u32| distance / f64::from(count);
    clusters.sort_unstable_by(|a, b| mean(a.0, a.1).total_cmp(&mean(b.0, b.1)));
    let rows: u64 = clusters.iter().map(|(_, count)| u64::from(*count)).sum();
    let mut left_out = 0;
    while let Some(((distance, count), others)) = clusters.split_last() {
        let sum: f64 = others.iter().map(|(distance, _)| distance).sum();
        let rows_of_others = rows - left_out - u64::from(*count);
        let is_far = mean(*distance, *count) * rows_of_others as f64 > FAR * sum && sum > 0.0;
        let few = left_out == 0 || left_out + u64::from(*count) <= rows / FAR_ONE_IN;
        if !is_far || !few {
            break;
        }
        left_out += u64::from(*count);
        clusters.pop();
    }
    let sum: f64 = clusters.iter().map(|(distance, _)| distance).sum();
    Encoder::unit_for(sum / (rows - left_out).max(1) as f64)
}

/// What the index must know of the codes that were written.
#[derive(Debug)]
pub(super) struct Coded {
    /// Of the factors.
    pub(super) unit: f32,
    /// Of each file.
    pub(super) deviations: Vec<DeviationsByDepth>,
}

impl Default for Coded {
    fn default() -> Coded {
        Coded {
            unit: 1.0,
            deviations: Vec::new(),
        }
    }
}

/// One thread's memory.
#[derive(Default)]
struct Scratch {
    vector: Vec<f32>,
    centroid: Vec<f32>,
    unpacked: Vec<u8>,
    mixing: Vec<f32>,
    residual: Residual,
    signs: Vec<u8>,
    levels: Vec<u8>,
    left: Vec<f32>,
    numbers: Vec<f32>,
    /// Where queries lie for which a row's product code matters; nowhere, if that isn't known.
    towards: Vec<f32>,
    anisotropic: AnisotropicEncoder,
    misses: Misses,
}

impl Form<'_> {
    /// Bytes of a row's codes until they are written.
    fn loose_bytes(&self, dims: usize) -> usize {
        match self {
            Form::Groups(_) => dims.div_ceil(8) + 8,
            Form::Extended(layout) => layout.row_bytes(),
            Form::Product(model) => model.shape().parts,
            Form::ProductWithIds(model, _) => model.shape().parts + 4,
            Form::Residual(layout) => layout.row_bytes(),
            Form::Sq8(layout) => layout.row_bytes(),
        }
    }
}

impl Target<'_> {
    fn push(&mut self, loose: &[u8]) -> Result<()> {
        match &self.form {
            Form::Extended(_) | Form::Residual(_) | Form::Sq8(_) => return self.rows.push(loose),
            Form::Groups(layout) => layout.put(&mut self.group, self.filled, &loose_row(loose)?),
            Form::Product(_) => ProductModel::put(loose, self.filled, &mut self.group),
            Form::ProductWithIds(_, layout) => {
                ProductModel::put(&loose[..layout.subquantizers], self.filled, &mut self.group);
                layout.put_number(&mut self.group, self.filled, trailing_number(loose)?);
            }
        }
        self.filled += 1;
        if self.filled == GROUP {
            self.rows.push(&self.group)?;
            self.group.fill(0);
            self.filled = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if self.filled > 0 {
            self.rows.push(&self.group)?;
        }
        self.rows.finish()
    }
}

impl<'w> CodesWriter<'w> {
    /// Holds about `batch_bytes`, or one record.
    pub(super) fn new(
        files: Vec<(CodeKind, RowsOut<'w>)>,
        decoder: Decoder,
        segment_rows: u32,
        (rotation, asked, model): (&'w Rotation, Option<&'w HeldOutQueries>, Option<&'w ProductModel>),
        unit: f32,
        batch_bytes: usize,
        threads: usize,
    ) -> CodesWriter<'w> {
        let dims = decoder.dims;
        let target = |(kind, rows): (CodeKind, RowsOut<'w>)| {
            let (form, group_bytes) = match kind {
                CodeKind::OneBit => (
                    Form::Groups(GroupLayout::new(dims, segment_rows)),
                    kind.row_bytes(dims, segment_rows),
                ),
                CodeKind::Extended { bits } => (Form::Extended(ExtendedLayout::new(dims, bits)), 0),
                CodeKind::Residual { bits } => (Form::Residual(ResidualLayout::new(dims, bits)), 0),
                CodeKind::Sq8 => (Form::Sq8(Sq8Layout::new(dims)), 0),
                CodeKind::Product { .. } => {
                    let Some(model) = model else {
                        unreachable!("a model was trained for product codes");
                    };
                    let form = match kind {
                        CodeKind::Product { m, row_ids: true } => {
                            Form::ProductWithIds(model, RowIdsLayout::new(m, segment_rows))
                        }
                        _ => Form::Product(model),
                    };
                    (form, kind.row_bytes(dims, segment_rows))
                }
            };
            Target {
                rows,
                form,
                group: vec![0; group_bytes],
                filled: 0,
            }
        };
        let has_rest = files
            .iter()
            .any(|(kind, _)| matches!(kind, CodeKind::Residual { .. }));
        let longest = meta::longest(files.iter().map(|(kind, _)| *kind)).filter(|_| has_rest);
        let targets: Vec<Target<'w>> = files.into_iter().map(target).collect();
        let coder = Coder {
            decoder,
            rotation,
            asked,
            forms: targets.iter().map(|target| target.form).collect(),
            longest,
        };
        let coder_forms = coder.forms.len();
        let one = coder.record_bytes() + coder.loose_bytes();
        CodesWriter {
            targets,
            encoder: Encoder::new(decoder.metric, unit),
            unit,
            coder,
            samples: vec![Samples::default(); coder_forms],
            records: Vec::new(),
            codes: Vec::new(),
            batch: (batch_bytes / one).clamp(1, 1 << 14),
            threads: threads.max(1),
        }
    }

    /// Takes the next record (cluster, row, number), for one of these clusters, in place of its own.
    pub(super) fn push(&mut self, cluster: u32, record: &[u8], centroids: &Ranked<'_>) -> Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        self.records.reserve_exact(if self.records.is_empty() {
            self.batch * record.len()
        } else {
            0
        });
        self.records.extend_from_slice(&cluster.to_le_bytes());
        self.records.extend_from_slice(&record[4..]);
        if self.records.len() >= self.batch * self.coder.record_bytes() {
            self.write(centroids)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, centroids: &Ranked<'_>) -> Result<Coded> {
        self.write(centroids)?;
        self.targets.into_iter().try_for_each(Target::finish)?;
        let forms = self.coder.forms.iter();
        let deviations = forms
            .zip(&mut self.samples)
            .filter_map(|(form, samples)| match form {
                Form::Groups(_) => Some(deviations_by_depth(samples, &misses::ONE_BIT_USUAL)),
                Form::Extended(_) | Form::Residual(_) => {
                    Some(deviations_by_depth(samples, &misses::EXTENDED_USUAL))
                }
                Form::Product(_) | Form::ProductWithIds(..) => {
                    Some(deviations_by_depth(samples, &misses::PRODUCT_USUAL))
                }
                // Rounding tells itself by how much it misses.
                Form::Sq8(_) => None,
            });
        Ok(Coded {
            unit: self.unit,
            deviations: deviations.collect(),
        })
    }

    fn write(&mut self, centroids: &Ranked<'_>) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let (coder, encoder, unit) = (&self.coder, self.encoder, self.unit);
        let (record_bytes, loose_bytes) = (coder.record_bytes(), coder.loose_bytes());
        let count = self.records.len() / record_bytes;
        self.codes.clear();
        self.codes.resize(count * loose_bytes, 0);
        let share = count.div_ceil(self.threads).max(1);
        let samples = std::thread::scope(|scope| {
            let shares = self
                .records
                .chunks(share * record_bytes)
                .zip(self.codes.chunks_mut(share * loose_bytes));
            let threads: Vec<_> = shares
                .map(|(records, codes)| {
                    scope.spawn(move || {
                        let mut scratch = coder.scratch();
                        records
                            .chunks_exact(record_bytes)
                            .zip(codes.chunks_exact_mut(loose_bytes))
                            .try_for_each(|(record, out)| {
                                coder.encode(&encoder, (record, centroids), out, &mut scratch)?;
                                coder.measure(unit, (record, centroids), out, &mut scratch)
                            })?;
                        Ok::<_, IndexError>(scratch.misses.samples)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("encoding doesn't panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        for samples in samples {
            let forms = self.samples.iter_mut().zip(samples);
            for (all, some) in forms {
                all.iter_mut().zip(some).for_each(|(all, some)| all.extend(some));
            }
        }
        for mut row in self.codes.chunks_exact(loose_bytes) {
            for target in &mut self.targets {
                let (now, later) = row.split_at(target.form.loose_bytes(coder.decoder.dims));
                target.push(now)?;
                row = later;
            }
        }
        self.records.clear();
        Ok(())
    }
}

impl Coder<'_> {
    fn record_bytes(&self) -> usize {
        RECORD_HEADER + self.decoder.row_bytes()
    }

    /// Bytes of all of a row's codes until they are written.
    fn loose_bytes(&self) -> usize {
        self.forms
            .iter()
            .map(|form| form.loose_bytes(self.decoder.dims))
            .sum()
    }

    fn scratch(&self) -> Scratch {
        let model = self.forms.iter().find_map(|form| match form {
            Form::Product(model) | Form::ProductWithIds(model, _) => Some(*model),
            _ => None,
        });
        Scratch {
            anisotropic: model.map_or_else(AnisotropicEncoder::default, AnisotropicEncoder::new),
            ..Scratch::default()
        }
    }

    fn residual(&self, (record, centroids): (&[u8], &Ranked<'_>), scratch: &mut Scratch) {
        let cluster = cluster_of(record);
        self.decoder.decode(row_of(record), &mut scratch.vector);
        self.rotation.apply(&mut scratch.vector, &mut scratch.mixing);
        let squares = crate::quant::squares(&scratch.vector);
        scratch.towards.clear();
        match self.decoder.metric {
            Metric::Cosine | Metric::Dot => scratch.towards.extend_from_slice(&scratch.vector),
            // There codes are compared with the query less the centroid, by distance: nothing was gained.
            _ => scratch.towards.resize(scratch.vector.len(), 0.0),
        }
        centroids.centre(&mut scratch.vector);
        centroids.write(cluster, &mut scratch.unpacked, &mut scratch.centroid);
        scratch.residual.set(&scratch.vector, &scratch.centroid, squares);
    }

    fn encode(
        &self,
        encoder: &Encoder,
        (record, centroids): (&[u8], &Ranked<'_>),
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.residual((record, centroids), scratch);
        let Scratch {
            residual,
            signs,
            levels,
            left,
            numbers,
            towards,
            anisotropic,
            ..
        } = scratch;
        let mut rest = out;
        for form in &self.forms {
            let (now, later) = rest.split_at_mut(form.loose_bytes(self.decoder.dims));
            match form {
                Form::Extended(layout) => {
                    encoder.extended(residual, layout, levels, now);
                    if self.longest == Some(layout.bits) {
                        encoder.left_over(residual, layout, levels, now, left);
                    }
                }
                Form::Residual(layout) => encoder.residual(residual, left, layout, (levels, numbers), now),
                Form::Sq8(layout) => {
                    encoder.sq8(residual, trailing_number(record)?, *layout, numbers, now);
                }
                Form::Product(model) => anisotropic.encode(model, residual.values(), towards, now),
                Form::ProductWithIds(model, layout) => {
                    let (codes, number) = now.split_at_mut(layout.subquantizers);
                    anisotropic.encode(model, residual.values(), towards, codes);
                    number.copy_from_slice(&record[record.len() - 4..]);
                }
                Form::Groups(_) => {
                    let row = encoder.one_bit(residual, trailing_number(record)?, signs);
                    let (bits, factors) = now.split_at_mut(now.len() - 8);
                    bits.copy_from_slice(row.signs);
                    factors[..2].copy_from_slice(&row.add);
                    factors[2..4].copy_from_slice(&row.factor);
                    factors[4..].copy_from_slice(&row.number.to_le_bytes());
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Measures how far the codes of a record miss, if it is near a held-out row.
    fn measure(
        &self,
        unit: f32,
        (record, centroids): (&[u8], &Ranked<'_>),
        codes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let number = trailing_number(record)?;
        let Some(asked) = self.asked else {
            return Ok(());
        };
        let near = asked.of(number);
        if near.is_empty() {
            return Ok(());
        }
        let (mut group, mut extended, mut product, mut rest) = (None, Vec::new(), None, codes);
        for (i, form) in self.forms.iter().enumerate() {
            let (now, later) = rest.split_at(form.loose_bytes(self.decoder.dims));
            match form {
                Form::Groups(layout) => group = Some((i, layout, loose_row(now)?)),
                Form::Extended(layout) => extended.push((i, *layout, now)),
                Form::Product(model) => product = Some((i, *model, now)),
                Form::ProductWithIds(model, layout) => {
                    product = Some((i, *model, &now[..layout.subquantizers]))
                }
                Form::Residual(_) | Form::Sq8(_) => {}
            }
            rest = later;
        }
        let coded = misses::Coded {
            group,
            extended: &extended,
            product,
        };
        let cluster = cluster_of(record);
        let metric = self.decoder.metric;
        for neighbour in near {
            let space = CodeSpace { metric, unit };
            asked.measure(
                neighbour,
                &coded,
                &space,
                (cluster, centroids),
                &mut scratch.misses,
            );
        }
        Ok(())
    }
}

/// A row of signs before it is put in a group.
fn loose_row(loose: &[u8]) -> Result<SignRow<'_>> {
    let (signs, factors) = loose.split_at(loose.len() - 8);
    Ok(SignRow {
        signs,
        add: [factors[0], factors[1]],
        factor: [factors[2], factors[3]],
        number: trailing_number(factors)?,
    })
}
