//! Measures indexes again on real queries, and finds the effort with which these reach the target recall.
//!
//! A pass over the rows finds the queries' true neighbours, and how many clusters hold them. What codes lose, and the rules by which
//! clusters are left out, nobody can tell from that: so the queries are searched for as users' searches do it, with more and
//! more effort, until they find enough.
//!
//! The first queries may be easier than those to come: ones near stored vectors found .95 with an effort that found .936 of others (1M x 768 in
//! 135 MB). So as many rows of the index are searched for as well, without themselves, and the effort is never less than they need.

use std::sync::Arc;

use ramlet_index::{
    Allowed, IndexSearchParams, Ivf, LOST_BY_QUERIES, Measured, MeasuredAgain, Measures, Query, TopK,
    decode_row,
};

use super::{begin, commit};
use crate::error::Result;
use crate::read::lookup::Lookup;
use crate::recall::query_sample::{HalfVector, KEPT, QuerySample, mean_and_error};
use crate::schema::VectorField;
use crate::segment::{
    RECALL, Segment, SegmentView, VectorColumn, calibration_of, note_calibration, note_sampled,
};
use crate::state::core::Core;

/// How many times the neighbours that held-out rows lose, or what else was thought, may be lost by queries: tried one after another, by
/// halves, and then [`FINER`] times between the least that is enough and the one before. Beyond the last an index is not what these queries need.
/// Less than the first isn't tried: the first queries may be easier than those to come. (Of 1M x 768 in 64 MB 180 rows are held out; queries found .977
/// where .95 was aimed at.)
const LOST: [f32; 15] = [
    0.5,
    0.7,
    0.9,
    LOST_BY_QUERIES,
    1.4,
    1.8,
    2.2,
    2.8,
    3.6,
    4.5,
    5.7,
    7.2,
    9.0,
    13.0,
    18.0,
];

/// A step of [`LOST`] is up to a third of an index's effort: a quarter of that is near enough.
const FINER: usize = 2;

/// Too little is found if queries of users find by more than so many standard errors less than was aimed at, or rows by more than [`ERRORS_OF_ROWS`]; of fewer queries than
/// [`SURE`], or of fewer rows than [`LOWERED_BY`], if it is less at all. (One and a half let pass .939 of 256 queries where .95 was promised.)
const ERRORS: f64 = 0.5;
const ERRORS_OF_ROWS: f64 = 1.5;

/// Of fewer queries a standard error is more than .01: what is less than was promised would pass. (.948 of 64 queries did, and .936 was found of 300.)
const SURE: usize = 128;

/// And then it is enough if it is by so many more: the least effort with which these queries find enough is one with which others by
/// chance don't.
const ERRORS_BEYOND: f64 = 1.0;

/// Fewer queries lower no effort: by how much less they would do is chosen among many, and what a few find by chance is believed then.
const LOWERED_BY: usize = 64;

/// All rows are read so often at most: in a small budget few queries are compared with them at once.
const PASSES_MOST: usize = 12;

/// Fewer bytes of rows than this are read more often, for as many queries as there are. (The first 64 of 300 found .96 in 3,000 x 768, and all of them .93.)
const READ_MOST: u64 = 512 << 20;

