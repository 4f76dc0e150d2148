//! Runs become one: their rows follow each other, so lists of the same term are laid one behind the other.

use std::sync::Arc;

use ramlet_io::Storage;

use crate::error::Result;
use crate::run::{PostingSink, Run, RunReader, RunWriter, Span};

/// Merges until at most `fan_in` runs are left. Always neighbours, so that the order of rows stays.
pub(crate) fn reduce(storage: &Arc<dyn Storage>, mut runs: Vec<Run>, fan_in: usize) -> Result<Vec<Run>> {
    while runs.len() > fan_in {
        let mut fewer = Vec::new();
        let mut rest = runs.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<Run> = rest.by_ref().take(fan_in).collect();
            let mut writer = RunWriter::create(storage)?;
            merge(group, &mut writer)?;
            fewer.push(writer.finish()?);
        }
        runs = fewer;
    }
    Ok(runs)
}

/// Shows `sink` the lists of all runs, which are in the order of their rows; one row may be cut in two. Holds a buffer a run.
pub(crate) fn merge(runs: Vec<Run>, sink: &mut dyn PostingSink) -> Result<()> {
    let mut readers = Vec::with_capacity(runs.len());
    for run in runs {
        let mut reader = RunReader::open(run)?;
        if reader.next()? {
            readers.push(reader);
        }
    }
    let mut term = Vec::new();
    let mut seam = Seam::default();
    while let Some(least) = readers.iter().map(|reader| &reader.term).min() {
        term.clear();
        term.extend_from_slice(least);
        let here = readers.iter().filter(|reader| reader.term == term);
        let Some(span) = here.map(|reader| reader.span).reduce(joined) else {
            break;
        };
        sink.begin(&term, span)?;
        let mut ended = false;
        for reader in readers.iter_mut().filter(|reader| reader.term == term) {
            seam.pass(reader, sink)?;
            if !reader.next()? {
                reader.term.clear();
                ended = true;
            }
        }
        seam.flush(sink)?;
        sink.end()?;
        if ended {
            readers.retain(|reader| !reader.term.is_empty());
        }
    }
    Ok(())
}

/// Of a list and the one that follows it.
fn joined(before: Span, after: Span) -> Span {
    Span {
        rows: before.rows + after.rows - u32::from(before.last == after.first),
        first: before.first,
        last: after.last,
    }
}

/// Holds a row back until it is clear that the next run doesn't go on with it.
#[derive(Default)]
struct Seam {
    held: Option<u32>,
    deltas: Vec<u32>,
    next: Vec<u32>,
}

impl Seam {
    /// All rows of the reader's present term.
    fn pass(&mut self, reader: &mut RunReader, sink: &mut dyn PostingSink) -> Result<()> {
        while reader.left > 0 {
            let row = reader.row(&mut self.next)?;
            if self.held == Some(row) {
                let before: u32 = self.deltas.iter().sum();
                if let Some(first) = self.next.first_mut() {
                    *first = first.wrapping_sub(before);
                }
                self.deltas.append(&mut self.next);
                continue;
            }
            self.flush(sink)?;
            self.held = Some(row);
            std::mem::swap(&mut self.deltas, &mut self.next);
        }
        Ok(())
    }

    fn flush(&mut self, sink: &mut dyn PostingSink) -> Result<()> {
        match self.held.take() {
            Some(row) => sink.row(row, &self.deltas),
            None => Ok(()),
        }
    }
}