/// Measures the indexes of a vector again that hasn't been measured on queries yet, or of which queries find less than they should,
/// and keeps with the segments what was measured; false when there is none. Reads every row once, or in a small budget up to [`PASSES_MOST`] times or [`READ_MOST`] bytes;
/// nothing is rebuilt.
pub fn recalibrate(core: &Core) -> Result<bool> {
    core.monitor.watch(&core.view.load());
    if !core.monitor.is_due() {
        return Ok(false);
    }
    let (dims, rows) = {
        let writer = core.writer();
        let dims = writer.schema.vectors.iter().map(|field| field.dim).max();
        let rows = writer.segments.iter().map(|view| view.segment.rows()).max();
        (dims.unwrap_or(0), rows.unwrap_or(0))
    };
    let mut arena = begin(core, bytes_of_measuring(KEPT, 2 * KEPT, dims, rows))?;
    let (segments, schema) = {
        let writer = core.writer();
        writer.check_writable()?;
        (writer.segments.clone(), writer.schema.clone())
    };
    let Some(QuerySample { slot, queries, .. }) = core.monitor.take_due() else {
        return Ok(false);
    };
    let Some(field) = schema.vectors.iter().find(|field| field.slot == slot) else {
        return Ok(false);
    };
    let (users, at_once) = measured_in(arena.scratch_bytes as u64, queries.len(), dims, rows);
    let queries = queries.into_iter().take(users);
    let mut queries: Vec<Asked> = queries.map(|vector| Asked { vector, row: None }).collect();
    let mut changed = Vec::with_capacity(segments.len());
    let mut largest = None;
    for view in &segments {
        let lookup = &mut arena.lookup;
        let Some(column) = view.segment.vector(slot) else {
            changed.push(view.segment.clone());
            continue;
        };
        queries.truncate(users);
        add_rows(&mut queries, field, column, view.segment.rows(), lookup)?;
        let measures = Measures {
            users,
            all: queries.len(),
            at_once,
            nth: &|n| queries[n].measured(),
        };
        let again = column
            .index
            .measure_again(&measures, &mut lookup.index, &mut lookup.io);
        let Some(again) = again? else {
            changed.push(view.segment.clone());
            continue;
        };
        let mut trial = Trial {
            field,
            queries: &queries,
            nearest: &again.nearest,
            thought: calibration_of(&view.segment.entry, slot).lost,
            lookup,
        };
        let before = trial.run(column, None)?;
        let thought = trial.thought;
        let of = |found: &[f64]| mean_and_error(found.iter().copied()).0;
        tracing::info!(
            collection = core.name(), directory = %core.id,
            segment = view.segment.id(),
            queries = before.users.len(),
            recall = of(&before.users),
            rows = before.rows.len(),
            recall_of_rows = of(&before.rows),
            lost = thought,
            "the index was measured on queries"
        );
        let is_less = before.is_less_than(trial.target());
        let reopened = |segment: &Segment, entry, lookup: &mut Lookup| {
            segment.with_calibration(entry, slot, &core.file_context, &schema, &mut lookup.io)
        };
        let mut entry = view.segment.entry.clone();
        let (segment, found) = match is_less {
            false if users < LOWERED_BY || !before.is_enough_for(trial.target()) => {
                note_sampled(&mut entry.extra, slot, thought, thought);
                (view.segment.with_entry(entry), before)
            }
            // More is found than was aimed at: the rows that the index was measured on were few, or what was true of the segments that it was made
            // of isn't of it. A segment that it is merged into is measured on rows of its own, so it begins with no less than others do.
            false => {
                let (lost, found) = trial.find(column, LOST[0])?;
                let (lost, found) = match lost < thought {
                    true => (lost, found),
                    false => (thought, before),
                };
                tracing::info!(
                    collection = core.name(), directory = %core.id,
                    segment = view.segment.id(),
                    recall = found.mean(),
                    lost,
                    lost_before = thought,
                    "queries reach the target recall: the effort is lowered to what they need"
                );
                note_sampled(&mut entry.extra, slot, lost, lost.max(LOST_BY_QUERIES));
                (reopened(&view.segment, entry, trial.lookup)?, found)
            }
            true => {
                let target = trial.target();
                let times = ((1.0 - before.mean()) / (1.0 - target)) as f32;
                let merged = (thought * times).min(LOST[LOST.len() - 1]);
                note_calibration(&mut entry.extra, slot, &again.calibration);
                let segment = reopened(&view.segment, entry.clone(), trial.lookup)?;
                let fitted = segment.vector(slot).unwrap_or(column);
                let (lost, found) = trial.find(fitted, LOST_BY_QUERIES)?;
                tracing::info!(
                    collection = core.name(), directory = %core.id,
                    segment = segment.id(),
                    recall_before = before.mean(),
                    recall = found.mean(),
                    lost,
                    "queries miss the target recall: the index was recalibrated on them"
                );
                note_sampled(&mut entry.extra, slot, lost, merged);
                (reopened(&segment, entry, trial.lookup)?, found)
            }
        };
        if largest
            .as_ref()
            .is_none_or(|(rows, _)| *rows < view.segment.rows())
        {
            largest = Some((view.segment.rows(), found));
        }
        changed.push(Arc::new(segment));
    }
    let mut writer = core.writer();
    let segments = writer
        .segments
        .iter()
        .zip(changed)
        .map(|(view, segment)| SegmentView {
            segment,
            deletes: view.deletes.clone(),
        });
    let segments = segments.collect();
    let applied_lsn = writer.manifest.applied_lsn;
    commit(core, &mut writer, segments, applied_lsn, None)?;
    core.publish(&writer);
    if let Some((_, found)) = largest {
        core.monitor.note_found(&field.name, &found.users);
    }
    Ok(true)
}

/// How many of so many queries of users, with as many rows, are measured in so many bytes, and how many of them in a pass over all rows. In a small budget
/// more passes are made: if there are fewer than [`LOWERED_BY`] in one, or where they cost little.
fn measured_in(room: u64, users: usize, dims: usize, rows: u32) -> (usize, usize) {
    let fits = |users: usize, at_once: usize| bytes_of_measuring(users, at_once, dims, rows) <= room;
    let most = |of: usize, fits: &dyn Fn(usize) -> bool| (1..=of).rev().find(|n| fits(*n)).unwrap_or(1);
    let row_bytes = (dims * size_of::<f32>()) as u64;
    let cheap = READ_MOST / (u64::from(rows) * row_bytes).max(1);
    let in_passes =
        |users: usize, passes: usize| most(users, &|users| fits(users, (2 * users).div_ceil(passes)));
    let users = in_passes(users, 1)
        .max(in_passes(LOWERED_BY.min(users), PASSES_MOST))
        .max(in_passes(users, (cheap as usize).max(1)));
    (users, most(2 * users, &|at_once| fits(users, at_once)))
}

fn bytes_of_measuring(users: usize, at_once: usize, dims: usize, rows: u32) -> u64 {
    let all = 2 * users;
    (all * HalfVector::bytes(dims)) as u64 + Ivf::measure_bytes((users, all, at_once), dims, rows)
}

/// Adds as many rows of a segment as there are queries: any as likely as another, wherever in the order of insertion.
fn add_rows(
    queries: &mut Vec<Asked>,
    field: &VectorField,
    column: &VectorColumn,
    rows: u32,
    lookup: &mut Lookup,
) -> Result<()> {
    /// The golden ratio of 2^32: its multiples are spread evenly, and follow no rhythm that data have.
    const STEP: u32 = 0x9E37_79B9;
    let count = queries.len() as u32;
    let nth = |n: u32| (u64::from(n.wrapping_mul(STEP)) * u64::from(rows)) >> 32;
    let mut numbers: Vec<u32> = (1..=count).map(|n| nth(n) as u32).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let Lookup { io, index, .. } = lookup;
    let mut add = |row, bytes: &[u8]| {
        let mut vector = Vec::with_capacity(field.dim);
        decode_row(field.element, bytes, &mut vector);
        queries.push(Asked {
            vector: HalfVector::new(&vector),
            row: Some(row),
        });
        Ok(())
    };
    column.index.read_rows(&numbers, index, io, &mut add)?;
    Ok(())
}

/// A query of a user, or a row of the segment.
struct Asked {
    vector: HalfVector,
    row: Option<u32>,
}

impl Asked {
    fn measured(&self) -> Measured {
        Measured {
            vector: self.vector.to_vec(),
            row: self.row,
        }
    }
}

/// Queries of which the nearest rows of a segment are known.
struct Trial<'t> {
    field: &'t VectorField,
    queries: &'t [Asked],
    nearest: &'t [Vec<u32>],
    /// How many times as many neighbours as by rows are lost by queries, as the segment has it until then.
    thought: f32,
    lookup: &'t mut Lookup,
}

/// Recall of each query.
#[derive(Default)]
struct Found {
    users: Vec<f64>,
    rows: Vec<f64>,
}

impl Found {
    /// Mean and standard error of each kind that there is.
    fn kinds(&self) -> impl Iterator<Item = (f64, f64)> {
        let kinds = [&self.users, &self.rows].into_iter();
        kinds
            .filter(|found| !found.is_empty())
            .map(|found| mean_and_error(found.iter().copied()))
    }

    /// Of the kind that finds less.
    fn mean(&self) -> f64 {
        self.kinds().map(|(mean, _)| mean).fold(1.0, f64::min)
    }

    /// Whether more effort is to be found. Of few queries nothing is sure, and a recall that falls short is worse than some reads: their mean is enough.
    fn is_less_than(&self, target: f64) -> bool {
        let is_less = |found: &[f64], sure: usize, errors: f64| {
            let errors = if found.len() < sure { 0.0 } else { errors };
            let (mean, error) = mean_and_error(found.iter().copied());
            !found.is_empty() && mean < target - errors * error
        };
        is_less(&self.users, SURE, ERRORS) || is_less(&self.rows, LOWERED_BY, ERRORS_OF_ROWS)
    }

    fn is_enough_for(&self, target: f64) -> bool {
        let mut kinds = self.kinds().peekable();
        kinds.peek().is_some() && kinds.all(|(mean, error)| mean - ERRORS_BEYOND * error >= target)
    }
}

impl Trial<'_> {
    fn target(&self) -> f64 {
        f64::from(self.field.settings.recall.unwrap_or(RECALL))
    }

    /// The least from `least` on with which enough is found, about, and what is found then; the last of [`LOST`], if that isn't enough.
    fn find(&mut self, column: &VectorColumn, least: f32) -> Result<(f32, Found)> {
        let target = self.target();
        let is_enough = |found: &Found| found.is_enough_for(target);
        let first = LOST.partition_point(|lost| *lost < least);
        let (mut low, mut high) = (first, LOST.len() - 1);
        let mut best = None;
        while low < high {
            let middle = (low + high) / 2;
            let found = self.run(column, Some(LOST[middle]))?;
            if is_enough(&found) {
                (high, best) = (middle, Some(found));
            } else {
                low = middle + 1;
            }
        }
        let mut lost = LOST[high];
        let Some(mut found) = best else {
            return Ok((lost, self.run(column, Some(lost))?));
        };
        let mut too_little = LOST[first..high].last().copied();
        for _ in 0..FINER {
            let Some(less) = too_little else { break };
            let between = (less * lost).sqrt();
            let tried = self.run(column, Some(between))?;
            if is_enough(&tried) {
                (lost, found) = (between, tried);
            } else {
                too_little = Some(between);
            }
        }
        Ok((lost, found))
    }

    /// What searches of the index find; as if so many times as many neighbours were lost by queries.
    fn run(&mut self, column: &VectorColumn, lost: Option<f32>) -> Result<Found> {
        let target = self.target() as f32;
        // See `Ivf::effort`.
        let aim = lost.map(|lost| 1.0 - (1.0 - target) * self.thought / lost);
        let want = IndexSearchParams {
            recall: aim,
            ..IndexSearchParams::default()
        };
        let mut recalls = Found::default();
        for (one, nearest) in self.queries.iter().zip(self.nearest) {
            if nearest.is_empty() {
                continue;
            }
            let query = Query::new(self.field.metric, self.field.element, &one.vector.to_vec());
            let wanted = nearest.len().min(MeasuredAgain::WANTED);
            let mut top = TopK::new(wanted + usize::from(one.row.is_some()));
            let Lookup { io, index, .. } = &mut *self.lookup;
            let mut all = Allowed::default();
            let done = column.index.search(&query, &want, &mut all, index, io, &mut top);
            done?;
            let others = top.sorted().iter().filter(|hit| one.row != Some(hit.row));
            let hits = others.take(wanted).filter(|hit| nearest.contains(&hit.row));
            let of_kind = match one.row {
                Some(_) => &mut recalls.rows,
                None => &mut recalls.users,
            };
            of_kind.push(hits.count() as f64 / wanted as f64);
        }
        Ok(recalls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_queries_less_than_the_target_is_too_little() {
        let found = |users: usize, hits: f64| Found {
            users: (0..users)
                .map(|at| hits + 0.1 * f64::from(at as u8 % 2))
                .collect(),
            rows: vec![1.0; users],
        };
        // On average .94, with a standard error of .05 over the root of the queries.
        assert!(found(24, 0.89).is_less_than(0.95));
        assert!(!found(24, 0.9).is_less_than(0.949), "exactly what was aimed at");
        assert!(found(64, 0.89).is_less_than(0.945));
        assert!(!found(128, 0.89).is_less_than(0.942));
        assert!(found(128, 0.89).is_less_than(0.945));
        let rows_find_less = Found {
            rows: vec![0.94; 24],
            ..found(24, 1.0)
        };
        assert!(rows_find_less.is_less_than(0.95));
        // More rows, and they differ: on average .945, with a standard error of .006.
        let rows_find_about_as_much = Found {
            rows: found(64, 0.895).users,
            ..found(64, 1.0)
        };
        assert!(!rows_find_about_as_much.is_less_than(0.95));
    }

    #[test]
    fn in_little_memory_more_passes_are_made() {
        const ROWS: u32 = 60_000;
        for (dims, room, expected) in [
            (100, 16 << 20, (KEPT, 2 * KEPT)),
            (1_536, 16 << 20, (KEPT, 2 * KEPT)),
            (4_096, 64 << 10, (1, 1)),
        ] {
            let measured = measured_in(room, KEPT, dims, ROWS);
            assert_eq!(measured, expected, "{dims} dimensions in {room}");
        }
        // About what a job has in 16 MB.
        let (users, at_once) = measured_in(750 << 10, KEPT, 1_536, ROWS);
        assert!(users == LOWERED_BY && at_once < 2 * users, "{users} {at_once}");
        for room in (300 << 10..4 << 20).step_by(100 << 10) {
            let (users, at_once) = measured_in(room, KEPT, 1_536, ROWS);
            let passes = (2 * users).div_ceil(at_once);
            assert!(
                passes == 1 || passes <= PASSES_MOST && users <= LOWERED_BY,
                "{room}"
            );
            assert!(bytes_of_measuring(users, at_once, 1_536, ROWS) <= room, "{room}");
        }
        // Passes over few rows cost little.
        let (users, at_once) = measured_in(1 << 20, 180, 768, 3_000);
        assert!(users == 180 && at_once < 2 * users, "{users} {at_once}");
        assert_eq!(
            measured_in(16 << 20, 16, 1_536, ROWS),
            (16, 32),
            "no more than there are"
        );
    }
}
